/**
 * Settles recorded usage: adds it to the daily sums in `usage_daily`, and deducts its cost from accounts' balances and
 * budgets (D27, D29).
 */
import { Duration, Effect, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import type { Job } from "../../postgres/jobs/Job.ts"

const Settled = Schema.Struct({ batches: Schema.Int })

/**
 * Settles all recorded usage, a few batches at a time. It can be interrupted at any time, and concurrent runs are
 * allowed.
 */
export const settleUsage = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const settle = decodeRows(Settled)(sql`select settle_usage()::float8 as batches`)
  const settleNext: Effect.Effect<boolean, Effect.Error<typeof settle>> = Effect.map(
    settle,
    ([settled]) => settled !== undefined && settled.batches > 0,
  )
  while (yield* settleNext);
})

/** The background job that settles usage. */
export const usageSettlementJob = {
  name: "usage-settlement",
  every: Duration.seconds(5),
  prepare: () => Effect.succeed(Option.some(settleUsage)),
} satisfies Job<never, SqlClient.SqlClient>

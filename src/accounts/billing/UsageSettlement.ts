/** D27, D29 (usage): adds recorded usage to the daily sums, and charges it to balances and budgets. */
import { Duration, Effect, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import type { Job } from "../../postgres/jobs/Job.ts"

const Settled = Schema.Struct({ batches: Schema.Int })

/** Settles all recorded usage. May be interrupted, and run more than once at a time. */
export const settleUsage = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const settle = decodeRows(Settled)(sql`select settle_usage()::float8 as batches`)
  const settleNext: Effect.Effect<boolean, Effect.Error<typeof settle>> = Effect.map(
    settle,
    ([settled]) => settled !== undefined && settled.batches > 0,
  )
  while (yield* settleNext);
})

export const usageSettlementJob = {
  name: "usage-settlement",
  every: Duration.seconds(5),
  prepare: () => Effect.succeed(Option.some(settleUsage)),
} satisfies Job<never, SqlClient.SqlClient>

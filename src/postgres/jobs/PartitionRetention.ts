/** Monthly partitions: how long their rows are kept, and how old partitions are dropped. */
import { Duration, Effect, Schema } from "effect"
import type { SqlError } from "effect/sql"
import { decodeRows } from "../DecodeRows.ts"

const retentionLimits = { minimum: Duration.days(31), maximum: Duration.days(365_250) }

/** How long a table's rows are kept: between 31 days and 1,000 years. */
export const Retention = Schema.DurationFromString.check(
  Schema.makeFilter((retention: Duration.Duration) => Duration.between(retention, retentionLimits), {
    message: "must be between 31 days and 1,000 years",
  }),
)

const decodeNames = decodeRows(Schema.Struct({ name: Schema.String }))

/**
 * Repeats a statement that drops one monthly partition and returns its `name`, until none is left to drop. Returns the
 * names of all dropped partitions.
 */
export const dropOldMonthlyPartitions = Effect.fnUntraced(function* (
  dropNext: Effect.Effect<ReadonlyArray<object>, SqlError.SqlError>,
) {
  const dropped: Array<string> = []
  while (true) {
    const names = yield* decodeNames(dropNext)
    if (names.length === 0) return dropped
    dropped.push(...names.map(({ name }) => name))
  }
})

/** Maintains the history's monthly partitions: creates those of a new month within an hour, and drops old months. */
import { Config, Duration, Effect, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../db/DecodeRows.ts"
import type { Job } from "../jobs/Job.ts"

const Retention = Schema.DurationFromString.check(
  Schema.makeFilter((retention: Duration.Duration) => Duration.isGreaterThanOrEqualTo(retention, Duration.days(31)), {
    message: "must be at least 31 days",
  }),
)

/** How long the history is kept. `None`: forever. */
export const HistoryRetentionConfig = Config.option(Config.schema(Retention, "HISTORY_RETENTION"))

const decodeMonths = decodeRows(Schema.Struct({ month: Schema.String }))

/** Drops the months that ended longer ago than `retention`, one at a time. Returns their names, such as `2026-03`. */
export const dropHistoryOlderThan = Effect.fnUntraced(function* (retention: Duration.Duration) {
  const sql = yield* SqlClient.SqlClient
  const dropped: Array<string> = []
  while (true) {
    const months = yield* decodeMonths(sql`
      select to_char(month, 'YYYY-MM') as month
      from history.drop_before(now() - make_interval(secs => ${Duration.toSeconds(retention)}::float8)) as month
    `)
    if (months.length === 0) return dropped
    dropped.push(...months.map(({ month }) => month))
  }
})

const maintainHistory = Effect.fnUntraced(function* (retention: Option.Option<Duration.Duration>) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`select history.start_month()`
  if (Option.isNone(retention)) return
  const dropped = yield* dropHistoryOlderThan(retention.value)
  if (dropped.length > 0) yield* Effect.logInfo(`Dropped history older than HISTORY_RETENTION: ${dropped.join(", ")}`)
})

/**
 * Maintains the partitions. Like `usagePartitionsJob`, waits at most 250 ms for a lock; a failed run is retried soon.
 */
export const historyPartitionsJob = {
  name: "history",
  every: Duration.hours(1),
  prepare: Effect.fnUntraced(function* () {
    const retention = yield* HistoryRetentionConfig
    const sql = yield* SqlClient.SqlClient
    return Option.some(Effect.provideService(maintainHistory(retention), SqlClient.SqlClient, sql))
  }),
} satisfies Job<Config.ConfigError, SqlClient.SqlClient>

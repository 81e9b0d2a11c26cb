/** The monthly partitions of the history: the current month is started in time, and old months are dropped. */
import { Config, Duration, Effect, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../db/DecodeRows.ts"
import type { Job } from "../jobs/Job.ts"

const Retention = Schema.DurationFromString.check(
  Schema.makeFilter((retention: Duration.Duration) => Duration.isGreaterThanOrEqualTo(retention, Duration.days(31)), {
    message: "must be at least 31 days",
  }),
)

/** None: the history is kept forever. */
export const HistoryRetentionConfig = Config.option(Config.schema(Retention, "HISTORY_RETENTION"))

const decodeMonths = decodeRows(Schema.Struct({ month: Schema.String }))

/** Drops the months whose history ended before the retention, one at a time. Returns them as `YYYY-MM`. */
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

/** Waits at most a quarter of a second for a lock, as `usagePartitionsJob` does; a failed run is retried soon. */
export const historyJob = {
  name: "history",
  every: Duration.hours(1),
  prepare: Effect.fnUntraced(function* () {
    const retention = yield* HistoryRetentionConfig
    const sql = yield* SqlClient.SqlClient
    return Option.some(Effect.provideService(maintainHistory(retention), SqlClient.SqlClient, sql))
  }),
} satisfies Job<Config.ConfigError, SqlClient.SqlClient>

/**
 * Maintains the monthly partitions of the history. Creates partitions for a new month within an hour, and drops old
 * partitions.
 */
import { Config, Duration, Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import type { Job } from "../../postgres/jobs/Job.ts"
import { dropOldMonthlyPartitions, Retention } from "../../postgres/jobs/PartitionRetention.ts"

/** How long the history is kept. `None` means forever. */
export const HistoryRetentionConfig = Config.option(Config.schema(Retention, "HISTORY_RETENTION"))

const maintainHistory = Effect.fnUntraced(function* (retention: Option.Option<Duration.Duration>) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`select history.start_month()`
  if (Option.isNone(retention)) return
  const dropped = yield* dropOldMonthlyPartitions(sql`
    select to_char(month, 'YYYY-MM') as name
    from history.drop_before(now() - make_interval(secs => ${Duration.toSeconds(retention.value)}::float8)) as month
  `)
  if (dropped.length > 0) yield* Effect.logInfo(`Dropped history older than HISTORY_RETENTION: ${dropped.join(", ")}`)
})

/**
 * Maintains the partitions. As in `usagePartitionsJob`, each run waits at most 250 ms for a lock, and a failed run is
 * retried soon.
 */
export const historyPartitionsJob = {
  name: "history",
  every: Duration.hours(1),
  prepare: () => Effect.map(HistoryRetentionConfig, (retention) => Option.some(maintainHistory(retention))),
} satisfies Job<Config.ConfigError, SqlClient.SqlClient>

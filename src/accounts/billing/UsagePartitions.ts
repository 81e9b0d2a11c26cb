/**
 * Maintains the monthly partitions of the tables `usage_batches` and `usage`, including indexes. Partitions are created
 * in advance and dropped when their retention period ends. PostgreSQL's clock determines the current month.
 */
import { Config, Duration, Effect, Option } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import type { Job } from "../../postgres/jobs/Job.ts"
import { dropOldMonthlyPartitions, Retention } from "../../postgres/jobs/PartitionRetention.ts"

/** How long individual usage records are retained. */
export const UsageRetentionConfig = Config.schema(Retention, "USAGE_RETENTION").pipe(
  Config.withDefault(Duration.days(400)),
)

/** The months that must have partitions, as offsets from the current month. */
const monthOffsets = [0, 1, 2]

/**
 * Drops partitions that end at or before the given time, one by one, and returns their names. The daily sums in
 * `usage_daily` are not deleted.
 */
export const dropUsagePartitionsBefore = (moment: Statement.Fragment) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => dropOldMonthlyPartitions(sql`select name from drop_usage_partitions(${moment}) as name`),
  )

/** Creates the missing partitions for the current month and the next two. Does not block reads or writes. */
export const createUpcomingUsagePartitions = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* Effect.forEach(
    monthOffsets,
    (offset) =>
      sql`select create_usage_partition(date_trunc('month', now(), 'UTC') + make_interval(months => ${offset}))`,
    { discard: true },
  )
})

const maintainPartitions = Effect.fnUntraced(function* (retention: Duration.Duration) {
  const sql = yield* SqlClient.SqlClient
  yield* createUpcomingUsagePartitions
  const dropped = yield* dropUsagePartitionsBefore(
    sql`now() - make_interval(secs => ${Duration.toSeconds(retention)}::float8)`,
  )
  if (dropped.length > 0) yield* Effect.logInfo(`Dropped usage older than USAGE_RETENTION: ${dropped.join(", ")}`)
})

/**
 * The background job that maintains the partitions. To drop a partition, it waits at most 250 ms for a lock, because
 * new reads and writes of usage queue behind it. If earlier reads take longer, the run fails and is soon retried.
 */
export const usagePartitionsJob = {
  name: "usage-partitions",
  every: Duration.hours(1),
  prepare: () => Effect.map(UsageRetentionConfig, (retention) => Option.some(maintainPartitions(retention))),
} satisfies Job<Config.ConfigError, SqlClient.SqlClient>

/**
 * The monthly partitions of `usage` and `usage_moments`: created ahead of time, and dropped when their retention ends.
 * PostgreSQL's clock determines the current month.
 */
import { Config, DateTime, Duration, Effect, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../db/DecodeRows.ts"
import type { Job } from "../../jobs/Job.ts"

const Retention = Schema.DurationFromString.check(
  Schema.makeFilter((retention: Duration.Duration) => Duration.isGreaterThanOrEqualTo(retention, Duration.days(31)), {
    message: "must be at least 31 days",
  }),
)

export const UsageRetentionConfig = Config.schema(Retention, "USAGE_RETENTION").pipe(
  Config.withDefault(Duration.days(400)),
)

/** Months for which partitions are created, as offsets from the current month. */
const monthOffsets = [0, 1, 2]

const decodeNames = decodeRows(Schema.Struct({ name: Schema.String }))
const decodeClock = decodeRows(Schema.Struct({ now: Schema.Finite }))

/** Drops partitions that end at or before the given time, one by one. Returns their names. Keeps `usage_daily`. */
export const dropUsagePartitionsBefore = Effect.fnUntraced(function* (moment: DateTime.Utc) {
  const sql = yield* SqlClient.SqlClient
  const dropped: Array<string> = []
  while (true) {
    const names = yield* decodeNames(sql`
      select name from drop_usage_partitions(${DateTime.formatIso(moment)}::text::timestamptz) as name
    `)
    if (names.length === 0) return dropped
    dropped.push(...names.map(({ name }) => name))
  }
})

/** Creates the missing partitions of this month and the next two, without blocking reads or writes. */
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
  const [clock] = yield* decodeClock(sql`select extract(epoch from now())::float8 * 1000 as now`)
  if (clock === undefined) return
  const dropped = yield* dropUsagePartitionsBefore(DateTime.subtractDuration(DateTime.makeUnsafe(clock.now), retention))
  if (dropped.length > 0) yield* Effect.logInfo(`Dropped usage older than USAGE_RETENTION: ${dropped.join(", ")}`)
})

/**
 * To drop a partition, the job waits at most a quarter of a second for a lock, because new reads and writes of usage
 * queue behind it. If earlier reads take longer, the run fails and is retried soon.
 */
export const usagePartitionsJob = {
  name: "usage-partitions",
  every: Duration.hours(1),
  prepare: Effect.fnUntraced(function* () {
    const retention = yield* UsageRetentionConfig
    const sql = yield* SqlClient.SqlClient
    return Option.some(Effect.provideService(maintainPartitions(retention), SqlClient.SqlClient, sql))
  }),
} satisfies Job<Config.ConfigError, SqlClient.SqlClient>

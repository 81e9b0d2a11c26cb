/**
 * The months of `usage` and `usage_moments`, each a partition: made before their first request, and dropped whole when
 * they were kept for long enough. Which month it is says PostgreSQL, whatever the clock of a process is set to.
 */
import { Config, DateTime, Duration, Effect, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../db/DecodeRows.ts"
import type { Job } from "../../jobs/Job.ts"

const LongEnough = Schema.DurationFromString.check(
  Schema.makeFilter((kept: Duration.Duration) => Duration.isGreaterThanOrEqualTo(kept, Duration.days(31)), {
    message: "must be at least 31 days",
  }),
)

export const UsageRetentionConfig = Config.schema(LongEnough, "USAGE_RETENTION").pipe(
  Config.withDefault(Duration.days(400)),
)

/** This month, and so many to come. */
const months = [0, 1, 2]

const decodeNames = decodeRows(Schema.Struct({ name: Schema.String }))
const decodeClock = decodeRows(Schema.Struct({ now: Schema.Finite }))

/** Drops the partitions of raw rows that lie wholly before the moment, one month after the other; the sums stay. */
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

/** Makes those that are missing; nobody is kept from reading or writing meanwhile. */
export const createUpcomingUsagePartitions = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* Effect.forEach(
    months,
    (month) =>
      sql`select create_usage_partition(date_trunc('month', now(), 'UTC') + make_interval(months => ${month}))`,
    { discard: true },
  )
})

const upkeep = Effect.fnUntraced(function* (kept: Duration.Duration) {
  const sql = yield* SqlClient.SqlClient
  yield* createUpcomingUsagePartitions
  const [clock] = yield* decodeClock(sql`select extract(epoch from now())::float8 * 1000 as now`)
  if (clock === undefined) return
  const dropped = yield* dropUsagePartitionsBefore(DateTime.subtractDuration(DateTime.makeUnsafe(clock.now), kept))
  if (dropped.length > 0) yield* Effect.logInfo(`Dropped usage that was kept long enough: ${dropped.join(", ")}`)
})

/**
 * Whoever reads usage keeps a month from being dropped, which waits for a quarter of a second, so that others do not
 * wait behind it; then the run has failed, and is repeated soon.
 */
export const usagePartitionsJob = {
  name: "usage-partitions",
  every: Duration.hours(1),
  prepare: Effect.fnUntraced(function* () {
    const kept = yield* UsageRetentionConfig
    const sql = yield* SqlClient.SqlClient
    return Option.some(Effect.provideService(upkeep(kept), SqlClient.SqlClient, sql))
  }),
} satisfies Job<Config.ConfigError, SqlClient.SqlClient>

/**
 * Compares this machine's clock with PostgreSQL's. The service's clock decides which dates are in the future and which
 * ticker changes are effective; PostgreSQL's clock decides which keys have expired.
 */
import { Clock, Data, Duration, Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { registerGauge } from "../metrics/CallbackMetrics.ts"
import { decodeRows } from "../DecodeRows.ts"

/**
 * Differences between the two clocks that are larger than this are logged and reported as a metric. NTP keeps clocks
 * within milliseconds of each other.
 */
export const maxUnreportedDifference = Duration.seconds(2)

/**
 * If the difference between the two clocks is larger than this, the service does not start, or is not ready, because
 * its responses may be wrong.
 */
export const maxClockDifference = Duration.minutes(1)

/** How far this machine's clock is ahead of PostgreSQL's, in milliseconds. */
export interface ClockDifference {
  readonly millis: number
  /** Half the query's duration, in milliseconds. PostgreSQL may have read its clock at any time while the query ran. */
  readonly uncertainty: number
}

/** An SQL expression that returns PostgreSQL's clock, in milliseconds since 1970. */
export const databaseMillisSql = "extract(epoch from clock_timestamp())::float8 * 1000"

/**
 * Compares the time that PostgreSQL reported with this machine's clock. `before` is this machine's time before the
 * query.
 */
export const compareClocks = (before: number, databaseMillis: number) =>
  Effect.map(Clock.currentTimeMillis, (after): ClockDifference => ({
    millis: (before + after) / 2 - databaseMillis,
    uncertainty: Math.abs(after - before) / 2,
  }))

/**
 * Returns whether the difference between the clocks certainly exceeds the limit, even if the measurement was off by its
 * uncertainty.
 */
export const certainlyExceeds = ({ millis, uncertainty }: ClockDifference, limit: Duration.Duration) =>
  Math.abs(millis) - uncertainty > Duration.toMillis(limit)

const decodeClock = decodeRows(Schema.Struct({ now: Schema.Number }))

/**
 * Measures the difference between the clocks over a connection that is already open, because the time to connect would
 * add to the uncertainty.
 */
export const measureClockDifference = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`select 1`
  const before = yield* Clock.currentTimeMillis
  const [row] = yield* decodeClock(sql`select ${sql.literal(databaseMillisSql)} as now`)
  return yield* compareClocks(before, row?.now ?? before)
})

const formatDuration = (millis: number) =>
  millis < 60_000 ? `${(millis / 1000).toFixed(1)} s` : Duration.format(Duration.seconds(Math.round(millis / 1000)))

/** Describes the difference, for example: `this machine's clock is 40d ahead of PostgreSQL's`. */
export const describeClockDifference = ({ millis }: ClockDifference) =>
  `this machine's clock is ${formatDuration(Math.abs(millis))} ${millis > 0 ? "ahead of" : "behind"} PostgreSQL's`

const advice = "Set both clocks, preferably with NTP."

class ClockError extends Data.TaggedError("ClockError")<{ readonly message: string }> {}

/** Fails if the clocks differ so much that responses may be wrong. */
export const requireSynchronizedClock = Effect.gen(function* () {
  const difference = yield* measureClockDifference
  if (!certainlyExceeds(difference, maxClockDifference)) return
  return yield* new ClockError({
    message: `The service does not start, because ${describeClockDifference(difference)}, so it would take other ` +
      `dates for today's, and accept expired keys or refuse valid ones. ${advice}`,
  })
})

/**
 * Creates a monitor that reports clock differences in a metric and in the log. `record` stores the latest measurement,
 * and `isRight` returns whether the clocks agree well enough for the service to be ready.
 */
export const makeClockMonitor = Effect.gen(function* () {
  let last: ClockDifference = { millis: 0, uncertainty: 0 }
  let level: "same" | "different" | "wrong" = "same"
  yield* registerGauge({
    name: "tickerline_clock_difference_seconds",
    description: "How far this machine's clock is ahead of PostgreSQL's, as of the last health probe.",
    read: () => certainlyExceeds(last, maxUnreportedDifference) ? last.millis / 1000 : 0,
  })
  /**
   * Stores a measured difference. Logs when the difference becomes large enough to report, and when it no longer is.
   */
  const record = Effect.fnUntraced(function* (difference: ClockDifference) {
    last = difference
    const before = level
    level = certainlyExceeds(difference, maxClockDifference)
      ? "wrong"
      : certainlyExceeds(difference, maxUnreportedDifference)
      ? "different"
      : "same"
    if (level === before) return
    if (level === "same") return yield* Effect.logInfo("This machine's clock agrees with PostgreSQL's again.")
    if (level === "different") {
      return yield* Effect.logWarning(`Clocks: ${describeClockDifference(difference)}. ${advice}`)
    }
    yield* Effect.logError(
      `The service is not ready, because ${describeClockDifference(difference)}: responses may be wrong. ${advice}`,
    )
  })
  return { record, isRight: () => level !== "wrong" }
})

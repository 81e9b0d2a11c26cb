/**
 * Enforces the SEC's limit of 10 requests per second across all processes that use the same database. Each request
 * reserves a slot of 125 ms in the only row of `edgar_access`, measured by PostgreSQL's clock, and is sent at the start
 * of its slot (docs/decisions/0104-fair-access.md).
 */
import { Context, Duration, Effect, Layer, Schema } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { decodeRows } from "../../../postgres/DecodeRows.ts"
import { makeMonotonicClock } from "../../../postgres/metrics/MonotonicTime.ts"
import { retryLostConnection } from "../../../postgres/DatabaseReconnection.ts"

/**
 * Length of the slot that each request reserves. It allows 8 requests per second rather than 10, because a request may
 * be sent later than the start of its slot.
 */
const slotInterval = Duration.millis(125)

/**
 * Maximum delay between the start of a slot and the request. A process that is later than this, for example because it
 * was suspended, reserves another slot. Requests sent within one second therefore come from slots that began within
 * 1.25 seconds of each other: at most 8 × 1.25 = 10.
 */
const maxLatenessMillis = 250

/**
 * Length of a pause after the SEC has refused a request. The SEC unblocks an address only after it has stayed within
 * the limit for ten minutes.
 */
export const edgarPauseDuration = Duration.minutes(10)

/** Interval at which a process that waits for the end of a pause checks whether it is over. */
const pausePollInterval = Duration.seconds(5)

const decodeSlot = decodeRows(Schema.Struct({ pause_millis: Schema.Finite, wait_millis: Schema.Finite }))

/** Creates the rate limiter of this process. Its statements use the row of `edgar_access` that all processes share. */
const makeRateLimiter = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const now = yield* makeMonotonicClock
  /** Whether this process has logged the current pause. */
  let isPauseReported = false

  const interval = sql`make_interval(secs => ${Duration.toSeconds(slotInterval)}::float8)`

  /**
   * Reserves the next slot, unless requests are paused. Returns, in milliseconds, the time until the pause ends
   * (negative or zero if there is none) and the time until the slot begins. `next_request_at` is the end of the last
   * reserved slot.
   */
  const reserve = Effect.map(
    retryLostConnection(decodeSlot(sql`
      update edgar_access set next_request_at = case
        when paused_until > clock_timestamp() then next_request_at
        else greatest(next_request_at, clock_timestamp()) + ${interval}
      end
      returning extract(epoch from paused_until - clock_timestamp())::float8 * 1000 as pause_millis,
        extract(epoch from next_request_at - ${interval} - clock_timestamp())::float8 * 1000 as wait_millis
    `)),
    ([slot = { pause_millis: 0, wait_millis: 0 }]) => slot,
  )

  /**
   * Waits for the pause to end, but no longer than `pausePollInterval`, because the end of the pause may change. Logs
   * each pause once.
   */
  const waitForPause = Effect.fnUntraced(function* (millis: number) {
    if (!isPauseReported) {
      isPauseReported = true
      yield* Effect.logWarning(
        `The SEC has refused requests from this address. All processes wait until it accepts requests again: another ${
          Duration.format(Duration.seconds(Math.ceil(millis / 1000)))
        }. Ctrl-C stops; --resume continues later.`,
      )
    }
    yield* Effect.sleep(Duration.min(pausePollInterval, Duration.millis(millis)))
  })

  /**
   * Reserves a slot and waits until it begins. If the process was busy or suspended in the meantime and missed the
   * slot, reserves another one.
   */
  const acquire: Effect.Effect<void, SqlError.SqlError> = Effect.gen(function* () {
    const requestedAt = now()
    const { pause_millis, wait_millis } = yield* reserve
    // During a pause, no slot has been reserved.
    if (pause_millis > 0) {
      yield* waitForPause(pause_millis)
      return yield* acquire
    }
    isPauseReported = false
    if (wait_millis > 0) yield* Effect.sleep(Duration.millis(wait_millis))
    if (now() > requestedAt + Math.max(0, wait_millis) + maxLatenessMillis) return yield* acquire
  })

  const pause = Effect.asVoid(retryLostConnection(sql`
    update edgar_access set paused_until = greatest(
      paused_until, clock_timestamp() + make_interval(secs => ${Duration.toSeconds(edgarPauseDuration)}::float8)
    )
  `))
  return { acquire, pause }
})

/** Limits the rate of requests to the SEC across all processes on the same database. */
export class EdgarRateLimiter extends Context.Service<EdgarRateLimiter, {
  /** Completes when this process may send one request. */
  readonly acquire: Effect.Effect<void, SqlError.SqlError>
  /** Pauses the requests of all processes for ten minutes. */
  readonly pause: Effect.Effect<void, SqlError.SqlError>
}>()("tickerline/ingest/EdgarRateLimiter") {
  static readonly layer = Layer.effect(EdgarRateLimiter, makeRateLimiter)
}

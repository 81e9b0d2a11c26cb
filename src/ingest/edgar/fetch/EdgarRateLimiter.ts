/**
 * Keeps to the SEC's limit of 10 requests per second. All processes share it through the only row of `edgar_access`:
 * each request reserves a slot of 125 ms there, measured by PostgreSQL's clock (docs/decisions/0104-fair-access.md).
 */
import { Context, Duration, Effect, Layer, Schema } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { decodeRows } from "../../../postgres/DecodeRows.ts"
import { makeMonotonicClock } from "../../../postgres/metrics/MonotonicTime.ts"
import { retryLostConnection } from "../../../postgres/DatabaseReconnection.ts"

/** Length of a slot. There are 8 slots per second, fewer than 10 requests, because requests may start late. */
const slotInterval = Duration.millis(125)

/**
 * A process that misses the start of its slot by more than this reserves another one. The requests of one second are
 * thus from slots that began within 1.25 seconds: at most 8 × 1.25 = 10.
 */
const maxLatenessMillis = 250

/** Length of a pause. The SEC blocks an address until it has kept to the limit for ten minutes. */
export const edgarPauseDuration = Duration.minutes(10)

/** Interval at which a waiting process checks whether the pause is over. */
const pausePollInterval = Duration.seconds(5)

const decodeSlot = decodeRows(Schema.Struct({ pause_millis: Schema.Finite, wait_millis: Schema.Finite }))

/** Builds the rate limiter. */
const makeFairAccess = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const now = yield* makeMonotonicClock
  let isPauseReported = false

  const interval = sql`make_interval(secs => ${Duration.toSeconds(slotInterval)}::float8)`

  /**
   * Reserves the next slot, unless requests are paused. Returns how long the pause lasts, negative if there is none,
   * and the time until the slot begins, both in milliseconds. `next_request_at` is the end of the last reserved slot.
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
   * Waits for the end of the pause, but only up to `pausePollInterval`, because it may change. Reports each pause once.
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

  /** Waits for a slot. Reserves another one if this one was missed, because the process was busy or suspended. */
  const acquire: Effect.Effect<void, SqlError.SqlError> = Effect.gen(function* () {
    const requestedAt = now()
    const { pause_millis, wait_millis } = yield* reserve
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

/** Permission to send requests to the SEC, shared by all processes of one database. */
export class EdgarRateLimiter extends Context.Service<EdgarRateLimiter, {
  /** Completes when this process may start one request. */
  readonly acquire: Effect.Effect<void, SqlError.SqlError>
  /** Pauses the requests of all processes for ten minutes. */
  readonly pause: Effect.Effect<void, SqlError.SqlError>
}>()("tickerline/ingest/EdgarRateLimiter") {
  static readonly layer = Layer.effect(EdgarRateLimiter, makeFairAccess)
}

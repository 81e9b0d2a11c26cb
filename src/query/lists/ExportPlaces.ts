/**
 * Limits how many exports run at once in this process. An export holds its place until its client has received all of
 * it. A client that reads slowly loses its place while others wait for one
 * (docs/decisions/0163-slow-exports-lose-their-place.md).
 */
import { Config, Context, Duration, Effect, Metric, Schema, Scope } from "effect"
import { Refusal } from "../../contract/AccountErrors.ts"
import { makeBulkhead, makePermits } from "../../postgres/pool/Bulkhead.ts"
import { poolTimeout } from "../../postgres/ReadPolicies.ts"
import { repeatInBackground } from "../../postgres/metrics/BackgroundFibers.ts"
import {
  initializeCounters,
  makeCounter,
  registerCounter,
  registerGauge,
} from "../../postgres/metrics/CallbackMetrics.ts"
import { makeMonotonicClock } from "../../postgres/metrics/MonotonicTime.ts"
import { DatabasePoolTimeout, TooManyExports } from "../../contract/rules/Errors.ts"

/** Maximum number of concurrent exports. */
export const MaxConcurrentExportsConfig = Config.schema(
  Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 100 })),
  "WHOLE_LISTS",
).pipe(Config.withDefault(4))

/** Bytes per second that a client must receive while others wait for a place. */
export const MinExportRateConfig = Config.schema(
  Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000_000_000 })),
  "WHOLE_LISTS_MIN_RATE",
).pipe(Config.withDefault(16_384))

/** Maximum time from the start of an export to its end. */
export const MaxExportTimeConfig = Config.Duration("WHOLE_LISTS_MAX_TIME").pipe(
  Config.withDefault(Duration.hours(1)),
)

/** How long a client may receive nothing, for example in a tunnel, before it counts as too slow. Tests shorten it. */
export const MaxExportPause = Context.Reference<Duration.Duration>("tickerline/query/MaxExportPause", {
  defaultValue: () => Duration.seconds(60),
})

const checkInterval = Duration.millis(500)

/** The `Retry-After` for an account whose exports are all in progress. Most exports end within seconds. */
const retryAfterSeconds = "5"

const makeEndedCounter = (reason: "slow" | "time") =>
  makeCounter(
    "tickerline_whole_lists_ended_total",
    "Exports that the service ended: slow (the client read too slowly while others waited) or time (it took longer " +
      "than WHOLE_LISTS_MAX_TIME).",
    { reason },
  )

const endedCounters = { slow: makeEndedCounter("slow"), time: makeEndedCounter("time") }

/** Measures how fast an export's client takes its chunks, not counting the time in which the service prepares them. */
export interface ReadingClient {
  /** The client has taken everything so far, and the service prepares the next chunk. */
  readonly requestChunk: () => void
  /** A chunk of this size is handed to the client. */
  readonly giveChunk: (bytes: number) => void
}

class Reading implements ReadingClient {
  /** Ends the export. The reason completes the sentence "An export was aborted: …". */
  readonly end: (reason: string) => Effect.Effect<void>
  readonly startedAt: number
  /** When the client will count as too slow, in monotonic milliseconds. Infinity while it waits for the service. */
  slowAt = Infinity
  readonly #now: () => number
  readonly #bytesPerMilli: number
  readonly #maxPauseMillis: number
  /** How long the client may still pause. Negative once it has been too slow. */
  #pauseMillis: number

  constructor(
    end: Reading["end"],
    { bytesPerMilli, maxPauseMillis, now }: {
      readonly now: () => number
      readonly bytesPerMilli: number
      readonly maxPauseMillis: number
    },
  ) {
    this.end = end
    this.startedAt = now()
    this.#now = now
    this.#bytesPerMilli = bytesPerMilli
    this.#maxPauseMillis = maxPauseMillis
    this.#pauseMillis = maxPauseMillis
  }

  readonly requestChunk = () => {
    if (this.slowAt === Infinity) return
    const left = this.slowAt - this.#now()
    this.#pauseMillis = Math.max(-this.#maxPauseMillis, Math.min(this.#maxPauseMillis, left))
    this.slowAt = Infinity
  }

  readonly giveChunk = (bytes: number) => {
    this.slowAt = this.#now() + this.#pauseMillis + bytes / this.#bytesPerMilli
  }
}

/** Creates the places. */
export const makeExportPlaces = Effect.gen(function* () {
  const maxExports = yield* MaxConcurrentExportsConfig
  const minRate = yield* MinExportRateConfig
  const maxTime = yield* MaxExportTimeConfig
  const now = yield* makeMonotonicClock
  const speed = {
    now,
    bytesPerMilli: minRate / 1_000,
    maxPauseMillis: Duration.toMillis(yield* MaxExportPause),
  }
  const maxPerAccount = Math.ceil(maxExports / 2)
  const readings = new Set<Reading>()
  let refusedCount = 0

  const makeAccountError = () =>
    new Refusal({
      error: new TooManyExports({
        error: {
          message: `The account already has ${maxPerAccount} exports in progress on this server. Wait until one has ` +
            "ended, or request pages.",
          details: { limit: maxPerAccount },
        },
      }),
      headers: { "retry-after": retryAfterSeconds },
    })
  const makeProcessError = () =>
    new DatabasePoolTimeout({
      error: {
        message:
          `The service already has ${maxExports} exports in progress. Try again when one has ended, or request ` +
          "pages.",
      },
    })
  const { acquireScoped, permitsInUse, waiterCount } = yield* makeBulkhead({
    permits: makePermits(maxExports),
    maxPerPartition: maxPerAccount,
    isFullRefused: true,
    timeout: yield* poolTimeout,
    onTimeout: (isAccountLimit) => {
      refusedCount += 1
      return isAccountLimit ? makeAccountError() : makeProcessError()
    },
  })
  yield* registerGauge({
    name: "tickerline_whole_lists",
    description: "Exports in progress.",
    read: permitsInUse,
  })
  yield* registerCounter({
    name: "tickerline_whole_lists_refused_total",
    description: "Exports refused because too many were in progress.",
    read: () => refusedCount,
  })
  yield* initializeCounters(...Object.values(endedCounters))

  const end = (reading: Reading, why: keyof typeof endedCounters) => {
    readings.delete(reading)
    const reason = why === "time"
      ? `it took longer than ${Duration.format(maxTime)} (WHOLE_LISTS_MAX_TIME).`
      : `the client received less than ${minRate} bytes per second (WHOLE_LISTS_MIN_RATE) while other exports waited.`
    return Effect.andThen(Metric.update(endedCounters[why], 1), reading.end(reason))
  }

  /** Ends exports that last too long. Also ends, for each waiting export, the slowest one whose client is too slow. */
  const endSlowExports = Effect.suspend(() => {
    const time = now()
    const late = Array.from(readings).filter(({ startedAt }) => time - startedAt > Duration.toMillis(maxTime))
    const slow = Array.from(readings)
      .filter((reading) => reading.slowAt <= time && !late.includes(reading))
      .toSorted((left, right) => left.slowAt - right.slowAt)
      .slice(0, Math.max(0, waiterCount() - late.length))
    return Effect.andThen(
      Effect.forEach(late, (reading) => end(reading, "time"), { discard: true }),
      Effect.forEach(slow, (reading) => end(reading, "slow"), { discard: true }),
    )
  })
  yield* repeatInBackground(endSlowExports, checkInterval)

  return {
    /** Takes a place for the account until the scope closes. */
    take: (account_id: number) => acquireScoped(String(account_id)),
    /** Watches how fast an export's client reads, until the scope closes or `end` runs. */
    watch: (scope: Scope.Scope, end: Reading["end"]): ReadingClient => {
      const reading = new Reading(end, speed)
      readings.add(reading)
      Effect.runSync(Scope.addFinalizer(scope, Effect.sync(() => readings.delete(reading))))
      return reading
    },
  }
})

/** The places for exports in this process. */
export type ExportPlaces = Effect.Success<typeof makeExportPlaces>

/**
 * Limits how many exports run concurrently in this process. An export occupies a slot until its client has received all
 * of it. A client that reads slowly loses its slot while other exports are waiting
 * (docs/decisions/0163-slow-exports-lose-their-place.md).
 */
import { Config, Context, Duration, Effect, Metric, Schema, Scope } from "effect"
import { ErrorWithHeaders } from "../../contract/AccountErrors.ts"
import { makeBulkhead, makePermits } from "../../postgres/pool/Bulkhead.ts"
import { poolTimeout } from "../../postgres/ReadTimeoutsAndRetries.ts"
import { repeatInBackground } from "../../postgres/metrics/BackgroundFibers.ts"
import {
  initializeCounters,
  makeCounter,
  registerCounter,
  registerGauge,
} from "../../postgres/metrics/CallbackMetrics.ts"
import { makeMonotonicClock } from "../../postgres/metrics/MonotonicTime.ts"
import { DatabasePoolTimeout, TooManyExports } from "../../contract/rules/ApiErrors.ts"

/** Maximum number of concurrent exports in this process. */
export const MaxConcurrentExportsConfig = Config.schema(
  Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 100 })),
  "WHOLE_LISTS",
).pipe(Config.withDefault(4))

/**
 * The minimum rate, in bytes per second, at which a client must receive its export while others are waiting for a slot.
 */
export const MinExportRateConfig = Config.schema(
  Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000_000_000 })),
  "WHOLE_LISTS_MIN_RATE",
).pipe(Config.withDefault(16_384))

/** Maximum duration of an export. */
export const MaxExportTimeConfig = Config.Duration("WHOLE_LISTS_MAX_TIME").pipe(
  Config.withDefault(Duration.hours(1)),
)

/**
 * How long a client may receive nothing, for example while it has no signal, before it counts as too slow. Tests
 * shorten it.
 */
export const MaxExportPause = Context.Reference<Duration.Duration>("tickerline/query/MaxExportPause", {
  defaultValue: () => Duration.seconds(60),
})

const checkInterval = Duration.millis(500)

/**
 * The value of `Retry-After` for an account that already has the maximum number of exports in progress. Most exports
 * end within seconds.
 */
const retryAfterSeconds = "5"

const makeEndedCounter = (reason: "slow" | "time") =>
  makeCounter(
    "tickerline_whole_lists_ended_total",
    "Exports that the service ended: slow (the client read too slowly while others waited) or time (it took longer " +
      "than WHOLE_LISTS_MAX_TIME).",
    { reason },
  )

const endedCounters = { slow: makeEndedCounter("slow"), time: makeEndedCounter("time") }

/**
 * Measures how fast a client takes the chunks of its export. The time that the service needs to prepare the chunks does
 * not count.
 */
export interface ReadingClient {
  /** Records that the client has taken everything so far, and that the service is preparing the next chunk. */
  readonly requestChunk: () => void
  /** Records that a chunk of this size was passed to the client. */
  readonly giveChunk: (bytes: number) => void
}

/** An export in progress whose client is monitored. */
class MonitoredExport implements ReadingClient {
  /** Ends the export. The reason must complete the sentence "An export was aborted: …". */
  readonly end: (reason: string) => Effect.Effect<void>
  readonly startedAt: number
  /**
   * When the client will count as too slow, in monotonic milliseconds. Infinity while the client is waiting for the
   * service.
   */
  slowAt = Infinity
  readonly #now: () => number
  readonly #bytesPerMilli: number
  readonly #maxPauseMillis: number
  /** How much longer the client may pause, in milliseconds. Negative if it has already been too slow. */
  #pauseMillis: number

  constructor(
    end: MonitoredExport["end"],
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

  /**
   * The time left until the client would have counted as too slow becomes its allowance for the next chunk. So a client
   * that reads faster than the minimum rate regains its full pause, and a slower one uses it up.
   */
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

/** The error for an account that already has the maximum number of exports in progress. */
const makeAccountError = (maxPerAccount: number) =>
  new ErrorWithHeaders({
    error: new TooManyExports({
      error: {
        message: `The account already has ${maxPerAccount} exports in progress on this server. Wait until one has ` +
          "ended, or request pages.",
        details: { limit: maxPerAccount },
      },
    }),
    headers: { "retry-after": retryAfterSeconds },
  })

/** The error if all slots of this process are in use. */
const makeProcessError = (maxExports: number) =>
  new DatabasePoolTimeout({
    error: {
      message: `The service already has ${maxExports} exports in progress. Try again when one has ended, or request ` +
        "pages.",
    },
  })

/**
 * Creates the export slots, of which each export in progress takes one. An account can take at most half of them. A
 * background fiber ends exports that take too long or whose clients read too slowly.
 */
export const makeExportSlots = Effect.gen(function* () {
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
  /** The exports in progress, with the speed at which their clients read. */
  const exports = new Set<MonitoredExport>()
  let refusedCount = 0

  const { acquireScoped, permitsInUse, waiterCount } = yield* makeBulkhead({
    permits: makePermits(maxExports),
    maxPerPartition: maxPerAccount,
    isFullRefused: true,
    timeout: yield* poolTimeout,
    onTimeout: (isAccountLimit) => {
      refusedCount += 1
      return isAccountLimit ? makeAccountError(maxPerAccount) : makeProcessError(maxExports)
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

  const end = (ended: MonitoredExport, why: keyof typeof endedCounters) => {
    exports.delete(ended)
    const reason = why === "time"
      ? `it took longer than ${Duration.format(maxTime)} (WHOLE_LISTS_MAX_TIME).`
      : `the client received less than ${minRate} bytes per second (WHOLE_LISTS_MIN_RATE) while other exports waited.`
    return Effect.andThen(Metric.update(endedCounters[why], 1), ended.end(reason))
  }

  /**
   * Ends exports that have exceeded the maximum duration. For each export that still waits for a slot after that, also
   * ends one export whose client is too slow, slowest first.
   */
  const endSlowExports = Effect.suspend(() => {
    const time = now()
    const late = Array.from(exports).filter(({ startedAt }) => time - startedAt > Duration.toMillis(maxTime))
    const slow = Array.from(exports)
      .filter((running) => running.slowAt <= time && !late.includes(running))
      .toSorted((left, right) => left.slowAt - right.slowAt)
      // Each late export frees a slot, too. A negative end would cut from the end of the array instead.
      .slice(0, Math.max(0, waiterCount() - late.length))
    return Effect.andThen(
      Effect.forEach(late, (running) => end(running, "time"), { discard: true }),
      Effect.forEach(slow, (running) => end(running, "slow"), { discard: true }),
    )
  })
  yield* repeatInBackground(endSlowExports, checkInterval)

  return {
    /** Takes a slot for the account until the scope closes. */
    take: (account_id: number) => acquireScoped(String(account_id)),
    /**
     * Monitors how fast an export's client reads, until the scope closes or `endExport` runs. The caller must report
     * each chunk to the returned object. `endExport` aborts the export, for the given reason.
     */
    watch: (scope: Scope.Scope, endExport: MonitoredExport["end"]): ReadingClient => {
      const monitored = new MonitoredExport(endExport, speed)
      exports.add(monitored)
      Effect.runSync(Scope.addFinalizer(scope, Effect.sync(() => exports.delete(monitored))))
      return monitored
    },
  }
})

/** The export slots of this process. */
export type ExportSlots = Effect.Success<typeof makeExportSlots>

/** D18: how many requests a minute an account may send, by its tier. */
import { type Cause, Config, Context, Duration, Effect, Layer, Metric, Option, Schema } from "effect"
import { RateLimiter } from "effect/persistence"
import { atZero } from "../observability/Measures.ts"
import type { Tier } from "../policy/Access.ts"
import type { Account } from "./Authentication.ts"
import { RateLimitExceeded } from "./Errors.ts"
import { shared } from "./Redis.ts"

const PerMinute = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000_000_000 }))

export const limits = Config.all({
  basic: Config.schema(PerMinute, "RATE_LIMIT_BASIC").pipe(Config.withDefault(200)),
  pro: Config.schema(PerMinute, "RATE_LIMIT_PRO").pipe(Config.withDefault(1_000)),
  ultimate: Config.schema(PerMinute, "RATE_LIMIT_ULTIMATE").pipe(Config.withDefault(5_000)),
})

/** Longer than that a request does not wait for Redis. */
const patience = Duration.millis(250)

const alone = Metric.counter("tickerline_rate_limit_alone_total", {
  description: "Requests counted by this process alone, because Redis did not answer.",
  incremental: true,
})

const minute = Duration.minutes(1)

type Consumption = Parameters<RateLimiter.RateLimiter["consume"]>[0]

/** How long to wait, where the limit is why it failed. */
const waitIn = (error: RateLimiter.RateLimiterError | Cause.TimeoutError) =>
  error._tag === "RateLimiterError" && error.reason._tag === "RateLimitExceeded"
    ? Option.some(error.reason.retryAfter)
    : Option.none()

const seconds = (duration: Duration.Duration) => String(Math.max(1, Math.ceil(Duration.toSeconds(duration))))

const headers = (limit: number, remaining: number, reset: Duration.Duration) => ({
  "X-RateLimit-Limit": String(limit),
  "X-RateLimit-Remaining": String(remaining),
  "X-RateLimit-Reset": seconds(reset),
})

const exceeded = (limit: number) =>
  new RateLimitExceeded({
    error: { message: `More than ${limit} requests a minute. Wait as long as Retry-After says.` },
  })

export interface Counted {
  readonly headers: Readonly<Record<string, string>>
  readonly refusal: RateLimitExceeded | undefined
}

export class RateLimit extends Context.Service<RateLimit, {
  readonly perMinute: (tier: Tier) => number
  /** Counts a request, and says in headers how many are left. One that is refused is not counted. */
  readonly count: (account: typeof Account.Service) => Effect.Effect<Counted>
  /** Redis, which should count for all instances, does not answer this one. */
  readonly isAlone: () => boolean
}>()("tickerline/account/RateLimit") {
  static readonly layer = Layer.effect(
    RateLimit,
    Effect.gen(function* () {
      const perMinute = yield* limits
      yield* atZero(alone)
      const own = yield* Effect.provide(RateLimiter.make, RateLimiter.layerStoreMemory)
      const common = yield* shared

      // While Redis is away each instance counts for itself: a limit too generous for a while, and no outage.
      let away = false
      const standIn = Effect.fnUntraced(function* (options: Consumption, why: { readonly message: string }) {
        yield* Metric.update(alone, 1)
        if (!away) yield* Effect.logWarning(`Redis does not count requests, so this process does: ${why.message}`)
        away = true
        return yield* own.consume(options)
      })

      const consume = (options: Consumption) =>
        Option.match(common, {
          onNone: () => own.consume(options),
          onSome: (limiter) =>
            limiter.consume(options).pipe(
              Effect.timeout(patience),
              Effect.tap(() => {
                away = false
                return Effect.void
              }),
              Effect.catch((error) => Option.isSome(waitIn(error)) ? Effect.fail(error) : standIn(options, error)),
              // An answer that makes no sense is none.
              Effect.catchDefect((defect) => standIn(options, { message: String(defect) })),
            ),
        })

      const count = Effect.fnUntraced(function* ({ account_id, tier }: typeof Account.Service) {
        const limit = perMinute[tier]
        const counted = yield* Effect.result(consume({ key: String(account_id), limit, window: minute }))
        if (counted._tag === "Success") {
          const { remaining, resetAfter } = counted.success
          return { headers: headers(limit, remaining, resetAfter), refusal: undefined }
        }
        // Its own memory counts last, and does not fail but by the limit.
        const wait = Option.getOrElse(waitIn(counted.failure), () => Duration.seconds(1))
        return { headers: { ...headers(limit, 0, wait), "Retry-After": seconds(wait) }, refusal: exceeded(limit) }
      })
      return RateLimit.of({ perMinute: (tier) => perMinute[tier], count, isAlone: () => away })
    }),
  )
}

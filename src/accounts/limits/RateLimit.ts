/** D18: how many requests a minute an account may send, by its tier, to all processes together. */
import { Config, Context, Duration, Effect, Layer, Metric, Schema } from "effect"
import { RateLimiter } from "effect/persistence"
import { Reactivity } from "effect/reactivity"
import { initializeCounters } from "../../observability/CallbackMetrics.ts"
import type { Tier } from "../../rules/EndpointAnnotations.ts"
import type { Account } from "../keys/Authentication.ts"
import { RateLimitExceeded } from "../AccountErrors.ts"
import type { Told } from "./RateLimitLease.ts"
import * as Leases from "./RateLimiter.ts"
import * as Redis from "./Redis.ts"

const PerMinute = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000_000_000 }))

export const RateLimitBasicConfig = Config.schema(PerMinute, "RATE_LIMIT_BASIC").pipe(Config.withDefault(200))
export const RateLimitProConfig = Config.schema(PerMinute, "RATE_LIMIT_PRO").pipe(Config.withDefault(1_000))
export const RateLimitUltimateConfig = Config.schema(PerMinute, "RATE_LIMIT_ULTIMATE").pipe(Config.withDefault(5_000))

export const RateLimitsConfig = Config.all({
  basic: RateLimitBasicConfig,
  pro: RateLimitProConfig,
  ultimate: RateLimitUltimateConfig,
})

const alone = Metric.counter("tickerline_rate_limit_alone_total", {
  description: "Requests counted by this process alone, because neither Redis nor PostgreSQL did.",
  incremental: true,
})
const withoutRedis = Metric.counter("tickerline_rate_limit_without_redis_total", {
  description: "Requests not counted in the Redis of REDIS_URL, because it did not answer.",
  incremental: true,
})

const minute = Duration.minutes(1)

const seconds = (milliseconds: number) => String(Math.max(1, Math.ceil(milliseconds / 1000)))

const headers = (limit: number, remaining: number, endsIn: number) => ({
  "X-RateLimit-Limit": String(limit),
  "X-RateLimit-Remaining": String(remaining),
  "X-RateLimit-Reset": seconds(endsIn),
})

const exceeded = (limit: number) =>
  new RateLimitExceeded({
    error: { message: `More than ${limit} requests a minute. Wait as long as Retry-After says.` },
  })

export interface RateLimitResult {
  readonly headers: Readonly<Record<string, string>>
  readonly refusal: RateLimitExceeded | undefined
}

export class RateLimit extends Context.Service<RateLimit, {
  readonly perMinute: (tier: Tier) => number
  /** Counts a request, and says in headers how many are left. One that is refused is not counted. */
  readonly count: (account: typeof Account.Service) => Effect.Effect<RateLimitResult>
  /** What should count for all processes, Redis or without one PostgreSQL, does not answer this one. */
  readonly isCountingLocally: () => boolean
}>()("tickerline/account/RateLimit") {
  static readonly layer = Layer.effect(
    RateLimit,
    Effect.gen(function* () {
      const perMinute = yield* RateLimitsConfig
      yield* initializeCounters(alone, withoutRedis)
      const memory = yield* Effect.provide(RateLimiter.RateLimiterStore, RateLimiter.layerStoreMemory)
      const leases = yield* Leases.make
      const redis = yield* Redis.shared

      const window = (key: string, limit: number) => ({
        key,
        limit,
        tokens: 1,
        refillRate: Duration.divideUnsafe(minute, limit),
      })

      // While nobody counts for all, each process counts for itself: a limit too generous for a while, and no outage.
      const counted = (key: string, limit: number) =>
        Effect.catch(
          leases.consume(key, limit),
          () => Effect.andThen(Metric.update(alone, 1), Effect.orDie(memory.fixedWindow(window(key, limit)))),
        )

      const consume = (key: string, limit: number): Effect.Effect<Told> => {
        if (redis === undefined) return counted(key, limit)
        const store = redis.store()
        const instead = Effect.andThen(Metric.update(withoutRedis, 1), counted(key, limit))
        if (store === undefined) return instead
        return Effect.catch(Redis.answer(store.fixedWindow(window(key, limit))), () => {
          redis.doubt()
          return instead
        })
      }

      const count = ({ account_id, tier }: typeof Account.Service) => {
        const limit = perMinute[tier]
        return Effect.map(consume(String(account_id), limit), ([number, endsIn]): RateLimitResult => {
          const left = limit - number
          if (left >= 0) return { headers: headers(limit, left, endsIn), refusal: undefined }
          return { headers: { ...headers(limit, 0, endsIn), "Retry-After": seconds(endsIn) }, refusal: exceeded(limit) }
        })
      }
      const isAlone = () => redis === undefined ? leases.isAway() : redis.store() === undefined
      return RateLimit.of({ perMinute: (tier) => perMinute[tier], count, isCountingLocally: isAlone })
    }),
  ).pipe(Layer.provide(Reactivity.layer))
}

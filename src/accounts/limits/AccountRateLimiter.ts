/** Limits each account's requests per minute (D18, rate limits), using a token bucket shared by all processes. */
import { Config, Context, Duration, Effect, Exit, Layer, Metric, Schema } from "effect"
import { RateLimiter } from "effect/persistence"
import { Reactivity } from "effect/reactivity"
import { initializeCounters, makeCounter } from "../../postgres/metrics/CallbackMetrics.ts"
import type { Tier } from "../../contract/rules/EndpointAnnotations.ts"
import type { CurrentAccount } from "../../contract/Authentication.ts"
import { RateLimitExceeded } from "../../contract/AccountErrors.ts"
import { makeSharedTokenBuckets, type TokenBucketResult } from "./SharedTokenBuckets.ts"

const RequestsPerMinute = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000_000_000 }))

const makeLimitConfig = (name: string, requestsPerMinute: number) =>
  Config.schema(RequestsPerMinute, name).pipe(Config.withDefault(requestsPerMinute))

/** Requests per minute for accounts with the tier `basic`. */
export const BasicTierRateLimitConfig = makeLimitConfig("RATE_LIMIT_BASIC", 200)

/** Requests per minute for accounts with the tier `pro`. */
export const ProTierRateLimitConfig = makeLimitConfig("RATE_LIMIT_PRO", 1_000)

/** Requests per minute for accounts with the tier `ultimate`. */
export const UltimateTierRateLimitConfig = makeLimitConfig("RATE_LIMIT_ULTIMATE", 5_000)

/** Requests per minute by tier. */
export const RateLimitsByTierConfig = Config.all({
  basic: BasicTierRateLimitConfig,
  pro: ProTierRateLimitConfig,
  ultimate: UltimateTierRateLimitConfig,
})

const countedLocallyTotal = makeCounter(
  "tickerline_rate_limit_alone_total",
  "Requests that this process counted on its own because the shared counts could not be written.",
)

/**
 * Returns how many seconds it takes to refill the given number of tokens at `limit` tokens per minute, rounded up and
 * at least 1.
 */
const secondsToRefill = (tokens: number, limit: number) => String(Math.max(1, Math.ceil(tokens * 60 / limit)))

interface RateLimitResult {
  /** Rate limit headers, keyed by lower-case name. */
  readonly headers: Readonly<Record<string, string>>
  readonly refusal: RateLimitExceeded | undefined
}

/** Returns the headers for a counted request, and the error if the request must be refused. */
const makeResult = ({ isAllowed, tokens }: TokenBucketResult, limit: number): RateLimitResult => {
  const headers = {
    "x-ratelimit-limit": String(limit),
    "x-ratelimit-remaining": isAllowed ? String(Math.floor(tokens)) : "0",
    "x-ratelimit-reset": secondsToRefill(limit - tokens, limit),
  }
  if (isAllowed) return { headers, refusal: undefined }
  return {
    headers: { ...headers, "retry-after": secondsToRefill(1 - tokens, limit) },
    refusal: new RateLimitExceeded({
      error: { message: `More than ${limit} requests per minute. Wait the number of seconds in Retry-After.` },
    }),
  }
}

/**
 * Creates the rate limiter. It counts requests with the token buckets that all processes share. A process takes several
 * tokens at once from such a bucket and holds them for later requests (`consumeHeld`). While the shared buckets are
 * unavailable, requests are counted by this process alone. An account's limit depends on its tier.
 */
const makeAccountRateLimiter = Effect.gen(function* () {
  const limits = yield* RateLimitsByTierConfig
  yield* initializeCounters(countedLocallyTotal)
  const memory = yield* Effect.provide(RateLimiter.RateLimiterStore, RateLimiter.layerStoreMemory)
  const buckets = yield* makeSharedTokenBuckets

  /** Takes a token from a bucket in this process's memory, which is used while the shared bucket is unavailable. */
  const consumeLocally = Effect.fnUntraced(function* (account_id: number, limit: number) {
    yield* Metric.update(countedLocallyTotal, 1)
    const refillRate = Duration.divideUnsafe(Duration.minutes(1), limit)
    const [remaining, elapsedMillis] = yield* Effect.orDie(
      memory.tokenBucket({ key: String(account_id), tokens: 1, limit, refillRate, allowOverflow: false }),
    )
    const isAllowed = remaining >= 0
    // The tokens left, including the fraction of a token that has been refilled since the last whole one. A refused
    // request has taken no token, although it was subtracted from `remaining`.
    const tokens = remaining + elapsedMillis / Duration.toMillis(refillRate) + (isAllowed ? 0 : 1)
    return { isAllowed, tokens }
  })

  /**
   * Takes a token from the account's bucket, or refuses the request if there is none. Must be called exactly once per
   * request: if this process holds a token, the call itself takes it, even if the returned effect never runs.
   */
  const countRequest = ({ account_id, tier }: typeof CurrentAccount.Service) => {
    const limit = limits[tier]
    const held = buckets.consumeHeld(account_id, limit)
    if (held !== undefined) return Exit.succeed(makeResult(held, limit))
    return Effect.map(
      Effect.catch(buckets.consume(account_id, limit), () => consumeLocally(account_id, limit)),
      (result) => makeResult(result, limit),
    )
  }
  return {
    getRequestsPerMinute: (tier: Tier) => limits[tier],
    countRequest,
    /** Returns whether PostgreSQL is unavailable. Each process then counts only its own requests. */
    isCountingLocally: buckets.isUnavailable,
  }
})

/** Counts requests, and refuses those that exceed the account's limit. */
export class AccountRateLimiter
  extends Context.Service<AccountRateLimiter, Effect.Success<typeof makeAccountRateLimiter>>()(
    "tickerline/accounts/AccountRateLimiter",
  ) {
  static readonly layer = Layer.effect(AccountRateLimiter, makeAccountRateLimiter).pipe(Layer.provide(Reactivity.layer))
}

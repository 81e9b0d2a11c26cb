/**
 * When a request is sent again. Effect's `retryTransient` would retry a 500 too, which is no promise of the service,
 * and wait as long as any `Retry-After` says.
 */
import { Duration, Effect, Random } from "effect"

export interface RetryOptions {
  /** How often a request is sent again, 3 by default; 0: never. */
  readonly times?: number | undefined
  /** The longest wait, 30 seconds by default. Who is told to wait longer gets the error at once. */
  readonly longestWait?: Duration.Input | undefined
}

/** What became of an attempt, as far as it matters here. */
export interface AttemptResult {
  /** None where the connection was lost, or the time was over. */
  readonly status: number | undefined
  /** Milliseconds to wait, at least. */
  readonly retryAfter: number | null
}

/** 429 and 503 say that they are safe to retry (§7.2, D18); 502 and 504 are a balancer's, and all is GET. */
const passing = new Set([429, 502, 503, 504])

const firstWait = 250

/** What may be sent again beyond a tenth of what is answered. */
const reserve = 10

export interface RetryPolicy {
  /** Milliseconds to wait before sending again, or undefined: what came is the answer. */
  readonly delayBeforeRetry: (attempted: AttemptResult, attempts: number) => Effect.Effect<number | undefined>
}

/** One for each client: what may be sent again is counted for all of its requests, so in an outage it falls silent. */
export const makeRetryPolicy = ({ longestWait = "30 seconds", times = 3 }: RetryOptions): RetryPolicy => {
  const longest = Duration.toMillis(longestWait)
  let budget = reserve
  return {
    delayBeforeRetry: ({ retryAfter, status }, attempts) =>
      Effect.map(Random.next, (chance) => {
        if (status !== undefined && !passing.has(status)) {
          budget = Math.min(reserve, budget + 0.1)
          return undefined
        }
        if (attempts > times || budget < 1 || (retryAfter ?? 0) > longest) return undefined
        budget -= 1
        // Never before it was told to, and not all clients at the same moment.
        const least = retryAfter ?? firstWait * 2 ** (attempts - 1) / 2
        const spread = retryAfter === null ? least : Math.max(firstWait, retryAfter / 10)
        return Math.max(retryAfter ?? 0, Math.min(longest, least + chance * spread))
      }),
  }
}

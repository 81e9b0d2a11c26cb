/**
 * Decides when a request is retried. Effect's `retryTransient` does not fit: it also retries 500, which may be
 * unsafe, and it waits for any `Retry-After`, however long.
 */
import { Duration, Effect, Random } from "effect"

export interface RetryOptions {
  /** Retries per request, 3 by default; 0 disables them. */
  readonly times?: number | undefined
  /** Maximum delay before a retry, 30 seconds by default. A call fails at once if `Retry-After` is longer. */
  readonly longestWait?: Duration.Input | undefined
}

export interface AttemptResult {
  /** Undefined if the connection failed or the attempt timed out. */
  readonly status: number | undefined
  /** The `Retry-After` header, ms. */
  readonly retryAfterMillis: number | null
}

/** Returns the delay before the next attempt, ms; undefined if there is none. */
export type RetryPolicy = (result: AttemptResult, attempts: number) => Effect.Effect<number | undefined>

/** The service sends 429 and 503 (§7.2, errors), load balancers 502 and 504. Repeating a GET is safe. */
const retryableStatuses = new Set([429, 502, 503, 504])

const initialDelayMillis = 250

/** Maximum number of consecutive retries by a client. Each response that needs no retry restores a tenth of a retry. */
const maxRetryBudget = 10

/** All calls of a client share one policy and its budget, so that the client soon stops retrying during an outage. */
export const makeRetryPolicy = ({ longestWait = "30 seconds", times = 3 }: RetryOptions): RetryPolicy => {
  const maxDelay = Duration.toMillis(longestWait)
  let budget = maxRetryBudget
  return ({ retryAfterMillis, status }, attempts) =>
    Effect.map(Random.next, (random) => {
      if (status !== undefined && !retryableStatuses.has(status)) {
        budget = Math.min(maxRetryBudget, budget + 0.1)
        return undefined
      }
      if (attempts > times || budget < 1 || (retryAfterMillis ?? 0) > maxDelay) return undefined
      budget -= 1
      // Jitter spreads out the retries of many clients. It never shortens Retry-After.
      const minDelay = retryAfterMillis ?? initialDelayMillis * 2 ** (attempts - 1) / 2
      const jitter = retryAfterMillis === null ? minDelay : Math.max(initialDelayMillis, retryAfterMillis / 10)
      return Math.max(retryAfterMillis ?? 0, Math.min(maxDelay, minDelay + random * jitter))
    })
}

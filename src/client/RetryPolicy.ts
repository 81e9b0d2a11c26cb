/**
 * Decides whether and when to retry a request. Effect's `retryTransient` is not suitable: it also retries after a 500,
 * which may be unsafe, and it respects `Retry-After` no matter how long the delay is.
 */
import { Duration, Effect, Random, Result } from "effect"
import type { ResponseMetadata } from "./ResponseMetadata.ts"

/** Limits the number of retries and the delay before each one. */
export interface RetryOptions {
  /** The maximum number of retries per request. Default: 3. Set it to 0 to disable retries. */
  readonly times?: number | undefined
  /** The maximum delay before a retry. Default: 30 seconds. If `Retry-After` is longer, the call fails immediately. */
  readonly longestWait?: Duration.Input | undefined
}

/**
 * Returns the properties of an attempt on which the retry policy depends: the HTTP status, which is undefined if the
 * connection failed or timed out, and the `Retry-After` delay in milliseconds.
 */
export const toRequestAttemptResult = (
  attempt: Result.Result<{ readonly metadata: ResponseMetadata }, unknown>,
) => {
  if (Result.isFailure(attempt)) return { status: undefined, retryAfterMillis: null }
  const { retry_after_seconds, status } = attempt.success.metadata
  return { status, retryAfterMillis: retry_after_seconds === null ? null : retry_after_seconds * 1000 }
}

type RequestAttemptResult = ReturnType<typeof toRequestAttemptResult>

/**
 * Response statuses after which a request is retried. The service sends 429 and 503 (§7.2, errors), load balancers send
 * 502 and 504. Retrying is safe because all requests are GET requests.
 */
const retryableStatuses = new Set([429, 502, 503, 504])

/** The longest delay before the first retry without `Retry-After`. It doubles with each further retry. */
const initialDelayMillis = 250

/**
 * The number of retries that a client may send in quick succession. Each retry uses up 1 of this budget, and each
 * response that requires no retry restores 0.1. So in the long run, there is at most about one retry for every ten
 * requests.
 */
const maxRetryBudget = 10

/**
 * The maximum number of consecutive failed connections before a client stops following the change feed. The delays
 * between them add up to more than a minute, so that a restart of the service does not end the following.
 */
const maxReconnectFailures = 10

/**
 * Creates the retry policy that all calls of a client share: two functions that return how long to wait after a failed
 * attempt, or undefined to give up. The calls also share one retry budget, so the client soon stops retrying during an
 * outage.
 */
export const makeRetryPolicy = ({ longestWait = "30 seconds", times = 3 }: RetryOptions) => {
  const maxDelay = Duration.toMillis(longestWait)
  let budget = maxRetryBudget
  /** Returns whether the response must not be retried, because it succeeded or would be the same again. */
  const isFinal = ({ status }: RequestAttemptResult) => status !== undefined && !retryableStatuses.has(status)
  /**
   * Returns the `Retry-After` delay or, if there is none, a delay that doubles with each attempt. Jitter is added in
   * both cases.
   */
  const chooseDelay = ({ retryAfterMillis }: RequestAttemptResult, attempts: number) =>
    Effect.map(Random.next, (random) => {
      // Jitter prevents many clients from retrying at the same time. It never makes the delay shorter than
      // `Retry-After`.
      const minDelay = retryAfterMillis ?? initialDelayMillis * 2 ** (attempts - 1) / 2
      const maxJitter = retryAfterMillis === null ? minDelay : Math.max(initialDelayMillis, retryAfterMillis / 10)
      return Math.max(retryAfterMillis ?? 0, Math.min(maxDelay, minDelay + random * maxJitter))
    })
  const giveUp = Effect.succeed(undefined)
  return {
    /** Returns the delay in milliseconds before a request is retried, or undefined if it must not be retried. */
    delayBeforeRetry: (result: RequestAttemptResult, attempts: number) =>
      Effect.suspend(() => {
        if (isFinal(result)) {
          // Ten requests that need no retry pay for one retry.
          budget = Math.min(maxRetryBudget, budget + 0.1)
          return giveUp
        }
        if (attempts > times || budget < 1 || (result.retryAfterMillis ?? 0) > maxDelay) return giveUp
        budget -= 1
        return chooseDelay(result, attempts)
      }),
    /**
     * Returns the delay in milliseconds before reconnecting to the change feed, or undefined to give up. Only
     * consecutive failures count, because following must survive any number of service restarts.
     */
    delayBeforeReconnect: (result: RequestAttemptResult, failures: number) =>
      Effect.suspend(() =>
        isFinal(result) || failures > maxReconnectFailures || (result.retryAfterMillis ?? 0) > maxDelay
          ? giveUp
          : chooseDelay(result, failures)
      ),
  }
}

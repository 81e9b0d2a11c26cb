/**
 * Decides when a request is retried. Effect's `retryTransient` does not fit: it also retries 500, which may be
 * unsafe, and it waits for any `Retry-After`, however long.
 */
import { Duration, Effect, Random, Result } from "effect"
import type { ResponseMetadata } from "./ResponseMetadata.ts"

/** How often and how long to retry. */
export interface RetryOptions {
  /** Retries per request, 3 by default; 0 disables them. */
  readonly times?: number | undefined
  /** Maximum delay before a retry, 30 seconds by default. A call fails immediately if `Retry-After` is longer. */
  readonly longestWait?: Duration.Input | undefined
}

/**
 * Returns what the policy needs to know about an attempt: the HTTP status, which is undefined if the connection failed
 * or the attempt timed out, and the delay in `Retry-After`, ms.
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
 * Responses after which a request is repeated. The service sends 429 and 503 (§7.2, errors), load balancers 502 and
 * 504. Repeating a GET is safe.
 */
const retryableStatuses = new Set([429, 502, 503, 504])

const initialDelayMillis = 250

/**
 * How many retries a client may use up. Each retry costs one, and each response that needs no retry gives back a tenth.
 */
const maxRetryBudget = 10

/** How many failures in a row a follower survives. Their delays add up to more than a minute. */
const maxReconnectFailures = 10

/**
 * Creates the policy that all calls of a client share, with one retry budget for all of them. During an outage, the
 * client therefore soon stops retrying.
 */
export const makeRetryPolicy = ({ longestWait = "30 seconds", times = 3 }: RetryOptions) => {
  const maxDelay = Duration.toMillis(longestWait)
  let budget = maxRetryBudget
  const isFinal = ({ status }: RequestAttemptResult) => status !== undefined && !retryableStatuses.has(status)
  /** Returns the delay in `Retry-After` or, without it, one that doubles with each attempt. Both include jitter. */
  const chooseDelay = ({ retryAfterMillis }: RequestAttemptResult, attempts: number) =>
    Effect.map(Random.next, (random) => {
      // Random delays (jitter) keep many clients from retrying at the same moment. They never shorten `Retry-After`.
      const minDelay = retryAfterMillis ?? initialDelayMillis * 2 ** (attempts - 1) / 2
      const jitter = retryAfterMillis === null ? minDelay : Math.max(initialDelayMillis, retryAfterMillis / 10)
      return Math.max(retryAfterMillis ?? 0, Math.min(maxDelay, minDelay + random * jitter))
    })
  const giveUp = Effect.succeed(undefined)
  return {
    /** Returns the delay before the next attempt of a request, ms; undefined if it must not be retried. */
    delayBeforeRetry: (result: RequestAttemptResult, attempts: number) =>
      Effect.suspend(() => {
        if (isFinal(result)) {
          budget = Math.min(maxRetryBudget, budget + 0.1)
          return giveUp
        }
        if (attempts > times || budget < 1 || (result.retryAfterMillis ?? 0) > maxDelay) return giveUp
        budget -= 1
        return chooseDelay(result, attempts)
      }),
    /**
     * Returns the delay before a follower of the changes reconnects, ms; undefined if it must give up. Only consecutive
     * failures count, because a follower must survive any number of restarts of the service.
     */
    delayBeforeReconnect: (result: RequestAttemptResult, failures: number) =>
      Effect.suspend(() =>
        isFinal(result) || failures > maxReconnectFailures || (result.retryAfterMillis ?? 0) > maxDelay
          ? giveUp
          : chooseDelay(result, failures)
      ),
  }
}

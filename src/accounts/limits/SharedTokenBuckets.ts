/**
 * Manages the tokens that this process holds from each account's shared bucket (D18, rate limits). A request takes a
 * token that the process already holds. A background fiber gets more tokens from PostgreSQL, for many accounts at the
 * same time (docs/decisions/0010-rate-limit-buckets.md).
 */
import { Context, Data, Deferred, Duration, Effect, Queue } from "effect"
import { forkUntraced, repeatInBackground } from "../../postgres/metrics/BackgroundFibers.ts"
import { describeFailure } from "../../postgres/FailureText.ts"
import { makeMonotonicClock } from "../../postgres/metrics/MonotonicTime.ts"
import { makeTokenBucketRequester, type TokenBucketGrant, type TokenBucketRequest } from "./TokenBucketStore.ts"

/**
 * How long the tokens that this process holds from a bucket may be spent before they must be synchronized with
 * PostgreSQL again, in milliseconds.
 */
const shareTtlMillis = 500

/** Time limits for PostgreSQL. Tests that count tokens increase them, because a busy machine may take longer. */
export const TokenBucketStoreTimeouts = Context.Reference("tickerline/accounts/TokenBucketStoreTimeouts", {
  defaultValue: () => ({
    query: Duration.seconds(1),
    /** Time limit for getting a token for a request. It includes attempts to connect that hang. */
    request: Duration.millis(1_500),
  }),
})

const retryInterval = Duration.seconds(1)

const maxAccountsPerQuery = 100

class TokenStoreUnavailable extends Data.TaggedError("TokenStoreUnavailable")<{ readonly message: string }> {}

/** Whether a request is allowed, and the tokens left afterwards. */
export interface TokenBucketResult {
  readonly isAllowed: boolean
  /** Tokens left in the account's bucket. May be fractional. */
  readonly tokens: number
}

/** What this process knows about one account's bucket, and the tokens that it holds from that bucket. */
class Share {
  readonly account_id: number
  limit: number
  /** Whole tokens that this process may spend. */
  held = 0
  /**
   * Tokens left in the bucket in PostgreSQL at `syncedAt`. Negative if another process still applies a higher limit and
   * has used more than `limit` tokens.
   */
  shared = 0
  /** When the last successful synchronization with PostgreSQL ended (monotonic clock, ms). */
  syncedAt = -Infinity
  /** Tokens spent since `syncedAt`. */
  spent = 0
  /** How many tokens the last query asked PostgreSQL for in addition to those for waiting requests. */
  prefetch = 0
  /** How many requests are waiting for the next query to get a token. */
  waiting = 0
  /** Completes when the next query ends. */
  nextSync: Deferred.Deferred<void, TokenStoreUnavailable> | undefined

  constructor(account_id: number, limit: number) {
    this.account_id = account_id
    this.limit = limit
  }
}

/**
 * Allows or refuses a request without querying PostgreSQL. Returns undefined if what the process knows is too old, or
 * if the process holds no token although the bucket may have some.
 */
const decideLocally = (share: Share, limit: number, now: number): TokenBucketResult | undefined => {
  const age = now - share.syncedAt
  if (share.limit !== limit || age >= shareTtlMillis) return undefined
  const tokens = Math.min(limit, share.held + share.shared + age * limit / 60_000)
  if (share.held > 0 && tokens >= 1) {
    share.held -= 1
    share.spent += 1
    return { isAllowed: true, tokens: tokens - 1 }
  }
  // The refusal is reliable only until PostgreSQL refills the next token.
  const nextToken = (1 - share.shared) * 60_000 / limit
  if (share.shared >= 1 || age >= nextToken) return undefined
  return { isAllowed: false, tokens }
}

/**
 * Returns whether a share should be synchronized in the background before requests have to wait for it, because half of
 * its lifetime has passed or few of its tokens are left.
 */
const isRunningLow = ({ held, prefetch, shared, syncedAt }: Share, now: number) =>
  now - syncedAt >= shareTtlMillis / 2 || (shared >= 1 && held * 4 < prefetch)

/**
 * Returns a share's next request to PostgreSQL, and updates the share as if the request succeeded. At the current
 * request rate, a share should hold enough tokens for half a second. The request asks for missing tokens and returns
 * excess tokens.
 */
const makeTokenRequest = (share: Share, now: number): TokenBucketRequest => {
  const { account_id, limit, spent, syncedAt, waiting } = share
  const expected = Math.floor(spent * shareTtlMillis / Math.max(now - syncedAt, 10))
  const returned = Math.max(0, share.held - expected)
  share.held -= returned
  share.prefetch = expected - share.held
  return { account_id, limit, needed: waiting, prefetch: share.prefetch, returned }
}

const applyGrant = (share: Share, { granted, used }: TokenBucketGrant, now: number) => {
  share.held += granted
  share.shared = share.limit - used
  share.syncedAt = now
  share.spent = 0
}

/**
 * Builds functions that take tokens from accounts' buckets, which PostgreSQL stores. For each account that has sent
 * requests recently, this process has a share: tokens that it has taken from the bucket in advance. One background loop
 * (`worker`) synchronizes shares with PostgreSQL, many at a time: it requests missing tokens and returns excess ones.
 *
 * While PostgreSQL does not respond, `consume` fails immediately, so that the caller counts requests on its own.
 */
export const makeSharedTokenBuckets = Effect.gen(function* () {
  const timeouts = yield* TokenBucketStoreTimeouts
  const requestTokens = yield* makeTokenBucketRequester
  const getMillis = yield* makeMonotonicClock
  const shares = new Map<number, Share>()
  const queue = yield* Queue.unbounded<Share>()
  let unavailable: TokenStoreUnavailable | undefined
  /** Shares whose last synchronization failed. */
  let failed: ReadonlyArray<Share> = []

  /** Queues a share for the next synchronization, and returns what completes when that has ended. */
  const requestSync = (share: Share) => {
    if (share.nextSync !== undefined) return share.nextSync
    share.nextSync = Deferred.makeUnsafe<void, TokenStoreUnavailable>()
    Queue.offerUnsafe(queue, share)
    return share.nextSync
  }

  /** Tells the requests that wait for these shares that the synchronization has ended. */
  const completeSync = (batch: ReadonlyArray<Share>, outcome: Effect.Effect<void, TokenStoreUnavailable>) => {
    for (const share of batch) {
      const { nextSync } = share
      share.nextSync = undefined
      if (nextSync !== undefined) Deferred.doneUnsafe(nextSync, outcome)
    }
  }

  /**
   * Synchronizes the shares with PostgreSQL by one query. Retries once, because the connection may have been lost. The
   * retry does not return tokens, because the first attempt may already have returned them.
   */
  const sync = Effect.fnUntraced(function* (batch: ReadonlyArray<Share>) {
    const requests = batch.map((share) => makeTokenRequest(share, getMillis()))
    const grants = yield* requestTokens(requests).pipe(
      Effect.catch(() => requestTokens(requests.map((request) => ({ ...request, returned: 0 })))),
      Effect.timeout(timeouts.query),
    )
    const now = getMillis()
    const byAccount = new Map(grants.map((grant) => [grant.account_id, grant]))
    for (const share of batch) {
      const grant = byAccount.get(share.account_id)
      if (grant !== undefined) applyGrant(share, grant, now)
    }
  })

  const markAvailable = Effect.suspend(() => {
    if (unavailable === undefined) return Effect.void
    unavailable = undefined
    return Effect.logInfo("Rate limits are shared between processes again.")
  })

  const markUnavailable = Effect.fnUntraced(function* (message: string) {
    const isNew = unavailable === undefined
    const error = new TokenStoreUnavailable({ message })
    unavailable = error
    if (isNew) {
      yield* Effect.logWarning(
        `Rate limits cannot be shared between processes, so this process applies them on its own: ${message}`,
      )
    }
    return error
  })

  /** Synchronizes all waiting shares with one query. Runs in an endless loop. */
  const worker = Effect.gen(function* () {
    const batch = yield* Queue.takeBetween(queue, unavailable === undefined ? 1 : 0, maxAccountsPerQuery)
    // While PostgreSQL is unavailable, this loop also runs when no request is waiting, and always retries the shares
    // that failed. A statement for other accounts, or for none, could succeed although the failed statement would fail
    // again, for example because the disk is full.
    const attempted = [...batch, ...failed.filter((share) => !batch.includes(share))].slice(0, maxAccountsPerQuery)
    yield* sync(attempted).pipe(
      Effect.catchDefect(Effect.fail),
      Effect.matchEffect({
        onSuccess: () => {
          failed = []
          return Effect.andThen(markAvailable, Effect.sync(() => completeSync(batch, Effect.void)))
        },
        onFailure: Effect.fnUntraced(function* (error) {
          failed = attempted
          completeSync(batch, Effect.fail(yield* markUnavailable(describeFailure(error))))
          yield* Effect.sleep(retryInterval)
        }),
      }),
    )
  })

  /** Returns the tokens of idle accounts to their buckets in PostgreSQL. Deletes a share once it holds no tokens. */
  const releaseIdleShares = Effect.sync(() => {
    const now = getMillis()
    for (const share of shares.values()) {
      if (share.nextSync !== undefined || now - share.syncedAt < shareTtlMillis) continue
      if (share.held > 0 && unavailable === undefined) {
        share.spent = 0
        requestSync(share)
      } else shares.delete(share.account_id)
    }
  })

  const getShare = (account_id: number, limit: number) => {
    const existing = shares.get(account_id)
    if (existing !== undefined) return existing
    const share = new Share(account_id, limit)
    shares.set(account_id, share)
    return share
  }

  /**
   * Takes a token that this process holds for the account. Returns undefined if PostgreSQL has to be queried to allow
   * or refuse the request.
   */
  const consumeHeld = (account_id: number, limit: number) => {
    const now = getMillis()
    const share = getShare(account_id, limit)
    const result = decideLocally(share, limit, now)
    if (result?.isAllowed === true && isRunningLow(share, now)) requestSync(share)
    return result
  }

  /** Takes a token, and waits for PostgreSQL if necessary. Fails if PostgreSQL does not respond in time. */
  const consume = (account_id: number, limit: number): Effect.Effect<TokenBucketResult, TokenStoreUnavailable> =>
    Effect.suspend(() => {
      const result = consumeHeld(account_id, limit)
      if (result !== undefined) return Effect.succeed(result)
      const share = getShare(account_id, limit)
      share.limit = limit
      const nextSync = requestSync(share)
      if (unavailable !== undefined) return Effect.fail(unavailable)
      share.waiting += 1
      return Deferred.await(nextSync).pipe(
        Effect.timeoutOrElse({
          duration: timeouts.request,
          orElse: () => Effect.flip(markUnavailable("no answer in time")),
        }),
        Effect.ensuring(Effect.sync(() => share.waiting -= 1)),
        // The share now has tokens, or knows that the bucket is empty. If other requests were faster, waits again.
        Effect.andThen(consume(account_id, limit)),
      )
    })

  // This empty query opens the connection, so that the first request does not have to wait for it. A failure can be
  // ignored, because later queries reconnect.
  yield* Effect.ignore(Effect.timeout(requestTokens([]), "2 seconds"))
  yield* forkUntraced(Effect.forever(worker))
  yield* repeatInBackground(releaseIdleShares, Duration.millis(shareTtlMillis / 2))
  return { consume, consumeHeld, isUnavailable: () => unavailable !== undefined }
})

/** Identifies the account that sent a request by the request's API key (D2, API keys). */
import { Cache, Clock, Context, Duration, Effect, Exit, Layer, Option, Redacted } from "effect"
import { hash as computeHash } from "node:crypto"
import { repeatInBackground } from "../../postgres/metrics/BackgroundFibers.ts"
import { getMonotonicMillis } from "../../postgres/metrics/MonotonicTime.ts"
import type { ApiRequest } from "../../contract/rules/ApiRequest.ts"
import { InvalidApiKey, MissingApiKey } from "../../contract/AccountErrors.ts"
import { isWellFormedApiKey, makeApiKeyHasher } from "./ApiKeyFormat.ts"
import { canKeyUseAddress } from "./AllowedNetworks.ts"
import type { CurrentAccount } from "../../contract/Authentication.ts"
import { makeBruteForceGuard } from "./BruteForceGuard.ts"
import { apiKeyCacheTtlMillis, type ApiKeyLookupResult, makeApiKeyLookup, unknownApiKeyError } from "./KeyLookup.ts"

/** What `parseCredential` returns if a request has two or more different credentials. */
export const conflictingCredentials = Symbol.for("tickerline/accounts/Credential/conflicting")

const bearer = /^bearer(?: +(.*))?$/i

/**
 * Returns a request's API key, "" if there is none, or `conflictingCredentials`. An `Authorization` header with a
 * scheme other than Bearer is not treated as a key, but conflicts with one. Reads the raw headers, because Node.js
 * otherwise discards every `Authorization` header after the first.
 */
export const parseCredential = (rawHeaders: ReadonlyArray<string>): string | typeof conflictingCredentials => {
  let key = ""
  // The first credential found, which may be that of an `Authorization` header without a key.
  let first = ""
  // Raw headers alternate between names and values.
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? ""
    // Skip most other headers quickly: "X-API-Key" has 9 characters, and "Authorization" has 13.
    if (name.length !== 9 && name.length !== 13) continue
    const value = rawHeaders[index + 1]?.trim() ?? ""
    const header = name.toLowerCase()
    let sent = ""
    if (header === "x-api-key") {
      sent = value
      key ||= sent
    } else if (header === "authorization") {
      // `bearer` matches the scheme Bearer, followed by the key.
      const found = bearer.exec(value)
      sent = found === null ? value : found[1] ?? ""
      if (found !== null) key ||= sent
    }
    if (sent === "") continue
    if (first !== "" && sent !== first) return conflictingCredentials
    first = sent
  }
  return key
}

/** For how long after its last use a valid key is accepted even from a blocked address. */
const trustedKeyTtl = Duration.minutes(10)

const maxKeys = 10_000

/** Maximum number of networks in all cached keys combined. Each network takes about 500 bytes. */
const maxNetworks = 20_000

/** Returns whether a lookup ended with a 401 error, as opposed to an account or a database failure. */
const isRefused = (exit: Exit.Exit<unknown, { readonly _tag: string }>) =>
  Option.exists(Exit.findErrorOption(exit), ({ _tag }) => _tag === "InvalidApiKey" || _tag === "ApiKeyDisabled")

const missingKey = new MissingApiKey({
  error: { message: "No API key. Send it as `Authorization: Bearer <key>` or `X-API-Key: <key>`." },
})

const differentCredentials = new InvalidApiKey({
  error: {
    message: "The request has two different credentials. Send one API key, as `Authorization: Bearer <key>` or as " +
      "`X-API-Key: <key>`, and no other Authorization header.",
  },
})

/**
 * Caches the lookup results of recently used keys, keyed by the SHA-256 of the key, so that most requests need no
 * lookup. Expired entries are deleted even if no further requests arrive.
 */
export const makeRecentKeyCache = Effect.gen(function* () {
  const clock = yield* Clock.Clock
  const keys = new Map<string, ApiKeyLookupResult>()

  const isCurrent = ({ asOf }: ApiKeyLookupResult) => getMonotonicMillis(clock) - asOf < apiKeyCacheTtlMillis

  /** The number of allowed networks of all cached keys. A key may have many, so they limit the cache too. */
  let networkCount = 0
  const countNetworks = (key: ApiKeyLookupResult | undefined) => key?.account.networks?.size ?? 0
  const remove = (digest: string) => {
    networkCount -= countNetworks(keys.get(digest))
    keys.delete(digest)
  }

  const deleteExpired = Effect.sync(() => {
    for (const [digest, key] of keys) if (!isCurrent(key)) remove(digest)
  })
  yield* repeatInBackground(deleteExpired, Duration.millis(apiKeyCacheTtlMillis / 2))

  return {
    /** Returns the result of the key's last lookup. Returns undefined if there is none or if it has expired. */
    find: (key: string) => {
      if (key === "" || keys.size === 0) return undefined
      const found = keys.get(computeHash("sha256", key, "hex"))
      return found !== undefined && isCurrent(found) ? found : undefined
    },
    /** Stores the result of a lookup. `digest` is the key's SHA-256 in hexadecimal. */
    add: (digest: string, key: ApiKeyLookupResult) => {
      remove(digest)
      if (keys.size >= maxKeys || networkCount >= maxNetworks) {
        keys.clear()
        networkCount = 0
      }
      keys.set(digest, key)
      networkCount += countNetworks(key)
    },
    getSize: () => keys.size,
  }
})

/**
 * Returns whether the request must update the key's `last_used_at` in the database. A request from an address that the
 * key does not allow does not count as a use.
 */
const isUnrecordedUse = ({ account, isUseDue }: ApiKeyLookupResult, { address }: ApiRequest) =>
  isUseDue && canKeyUseAddress(account, address)

/**
 * Builds the function that identifies a request's account. Recently used keys are found in memory, all others in the
 * database.
 */
const makeAuthenticator = Effect.gen(function* () {
  const clock = yield* Clock.Clock
  const hash = yield* makeApiKeyHasher
  const guard = yield* makeBruteForceGuard()
  const recentKeys = yield* makeRecentKeyCache
  const { lookUp: lookUpDigest, recordUse } = yield* makeApiKeyLookup
  /** Key lookups in progress, and recent lookups that ended with a 401. Successful lookups are in `recentKeys`. */
  const lookups = yield* Cache.makeWith(lookUpDigest, {
    capacity: maxKeys,
    timeToLive: (exit) => isRefused(exit) ? Duration.millis(apiKeyCacheTtlMillis) : Duration.zero,
  })
  /**
   * Digests of keys that were valid recently. A trusted key is accepted even if another client with the same address,
   * such as one behind the same proxy, has caused that address to be blocked.
   */
  const trusted = yield* Cache.make({
    capacity: maxKeys,
    timeToLive: trustedKeyTtl,
    lookup: (_digest: string) => Effect.succeed(true),
  })

  /**
   * Looks up a key. Concurrent requests share one lookup. If a shared lookup began so long ago that its result has
   * expired, the lookup is repeated.
   */
  const lookUp = Effect.fnUntraced(function* (digest: string) {
    const oldest = getMonotonicMillis(clock) - apiKeyCacheTtlMillis
    const found = yield* Cache.get(lookups, digest)
    return found.asOf > oldest ? found : yield* Cache.get(lookups, digest)
  })

  /**
   * Identifies the account of a key that is not cached, or whose use must be recorded. Counts wrong keys for
   * `makeBruteForceGuard`.
   */
  const identify = Effect.fnUntraced(function* (key: Redacted.Redacted, request: ApiRequest) {
    const sender = yield* guard.findSender(request)
    if (!isWellFormedApiKey(key)) {
      yield* guard.countWrongKey(sender)
      return yield* unknownApiKeyError
    }
    const digest = yield* hash(key)
    const isTrusted = yield* Cache.has(trusted, digest)
    if (!isTrusted) yield* guard.requireUnblocked(sender)
    const found = yield* Effect.tapErrorTag(
      lookUp(digest),
      "InvalidApiKey",
      () => isTrusted ? Effect.void : guard.countWrongKey(sender),
    )
    yield* Cache.set(trusted, digest, true)
    const { account } = found
    const isUse = isUnrecordedUse(found, request)
    if (isUse) yield* recordUse(account.key_id, request.address)
    recentKeys.add(digest, isUse ? { ...found, isUseDue: false } : found)
    return account
  })

  type Identified = ReturnType<typeof identify>
  type Failure = Effect.Error<Identified> | MissingApiKey | InvalidApiKey

  /** Identifies a request's account. Returns an `Exit` if no lookup is necessary. */
  return (
    request: ApiRequest,
  ): Effect.Effect<typeof CurrentAccount.Service, Failure, Effect.Services<Identified>> => {
    const credential = parseCredential(request.rawHeaders)
    if (credential === "") return Exit.fail(missingKey)
    if (credential === conflictingCredentials) return Exit.fail(differentCredentials)
    const recent = recentKeys.find(credential)
    return recent === undefined || isUnrecordedUse(recent, request)
      ? identify(Redacted.make(credential), request)
      : Exit.succeed(recent.account)
  }
})

/** Identifies the account of a request's key, or fails with 401, 429 or 503. */
export class Authenticator extends Context.Service<Authenticator, {
  readonly authenticate: Effect.Success<typeof makeAuthenticator>
}>()("tickerline/accounts/Authenticator") {
  static readonly layer = Layer.effect(
    Authenticator,
    Effect.map(makeAuthenticator, (authenticate) => Authenticator.of({ authenticate })),
  )
}

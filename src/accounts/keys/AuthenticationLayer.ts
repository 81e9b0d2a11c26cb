/** D2 (API keys): the implementation of `AuthenticationMiddleware`, which finds the account of a request's key. */
import { Cache, Cause, Clock, Context, Duration, Effect, Exit, Layer, Option, Redacted } from "effect"
import { HttpServerRequest } from "effect/http"
import { getMonotonicMillis } from "../../observability/MonotonicTime.ts"
import { InvalidApiKey, MissingApiKey } from "../AccountErrors.ts"
import { isWellFormedApiKey, makeApiKeyHasher } from "./ApiKeyFormat.ts"
import { AuthenticationMiddleware, CurrentAccount } from "./Authentication.ts"
import { makeBruteForceGuard } from "./BruteForceGuard.ts"
import { conflictingCredentials, readRequestCredential } from "./Credentials.ts"
import { makeApiKeyLookup, unknownApiKeyError } from "./KeyLookup.ts"
import { ApiKeyCache, apiKeyCacheTtlMillis } from "./ApiKeyCache.ts"

/** How long a valid key is accepted even from a blocked address, counted from the last use of the key. */
const trustedKeyTtl = Duration.minutes(10)

const maxKeys = 10_000

/** Whether the result of a lookup may be cached: an account or a 401, but not a database failure. */
const isCacheable = (exit: Exit.Exit<unknown, { readonly _tag: string }>) =>
  Exit.match(exit, {
    onSuccess: () => true,
    onFailure: (cause) =>
      Option.match(Cause.findErrorOption(cause), {
        onNone: () => false,
        onSome: ({ _tag }) => _tag === "InvalidApiKey" || _tag === "ApiKeyDisabled",
      }),
  })

const missingKey = new MissingApiKey({
  error: { message: "No API key. Send it as `Authorization: Bearer <key>` or `X-API-Key: <key>`." },
})

const differentCredentials = new InvalidApiKey({
  error: {
    message: "The request has two different credentials. Send one API key, as `Authorization: Bearer <key>` or as " +
      "`X-API-Key: <key>`, and no other Authorization header.",
  },
})

const makeAuthenticator = Effect.gen(function* () {
  const clock = yield* Clock.Clock
  const hash = yield* makeApiKeyHasher
  const guard = yield* makeBruteForceGuard()
  const recentKeys = yield* ApiKeyCache
  const lookups = yield* Cache.makeWith(yield* makeApiKeyLookup, {
    capacity: maxKeys,
    timeToLive: (exit) => isCacheable(exit) ? Duration.millis(apiKeyCacheTtlMillis) : Duration.zero,
  })
  /** Digests of recently valid keys, which are accepted even if another client got the address blocked. */
  const trusted = yield* Cache.make({
    capacity: maxKeys,
    timeToLive: trustedKeyTtl,
    lookup: (_digest: string) => Effect.succeed(true),
  })

  /** Looks up a key. Concurrent requests share one lookup, which is repeated if its result is already too old. */
  const lookUp = Effect.fnUntraced(function* (digest: string) {
    const oldest = getMonotonicMillis(clock) - apiKeyCacheTtlMillis
    const found = yield* Cache.get(lookups, digest)
    if (found.asOf > oldest) return found
    yield* Cache.invalidateWhen(lookups, digest, ({ asOf }) => asOf <= oldest)
    return yield* Cache.get(lookups, digest)
  })

  const identify = Effect.fnUntraced(function* (key: Redacted.Redacted) {
    const sender = yield* guard.findSender
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
    recentKeys.add(digest, found)
    return found.account
  })

  type Identified = ReturnType<typeof identify>
  type Failure = Effect.Error<Identified> | MissingApiKey | InvalidApiKey

  return (
    request: HttpServerRequest.HttpServerRequest,
  ): Effect.Effect<typeof CurrentAccount.Service, Failure, Effect.Services<Identified>> => {
    const credential = readRequestCredential(request)
    if (credential === "") return Effect.fail(missingKey)
    if (credential === conflictingCredentials) return Effect.fail(differentCredentials)
    const recent = recentKeys.find(credential)
    return recent === undefined ? identify(Redacted.make(credential)) : Effect.succeed(recent)
  }
})

/** Finds the account of a request's key, or fails with 401, 429 or 503. */
export class Authenticator extends Context.Service<Authenticator, {
  readonly authenticate: Effect.Success<typeof makeAuthenticator>
}>()("tickerline/accounts/Authenticator") {
  static readonly layer = Layer.effect(
    Authenticator,
    Effect.map(makeAuthenticator, (authenticate) => Authenticator.of({ authenticate })),
  )
}

export const authenticationLayer = Layer.effect(
  AuthenticationMiddleware,
  Effect.gen(function* () {
    const { authenticate } = yield* Authenticator
    // Effect tries the two security schemes in turn, but the first attempt already reads both headers. If it fails, the
    // second attempt returns the stored error.
    const errors = new WeakMap<HttpServerRequest.HttpServerRequest, Effect.Error<ReturnType<typeof authenticate>>>()

    const check = Effect.fnUntraced(function* <A, E, R>(next: Effect.Effect<A, E, R>) {
      const request = yield* HttpServerRequest.HttpServerRequest
      const knownError = errors.get(request)
      if (knownError !== undefined) return yield* knownError
      const account = yield* Effect.tapError(
        authenticate(request),
        (error) => Effect.sync(() => errors.set(request, error)),
      )
      return yield* Effect.provideService(next, CurrentAccount, account)
    })

    return AuthenticationMiddleware.of({ bearer: (next) => check(next), apiKey: (next) => check(next) })
  }),
)

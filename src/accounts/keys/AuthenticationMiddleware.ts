/** D2: the server side of `Authentication`: a key becomes an account, or a 401. */
import { Cache, Cause, Clock, Duration, Effect, Exit, Layer, Option, Redacted } from "effect"
import { HttpServerRequest } from "effect/http"
import { Account, Authentication } from "./Authentication.ts"
import { conflictingCredentials, readRequestCredential } from "./Credentials.ts"
import { InvalidApiKey, MissingApiKey } from "../AccountErrors.ts"
import { isWellFormedApiKey, makeApiKeyHasher } from "./ApiKey.ts"
import { makeKeyLookup } from "./KeyLookup.ts"
import { getMonotonicMillis, keyTtlMillis, RecentKeys } from "../../http/RecentKeys.ts"

/** For so long a key that was right is asked for again although its address sends wrong ones. */
const trusted = Duration.minutes(10)

/** What the table said; that it could not be asked is not remembered. */
const isAnswer = (found: Exit.Exit<unknown, { readonly _tag: string }>) =>
  Exit.match(found, {
    onSuccess: () => true,
    onFailure: (cause) =>
      Option.match(Cause.findErrorOption(cause), {
        onNone: () => false,
        onSome: ({ _tag }) => _tag === "InvalidApiKey" || _tag === "ApiKeyDisabled",
      }),
  })

const missing = new MissingApiKey({
  error: { message: "No API key. Send it as `Authorization: Bearer <key>` or `X-API-Key: <key>`." },
})

const ambiguous = new InvalidApiKey({
  error: {
    message: "The request has two different credentials. Send one API key, as `Authorization: Bearer <key>` or as " +
      "`X-API-Key: <key>`, and no other Authorization header.",
  },
})

const make = Effect.gen(function* () {
  const clock = yield* Clock.Clock
  const hash = yield* makeApiKeyHasher
  const { again, first, mistyped } = yield* makeKeyLookup
  const recent = yield* RecentKeys
  const accounts = yield* Cache.makeWith(again, {
    capacity: 10_000,
    timeToLive: (exit) => isAnswer(exit) ? Duration.millis(keyTtlMillis) : Duration.zero,
  })
  /** Digests of keys that the table had: their owners shall not suffer from what their address is used for. */
  const had = yield* Cache.make({
    capacity: 10_000,
    timeToLive: trusted,
    lookup: (_digest: string) => Effect.succeed(true),
  })

  /** Requests share a look-up; one that was under way for long says nothing of those that came meanwhile. */
  const looked = Effect.fnUntraced(function* (digest: string) {
    const since = getMonotonicMillis(clock) - keyTtlMillis
    const known = yield* Cache.get(accounts, digest)
    if (known.asOf > since) return known
    yield* Cache.invalidateWhen(accounts, digest, ({ asOf }) => asOf <= since)
    return yield* Cache.get(accounts, digest)
  })

  const identify = Effect.fnUntraced(function* (key: Redacted.Redacted) {
    if (!isWellFormedApiKey(key)) return yield* mistyped
    const digest = yield* hash(key)
    const isKnown = Cache.set(had, digest, true)
    if (!(yield* Cache.has(had, digest))) {
      const known = yield* first(digest, isKnown)
      yield* Cache.set(accounts, digest, known)
      recent.note(digest, known)
      return known.account
    }
    const known = yield* looked(digest)
    yield* isKnown
    recent.note(digest, known)
    return known.account
  })

  return Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
    const credential = readRequestCredential(request)
    if (credential === "") return yield* missing
    if (credential === conflictingCredentials) return yield* ambiguous
    return yield* identify(Redacted.make(credential))
  })
})

export const authenticationLayer = Layer.effect(
  Authentication,
  Effect.gen(function* () {
    const admit = yield* make
    // Effect tries both schemes in turn; the first one has read both headers, so the second repeats its refusal.
    const refusals = new WeakMap<HttpServerRequest.HttpServerRequest, Effect.Error<ReturnType<typeof admit>>>()

    const check = Effect.fnUntraced(function* <A, E, R>(served: Effect.Effect<A, E, R>) {
      const request = yield* HttpServerRequest.HttpServerRequest
      const refusal = refusals.get(request)
      if (refusal !== undefined) return yield* refusal
      const account = yield* Effect.tapError(admit(request), (error) => Effect.sync(() => refusals.set(request, error)))
      return yield* Effect.provideService(served, Account, account)
    })

    return Authentication.of({ bearer: (served) => check(served), apiKey: (served) => check(served) })
  }),
)

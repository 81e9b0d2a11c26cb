/** D2: the server side of `Authentication`: a key becomes an account, or a 401. */
import { Cache, Cause, Duration, Effect, Exit, Layer, Option, Redacted } from "effect"
import { HttpServerRequest } from "effect/http"
import { Exchange } from "../policy/Exchange.ts"
import { Account, Authentication } from "./Authentication.ts"
import { MissingApiKey } from "./Errors.ts"
import { hasher, isWellFormed } from "./Key.ts"
import { lookups } from "./KeyLookup.ts"
import { believed, RecentKeys } from "./RecentKeys.ts"

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

const make = Effect.gen(function* () {
  const hash = yield* hasher
  const { again, first, mistyped } = yield* lookups
  const recent = yield* RecentKeys
  const accounts = yield* Cache.makeWith(again, {
    capacity: 10_000,
    timeToLive: (exit) => isAnswer(exit) ? Duration.millis(believed) : Duration.zero,
  })
  /** Digests of keys that the table had: their owners shall not suffer from what their address is used for. */
  const had = yield* Cache.make({
    capacity: 10_000,
    timeToLive: trusted,
    lookup: (_digest: string) => Effect.succeed(true),
  })

  /** Requests share a look-up; one that was under way for long says nothing of those that came meanwhile. */
  const looked = Effect.fnUntraced(function* (digest: string) {
    const since = performance.now() - believed
    const known = yield* Cache.get(accounts, digest)
    if (known.asOf > since) return known
    yield* Cache.invalidateWhen(accounts, digest, ({ asOf }) => asOf <= since)
    return yield* Cache.get(accounts, digest)
  })

  const identify = Effect.fnUntraced(function* (key: Redacted.Redacted) {
    if (!isWellFormed(key)) return yield* mistyped
    const digest = yield* hash(key)
    const isKnown = Cache.set(had, digest, true)
    if (!(yield* Cache.has(had, digest))) {
      const known = yield* first(digest, isKnown)
      yield* Cache.set(accounts, digest, known)
      recent.note(Redacted.value(key), known)
      return known.account
    }
    const known = yield* looked(digest)
    yield* isKnown
    recent.note(Redacted.value(key), known)
    return known.account
  })

  return Effect.fnUntraced(function* (key: Redacted.Redacted) {
    if (Redacted.value(key) === "") return yield* missing
    const account = yield* identify(key)
    // What a wrong key beside it was told.
    yield* Effect.map(Exchange, ({ headers }) => Reflect.deleteProperty(headers, "Retry-After"))
    return account
  })
})

export const layer = Layer.effect(
  Authentication,
  Effect.gen(function* () {
    const admit = yield* make
    // Where both schemes fail the last one answers; without a key of its own it repeats what the first one found.
    const refusals = new WeakMap<HttpServerRequest.HttpServerRequest, Effect.Error<ReturnType<typeof admit>>>()

    return Authentication.of({
      bearer: (served, { credential }) =>
        Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
          admit(credential).pipe(
            Effect.tapError((refusal) => Effect.sync(() => refusals.set(request, refusal))),
            Effect.flatMap((account) => Effect.provideService(served, Account, account)),
          )),
      apiKey: (served, { credential }) =>
        Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
          const refusal = Redacted.value(credential) === "" ? refusals.get(request) : undefined
          return (refusal === undefined ? admit(credential) : Effect.fail(refusal)).pipe(
            Effect.flatMap((account) => Effect.provideService(served, Account, account)),
          )
        }),
    })
  }),
)

/** D2: the server side of `Authentication`: a key becomes an account, or a 401. */
import { Cache, Cause, Duration, Effect, Exit, FiberSet, Layer, Option, Redacted, Schema } from "effect"
import { HttpServerRequest } from "effect/http"
import { SqlClient, SqlSchema } from "effect/sql"
import { Database } from "../db/Database.ts"
import { Tier } from "../policy/Access.ts"
import { Exchange } from "../policy/Exchange.ts"
import { Account, Authentication } from "./Authentication.ts"
import { ApiKeyDisabled, InvalidApiKey, MissingApiKey } from "./Errors.ts"
import { hasher, isWellFormed } from "./Key.ts"
import { believed, RecentKeys } from "./RecentKeys.ts"
import * as WrongKeys from "./WrongKeys.ts"

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

const Found = Schema.Struct({
  account_id: Schema.BigInt,
  tier: Tier,
  balance_microdollars: Schema.NullOr(Schema.BigInt),
  key_id: Schema.BigInt,
  endpoints: Schema.NullOr(Schema.Array(Schema.String)),
  usable: Schema.Boolean,
  use_is_news: Schema.Boolean,
})

const missing = new MissingApiKey({
  error: { message: "No API key. Send it as `Authorization: Bearer <key>` or `X-API-Key: <key>`." },
})
const unknown = new InvalidApiKey({ error: { message: "The API key is not known. Check that it was copied whole." } })
const disabled = new ApiKeyDisabled({
  error: { message: "The API key was revoked or disabled, or has expired. Use another one." },
})

/** What the tables say of a key, by its digest: a look-up takes the same way, and tells nothing by its time. */
const lookup = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { read } = yield* Database
  const background = yield* FiberSet.make()

  const find = SqlSchema.findOneOption({
    Request: Schema.String,
    Result: Found,
    execute: (digest) =>
      sql`
        select account_id, tier, balance_microdollars, key_id, endpoints,
          revoked_at is null and disabled_at is null and (expires_at is null or expires_at > now()) as usable,
          last_used_at is null or last_used_at <= now() - interval '1 minute' as use_is_news
        from api_keys join accounts using (account_id)
        where key_hash = decode(${digest}, 'hex')
      `,
  })

  /** §2.5: at most once a minute, also when several instances see the key at once; never in a request's way. */
  const noteUse = (key_id: bigint) =>
    sql`
      update api_keys set last_used_at = now()
      where key_id = ${key_id} and (last_used_at is null or last_used_at <= now() - interval '1 minute')
    `.pipe(
      Effect.catch((error) => Effect.logWarning("last_used_at was not updated", error)),
      FiberSet.run(background),
    )

  return Effect.fnUntraced(function* (digest: string) {
    const asOf = performance.now()
    const found = yield* read(find(digest))
    if (found._tag === "None") return yield* unknown
    const { account_id, balance_microdollars: balance, endpoints, key_id, tier, usable, use_is_news } = found.value
    if (!usable) return yield* disabled
    if (use_is_news) yield* noteUse(key_id)
    const balance_microdollars = balance === null ? null : Number(balance)
    const account = Account.of({
      account_id: Number(account_id),
      key_id: Number(key_id),
      tier,
      endpoints,
      balance_microdollars,
    })
    return { account, asOf }
  })
})

const make = Effect.gen(function* () {
  const hash = yield* hasher
  const wrongKeys = yield* WrongKeys.make
  const recent = yield* RecentKeys
  const accounts = yield* Cache.makeWith(yield* lookup, {
    capacity: 10_000,
    timeToLive: (found) => isAnswer(found) ? Duration.millis(believed) : Duration.zero,
  })
  /** Digests of keys that were right: their owners shall not suffer from what their address is used for. */
  const right = yield* Cache.make({
    capacity: 10_000,
    timeToLive: trusted,
    lookup: (_digest: string) => Effect.succeed(true),
  })

  const identify = Effect.fnUntraced(function* (key: Redacted.Redacted) {
    if (!isWellFormed(key)) return yield* Effect.andThen(wrongKeys.check, unknown)
    const digest = yield* hash(key)
    if (!(yield* Cache.has(right, digest))) yield* wrongKeys.check
    const known = yield* Cache.get(accounts, digest)
    yield* Cache.set(right, digest, true)
    recent.note(Redacted.value(key), known)
    return known.account
  })

  return Effect.fnUntraced(function* (key: Redacted.Redacted) {
    if (Redacted.value(key) === "") return yield* missing
    const account = yield* Effect.tapErrorTag(identify(key), "InvalidApiKey", () => wrongKeys.note)
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

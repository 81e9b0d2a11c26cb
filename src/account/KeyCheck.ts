/** D2, D3: the server side of `Authentication`: a key becomes an account, or a 401 or 403. */
import { Cache, Cause, Context, Duration, Effect, Exit, FiberSet, Layer, Option, Redacted, Schema } from "effect"
import { HttpServerRequest } from "effect/http"
import { SqlClient, SqlSchema } from "effect/sql"
import { Database } from "../db/Database.ts"
import { includes, RequiredTier, Tier } from "../policy/Access.ts"
import { ApiKeyDisabled, InsufficientTier, InvalidApiKey, MissingApiKey } from "../policy/Errors.ts"
import { Account, Authentication } from "./Authentication.ts"
import { hasher, isWellFormed } from "./Key.ts"

/** A revocation is seen within a second, by every instance: what the table said is believed for half of one. */
const believed = Duration.millis(500)

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
  name: Schema.String,
  tier: Tier,
  key_id: Schema.BigInt,
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

const insufficient = (required_tier: Tier, tier: Tier) =>
  new InsufficientTier({
    error: {
      message: `This endpoint needs the tier ${required_tier}; the account has ${tier}.`,
      details: { required_tier, tier },
    },
  })

const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { read } = yield* Database
  const hash = yield* hasher
  const background = yield* FiberSet.make()

  const find = SqlSchema.findOneOption({
    Request: Schema.String,
    Result: Found,
    execute: (digest) =>
      sql`
        select account_id, name, tier, key_id,
          disabled_at is null and (expires_at is null or expires_at > now()) as usable,
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

  const lookup = Effect.fnUntraced(function* (digest: string) {
    const found = yield* read(find(digest))
    if (found._tag === "None") return yield* unknown
    const { account_id, key_id, name, tier, usable, use_is_news } = found.value
    if (!usable) return yield* disabled
    if (use_is_news) yield* noteUse(key_id)
    return Account.of({ account_id: Number(account_id), key_id: Number(key_id), name, tier })
  })
  // Looked up by its digest, so that the time a look-up takes tells nothing about the key.
  const accounts = yield* Cache.makeWith(lookup, {
    capacity: 10_000,
    timeToLive: (found) => isAnswer(found) ? believed : Duration.zero,
  })

  const identify = Effect.fnUntraced(function* (key: Redacted.Redacted) {
    if (Redacted.value(key) === "") return yield* missing
    if (!isWellFormed(key)) return yield* unknown
    return yield* Cache.get(accounts, yield* hash(key))
  })

  return Effect.fnUntraced(function* (key: Redacted.Redacted, annotations: Context.Context<never>) {
    const account = yield* identify(key)
    const required = Context.get(annotations, RequiredTier)
    if (!includes(account.tier, required)) return yield* insufficient(required, account.tier)
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
      bearer: (served, { credential, endpoint }) =>
        Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
          admit(credential, endpoint.annotations).pipe(
            Effect.tapError((refusal) => Effect.sync(() => refusals.set(request, refusal))),
            Effect.flatMap((account) => Effect.provideService(served, Account, account)),
          )),
      apiKey: (served, { credential, endpoint }) =>
        Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
          const refusal = Redacted.value(credential) === "" ? refusals.get(request) : undefined
          return (refusal === undefined ? admit(credential, endpoint.annotations) : Effect.fail(refusal)).pipe(
            Effect.flatMap((account) => Effect.provideService(served, Account, account)),
          )
        }),
    })
  }),
)

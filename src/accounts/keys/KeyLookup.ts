/** D2: what the tables say of a key, and of the address that sent one that nobody here has heard of. */
import { Clock, Effect, FiberSet, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Database, type ReadFailure } from "../../db/Database.ts"
import { Tier } from "../../rules/EndpointAnnotations.ts"
import { Account } from "./Authentication.ts"
import { ApiKeyDisabled, InvalidApiKey } from "../AccountErrors.ts"
import { getMonotonicMillis } from "../../http/RecentKeys.ts"
import * as WrongKeys from "./BruteForceGuard.ts"

const Found = Schema.Struct({
  account_id: Schema.BigInt,
  tier: Tier,
  balance_microdollars: Schema.NullOr(Schema.BigInt),
  key_id: Schema.BigInt,
  endpoints: Schema.NullOr(Schema.Array(Schema.String)),
  usable: Schema.Boolean,
  use_is_news: Schema.Boolean,
})

const unknown = new InvalidApiKey({ error: { message: "The API key is not known. Check that it was copied whole." } })
const disabled = new ApiKeyDisabled({
  error: { message: "The API key was revoked or disabled, or has expired. Use another one." },
})

/** What is read of a key, by its digest. */
const found = (sql: SqlClient.SqlClient, digest: string) =>
  sql`
    select account_id, tier, balance_microdollars, key_id, endpoints,
      revoked_at is null and disabled_at is null and (expires_at is null or expires_at > now()) as usable,
      last_used_at is null or last_used_at <= now() - interval '1 minute' as use_is_news
    from api_keys join accounts using (account_id)
    where key_hash = decode(${digest}, 'hex')
  `

/** What the tables say of a key: a look-up takes the same way, and tells nothing by its time. */
export const makeKeyLookup = Effect.gen(function* () {
  const clock = yield* Clock.Clock
  const sql = yield* SqlClient.SqlClient
  const database = yield* Database
  // Requests with one key share its look-up, whichever endpoint the first of them is for.
  const read = <A, R>(query: Effect.Effect<A, ReadFailure, R>) => database.read(query, WrongKeys.keyLookupPartition)
  const wrongKeys = yield* WrongKeys.makeBruteForceGuard
  const background = yield* FiberSet.make()

  const find = SqlSchema.findOneOption({
    Request: Schema.String,
    Result: Found,
    execute: (digest) => found(sql, digest),
  })

  /** The same for a key that nobody here has heard of: it may be a guess. */
  const guess = SqlSchema.findOne({
    Request: Schema.Struct({ digest: Schema.String, network: Schema.String }),
    Result: Schema.Union([Schema.Struct({ ...Found.fields, ...WrongKeys.Tally.fields }), WrongKeys.Tally]),
    execute: ({ digest, network }) =>
      sql`
        with found as materialized (${found(sql, digest)}),
          ${wrongKeys.guess(network, sql`select not exists (select from found)`)}
        select tally.*, found.* from tally left join found on tally.wrong is not null
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

  const accountOf = Effect.fnUntraced(function* (row: typeof Found.Type, asOf: number) {
    const { account_id, balance_microdollars: balance, endpoints, key_id, tier, usable, use_is_news } = row
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

  /** A key that is known, or was until just now. */
  const again = Effect.fnUntraced(function* (digest: string) {
    const asOf = getMonotonicMillis(clock)
    const row = yield* read(find(digest))
    return yield* Option.isNone(row) ? unknown : accountOf(row.value, asOf)
  })

  let said = false
  /** Reads go on where nothing can be written; then guesses are counted here. */
  const guessAlone = Effect.fnUntraced(function* (digest: string, { message }: { readonly message: string }) {
    if (!said) yield* Effect.logWarning(`Wrong keys are not counted for all processes, but here: ${message}`)
    said = true
    const tally = { wrong: 0, ends_in: 0 }
    const row = yield* find(digest)
    if (Option.isSome(row)) return { ...row.value, ...tally }
    yield* wrongKeys.noteAlone
    return tally
  })

  /** A key of which this process knows nothing; whether the table has it is `isKnown`. */
  const first = Effect.fnUntraced(function* (digest: string, isKnown: Effect.Effect<void>) {
    yield* wrongKeys.check
    const asOf = getMonotonicMillis(clock)
    const network = yield* wrongKeys.network
    const asked = Effect.catchTag(guess({ digest, network }), "NoSuchElementError", Effect.die)
    const row = yield* read(Effect.catchIf(asked, WrongKeys.isUnwritable, (error) => guessAlone(digest, error)))
    yield* wrongKeys.heard(row)
    if (!("account_id" in row)) return yield* unknown
    yield* isKnown
    return yield* accountOf(row, asOf)
  })

  return { again, first, mistyped: Effect.andThen(wrongKeys.note, unknown) }
})

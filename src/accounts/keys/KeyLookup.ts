/** D2 (API keys): reads a key and its account from the database, by the key's digest. */
import { Clock, Effect, FiberSet, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Database } from "../../db/Database.ts"
import { getMonotonicMillis } from "../../observability/MonotonicTime.ts"
import { Tier } from "../../rules/EndpointAnnotations.ts"
import { ApiKeyDisabled, InvalidApiKey } from "../AccountErrors.ts"
import { CurrentAccount } from "./Authentication.ts"
import type { CachedApiKey } from "./ApiKeyCache.ts"

const KeyRow = Schema.Struct({
  account_id: Schema.BigInt,
  tier: Tier,
  balance_microdollars: Schema.NullOr(Schema.BigInt),
  key_id: Schema.BigInt,
  endpoints: Schema.NullOr(Schema.Array(Schema.String)),
  is_usable: Schema.Boolean,
  /** Whether `last_used_at` must be updated: it is null or older than a minute. */
  is_use_due: Schema.Boolean,
})

export const unknownApiKeyError = new InvalidApiKey({
  error: { message: "The API key is unknown. Check that it was copied completely." },
})

const disabledKey = new ApiKeyDisabled({
  error: { message: "The API key was revoked or disabled, or has expired. Use another one." },
})

/** Key lookups have their own partition of the connection pool, because requests to several endpoints share them. */
const poolPartition = "keys"

export const makeApiKeyLookup = Effect.gen(function* () {
  const clock = yield* Clock.Clock
  const sql = yield* SqlClient.SqlClient
  const database = yield* Database
  const background = yield* FiberSet.make()

  const findRow = SqlSchema.findOneOption({
    Request: Schema.String,
    Result: KeyRow,
    execute: (digest) =>
      sql`
        select account_id, tier, balance_microdollars, key_id, endpoints,
          revoked_at is null and disabled_at is null and (expires_at is null or expires_at > now()) as is_usable,
          last_used_at is null or last_used_at <= now() - interval '1 minute' as is_use_due
        from api_keys join accounts using (account_id)
        where key_hash = decode(${digest}, 'hex')
      `,
  })

  /** Updates `last_used_at` in the background, at most once a minute across all processes (§2.5, account). */
  const recordUse = (key_id: bigint) =>
    sql`
      update api_keys set last_used_at = now()
      where key_id = ${key_id} and (last_used_at is null or last_used_at <= now() - interval '1 minute')
    `.pipe(
      Effect.catch((error) => Effect.logWarning("last_used_at was not updated", error)),
      FiberSet.run(background),
    )

  /** Finds an account by the hexadecimal SHA-256 of a key. Fails with a 401, or with a 503 if the database fails. */
  return Effect.fnUntraced(function* (digest: string) {
    const asOf = getMonotonicMillis(clock)
    const row = yield* database.read(findRow(digest), poolPartition)
    if (Option.isNone(row)) return yield* unknownApiKeyError
    const { account_id, balance_microdollars, endpoints, is_usable, is_use_due, key_id, tier } = row.value
    if (!is_usable) return yield* disabledKey
    if (is_use_due) yield* recordUse(key_id)
    const account = CurrentAccount.of({
      account_id: Number(account_id),
      key_id: Number(key_id),
      tier,
      endpoints,
      balance_microdollars: balance_microdollars === null ? null : Number(balance_microdollars),
    })
    return { account, asOf } satisfies CachedApiKey
  })
})

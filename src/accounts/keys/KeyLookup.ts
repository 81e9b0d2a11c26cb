/** D2 (API keys): reads keys and their accounts from the database. */
import { Clock, Effect, FiberSet, Schema } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { makeArrayParameter, OID } from "../../db/CompiledStatement.ts"
import { Reader } from "../../db/Reader.ts"
import { decodeRows } from "../../db/DecodeRows.ts"
import { getMonotonicMillis } from "../../observability/MonotonicTime.ts"
import { Tier } from "../../rules/EndpointAnnotations.ts"
import { PrepaidBalances } from "../billing/PrepaidBalances.ts"
import { ApiKeyDisabled, InvalidApiKey } from "../AccountErrors.ts"
import { CurrentAccount } from "./Authentication.ts"

/** How long the result of a lookup may be reused, ms. A revoked key must be refused within a second (D2, API keys). */
export const apiKeyCacheTtlMillis = 500

/** The result of a key lookup. */
export interface ApiKeyLookupResult {
  readonly account: typeof CurrentAccount.Service
  /** Start of the lookup (monotonic clock, ms). */
  readonly asOf: number
}

const KeyRow = Schema.Struct({
  account_id: Schema.BigInt,
  tier: Tier,
  balance_microdollars: Schema.NullOr(Schema.BigInt),
  reserved_microdollars: Schema.BigInt,
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

/** Partition of the connection pool that only key lookups use, so that reads of a locked table do not delay them. */
const poolPartition = "keys"

/** Returns the account in the row of a usable key. */
const toAccount = ({ account_id, balance_microdollars, endpoints, key_id, tier }: typeof KeyRow.Type) =>
  CurrentAccount.of({
    account_id: Number(account_id),
    key_id: Number(key_id),
    tier,
    endpoints,
    balance_microdollars: balance_microdollars === null ? null : Number(balance_microdollars),
  })

const makeKeyReader = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const reader = yield* Reader
  const clock = yield* Clock.Clock
  const balances = yield* PrepaidBalances
  const background = yield* FiberSet.make()

  /** Updates `last_used_at` in the background, at most once a minute across all processes (§2.5, account). */
  const recordUse = (key_id: bigint) =>
    sql`
      update api_keys set last_used_at = now()
      where key_id = ${key_id} and (last_used_at is null or last_used_at <= now() - interval '1 minute')
    `.pipe(
      Effect.catch((error) => Effect.logWarning("last_used_at was not updated", error)),
      FiberSet.run(background),
    )

  const updateBalance = (row: typeof KeyRow.Type, asOf: number) => {
    if (row.balance_microdollars === null) return
    const [balance, reserved] = [Number(row.balance_microdollars), Number(row.reserved_microdollars)]
    balances.update(Number(row.account_id), { balance, reserved }, asOf)
  }

  /** Reads the keys that meet the condition. Updates balances, and `last_used_at` of the usable keys if it is due. */
  return Effect.fnUntraced(function* (condition: Statement.Fragment) {
    const asOf = getMonotonicMillis(clock)
    const rows = yield* decodeRows(KeyRow)(reader.query(
      sql`
        select account_id, tier, balance_microdollars, key_id, endpoints,
          case when balance_microdollars is null then 0 else (
            select coalesce(sum(amount_microdollars), 0) from balance_reservations
            where balance_reservations.account_id = accounts.account_id and balance_reservations.expires_at > now()
          ) end::bigint as reserved_microdollars,
          revoked_at is null and disabled_at is null and (expires_at is null or expires_at > now()) as is_usable,
          last_used_at is null or last_used_at <= now() - interval '1 minute' as is_use_due
        from api_keys join accounts using (account_id)
        where ${condition}
      `,
      poolPartition,
    ))
    for (const row of rows) updateBalance(row, asOf)
    yield* Effect.forEach(
      rows.filter(({ is_usable, is_use_due }) => is_usable && is_use_due),
      ({ key_id }) => recordUse(key_id),
      { discard: true },
    )
    return rows
  })
})

export const makeApiKeyLookup = Effect.gen(function* () {
  const clock = yield* Clock.Clock
  const sql = yield* SqlClient.SqlClient
  const readKeys = yield* makeKeyReader

  /** Finds the account of a key by the hexadecimal SHA-256. Fails with 401 if the key is unknown or unusable. */
  return Effect.fnUntraced(function* (digest: string) {
    const asOf = getMonotonicMillis(clock)
    const [row] = yield* readKeys(sql`key_hash = decode(${digest}, 'hex')`)
    if (row === undefined) return yield* unknownApiKeyError
    if (!row.is_usable) return yield* disabledKey
    return { account: toAccount(row), asOf } satisfies ApiKeyLookupResult
  })
})

/** Makes the function that reads the accounts of the keys of open streams. The result omits unusable keys. */
export const makeAccountsByKeyReader = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const readKeys = yield* makeKeyReader
  return Effect.fnUntraced(function* (keyIds: ReadonlyArray<number>) {
    const rows = yield* readKeys(sql`key_id = any(${makeArrayParameter(keyIds, OID.float8)}::bigint[])`)
    return new Map(rows.filter(({ is_usable }) => is_usable).map((row) => [Number(row.key_id), toAccount(row)]))
  })
})

/** Reads keys and their accounts from the database (D2, API keys). */
import { Clock, Effect, FiberSet, Schema } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { makeArrayParameter, OID } from "../../postgres/CompiledStatement.ts"
import { DatabaseReader } from "../../postgres/DatabaseReader.ts"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import { describeFailure } from "../../postgres/FailureText.ts"
import { getMonotonicMillis } from "../../postgres/metrics/MonotonicTime.ts"
import { Tier } from "../../contract/rules/EndpointAnnotations.ts"
import { toCanonicalAddress } from "../../contract/rules/IpNetworks.ts"
import { PrepaidBalances } from "../billing/PrepaidBalances.ts"
import { ApiKeyDisabled, InvalidApiKey } from "../../contract/AccountErrors.ts"
import { makeNetworkCompiler } from "./AllowedNetworks.ts"
import { CurrentAccount } from "../../contract/Authentication.ts"

/**
 * How long the result of a lookup may be reused, in milliseconds. A revoked key must be refused within a second (D2,
 * API keys).
 */
export const apiKeyCacheTtlMillis = 500

/** The result of a key lookup. */
export interface ApiKeyLookupResult {
  readonly account: typeof CurrentAccount.Service
  /**
   * Whether the database's `last_used_at` of the key is due for an update, and no request has triggered that update
   * yet.
   */
  readonly isUseDue: boolean
  /** When the lookup began (monotonic clock, ms). */
  readonly asOf: number
}

const KeyRow = Schema.Struct({
  account_id: Schema.BigInt,
  tier: Tier,
  spendable_microdollars: Schema.NullOr(Schema.BigInt),
  is_limited_by_budget: Schema.Boolean,
  reserved_microdollars: Schema.BigInt,
  usage_written: Schema.NullOr(Schema.Int),
  key_id: Schema.BigInt,
  endpoints: Schema.NullOr(Schema.Array(Schema.String)),
  networks: Schema.NullOr(Schema.Array(Schema.String)),
  is_usable: Schema.Boolean,
  /** Whether `last_used_at` is due for an update: it is null or at least a minute old. */
  is_use_due: Schema.Boolean,
})

/** The error for an unknown key. */
export const unknownApiKeyError = new InvalidApiKey({
  error: { message: "The API key is unknown. Check that it was copied completely." },
})

const disabledKey = new ApiKeyDisabled({
  error: { message: "The API key was revoked or disabled, or has expired. Use another one." },
})

/** The connection pool partition reserved for key lookups, so that they never queue behind reads of a locked table. */
const poolPartition = "keys"

/**
 * Builds functions that read keys from the database (`readKeys`), convert a key's row to the account that it gives
 * access to (`toAccount`), and record the use of a key (`recordUse`).
 */
const makeKeyReader = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const reader = yield* DatabaseReader
  const balances = yield* PrepaidBalances
  const background = yield* FiberSet.make()
  const compileNetworks = makeNetworkCompiler()
  /** Ids of the keys for which an update of `last_used_at` is in progress. */
  const recording = new Set<number>()

  /** Returns the account described by a usable key's row. */
  const toAccount = (row: typeof KeyRow.Type) => {
    const { account_id, endpoints, is_limited_by_budget, key_id, networks, spendable_microdollars, tier } = row
    return CurrentAccount.of({
      account_id: Number(account_id),
      key_id: Number(key_id),
      tier,
      endpoints,
      networks: networks === null ? null : compileNetworks(networks),
      spendable_microdollars: spendable_microdollars === null ? null : Number(spendable_microdollars),
      is_limited_by_budget,
    })
  }

  /**
   * Records that a key was used, in the background. Updates `last_used_at` at most once a minute across all processes
   * (§2.5, account), together with the client's address if it is known.
   */
  const recordUse = Effect.fnUntraced(function* (key_id: number, address: string | undefined) {
    if (recording.has(key_id)) return
    recording.add(key_id)
    const canonical = address === undefined ? null : toCanonicalAddress(address) ?? null
    yield* sql`
      update api_keys set last_used_at = now(),
        last_used_address = coalesce(${canonical}::text::inet, last_used_address)
      where key_id = ${key_id} and (last_used_at is null or last_used_at <= now() - interval '1 minute')
    `.pipe(
      Effect.catch((error) => Effect.logWarning(`The last use of a key was not recorded: ${describeFailure(error)}`)),
      Effect.ensuring(Effect.sync(() => recording.delete(key_id))),
      FiberSet.run(background),
    )
  })

  /**
   * Reads the rows of the keys that match the SQL condition, and stores in `PrepaidBalances` what each key's account
   * can still spend. `spendable_microdollars` is null for an account without a spending limit.
   *
   * `beginRead` must be called before the statement. `writtenSql` selects what the database has recorded of this
   * process's usage, so that `store` does not subtract the same costs twice: in the database and in memory.
   */
  const readKeys = Effect.fnUntraced(function* (condition: Statement.Fragment) {
    const { store, writtenSql } = balances.beginRead()
    const rows = yield* decodeRows(KeyRow)(reader.query(
      sql`
        select account_id, tier, key_id, endpoints, networks::text[] as networks,
          spendable_microdollars(accounts) as spendable_microdollars,
          budget_stops and spendable_microdollars(accounts) is distinct from current_balance(accounts)
            as is_limited_by_budget,
          case when balance_microdollars is null and not budget_stops then 0 else (
            select coalesce(sum(amount_microdollars), 0) from balance_reservations
            where balance_reservations.account_id = accounts.account_id and balance_reservations.expires_at > now()
          ) end::bigint as reserved_microdollars,
          ${writtenSql} as usage_written,
          revoked_at is null and disabled_at is null and (expires_at is null or expires_at > now()) as is_usable,
          last_used_at is null or last_used_at <= now() - interval '1 minute' as is_use_due
        from api_keys join accounts using (account_id)
        where ${condition}
      `,
      poolPartition,
    ))
    for (const { account_id, reserved_microdollars, spendable_microdollars, usage_written } of rows) {
      const balance = spendable_microdollars === null ? Infinity : Number(spendable_microdollars)
      store(Number(account_id), { balance, reserved: Number(reserved_microdollars) }, usage_written)
    }
    return rows
  })
  return { readKeys, recordUse, toAccount }
})

/** Builds two functions: one that looks up a key by its digest, and one that records a key's use. */
export const makeApiKeyLookup = Effect.gen(function* () {
  const clock = yield* Clock.Clock
  const sql = yield* SqlClient.SqlClient
  const { readKeys, recordUse, toAccount } = yield* makeKeyReader

  /**
   * Returns the account of a key, given the key's SHA-256 in hexadecimal. Fails with 401 if the key is unknown,
   * disabled, revoked or expired.
   */
  const lookUp = Effect.fnUntraced(function* (digest: string) {
    const asOf = getMonotonicMillis(clock)
    const [row] = yield* readKeys(sql`key_hash = decode(${digest}, 'hex')`)
    if (row === undefined) return yield* unknownApiKeyError
    if (!row.is_usable) return yield* disabledKey
    return { account: toAccount(row), isUseDue: row.is_use_due, asOf } satisfies ApiKeyLookupResult
  })
  return { lookUp, recordUse }
})

/**
 * Builds a function that reads the accounts of keys with open streams or exports, and records that these keys are in
 * use. Its result omits keys that no longer work.
 */
export const makeAccountsByKeyReader = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { readKeys, recordUse, toAccount } = yield* makeKeyReader
  return Effect.fnUntraced(function* (keyIds: ReadonlyArray<number>) {
    const rows = yield* readKeys(sql`key_id = any(${makeArrayParameter(keyIds, OID.float8)}::bigint[])`)
    const usable = rows.filter(({ is_usable }) => is_usable)
    for (const { is_use_due, key_id } of usable) if (is_use_due) yield* recordUse(Number(key_id), undefined)
    return new Map(usable.map((row) => [Number(row.key_id), toAccount(row)]))
  })
})

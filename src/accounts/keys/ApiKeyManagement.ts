/**
 * Creates, lists, changes, rotates and revokes API keys, and defines the SQL expression for their status (D2, API
 * keys).
 */
import { type Array, Data, Duration, Effect, Redacted, Result, Schema, SchemaTransformation } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import type { PageRange } from "../../contract/rules/Cursors.ts"
import { formatTimeSql, makeTimeSql, PrintedTime } from "../../contract/rules/Dates.ts"
import { failIfErased, findAccount, noSuchAccount } from "../Accounts.ts"
import { formatNetwork, parseNetwork } from "../../contract/rules/IpNetworks.ts"
import { generateApiKey, getApiKeyHint, makeApiKeyHasher } from "./ApiKeyFormat.ts"

/** No key has the given id. */
export class NoSuchKey extends Data.TaggedError("NoSuchKey")<{ readonly message: string }> {}

/**
 * The key's state does not allow the change. Only an active key can be rotated, and a revoked key cannot be changed.
 */
export class KeyNotActive extends Data.TaggedError("KeyNotActive")<{ readonly message: string }> {}

/**
 * The key has already been replaced, and works only until its grace period ends. The message identifies the new key.
 */
export class KeyAlreadyReplaced extends Data.TaggedError("KeyAlreadyReplaced")<{ readonly message: string }> {}

const noSuchKey = (id: number) => new NoSuchKey({ message: `There is no key ${id}. \`keys list\` shows the ids.` })

type Networks = Array.NonEmptyReadonlyArray<string>

/** The properties of a new key. */
export interface NewApiKey {
  readonly account: string
  readonly name: string
  /** The last day on which the key works (`YYYY-MM-DD`, New York time). Null if it never expires. */
  readonly expires: string | null
  /** The paths that the key may use. Null if it may use all paths. */
  readonly endpoints: ReadonlyArray<string> | null
  /** The networks from which the key may be used. Null if it may be used from anywhere. */
  readonly networks: Networks | null
}

/** Maximum number of networks per key. The database table enforces the same limit. */
export const maxNetworksPerKey = 100

/**
 * A network such as `10.0.0.0/8`, or a single address. Decoding converts it to canonical form; for example, an
 * IPv4-mapped IPv6 network becomes an IPv4 network.
 */
export const Network = Schema.String.check(
  Schema.makeFilter((text: string) => Result.isSuccess(parseNetwork(text)), {
    message: "must be an IP address, or a network without host bits, such as 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32",
  }),
).pipe(Schema.decodeTo(
  Schema.String,
  SchemaTransformation.transform({
    decode: (text) => Result.match(parseNetwork(text), { onFailure: () => text, onSuccess: formatNetwork }),
    encode: (text) => text,
  }),
))

/** SQL expression for the status of a row in `api_keys`. Customers see a revoked key as disabled. */
export const apiKeyStatusSql = `
  case
    when revoked_at is not null or disabled_at is not null then 'disabled'
    when expires_at <= now() then 'expired'
    else 'active'
  end`

/**
 * Builds a function that returns the SQL expression for an array of strings. The strings are sent as JSON, and `with
 * ordinality` preserves their order. Null remains null.
 */
const makeTextArraySql = Effect.map(
  SqlClient.SqlClient,
  (sql) => (texts: ReadonlyArray<string> | null) =>
    sql`
      (select array_agg(text order by at)
      from jsonb_array_elements_text(${
      texts === null ? null : JSON.stringify(texts)
    }::text::jsonb) with ordinality as listed(text, at))
    `,
)

const decodeCreated = decodeRows(Schema.Struct({ key_id: Schema.Int }))

/**
 * Creates a key for an existing account. Returns the key and its id. The key cannot be retrieved later, because only
 * its digest is stored.
 */
export const createApiKey = Effect.fnUntraced(function* (
  { account, endpoints, expires, name, networks }: NewApiKey,
) {
  const sql = yield* SqlClient.SqlClient
  const hash = yield* makeApiKeyHasher
  const key = yield* generateApiKey
  const digest = yield* hash(key)
  const toTextArray = yield* makeTextArraySql
  // `expires` is the last day on which the key works, so the key expires when that day ends in New York.
  const [created] = yield* decodeCreated(sql`
    insert into api_keys (account_id, name, key_hash, key_hint, expires_at, endpoints, networks)
    select account_id, ${name}, decode(${digest}, 'hex'), ${getApiKeyHint(key)},
      (${expires}::date + 1)::timestamp at time zone 'America/New_York', ${toTextArray(endpoints)},
      ${toTextArray(networks)}::cidr[]
    from accounts where name = ${account} returning key_id::float8
  `)
  return created === undefined ? yield* noSuchAccount(account) : { ...created, key: Redacted.value(key) }
}, (write, { account }) => failIfErased(account)(write))

/** Always fails, because the key cannot be changed. Uses the given message unless the key does not exist. */
const failUnchangeable = Effect.fnUntraced(function* (id: number, message: string) {
  const sql = yield* SqlClient.SqlClient
  const existing = yield* sql`select from api_keys where key_id = ${id}`
  return yield* existing.length === 0 ? noSuchKey(id) : new KeyNotActive({ message })
})

const ReplacedKey = Schema.Struct({ replaced_by: Schema.Int, expires_at: PrintedTime })

/**
 * Replaces a key with a new one that has the same account, name, restrictions and expiry. The old key works until the
 * grace period ends: its expiry becomes the end of that period, unless it expires earlier. The old key cannot be
 * rotated again, because the new key would inherit the shortened expiry.
 */
export const rotateApiKey = Effect.fnUntraced(function* (id: number, grace: Duration.Duration) {
  const sql = yield* SqlClient.SqlClient
  const hash = yield* makeApiKeyHasher
  const key = yield* generateApiKey
  const digest = yield* hash(key)
  const graceMillis = Duration.toMillis(grace)
  // `old` is empty if the key must not be rotated. The other two parts then change nothing, and the result is empty.
  const [created] = yield* decodeCreated(sql`
    with old as (
      select * from api_keys
      where key_id = ${id} and revoked_at is null and disabled_at is null and (expires_at is null or expires_at > now())
        and replaced_by is null
      for update
    ), created as (
      insert into api_keys (account_id, name, key_hash, key_hint, expires_at, endpoints, networks)
      select account_id, name, decode(${digest}, 'hex'), ${getApiKeyHint(key)}, expires_at, endpoints, networks from old
      returning key_id
    ), ended as (
      update api_keys
      set expires_at = least(api_keys.expires_at, now() + make_interval(secs => ${graceMillis}::text::numeric / 1000)),
        replaced_by = created.key_id
      from created where api_keys.key_id = ${id}
    )
    select key_id::float8 from created
  `)
  if (created !== undefined) return { ...created, key: Redacted.value(key) }
  const [replaced] = yield* decodeRows(ReplacedKey)(sql`
    select replaced_by::float8, ${sql.literal(makeTimeSql("expires_at"))} from api_keys
    where key_id = ${id} and replaced_by is not null and expires_at > now()
  `)
  if (replaced !== undefined) {
    return yield* new KeyAlreadyReplaced({
      message:
        `Key ${id} was already replaced by key ${replaced.replaced_by}, and works until ${replaced.expires_at}. ` +
        `Nothing was changed. To get another key, rotate key ${replaced.replaced_by}, or create a new one.`,
    })
  }
  return yield* failUnchangeable(
    id,
    `Key ${id} is not active and cannot be rotated. Create a new key with \`keys create\`.`,
  )
})

/** Replaces a key's networks; null allows all addresses. All processes apply the change within a second. */
export const setApiKeyNetworks = Effect.fnUntraced(function* (id: number, networks: Networks | null) {
  const sql = yield* SqlClient.SqlClient
  const toTextArray = yield* makeTextArraySql
  const changed = yield* sql`
    update api_keys set networks = ${toTextArray(networks)}::cidr[]
    where key_id = ${id} and revoked_at is null returning key_id
  `
  if (changed.length === 0) return yield* failUnchangeable(id, `Key ${id} was revoked, which cannot be undone.`)
})

/** A key as shown by the admin API and the command line. */
export const ListedApiKey = Schema.Struct({
  key_id: Schema.Int,
  account: Schema.String,
  tier: Schema.String,
  name: Schema.String,
  key_hint: Schema.String,
  status: Schema.Literals(["active", "revoked", "disabled", "expired"]),
  created_at: PrintedTime,
  expires_at: Schema.NullOr(PrintedTime),
  last_used_at: Schema.NullOr(PrintedTime),
  /** The last known client address from which the key was used. */
  last_used_address: Schema.NullOr(Schema.String),
  endpoints: Schema.NullOr(Schema.Array(Schema.String)),
  /** Canonical networks such as `10.0.0.0/8`. A single address has no prefix length. */
  networks: Schema.NullOr(Schema.Array(Schema.String)),
})

/** The decoded key. */
export type ListedApiKey = typeof ListedApiKey.Type

/** Selection criteria for keys. */
export interface ApiKeyFilter {
  /** Account name. Null selects keys of all accounts. */
  readonly account: string | null
  /**
   * Selects keys that are neither revoked nor expired and were last used at least this long ago. For a key that has
   * never been used, its creation time counts. Null selects all keys.
   */
  readonly unusedFor: Duration.Duration | null
}

/**
 * Reads the keys that match the filter, newest first. A page has at most `limit` keys, and begins after the key with
 * the id `after`. `id` selects a single key. If `isLocked` is true, locks the rows until the transaction ends.
 */
const readApiKeys = Effect.fnUntraced(function* (
  { account, unusedFor }: ApiKeyFilter,
  { after, id, isLocked = false, limit }: PageRange & { readonly id?: number; readonly isLocked?: boolean } = {},
) {
  const sql = yield* SqlClient.SqlClient
  const unusedSeconds = unusedFor === null ? null : Duration.toSeconds(unusedFor)
  return yield* decodeRows(ListedApiKey)(sql`
    select key_id::float8, accounts.name as account, tier, api_keys.name, key_hint,
      case when revoked_at is not null then 'revoked' else ${sql.literal(apiKeyStatusSql)} end as status,
      ${sql.literal(formatTimeSql("api_keys.created_at"))} as created_at,
      ${sql.literal(["expires_at", "last_used_at"].map(makeTimeSql).join(", "))},
      host(last_used_address) as last_used_address, endpoints,
      (select array_agg(format('%s', network::inet) order by number)
      from unnest(networks) with ordinality as allowed (network, number)) as networks
    from api_keys join accounts using (account_id)
    where accounts.name = coalesce(${account}::text, accounts.name) and (
      ${unusedSeconds}::float8 is null
      or coalesce(last_used_at, api_keys.created_at) <= now() - make_interval(secs => ${unusedSeconds}::float8)
      and revoked_at is null and (expires_at is null or expires_at > now())
    ) and key_id = coalesce(${id ?? null}::float8::bigint, key_id)
      and (${after ?? null}::float8 is null or key_id < ${after ?? null}::float8::bigint)
    order by key_id desc limit ${limit ?? null}::float8::bigint
    ${sql.literal(isLocked ? "for no key update of api_keys" : "")}
  `)
})

/** Returns the matching keys, newest first. */
export const listApiKeys = Effect.fnUntraced(function* (filter: ApiKeyFilter, page: PageRange = {}) {
  if (filter.account !== null) yield* findAccount(filter.account)
  return yield* readApiKeys(filter, page)
})

/** Returns a key. With `isLocked`, the row is locked until the transaction ends, so that no one else can change it. */
export const findApiKey = Effect.fnUntraced(function* (id: number, isLocked = false) {
  const [found] = yield* readApiKeys({ account: null, unusedFor: null }, { id, isLocked })
  return found ?? (yield* noSuchKey(id))
})

/** Revokes a key permanently. All processes refuse it within a second. */
export const revokeApiKey = Effect.fnUntraced(function* (id: number) {
  const sql = yield* SqlClient.SqlClient
  const revoked = yield* sql`
    update api_keys set revoked_at = coalesce(revoked_at, now()) where key_id = ${id} returning key_id
  `
  if (revoked.length === 0) return yield* noSuchKey(id)
})

const setKeyDisabled = Effect.fnUntraced(function* (id: number, isDisabled: boolean) {
  const sql = yield* SqlClient.SqlClient
  const changed = yield* sql`
    update api_keys set disabled_at = case when ${isDisabled} then coalesce(disabled_at, now()) else null end
    where key_id = ${id} and revoked_at is null returning key_id
  `
  if (changed.length === 0) return yield* failUnchangeable(id, `Key ${id} was revoked, which cannot be undone.`)
})

/** Disables a key until it is enabled again. */
export const disableApiKey = (id: number) => setKeyDisabled(id, true)

/** Enables a disabled key. */
export const enableApiKey = (id: number) => setKeyDisabled(id, false)

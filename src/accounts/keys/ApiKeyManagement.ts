/** D2 (API keys): creates, lists, rotates, disables, enables and revokes keys, and defines the SQL for their status. */
import { Data, Duration, Effect, Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../../db/DecodeRows.ts"
import { generateApiKey, getApiKeyHint, makeApiKeyHasher } from "./ApiKeyFormat.ts"

class NoSuchKey extends Data.TaggedError("NoSuchKey")<{ readonly message: string }> {}

/** A key that is not active cannot be rotated, and a revoked key cannot be enabled or disabled. */
class KeyNotActive extends Data.TaggedError("KeyNotActive")<{ readonly message: string }> {}

const noSuchKey = (id: number) => new NoSuchKey({ message: `There is no key ${id}. \`keys list\` shows the ids.` })

export interface NewApiKey {
  readonly account: string
  readonly name: string
  /** The last day on which the key works (New York time), or null if it never expires. Format: `YYYY-MM-DD`. */
  readonly expires: string | null
  /** Paths that the key may use; null if it may use all paths. */
  readonly endpoints: ReadonlyArray<string> | null
}

/** SQL expression for the status of a row in `api_keys`. Customers see a revoked key as disabled. */
export const apiKeyStatusSql = `
  case
    when revoked_at is not null or disabled_at is not null then 'disabled'
    when expires_at <= now() then 'expired'
    else 'active'
  end`

const toJson = (value: unknown) => value === null ? null : JSON.stringify(value)

/** Creates a key for an existing account and returns it. The key cannot be retrieved later. */
export const createApiKey = Effect.fnUntraced(function* ({ account, endpoints, expires, name }: NewApiKey) {
  const sql = yield* SqlClient.SqlClient
  const hash = yield* makeApiKeyHasher
  const key = yield* generateApiKey
  const digest = yield* hash(key)
  yield* sql`
    with created as (
      insert into api_keys (account_id, name, key_hash, key_hint, expires_at, endpoints)
      select account_id, ${name}, decode(${digest}, 'hex'), ${getApiKeyHint(key)},
        (${expires}::date + 1)::timestamp at time zone 'America/New_York',
        (select array_agg(path order by at) from jsonb_array_elements_text(${
    toJson(endpoints)
  }::text::jsonb) with ordinality as listed(path, at))
      from accounts where name = ${account} returning api_keys as key
    )
    select enqueue_key_event('key.created', key) from created
  `
  return Redacted.value(key)
})

/** Fails because a key cannot be changed: with the message, unless there is no such key. */
const failUnchangeable = Effect.fnUntraced(function* (id: number, message: string) {
  const sql = yield* SqlClient.SqlClient
  const existing = yield* sql`select from api_keys where key_id = ${id}`
  return yield* existing.length === 0 ? noSuchKey(id) : new KeyNotActive({ message })
})

/** Creates a key with the same account, name, paths and expiry. The old key works until the grace period ends. */
export const rotateApiKey = Effect.fnUntraced(function* (id: number, grace: Duration.Duration) {
  const sql = yield* SqlClient.SqlClient
  const hash = yield* makeApiKeyHasher
  const key = yield* generateApiKey
  const digest = yield* hash(key)
  const graceMillis = Duration.toMillis(grace)
  const created = yield* sql`
    with old as (
      select * from api_keys
      where key_id = ${id} and revoked_at is null and disabled_at is null and (expires_at is null or expires_at > now())
      for update
    ), ended as (
      update api_keys
      set expires_at = least(api_keys.expires_at, now() + make_interval(secs => ${graceMillis}::text::numeric / 1000))
      from old where api_keys.key_id = old.key_id
    ), created as (
      insert into api_keys (account_id, name, key_hash, key_hint, expires_at, endpoints)
      select account_id, name, decode(${digest}, 'hex'), ${getApiKeyHint(key)}, expires_at, endpoints from old
      returning api_keys as key
    )
    select enqueue_key_event('key.rotated', key, ${id}) from created
  `
  if (created.length === 1) return Redacted.value(key)
  return yield* failUnchangeable(
    id,
    `Key ${id} is not active and cannot be rotated. Create a new key with \`keys create\`.`,
  )
})

const ListedApiKey = Schema.Struct({
  key_id: Schema.BigInt,
  account: Schema.String,
  tier: Schema.String,
  name: Schema.String,
  key_hint: Schema.String,
  status: Schema.Literals(["active", "revoked", "disabled", "expired"]),
  created: Schema.String,
  expires: Schema.NullOr(Schema.String),
  last_used: Schema.NullOr(Schema.String),
  endpoints: Schema.NullOr(Schema.Array(Schema.String)),
})

/** Returns all keys, oldest first. */
export const listApiKeys = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* decodeRows(ListedApiKey)(sql`
    select key_id, accounts.name as account, tier, api_keys.name, key_hint,
      case when revoked_at is not null then 'revoked' else ${sql.literal(apiKeyStatusSql)} end as status,
      to_char(api_keys.created_at, 'YYYY-MM-DD') as created,
      to_char(expires_at, 'YYYY-MM-DD HH24:MI:SS') as expires,
      to_char(last_used_at, 'YYYY-MM-DD HH24:MI:SS') as last_used,
      endpoints
    from api_keys join accounts using (account_id) order by key_id
  `)
})

/** Revokes a key permanently. Within a second, every process refuses it. */
export const revokeApiKey = Effect.fnUntraced(function* (id: number) {
  const sql = yield* SqlClient.SqlClient
  const revoked = yield* sql`
    with old as (
      select key_id, revoked_at is null as is_new from api_keys where key_id = ${id} for update
    ), revoked as (
      update api_keys set revoked_at = coalesce(revoked_at, now()) from old where api_keys.key_id = old.key_id
      returning api_keys as key, is_new
    )
    select case when is_new then enqueue_key_event('key.revoked', key) end from revoked
  `
  if (revoked.length === 0) return yield* noSuchKey(id)
})

const setKeyDisabled = Effect.fnUntraced(function* (id: number, isDisabled: boolean) {
  const sql = yield* SqlClient.SqlClient
  const changed = yield* sql`
    with old as (
      select key_id, (disabled_at is null) = ${isDisabled} as is_new from api_keys
      where key_id = ${id} and revoked_at is null for update
    ), changed as (
      update api_keys set disabled_at = case when ${isDisabled} then coalesce(disabled_at, now()) else null end
      from old where api_keys.key_id = old.key_id returning api_keys as key, is_new
    )
    select case when is_new then enqueue_key_event(${isDisabled ? "key.disabled" : "key.enabled"}, key) end from changed
  `
  if (changed.length === 0) return yield* failUnchangeable(id, `Key ${id} was revoked, which cannot be undone.`)
})

/** Suspends a key until it is enabled again. */
export const disableApiKey = (id: number) => setKeyDisabled(id, true)

export const enableApiKey = (id: number) => setKeyDisabled(id, false)

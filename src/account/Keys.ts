/** D2: keys made, listed and revoked, for the command line. */
import { Data, Effect, Redacted, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import type { Tier } from "../policy/Access.ts"
import { generate, hasher, hint } from "./Key.ts"

export class NoSuchKey extends Data.TaggedError("NoSuchKey")<{ readonly message: string }> {}

export interface Wanted {
  readonly account: string
  readonly tier: Tier
  readonly email: string | null
  /** The last day on which the key works, `YYYY-MM-DD`. */
  readonly expires: string | null
}

/** Makes a key, and its account where there is none of that name; the only moment at which the key can be read. */
export const create = Effect.fnUntraced(function* ({ account, email, expires, tier }: Wanted) {
  const sql = yield* SqlClient.SqlClient
  const hash = yield* hasher
  const key = yield* generate
  const digest = yield* hash(key)
  yield* sql.withTransaction(Effect.gen(function* () {
    yield* sql`
      insert into accounts (name, tier, contact_email) values (${account}, ${tier}, ${email})
      on conflict (name) do update
      set tier = excluded.tier, contact_email = coalesce(excluded.contact_email, accounts.contact_email)
    `
    yield* sql`
      insert into api_keys (account_id, key_hash, key_hint, expires_at)
      select account_id, decode(${digest}, 'hex'), ${hint(key)},
        (${expires}::date + 1)::timestamp at time zone 'America/New_York'
      from accounts where name = ${account}
    `
  }))
  return Redacted.value(key)
})

const Listed = Schema.Struct({
  key_id: Schema.BigInt,
  account: Schema.String,
  tier: Schema.String,
  key_hint: Schema.String,
  status: Schema.String,
  created: Schema.String,
  expires: Schema.NullOr(Schema.String),
  last_used: Schema.NullOr(Schema.String),
})
export type Listed = typeof Listed.Type

/** Every key, oldest first. */
export const list = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const find = SqlSchema.findAll({
    Request: Schema.Void,
    Result: Listed,
    execute: () =>
      sql`
        select key_id, name as account, tier, key_hint,
          case
            when disabled_at is not null then 'disabled'
            when expires_at <= now() then 'expired'
            else 'active'
          end as status,
          to_char(api_keys.created_at, 'YYYY-MM-DD') as created,
          to_char(expires_at at time zone 'America/New_York' - interval '1 day', 'YYYY-MM-DD') as expires,
          to_char(last_used_at, 'YYYY-MM-DD HH24:MI:SS') as last_used
        from api_keys join accounts using (account_id) order by key_id
      `,
  })
  return yield* find(undefined)
})

/** Ends a key for good; instances notice within a second. */
export const revoke = Effect.fnUntraced(function* (id: number) {
  const sql = yield* SqlClient.SqlClient
  const revoked = yield* sql`
    update api_keys set disabled_at = coalesce(disabled_at, now()) where key_id = ${id} returning key_hint
  `
  if (revoked.length === 0) {
    return yield* new NoSuchKey({ message: `There is no key ${id}. \`keys list\` shows the ids.` })
  }
})

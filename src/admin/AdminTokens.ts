/** Tokens of the admin API: created, listed and revoked by commands and admins (docs/operations/admin-api.md). */
import { Data, Effect, Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { makeApiKeyHasher, makeSecretFormat } from "../accounts/keys/ApiKeyFormat.ts"
import { decodeRows } from "../db/DecodeRows.ts"
import { makeUtcTimeSql } from "../db/UtcTimeSql.ts"
import { AdminScope } from "./AdminErrors.ts"

export class AdminTokenExists extends Data.TaggedError("AdminTokenExists")<{ readonly message: string }> {}

export class NoSuchAdminToken extends Data.TaggedError("NoSuchAdminToken")<{ readonly message: string }> {}

const format = makeSecretFormat("tl_admin_")

export const AdminToken = Schema.Struct({
  token_id: Schema.Int,
  name: Schema.String,
  scope: AdminScope,
  token_hint: Schema.String.annotate({ description: "The first characters of the token." }),
  created_by: Schema.String,
  created_at: Schema.String,
  expires_at: Schema.NullOr(Schema.String),
  revoked_at: Schema.NullOr(Schema.String),
  last_used_at: Schema.NullOr(Schema.String).annotate({ description: "Updated at most once a minute." }),
}).annotate({ identifier: "AdminToken" })
export type AdminToken = typeof AdminToken.Type

export interface NewAdminToken {
  readonly name: string
  readonly scope: AdminScope
  /** The last day on which the token works (New York), `YYYY-MM-DD`; null if it never expires. */
  readonly expires: string | null
  readonly created_by: string
}

/** Creates a token and returns it. It cannot be retrieved later. */
export const createAdminToken = Effect.fnUntraced(function* ({ created_by, expires, name, scope }: NewAdminToken) {
  const sql = yield* SqlClient.SqlClient
  const hash = yield* makeApiKeyHasher
  const token = yield* format.generate
  const digest = yield* hash(token)
  const hint = Redacted.value(token).slice(0, 13)
  const created = yield* sql`
    insert into admin_tokens (name, scope, token_hash, token_hint, created_by, expires_at)
    values (${name}, ${scope}, decode(${digest}, 'hex'), ${hint}, ${created_by},
      (${expires}::text::date + 1)::timestamp at time zone 'America/New_York')
    on conflict (name) where revoked_at is null do nothing returning token_id
  `
  if (created.length === 1) return Redacted.value(token)
  return yield* new AdminTokenExists({
    message: `There already is a token with the name ${name}. Choose another name, or revoke that token first.`,
  })
})

/** Returns all tokens, oldest first. */
export const listAdminTokens = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* decodeRows(AdminToken)(sql`
    select token_id::int, name, scope, token_hint, created_by, ${
    sql.literal(["created_at", "expires_at", "revoked_at", "last_used_at"].map(makeUtcTimeSql).join(", "))
  }
    from admin_tokens order by token_id
  `)
})

/** Revokes a token permanently. The next request with it is refused. */
export const revokeAdminToken = Effect.fnUntraced(function* (id: number) {
  const sql = yield* SqlClient.SqlClient
  const revoked = yield* sql`
    update admin_tokens set revoked_at = coalesce(revoked_at, now()) where token_id = ${id} returning token_id
  `
  if (revoked.length === 0) return yield* new NoSuchAdminToken({ message: `There is no admin token ${id}.` })
})

const FoundToken = Schema.Struct({ token_id: Schema.Int, name: Schema.String, scope: AdminScope })

/** Finds the name and scope of a token that works; undefined if there is none. Records its use. */
export const findAdminToken = Effect.fnUntraced(function* (token: Redacted.Redacted) {
  if (!format.isWellFormed(token)) return undefined
  const sql = yield* SqlClient.SqlClient
  const hash = yield* makeApiKeyHasher
  const digest = yield* hash(token)
  const [found] = yield* decodeRows(FoundToken)(sql`
    with found as (
      select token_id, name, scope, last_used_at from admin_tokens
      where token_hash = decode(${digest}, 'hex') and revoked_at is null and (expires_at is null or expires_at > now())
    ), used as (
      update admin_tokens set last_used_at = now() from found
      where admin_tokens.token_id = found.token_id
        and (found.last_used_at is null or found.last_used_at < now() - interval '1 minute')
    )
    select token_id::float8, name, scope from found
  `)
  return found
})

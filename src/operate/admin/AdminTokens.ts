/**
 * Creates, lists, and revokes admin API tokens, for commands and for admins (docs/operations/admin-api.md). Console
 * sessions and console invitations are stored as tokens too (docs/operations/console.md).
 */
import { Data, Duration, Effect, Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { makeApiKeyHasher, makeSecretFormat } from "../../accounts/keys/ApiKeyFormat.ts"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import type { PageRange } from "../../contract/rules/Cursors.ts"
import { makeTimeSql, PrintedTime } from "../../contract/rules/Dates.ts"
import { AdminScope } from "./AdminErrors.ts"
import { tickerlineCommand } from "../../postgres/ProjectCommands.js"

/** There is already a token with this name that is neither revoked nor expired. */
export class AdminTokenExists extends Data.TaggedError("AdminTokenExists")<{ readonly message: string }> {}

/** There is no token with this ID. */
export class NoSuchAdminToken extends Data.TaggedError("NoSuchAdminToken")<{ readonly message: string }> {}

/** The token or invitation is not valid, so no session was opened. */
export class SignInRefused extends Data.TaggedError("SignInRefused")<{ readonly message: string }> {}

const kinds = ["token", "session", "invitation"] as const
type Kind = typeof kinds[number]

const formats = {
  token: makeSecretFormat("tl_admin_"),
  session: makeSecretFormat("tl_session_"),
  invitation: makeSecretFormat("tl_invite_"),
}

/** A session ends after this time, or earlier if no request has used it for `maxIdleTime`. */
const sessionLength = Duration.hours(12)
const maxIdleTime = Duration.hours(1)

const invitationLength = Duration.hours(1)

const toIntervalSql = (duration: Duration.Duration) => `interval '${Duration.toSeconds(duration)} seconds'`

/**
 * SQL condition for whether the row `token` of `admin_tokens` can be used: it is neither revoked nor expired, it has
 * not been idle for too long if it is a session, and the token that opened the session can still be used.
 */
const isUsableSql = `token.revoked_at is null and (token.expires_at is null or token.expires_at > now())
  and (token.kind <> 'session' or token.last_used_at > now() - ${toIntervalSql(maxIdleTime)})
  and not exists (
    select from admin_tokens as opener where opener.token_id = token.opened_with
      and (opener.revoked_at is not null or opener.expires_at <= now())
  )`

/** A token, session, or invitation, without the secret. */
export const AdminToken = Schema.Struct({
  token_id: Schema.Int,
  kind: Schema.Literals(kinds),
  name: Schema.String,
  scope: AdminScope,
  token_hint: Schema.String.annotate({ description: "The first characters of the token." }),
  created_by: Schema.String,
  created_at: PrintedTime,
  expires_at: Schema.NullOr(PrintedTime),
  revoked_at: Schema.NullOr(PrintedTime),
  last_used_at: Schema.NullOr(PrintedTime).annotate({ description: "Updated at most once a minute." }),
}).annotate({ identifier: "AdminToken" })
/** A token, session, or invitation, without the secret. */
export type AdminToken = typeof AdminToken.Type

/** The properties of a token to create. */
export interface NewAdminToken {
  readonly name: string
  readonly scope: AdminScope
  /** The last day on which the token is valid (New York time), `YYYY-MM-DD`. Null if the token never expires. */
  readonly expires: string | null
  readonly created_by: string
}

/**
 * Generates a secret, and returns it with the columns to store: only the digest and the first characters are stored.
 */
const generateSecret = Effect.fnUntraced(function* (kind: Kind) {
  const hash = yield* makeApiKeyHasher
  const secret = yield* formats[kind].generate
  return { secret: Redacted.value(secret), digest: yield* hash(secret), hint: Redacted.value(secret).slice(0, 13) }
})

/** Creates a token and returns its secret, which cannot be retrieved later. */
export const createAdminToken = Effect.fnUntraced(function* ({ created_by, expires, name, scope }: NewAdminToken) {
  const sql = yield* SqlClient.SqlClient
  const { digest, hint, secret } = yield* generateSecret("token")
  const created = yield* sql`
    insert into admin_tokens (name, scope, token_hash, token_hint, created_by, expires_at)
    values (${name}, ${scope}, decode(${digest}, 'hex'), ${hint}, ${created_by},
      (${expires}::text::date + 1)::timestamp at time zone 'America/New_York')
    on conflict (name) where kind = 'token' and revoked_at is null do nothing returning token_id
  `
  if (created.length === 1) return secret
  return yield* new AdminTokenExists({
    message: `There already is a token with the name ${name}. Choose another name, or revoke that token first.`,
  })
})

/** Creates an invitation and returns its secret. An invitation opens a single session. */
export const createInvitation = Effect.fnUntraced(
  function* ({ created_by, name, scope }: Omit<NewAdminToken, "expires">) {
    const sql = yield* SqlClient.SqlClient
    const { digest, hint, secret } = yield* generateSecret("invitation")
    yield* sql`
      insert into admin_tokens (kind, name, scope, token_hash, token_hint, created_by, expires_at)
      values ('invitation', ${name}, ${scope}, decode(${digest}, 'hex'), ${hint}, ${created_by},
        now() + ${sql.literal(toIntervalSql(invitationLength))})
    `
    return secret
  },
)

/** A person whose identity has been verified. */
export interface IdentifiedAdmin {
  readonly name: string
  readonly scope: AdminScope
  /** How the identity was verified, such as `token alice`. */
  readonly created_by: string
  /**
   * The ID of the token that the person signed in with. If that token is revoked or expires, the session ends too. Null
   * if the person signed in without a token.
   */
  readonly opened_with: number | null
}

/** Opens a session and returns its secret, which the browser sends in a cookie. */
export const openSession = Effect.fnUntraced(
  function* ({ created_by, name, opened_with, scope }: IdentifiedAdmin) {
    const sql = yield* SqlClient.SqlClient
    const { digest, hint, secret } = yield* generateSecret("session")
    yield* sql`
      insert into admin_tokens
        (kind, name, scope, token_hash, token_hint, created_by, opened_with, expires_at, last_used_at)
      values ('session', ${name}, ${scope}, decode(${digest}, 'hex'), ${hint}, ${created_by}, ${opened_with},
        now() + ${sql.literal(toIntervalSql(sessionLength))}, now())
    `
    return secret
  },
)

const refuseInvitation = new SignInRefused({
  message: `This link was used before, or has expired. \`${tickerlineCommand} admin invite\` prints a new one.`,
})

const InvitedAdmin = Schema.Struct({ name: Schema.String, scope: AdminScope, created_by: Schema.String })

/**
 * Creates a function that runs a statement on the row of an invitation, and returns the admin that the invitation is
 * for. `makeStatement` takes the SQL condition that selects this row. The function fails if there is no invitation with
 * this secret, or if it has been used or has expired.
 */
const makeInvitationReader = (makeStatement: (isInvitation: string) => string) =>
  Effect.fnUntraced(function* (invitation: Redacted.Redacted) {
    if (!formats.invitation.isWellFormed(invitation)) return yield* refuseInvitation
    const sql = yield* SqlClient.SqlClient
    const hash = yield* makeApiKeyHasher
    const statement = makeStatement(`token_hash = decode($1, 'hex') and ${isUsableSql}`)
    const [found] = yield* decodeRows(InvitedAdmin)(sql.unsafe(statement, [yield* hash(invitation)]))
    return found ?? (yield* refuseInvitation)
  })

/** Returns the admin that an invitation is for. */
export const findInvitation = makeInvitationReader((isInvitation) =>
  `select name, scope, created_by from admin_tokens as token where ${isInvitation}`
)

/** Revokes a valid invitation, because an invitation can be used only once. Returns the admin that it is for. */
export const acceptInvitation = makeInvitationReader((isInvitation) =>
  `update admin_tokens as token set revoked_at = now(), last_used_at = now() where ${isInvitation}
  returning name, scope, created_by`
)

interface TokenFilter extends PageRange {
  readonly isUsable?: boolean
}

/**
 * Returns the tokens that match the filter, newest first. Sessions and invitations are included only if they are
 * usable.
 */
export const listAdminTokens = Effect.fnUntraced(function* ({ after, isUsable, limit }: TokenFilter = {}) {
  const sql = yield* SqlClient.SqlClient
  const isUsableToken = sql.literal(isUsableSql)
  return yield* decodeRows(AdminToken)(sql`
    select token_id::int, kind, name, scope, token_hint, created_by, ${
    sql.literal(["created_at", "expires_at", "revoked_at", "last_used_at"].map(makeTimeSql).join(", "))
  }
    from admin_tokens as token
    where (kind = 'token' or ${isUsableToken})
      and (${isUsable ?? null}::bool is null or (${isUsableToken}) = ${isUsable ?? null}::bool)
      and (${after ?? null}::float8 is null or token_id < ${after ?? null}::float8::bigint)
    order by token.token_id desc limit ${limit ?? null}::float8::bigint
  `)
})

/** Revokes a token permanently. The next request that uses the token is refused. */
export const revokeAdminToken = Effect.fnUntraced(function* (id: number) {
  const sql = yield* SqlClient.SqlClient
  const revoked = yield* sql`
    update admin_tokens set revoked_at = coalesce(revoked_at, now()) where token_id = ${id} returning token_id
  `
  if (revoked.length === 0) return yield* new NoSuchAdminToken({ message: `There is no admin token ${id}.` })
})

const FoundToken = Schema.Struct({
  token_id: Schema.Int,
  kind: Schema.Literals(["token", "session"]),
  name: Schema.String,
  scope: AdminScope,
  opened_with: Schema.NullOr(Schema.Int),
  expires_at: Schema.NullOr(PrintedTime),
})

/**
 * Returns the admin that a usable token or session belongs to, and records the use. Returns undefined if there is no
 * such token. In the statement, `found` is the row of the token, if it is usable. `used`, which runs although the
 * `select` does not read it, sets the time of the token's last use, but only if that is more than a minute ago, so that
 * most requests write nothing.
 */
export const findAdminToken = Effect.fnUntraced(function* (token: Redacted.Redacted) {
  if (!formats.token.isWellFormed(token) && !formats.session.isWellFormed(token)) return undefined
  const sql = yield* SqlClient.SqlClient
  const hash = yield* makeApiKeyHasher
  const digest = yield* hash(token)
  const [found] = yield* decodeRows(FoundToken)(sql`
    with found as (
      select token_id, kind, name, scope, opened_with, expires_at, last_used_at from admin_tokens as token
      where token_hash = decode(${digest}, 'hex') and ${sql.literal(isUsableSql)}
    ), used as (
      update admin_tokens set last_used_at = now() from found
      where admin_tokens.token_id = found.token_id
        and (found.last_used_at is null or found.last_used_at < now() - interval '1 minute')
    )
    select token_id::float8, kind, name, scope, opened_with::float8, ${
    sql.literal(makeTimeSql("expires_at"))
  } from found
  `)
  return found
})

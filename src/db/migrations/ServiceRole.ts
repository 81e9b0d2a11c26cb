/**
 * Who may do what: the role that serves reads the datasets, records usage, takes its cost off balances and notes which
 * mails were sent. It owns nothing, so it can neither alter tables nor read what was paid. Whoever migrates grants it,
 * and grants it anew after each migration; that it was granted is known by PostgreSQL itself.
 */
import { Data, Effect, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { decodeRows } from "../DecodeRows.ts"
import { alterRoleStatements, DirectUrl, quoteIdentifier, roleHasTimeoutsSql } from "../pool/Session.ts"

export class RoleNotFound extends Data.TaggedError("NoSuchRole")<{ readonly message: string }> {}

/** Only the owner of the tables grants. */
export class GrantNotPermitted extends Data.TaggedError("MayNotGrant")<{ readonly message: string }> {}

/** A partition is reached through its table. */
const readable = `
  select format('grant select on public.%I to %I', relname, $1::text) as statement
  from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
    and relname <> 'credits'`

const grants = (role: string) => [
  `grant usage on schema public to ${role}`,
  `grant insert, update (bytes, request_count) on public.usage to ${role}`,
  `grant insert, update on public.usage_daily to ${role}`,
  `grant update (last_used_at) on public.api_keys to ${role}`,
  `grant update (balance_microdollars, last_charged_at) on public.accounts to ${role}`,
  `grant update (status, attempts, next_attempt_at, claimed_by, last_error, sent_at)
    on public.announcement_mails to ${role}`,
  `grant update (holder, until) on public.announcement_sender to ${role}`,
  `grant insert (name), update (holder, until) on public.leases to ${role}`,
  `grant insert, update on public.rate_limits to ${role}`,
  `grant insert, update, delete on public.wrong_keys to ${role}`,
  `grant execute on function public.create_usage_partition, public.drop_usage_partitions to ${role}`,
]

const decodeRevokes = decodeRows(Schema.Struct({ revoke: Schema.String }))
const decodeStatements = decodeRows(Schema.Struct({ statement: Schema.String }))
const decodeLimited = decodeRows(Schema.Struct({ database: Schema.String, given: Schema.Boolean }))
const decodeGranter = decodeRows(Schema.Struct({ name: Schema.String, may: Schema.Boolean }))
const decodeRoles = decodeRows(Schema.Struct({ role: Schema.String }))

/**
 * What PostgreSQL lets everybody do: make temporary tables, which stand before the tables that they are named like, and
 * before version 15 other tables too.
 */
const openTo = Effect.fnUntraced(function* (role: string) {
  const sql = yield* SqlClient.SqlClient
  const found = yield* decodeRevokes(sql`
    select format('revoke temporary on database %I from public', current_database()) as revoke
    where has_database_privilege(${role}, current_database(), 'temporary')
    union all
    select 'revoke create on schema public from public'
    where has_schema_privilege(${role}, 'public', 'create')
  `)
  return found.map(({ revoke }) => revoke)
})

/** PostgreSQL itself only warns of a revoke that revokes nothing, as where somebody else owns the database. */
const close = Effect.fnUntraced(function* (role: string) {
  const sql = yield* SqlClient.SqlClient
  yield* Effect.forEach(yield* openTo(role), (revoke) => sql.unsafe(revoke), { discard: true })
  const left = yield* openTo(role)
  if (left.length === 0) return
  yield* Effect.logWarning(`${role} may still make tables. Let the owner of the database say: ${left.join("; ")}`)
})

/** Who may grant need not be one who may alter roles; the role may itself. It matters through a pooler only. */
const limit = Effect.fnUntraced(function* (role: string) {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* decodeLimited(sql.unsafe(
    `select datname as database, ${
      roleHasTimeoutsSql("$1")
    } as given from pg_database where datname = current_database()`,
    [role],
  ))
  if (found === undefined || found.given) return
  const statements = alterRoleStatements(role, found.database)
  yield* sql.withTransaction(Effect.forEach(statements, (statement) => sql.unsafe(statement), { discard: true })).pipe(
    Effect.catchIf(
      ({ reason }) => reason._tag === "AuthorizationError",
      Effect.fnUntraced(function* () {
        if (Option.isNone(yield* DirectUrl)) return
        yield* Effect.logWarning(
          `${role} serves without limits through a pooler. Let it say itself: ${statements.join("; ")}`,
        )
      }),
    ),
  )
})

/** Lets a role serve, and nothing more. */
export const grantServiceRole = Effect.fnUntraced(function* (role: string) {
  const sql = yield* SqlClient.SqlClient
  const found = yield* sql`select from pg_roles where rolname = ${role}`
  if (found.length === 0) {
    return yield* new RoleNotFound({
      message: `PostgreSQL has no role ${role}. Make it first: create role ${quoteIdentifier(role)} login password '…'`,
    })
  }
  const [granter] = yield* decodeGranter(sql`
    select current_user as name, pg_has_role(relowner, 'usage') as may
    from pg_class where oid = 'public.usage'::regclass
  `)
  // PostgreSQL itself only warns of a grant that grants nothing.
  if (granter?.may !== true) {
    return yield* new GrantNotPermitted({
      message: `${granter?.name ?? "This role"} may not grant: use a DATABASE_URL of the role that owns the tables.`,
    })
  }
  yield* sql.withTransaction(Effect.gen(function* () {
    const reads = yield* decodeStatements(sql.unsafe(readable, [role]))
    const statements = [...grants(quoteIdentifier(role)), ...reads.map(({ statement }) => statement)]
    yield* Effect.forEach(statements, (statement) => sql.unsafe(statement), { discard: true })
    yield* close(role)
    yield* limit(role)
  }))
})

/** Grants what new migrations brought to the roles that serve already. */
export const renewServiceRoles = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const roles = yield* decodeRoles(sql`
    select rolname as role from pg_proc, aclexplode(proacl) join pg_roles on pg_roles.oid = grantee
    where pg_proc.oid = to_regprocedure('public.create_usage_partition(timestamptz)') and grantee <> proowner
  `)
  yield* Effect.forEach(roles, ({ role }) => grantServiceRole(role), { discard: true })
})

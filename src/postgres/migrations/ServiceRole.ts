/**
 * Grants service roles their privileges, which the schema lists in `role_privileges`: to read datasets, record usage,
 * charge balances, and send emails and webhooks. Service roles own no tables, so they can neither alter tables nor read
 * payments. The admin API's role has different privileges.
 */
import { Data, Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { describeSqlError } from "../FailureText.ts"
import { decodeRows } from "../DecodeRows.ts"
import { makeRoleSettingsConditionSql, makeRoleSettingStatements, quoteIdentifier } from "../pool/ConnectionSettings.ts"

/** The database has no role with this name. */
export class RoleNotFound extends Data.TaggedError("RoleNotFound")<{ readonly message: string }> {}

/** The current role may not grant privileges, because it does not own the tables. */
export class GrantNotPermitted extends Data.TaggedError("GrantNotPermitted")<{ readonly message: string }> {}

/**
 * Selects the grant statements for a role: the privileges that the schema lists in `role_privileges`, and read access
 * to all other tables and views. Partitions need no grants, because they are read through their parent table.
 */
const grantsQuery = `
  select format('grant usage on schema public, history to %I', $1::text) as statement
  union all
  select format('grant %s on %s %s to %I', privilege, case privilege when 'execute' then 'function' else 'table' end,
    object, $1)
  from public.role_privileges where purpose = $2 and privilege <> 'no select'
  union all
  select format('grant select on %I.%I to %I', nspname, relname, $1)
  from pg_class join pg_namespace on pg_namespace.oid = relnamespace
  where nspname in ('public', 'history') and relkind in ('r', 'p', 'v') and not relispartition and not exists (
    select from public.role_privileges
    where purpose = $2 and privilege = 'no select' and object = format('%I.%I', nspname, relname)
  )`

/**
 * Selects the statements that revoke all of a role's privileges on tables, columns, sequences and functions, except
 * those that it has as the owner.
 */
const revokesQuery = `
  select format('revoke all on %s %I.%I from %I', case relkind when 'S' then 'sequence' else 'table' end, nspname,
    relname, rolname) as statement
  from pg_class join pg_namespace on pg_namespace.oid = relnamespace join pg_roles on rolname = $1
  where nspname in ('public', 'history') and relowner <> pg_roles.oid and pg_has_role(relowner, 'usage') and exists (
    select from aclexplode(relacl) where grantee = pg_roles.oid
    union all
    select from pg_attribute, aclexplode(attacl) where attrelid = pg_class.oid and grantee = pg_roles.oid
  )
  union all
  select format('revoke all on routine %s from %I', pg_proc.oid::regprocedure, rolname)
  from pg_proc join pg_namespace on pg_namespace.oid = pronamespace join pg_roles on rolname = $1
  where nspname in ('public', 'history') and proowner <> pg_roles.oid and pg_has_role(proowner, 'usage')
    and exists (select from aclexplode(proacl) where grantee = pg_roles.oid)`

/** What a role is for: the service or the admin API. */
export type RolePurpose = "admin" | "service"

const decodeRevokes = decodeRows(Schema.Struct({ revoke: Schema.String }))
const decodeStatements = decodeRows(Schema.Struct({ statement: Schema.String }))
const decodeRoleSettings = decodeRows(Schema.Struct({ database: Schema.String, has_settings: Schema.Boolean }))
const decodeGranter = decodeRows(Schema.Struct({ name: Schema.String, may: Schema.Boolean }))
const decodeRoles = decodeRows(Schema.Struct({ role: Schema.String, purpose: Schema.Literals(["admin", "service"]) }))

/**
 * Returns the statements that revoke the default privileges to create tables. With these privileges, a role could hide
 * a real table behind a temporary table of the same name. Before PostgreSQL 15, every role could also create tables in
 * the schema `public`.
 */
const findDefaultPrivileges = Effect.fnUntraced(function* (role: string) {
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

/**
 * Revokes the default privileges to create tables. If only the database owner may do that, logs the statements for the
 * owner to run.
 */
const revokeDefaultPrivileges = Effect.fnUntraced(function* (role: string) {
  const sql = yield* SqlClient.SqlClient
  yield* Effect.forEach(yield* findDefaultPrivileges(role), (revoke) => sql.unsafe(revoke), { discard: true })
  const remaining = yield* findDefaultPrivileges(role)
  if (remaining.length === 0) return
  yield* Effect.logWarning(`${role} may still create tables. The database owner should run: ${remaining.join("; ")}`)
})

/**
 * Sets the session settings on the role in the current database, unless it already has them. Poolers do not pass on the
 * settings with which the service connects, so they must be the role's defaults. If that is not permitted, logs
 * statements that an operator can run instead.
 */
const setRoleSettings = Effect.fnUntraced(function* (role: string) {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* decodeRoleSettings(sql.unsafe(
    `select datname as database, ${
      makeRoleSettingsConditionSql("$1")
    } as has_settings from pg_database where datname = current_database()`,
    [role],
  ))
  if (found === undefined || found.has_settings) return
  const statements = makeRoleSettingStatements(role, found.database)
  yield* sql.withTransaction(Effect.forEach(statements, (statement) => sql.unsafe(statement), { discard: true })).pipe(
    Effect.catchIf(
      ({ reason }) => reason._tag === "AuthorizationError",
      (error) =>
        Effect.logWarning(
          `${role} has all privileges, but lacks session settings that it needs behind a pooler, because this role ` +
            `may not alter it (${describeSqlError(error)}). Run as ${role} or as a superuser: ${statements.join("; ")}`,
        ),
    ),
  )
})

/**
 * Grants a role the privileges for its purpose, revokes the default privileges to create tables, and sets the session
 * settings on the role. Fails if the role does not exist, or if the current role does not own the tables. The owner of
 * the table `usage` stands for the owner of all tables, because one role creates them all.
 *
 * `grantsQuery` returns the statements that grant the privileges, one per row.
 */
const addRolePrivileges = Effect.fnUntraced(function* (role: string, purpose: RolePurpose) {
  const sql = yield* SqlClient.SqlClient
  const found = yield* sql`select from pg_roles where rolname = ${role}`
  if (found.length === 0) {
    return yield* new RoleNotFound({
      message: `PostgreSQL has no role ${role}. Create it first: create role ${
        quoteIdentifier(role)
      } login password '…'`,
    })
  }
  const [granter] = yield* decodeGranter(sql`
    select current_user as name, pg_has_role(relowner, 'usage') as may
    from pg_class where oid = 'public.usage'::regclass
  `)
  // Without this check, PostgreSQL would merely warn that nothing was granted, and the command would appear to succeed.
  if (granter?.may !== true) {
    return yield* new GrantNotPermitted({
      message: `${
        granter?.name ?? "This role"
      } may not grant privileges: use the DATABASE_URL of the role that owns the tables.`,
    })
  }
  yield* sql.withTransaction(Effect.gen(function* () {
    const grants = yield* decodeStatements(sql.unsafe(grantsQuery, [role, purpose]))
    yield* Effect.forEach(grants, ({ statement }) => sql.unsafe(statement), { discard: true })
    yield* revokeDefaultPrivileges(role)
    yield* setRoleSettings(role)
  }))
})

/**
 * Gives a role exactly the privileges for its purpose on tables, sequences and functions, and revokes all others. The
 * change is atomic, so a service that uses the role can keep running.
 */
export const grantRolePrivileges = Effect.fnUntraced(function* (role: string, purpose: RolePurpose = "service") {
  const sql = yield* SqlClient.SqlClient
  yield* sql.withTransaction(Effect.gen(function* () {
    const revokes = yield* decodeStatements(sql.unsafe(revokesQuery, [role]))
    yield* Effect.forEach(revokes, ({ statement }) => sql.unsafe(statement), { discard: true })
    yield* addRolePrivileges(role, purpose)
  }))
})

/**
 * Grants privileges on new tables to existing roles: service roles (those that may call `create_usage_partition`) and
 * admin API roles (those that may insert credits). Revokes nothing, because a running process may depend on a
 * privilege.
 */
export const renewRolePrivileges = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const roles = yield* decodeRoles(sql`
    select rolname as role, 'service' as purpose
    from pg_proc, aclexplode(proacl) join pg_roles on pg_roles.oid = grantee
    where pg_proc.oid = to_regprocedure('public.create_usage_partition(timestamptz)') and grantee <> proowner
    union
    select rolname, 'admin' from pg_class, aclexplode(relacl) join pg_roles on pg_roles.oid = grantee
    where pg_class.oid = to_regclass('public.credits') and grantee <> relowner and privilege_type = 'INSERT'
  `)
  yield* Effect.forEach(roles, ({ purpose, role }) => addRolePrivileges(role, purpose), { discard: true })
})

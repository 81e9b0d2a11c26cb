/** How the service's sessions with PostgreSQL are opened: straight, or through a pooler in transaction mode. */
import { type PgClient } from "@effect/sql-pg"
import { Config, Context, Effect, Redacted, Schema } from "effect"
import { makeTypeRegistry } from "./NumericParser.ts"
import * as Line from "../health/SocketRegistry.ts"

/** §8: lock wait and statement time. No pooler passes these on, so through one the role has them (`Roles.ts`). */
export const sessionTimeouts = { lock_timeout: "2s", statement_timeout: "30s" } as const

/** The driver reads times by it. A pooler in transaction mode keeps it for each of its clients. */
export const sessionTimeZone = { timezone: "UTC" } as const

/** Whether the pooler keeps named statements apart, as PgBouncer does from 1.21 on with `max_prepared_statements`. */
export const PoolerPrepares = Config.Boolean("DATABASE_POOLER_PREPARES").pipe(Config.withDefault(false))

const isPostgresUrl = (text: string) => URL.canParse(text) && /^postgres(ql)?:$/.test(new URL(text).protocol)

/** Redacted before it is checked, so that no message shows a password. */
const PostgresUrl = Schema.Redacted(Schema.String).check(
  Schema.makeFilter((url) => isPostgresUrl(Redacted.value(url)), { message: "must be a URL of PostgreSQL" }),
)

/** The database; without it the embedded server. */
export const DatabaseUrl = Config.option(Config.schema(PostgresUrl, "DATABASE_URL"))

/** PostgreSQL itself, if `DATABASE_URL` leads through a pooler in transaction mode. */
export const DirectUrl = Config.option(Config.schema(PostgresUrl, "DATABASE_DIRECT_URL"))

/** A name as SQL has it. */
export const quoteIdentifier = (name: string) => `"${name.replaceAll(`"`, `""`)}"`

/** What gives a role the limits, in one database; each role may say it of itself. */
export const alterRoleStatements = (role: string, database: string) =>
  Object.entries(sessionTimeouts).map(([name, value]) =>
    `alter role ${quoteIdentifier(role)} in database ${quoteIdentifier(database)} set ${name} = '${value}'`
  )

const entries = Object.entries(sessionTimeouts).map(([name, value]) => `'${name}=${value}'`)

/** Whether a role is to have the limits in sessions that begin from now on; an expression beside `pg_database`. */
export const roleHasTimeoutsSql = (role: "current_user" | "$1") =>
  `(
  select count(distinct entry) = ${entries.length} from pg_db_role_setting, unnest(setconfig) as entry
  where setrole in (0, (select oid from pg_roles where rolname = ${role}))
    and setdatabase in (0, pg_database.oid) and entry in (${entries.join(", ")})
)`

export interface SessionOptions {
  readonly url: Redacted.Redacted
  readonly applicationName: string
  /** Through a pooler in transaction mode, where a session is nobody's own from one statement to the next. */
  readonly pooled: boolean
}

export const makeSessionConfig = Effect.fnUntraced(function* ({ applicationName, pooled, url }: SessionOptions) {
  const config: PgClient.PgPoolConfig = {
    url,
    applicationName,
    startupParameters: pooled ? sessionTimeZone : { ...sessionTimeouts, ...sessionTimeZone },
    prepare: pooled ? yield* PoolerPrepares : true,
    stream: Line.makeTrackedStream(url),
    types: makeTypeRegistry(),
  }
  return config
})

/** For what needs a session of its own: the way to PostgreSQL itself, which is that of all others without a pooler. */
export class DirectConnection extends Context.Service<DirectConnection, {
  readonly config: PgClient.PgPoolConfig
  /** Whether all others go through a pooler. */
  readonly pooled: boolean
}>()("tickerline/db/Direct") {}

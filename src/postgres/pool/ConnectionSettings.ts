/** Connection settings: database URLs and session parameters, direct or through a pooler in transaction mode. */
import { Config, Context, Effect, Redacted, Schema } from "effect"
import type { SocketRegistry } from "../health/SocketRegistry.ts"
import type { PoolConnectionConfig } from "./ConnectionPool.ts"
import { makeRotatedPassword, type UrlFile } from "./PasswordRotation.ts"
import { areTlsParametersValid, makeTlsSockets, tlsParametersRule } from "./DatabaseTls.ts"
import { registerRecordType } from "./RecordType.ts"
import { makeActorParameters, ProcessActor } from "../SessionActor.ts"

/**
 * Settings that every session of the service states, because its statements rely on them and a server, database or role
 * may have others. Poolers do not pass them on, so `ServiceRole.ts` sets them on the role.
 */
export const sessionSettings = {
  // Time limits (§8, database load).
  lock_timeout: "2s",
  statement_timeout: "30s",
  // PostgreSQL's default compiles each look-up of packed usage for seconds.
  jit: "off",
  // With a stricter level, concurrent charges of one account fail, and migrations that build indexes never end.
  default_transaction_isolation: "read committed",
  // By default, a schema with the name of the role comes first.
  search_path: "public",
  // Migrations and `doctor` read definitions that PostgreSQL prints.
  quote_all_identifiers: "off",
} as const

/**
 * Further settings of every session, which poolers in transaction mode keep per client: the driver assumes UTC when it
 * decodes timestamps, and statements convert days to text and back, and contain backslashes.
 */
export const clientSettings = { timezone: "UTC", datestyle: "ISO, MDY", standard_conforming_strings: "on" } as const

/** Whether the pooler supports named prepared statements, as PgBouncer 1.21 does with `max_prepared_statements`. */
export const PoolerPreparedStatementsConfig = Config.Boolean("DATABASE_POOLER_PREPARES").pipe(Config.withDefault(false))

const isPostgresUrl = (text: string) => URL.canParse(text) && /^postgres(ql)?:$/.test(new URL(text).protocol)

/** A PostgreSQL URL. Redacted before validation, so that no error message shows a password. */
export const PostgresUrl = Schema.Redacted(Schema.String).check(
  // Begins with "Expected", because the message about the setting already contains this rule.
  Schema.makeFilter((url) => isPostgresUrl(Redacted.value(url)), { message: "Expected a PostgreSQL URL" }, true),
  Schema.makeFilter((url) => areTlsParametersValid(Redacted.value(url)), { message: tlsParametersRule }),
)

/** The URL of the database. If unset, the embedded server is used. */
export const DatabaseUrlConfig = Config.option(Config.schema(PostgresUrl, "DATABASE_URL"))

/** The URL of PostgreSQL itself, if `DATABASE_URL` names a pooler in transaction mode. */
export const DirectDatabaseUrlConfig = Config.option(Config.schema(PostgresUrl, "DATABASE_DIRECT_URL"))

export const quoteIdentifier = (name: string) => `"${name.replaceAll(`"`, `""`)}"`

/** Returns statements that give a role the session settings in one database. A role may run them for itself. */
export const makeRoleSettingStatements = (role: string, database: string) =>
  Object.entries(sessionSettings).map(([name, value]) =>
    `alter role ${quoteIdentifier(role)} in database ${quoteIdentifier(database)} set ${name} = '${value}'`
  )

const settingEntries = Object.entries(sessionSettings).map(([name, value]) => `'${name}=${value}'`)

/**
 * Returns an SQL condition: whether new sessions of the role get the session settings. The `from` clause must contain
 * `pg_database`.
 */
export const makeRoleSettingsConditionSql = (role: "current_user" | "$1") =>
  `(
  select count(distinct entry) = ${settingEntries.length} from pg_db_role_setting, unnest(setconfig) as entry
  where setrole in (0, (select oid from pg_roles where rolname = ${role}))
    and setdatabase in (0, pg_database.oid) and entry in (${settingEntries.join(", ")})
)`

interface SessionOptions {
  readonly url: Redacted.Redacted
  /** The file with the URL, if it is in a file. */
  readonly urlFile?: UrlFile | undefined
  readonly applicationName: string
  /** Whether the URL names a pooler in transaction mode, which may run each transaction in a different session. */
  readonly pooled: boolean
}

/** A driver configuration, with the registry of the sockets that it opens. */
export interface ConnectionConfig {
  readonly config: PoolConnectionConfig
  readonly sockets: SocketRegistry
  /** Path of the file with the URL, if it is in a file. */
  readonly file?: string | undefined
}

export const makeConnectionConfig = Effect.fnUntraced(
  function* ({ applicationName, pooled, url, urlFile }: SessionOptions) {
    const { sockets, ssl } = yield* makeTlsSockets(url)
    registerRecordType()
    const config = {
      url,
      ssl,
      applicationName,
      startupParameters: pooled
        ? clientSettings
        : { ...sessionSettings, ...clientSettings, ...makeActorParameters(yield* ProcessActor) },
      prepare: pooled ? yield* PoolerPreparedStatementsConfig : true,
      stream: sockets.open,
    }
    if (urlFile === undefined) return { config, sockets } satisfies ConnectionConfig
    // Works even while connections are blocked, so that the health probe finds a new password, too.
    const password = makeRotatedPassword({ ...config, stream: sockets.openForProbe }, urlFile)
    return { config: { ...config, password }, sockets, file: urlFile.file } satisfies ConnectionConfig
  },
)

/** Configuration of direct connections to PostgreSQL, for work that must stay in one session. */
export class DirectConnectionConfig extends Context.Service<
  DirectConnectionConfig,
  ConnectionConfig & {
    /** Configuration of the pool's connections through a pooler; undefined if the pool connects directly. */
    readonly pooler: ConnectionConfig | undefined
  }
>()("tickerline/postgres/DirectConnectionConfig") {}

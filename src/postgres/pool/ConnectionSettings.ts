/**
 * Connection settings: database URLs and session parameters, for direct connections and for connections through a
 * pooler in transaction mode.
 */
import { Config, Context, Effect, Redacted, Schema } from "effect"
import type { SocketRegistry } from "../health/SocketRegistry.ts"
import type { PoolConnectionConfig } from "./ConnectionPool.ts"
import { makeRotatedPassword, type UrlFile } from "./PasswordRotation.ts"
import { areTlsParametersValid, makeTlsSockets, tlsParametersRule } from "./DatabaseTls.ts"
import { registerRecordType } from "./RecordType.ts"
import { makeActorParameters, ProcessActor } from "../SessionActor.ts"

/**
 * Settings that every session sets explicitly, because statements rely on them and the defaults of a server, database
 * or role may differ. Poolers do not pass these settings on, so `ServiceRole.ts` also sets them on the role.
 */
export const sessionSettings = {
  // Time limits (§8, database load).
  lock_timeout: "2s",
  statement_timeout: "30s",
  // With PostgreSQL's default, compiling each query of packed usage would take seconds.
  jit: "off",
  // At a stricter level, concurrent charges to one account would fail, and migrations that build indexes would never
  // finish.
  default_transaction_isolation: "read committed",
  // By default, PostgreSQL would first search a schema with the same name as the role.
  search_path: "public",
  // Migrations and `doctor` compare definitions printed by PostgreSQL, and this setting affects them.
  quote_all_identifiers: "off",
} as const

/**
 * More settings for every session. Poolers in transaction mode track these per client. The driver assumes UTC when it
 * decodes timestamps. Statements convert days to text and back, and contain backslashes.
 */
export const clientSettings = { timezone: "UTC", datestyle: "ISO, MDY", standard_conforming_strings: "on" } as const

/** Whether the pooler supports named prepared statements. PgBouncer does since 1.21, with `max_prepared_statements`. */
export const PoolerPreparedStatementsConfig = Config.Boolean("DATABASE_POOLER_PREPARES").pipe(Config.withDefault(false))

const isPostgresUrl = (text: string) => URL.canParse(text) && /^postgres(ql)?:$/.test(new URL(text).protocol)

/** A PostgreSQL URL. It is redacted before it is validated, so that error messages never contain a password. */
export const PostgresUrl = Schema.Redacted(Schema.String).check(
  // The message has the prefix "Expected" because the error about the setting already states this rule.
  Schema.makeFilter((url) => isPostgresUrl(Redacted.value(url)), { message: "Expected a PostgreSQL URL" }, true),
  Schema.makeFilter((url) => areTlsParametersValid(Redacted.value(url)), { message: tlsParametersRule }),
)

/** The database URL. If unset, the embedded server is used. */
export const DatabaseUrlConfig = Config.option(Config.schema(PostgresUrl, "DATABASE_URL"))

/** The URL for connecting to PostgreSQL directly, if `DATABASE_URL` points to a pooler in transaction mode. */
export const DirectDatabaseUrlConfig = Config.option(Config.schema(PostgresUrl, "DATABASE_DIRECT_URL"))

/** Quotes an identifier for use in SQL. */
export const quoteIdentifier = (name: string) => `"${name.replaceAll(`"`, `""`)}"`

/** Returns the statements that set the session settings on a role in one database. A role may run them for itself. */
export const makeRoleSettingStatements = (role: string, database: string) =>
  Object.entries(sessionSettings).map(([name, value]) =>
    `alter role ${quoteIdentifier(role)} in database ${quoteIdentifier(database)} set ${name} = '${value}'`
  )

const settingEntries = Object.entries(sessionSettings).map(([name, value]) => `'${name}=${value}'`)

/**
 * Returns an SQL condition that checks whether new sessions of the role get the session settings. The query's `from`
 * clause must contain `pg_database`.
 */
export const makeRoleSettingsConditionSql = (role: "current_user" | "$1") =>
  `(
  select count(distinct entry) = ${settingEntries.length} from pg_db_role_setting, unnest(setconfig) as entry
  where setrole in (0, (select oid from pg_roles where rolname = ${role}))
    and setdatabase in (0, pg_database.oid) and entry in (${settingEntries.join(", ")})
)`

interface SessionOptions {
  readonly url: Redacted.Redacted
  /** The file from which the URL was read, if any. */
  readonly urlFile?: UrlFile | undefined
  readonly applicationName: string
  /** Whether the URL points to a pooler in transaction mode, which may use a different session for each transaction. */
  readonly pooled: boolean
}

/** A driver configuration with a registry of the sockets that it opens. */
export interface ConnectionConfig {
  readonly config: PoolConnectionConfig
  readonly sockets: SocketRegistry
  /** The path of the file from which the URL was read, if any. */
  readonly file?: string | undefined
}

/**
 * Creates the driver configuration (`config`) for the connections to a URL, and the registry of the sockets that these
 * connections open (`sockets`). The configuration contains TLS and the session settings, and for direct connections
 * also the process's actor, which the audit log records. If the URL was read from a file, also returns the path of that
 * file (`file`), and the driver reads the password from it again for each new connection, because the password may have
 * been rotated.
 */
export const makeConnectionConfig = Effect.fnUntraced(
  function* ({ applicationName, pooled, url, urlFile }: SessionOptions) {
    const { sockets, ssl } = yield* makeTlsSockets(url)
    // Teaches the driver PostgreSQL's type `record`, which the statements of lists return.
    registerRecordType()
    const config = {
      url,
      ssl,
      applicationName,
      // A pooler in transaction mode rejects parameters that it does not track for each client. The role's defaults
      // provide the session settings instead.
      startupParameters: pooled
        ? clientSettings
        : { ...sessionSettings, ...clientSettings, ...makeActorParameters(yield* ProcessActor) },
      prepare: pooled ? yield* PoolerPreparedStatementsConfig : true,
      stream: sockets.open,
    }
    if (urlFile === undefined) return { config, sockets } satisfies ConnectionConfig
    // While a rotated password is tested, the health probe may have blocked new connections in the registry.
    // `openForProbe` works even while connections are blocked, so the health probe can pick up a new password too.
    const password = makeRotatedPassword({ ...config, stream: sockets.openForProbe }, urlFile)
    return { config: { ...config, password }, sockets, file: urlFile.file } satisfies ConnectionConfig
  },
)

/** The configuration for direct connections to PostgreSQL, for work that must stay in one session. */
export class DirectConnectionConfig extends Context.Service<
  DirectConnectionConfig,
  ConnectionConfig & {
    /** The pool's configuration for connecting through a pooler, or undefined if the pool connects directly. */
    readonly pooler: ConnectionConfig | undefined
  }
>()("tickerline/postgres/DirectConnectionConfig") {}

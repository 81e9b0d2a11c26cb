/**
 * Checks, at startup and while serving requests, that a connection pooler keeps the session settings that the service
 * relies on. In transaction mode, a pooler may lose settings and prepared statements, or mix them up between clients.
 */
import { PgConnection } from "@effect/sql-pg"
import { Data, Duration, Effect, Layer, Metric, type Redacted, Schema } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { repeatInBackground } from "../metrics/BackgroundFibers.ts"
import { initializeCounters } from "../metrics/CallbackMetrics.ts"
import { tickerlineCommand } from "../ProjectCommands.js"
import { decodeRows } from "../DecodeRows.ts"
import { describeSqlError } from "../FailureText.ts"
import {
  clientSettings,
  makeConnectionConfig,
  makeRoleSettingsConditionSql,
  makeRoleSettingStatements,
  PoolerPreparedStatementsConfig,
  quoteIdentifier,
  sessionSettings,
} from "./ConnectionSettings.ts"

/** A database URL points to an unsuitable server. The message tells the operator how to fix the problem. */
export class DatabaseUrlError extends Data.TaggedError("DatabaseUrlError")<{ readonly message: string }> {}

const SessionRow = Schema.Struct({
  pid: Schema.Int,
  role: Schema.String,
  database: Schema.String,
  /** Identifies the database. Two connections to the same database have equal values. */
  identity: Schema.String,
  /** Settings with unexpected values, such as `lock_timeout is 0, not 2s`. */
  different: Schema.Array(Schema.String),
  /** Whether new sessions of the role get the required session settings. */
  role_has_settings: Schema.Boolean,
})

const expectedValues = Object.entries({ ...sessionSettings, ...clientSettings })
  .map(([name, value]) => `('${name}', '${value}')`).join(", ")

const sessionQuery = `
  select pg_backend_pid() as pid, current_user::text as role, current_database()::text as database,
    (select system_identifier from pg_control_system()) || ' ' || oid as identity,
    array(
      select format('%s is %s, not %s', name, current_setting(name), value)
      from (values ${expectedValues}) as expected (name, value)
      where current_setting(name) <> value
    ) as different,
    ${makeRoleSettingsConditionSql("current_user")} as role_has_settings
  from pg_database where datname = current_database()`

const readSession = (connection: PgConnection.PgConnection) =>
  connection.query(sessionQuery, [], false).pipe(
    Effect.flatMap(({ rows }) => Schema.decodeUnknownEffect(SessionRow)(rows[0])),
    Effect.catchTag("SchemaError", Effect.die),
  )

const directUrlAdvice = "Set DATABASE_DIRECT_URL to PostgreSQL itself, or to a pooler in session mode."
const mustBeDirect = "It must name PostgreSQL itself."

/**
 * Creates the error for a failed connection to the URL in a setting, such as `DATABASE_URL`. `pooled` is true if that
 * URL should point to a pooler.
 *
 * Only poolers reject startup parameters. If the URL should point to a pooler, or the parameter is `options`, it comes
 * from the URL itself, so the advice is to remove it. Otherwise it is one of the session settings, which the service
 * sends over direct connections only: the URL points to a pooler although it must not. Any other failure is returned
 * with the name of the setting, or unchanged for `DATABASE_URL`.
 */
const explainConnectError = (setting: string, pooled: boolean) => (error: SqlError.SqlError) => {
  const reason = describeSqlError(error)
  if (/unsupported startup parameter/.test(reason)) {
    return new DatabaseUrlError({
      message: pooled || /options/.test(reason)
        ? `The pooler in ${setting} rejects an ${reason}. Remove it from the URL, or add it to the pooler's ` +
          "ignore_startup_parameters."
        : `The pooler in ${setting} rejects the session's settings (${reason}). ${
          setting === "DATABASE_URL" ? directUrlAdvice : mustBeDirect
        }`,
    })
  }
  return setting === "DATABASE_URL" ? error : new DatabaseUrlError({
    message: `${setting}: no connection (expected postgres://user:password@host:port/database): ${reason}`,
  })
}

/**
 * Creates the error for a session with wrong settings. With wrong settings, a statement could wait, run or compile for
 * too long.
 */
const makeSettingsError = (setting: string, session: typeof SessionRow.Type) => {
  const { database, different, role, role_has_settings } = session
  const advice = role_has_settings
    ? "The role has them now, but the pooler's connections are older, or another program changed them: run RECONNECT " +
      "in the pooler's console."
    : `Run \`${tickerlineCommand} grant ${role}\`, or run as ${role} itself: ${
      makeRoleSettingStatements(role, database).join("; ")
    }; then run RECONNECT in the pooler's console.`
  return new DatabaseUrlError({
    message: `Through ${setting}, ${different.join("; ")}. Poolers do not pass on session settings, so the role ` +
      `must have them. ${advice}`,
  })
}

const readPid = (connection: PgConnection.PgConnection) => Effect.map(readSession(connection), ({ pid }) => pid)

/**
 * Returns whether a pooler is in transaction mode. In that mode, a client may get a different server process for each
 * transaction.
 */
const isTransactionMode = Effect.fnUntraced(
  function* (connection: PgConnection.PgConnection, other: typeof connection) {
    const before = yield* readPid(connection)
    yield* other.query("begin", [], false)
    const isTaken = (yield* readPid(other)) === before
    // Skip this query if the second client got the first client's server process, because it could then wait forever.
    const hasMoved = !isTaken && (yield* readPid(connection)) !== before
    yield* other.query("rollback", [], false)
    return isTaken || hasMoved
  },
)

/** In session mode, a pooler may have no second connection available, so a timeout counts as session mode. */
const modeCheckTimeout = Duration.seconds(5)
const modeCheckAttempts = 3

const connect = (setting: string, url: Redacted.Redacted, pooled: boolean) =>
  makeConnectionConfig({ url, applicationName: "tickerline-start", pooled }).pipe(
    Effect.flatMap(({ config }) => PgConnection.make(config)),
    Effect.catchTag("SqlError", (error) => Effect.fail(explainConnectError(setting, pooled)(error))),
  )

/**
 * Checks a connection that must stay in one session: to PostgreSQL itself, or through a pooler in session mode. Returns
 * the session's properties and whether there is a pooler. Fails if the pooler is in transaction mode, or if the session
 * lacks required settings. `setting` is the name of the setting with the URL, for error messages.
 */
export const checkDirectConnection = Effect.fnUntraced(function* (setting: string, url: Redacted.Redacted) {
  // The URL should not point to a pooler in transaction mode, so the connection is configured as for PostgreSQL itself.
  const isPooled = false
  const connection = yield* connect(setting, url, isPooled)
  const session = yield* readSession(connection)
  // When a connection opens, a pooler reports a process id of its own, which differs from PostgreSQL's.
  const hasPooler = session.pid !== connection.processId
  if (hasPooler) {
    const other = yield* connect(setting, url, isPooled)
    // A single check may miss the transaction mode by chance, so it is repeated. If it cannot be completed, the pooler
    // is accepted.
    const isUnsuitable = yield* isTransactionMode(connection, other).pipe(
      Effect.repeat({ while: (found) => !found, times: modeCheckAttempts - 1 }),
      Effect.timeoutOrElse({ duration: modeCheckTimeout, orElse: () => Effect.succeed(false) }),
      Effect.orElseSucceed(() => false),
    )
    if (isUnsuitable) {
      return yield* new DatabaseUrlError({
        message: `${setting} names a pooler in transaction mode, which mixes the statements and settings of its ` +
          `clients. ${setting === "DATABASE_URL" ? directUrlAdvice : mustBeDirect}`,
      })
    }
  }
  if (session.different.length > 0) return yield* makeSettingsError(setting, session)
  return { ...session, hasPooler }
}, Effect.scoped)

/**
 * Returns whether a pooler supports named prepared statements. A pooler that supports them also renames them, so
 * PostgreSQL does not list the driver's names.
 */
const supportsPreparedStatements = Effect.fnUntraced(function* (connection: PgConnection.PgConnection) {
  yield* connection.query("begin", [], false)
  yield* connection.query("select 1 as named")
  const { rows } = yield* connection.query("select name from pg_prepared_statements where name ~ '^effect_'", [], false)
  yield* Effect.forEach(
    rows,
    ({ name }) => connection.query(`deallocate ${quoteIdentifier(String(name))}`, [], false),
  )
  yield* connection.query("commit", [], false)
  return rows.length === 0
})

/** Checks a connection through a pooler in transaction mode. */
const checkPooledConnection = Effect.fnUntraced(function* (setting: string, url: Redacted.Redacted) {
  const connection = yield* connect(setting, url, true)
  const session = yield* readSession(connection)
  if (session.different.length > 0) return yield* makeSettingsError(setting, session)
  if ((yield* PoolerPreparedStatementsConfig) && !(yield* supportsPreparedStatements(connection))) {
    return yield* new DatabaseUrlError({
      message: `DATABASE_POOLER_PREPARES is true, but the pooler in ${setting} does not separate the prepared ` +
        "statements of its clients. Unset it, or use PgBouncer 1.21 or newer with max_prepared_statements = 200.",
    })
  }
  return { ...session, hasPooler: session.pid !== connection.processId }
}, Effect.scoped)

/** Checks the pooled and the direct connection, and checks that both reach the same database. */
export const checkPooledAndDirectConnections = Effect.fnUntraced(function* (
  url: Redacted.Redacted,
  directUrl: Redacted.Redacted,
) {
  const pooled = yield* checkPooledConnection("DATABASE_URL", url)
  const direct = yield* checkDirectConnection("DATABASE_DIRECT_URL", directUrl)
  if (pooled.identity !== direct.identity) {
    return yield* new DatabaseUrlError({
      message: `DATABASE_URL and DATABASE_DIRECT_URL lead to different databases (${pooled.database} and ` +
        `${direct.database}) or servers. Name the same database in both.`,
    })
  }
  return pooled
})

const repairInterval = Duration.seconds(5)

const repairedSettings = Metric.counter("tickerline_pooler_limits_mended_total", {
  description: "Session settings that were wrong on a pooler's connection and were corrected.",
  incremental: true,
})

const decodeSettings = decodeRows(Schema.Struct({ name: Schema.String, setting: Schema.String }))

/**
 * Checks the session settings of one connection through the pooler, and corrects those that differ from
 * `sessionSettings`. Both happen in the same transaction, because a pooler in transaction mode may use another
 * connection for the next one. Logs and counts the corrections.
 */
export const repairSessionSettings = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const expected = Object.entries(sessionSettings)
  const wrong = yield* sql.withTransaction(Effect.gen(function* () {
    const settings = yield* decodeSettings(sql`
      select name, current_setting(name) as setting from unnest(${expected.map(([name]) => name)}::text[]) as name
    `)
    const wrongSettings = settings.filter(({ name, setting }) =>
      !expected.some(([key, value]) => key === name && value === setting)
    )
    const corrections = expected.filter(([name]) => wrongSettings.some((setting) => setting.name === name))
    yield* Effect.forEach(corrections, ([name, value]) => sql.unsafe(`set ${name} = '${value}'`), { discard: true })
    return wrongSettings
  }))
  if (wrong.length === 0) return
  yield* Metric.update(repairedSettings, wrong.length)
  const found = wrong.map(({ name, setting }) => `${name} = ${setting}`).join(", ")
  yield* Effect.logWarning(
    `A pooler connection had ${found}; this was corrected. Another program with the same role changed it, or the ` +
      "connection is older than the role's settings: run RECONNECT in the pooler's console.",
  )
})

/**
 * Keeps repairing the settings of connections through the pooler. A setting changed by one client persists for later
 * clients.
 */
export const poolerSettingsGuardLayer = Layer.effectDiscard(Effect.gen(function* () {
  yield* initializeCounters(repairedSettings)
  yield* repeatInBackground(Effect.ignore(repairSessionSettings), repairInterval)
}))

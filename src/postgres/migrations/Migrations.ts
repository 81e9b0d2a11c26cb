/**
 * Creates the schema in an empty database, and applies the migrations `sql/migrations/<id>_<name>.sql` in order, each
 * exactly once. Other processes may be starting or serving requests at the same time. The schema is created in one
 * transaction. Each migration also runs in its own transaction, unless its script opts out. A migration waits only
 * briefly for locks, and is retried if it cannot get them (docs/decisions/0082-own-migration-runner.md).
 */
import { PgClient } from "@effect/sql-pg"
import { Data, Duration, Effect, Layer, Schedule, Schema } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, SqlError } from "effect/sql"
import { describeSqlError } from "../FailureText.ts"
import { OperationProgress } from "../metrics/OperationProgress.ts"
import { tickerlineCommand } from "../ProjectCommands.js"
import { decodeRows } from "../DecodeRows.ts"
import { isDuplicateObject, isLockTimeout } from "../SqlState.ts"
import { formatMigration, listMigrationScripts, type MigrationScript, schemaId } from "./MigrationScripts.ts"
import { renewRolePrivileges } from "./ServiceRole.ts"

/** Migrations are pending, but either this role may not apply them or this database is unsuitable for the data. */
export class MigrationRefused extends Data.TaggedError("MigrationRefused")<{ readonly message: string }> {}

/**
 * A migration failed and was rolled back. If it ran without a transaction, the statements before the failure remain in
 * effect.
 */
export class MigrationFailed extends Data.TaggedError("MigrationFailed")<{
  readonly message: string
  /** Whether no migration had been applied before this one. */
  readonly isFirst: boolean
  readonly cause: SqlError.SqlError
}> {}

/** The table of applied migrations. It also has a row for the schema. */
export const migrationsTableName = "tickerline_migrations"

/** The error message for a database that has migrations but not the schema. */
export const developmentDatabase = "The database was made by a development version before 1.0.0, from which there is " +
  "no upgrade. Create another database, set DATABASE_URL to it, and load the data again."

/** Returns whether all migrations have been applied. The service role's privileges are sufficient for this check. */
const isCurrent = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* sql<
    { readonly exists: boolean }
  >`select to_regclass(${migrationsTableName}) is not null as exists`
  if (found?.exists !== true) return false
  const applied = yield* sql<{ readonly id: number }>`select migration_id as id from ${sql(migrationsTableName)}`
  const ids = new Set(applied.map(({ id }) => id))
  if (ids.size > 0 && !ids.has(schemaId)) return yield* new MigrationRefused({ message: developmentDatabase })
  return (yield* listMigrationScripts).every(([id]) => ids.has(id))
})

const TargetDatabase = Schema.Struct({
  role: Schema.String,
  may_create: Schema.NullOr(Schema.Boolean),
  database: Schema.String,
  encoding: Schema.String,
  hidden_extension: Schema.NullOr(Schema.String),
})

/**
 * Fails if the current role may not create objects in the schema, or if the database is unsuitable. The database's
 * encoding must be UTF-8; PostgreSQL creates databases with `SQL_ASCII` on a machine without a locale. The extension
 * `pg_trgm` must not be in a schema outside the search path (`hidden_extension`), as it is in some hosted databases.
 */
const requireSuitableDatabase = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* decodeRows(TargetDatabase)(sql`
    select current_user as role, has_schema_privilege(current_schema(), 'create') as may_create,
      datname::text as database, pg_encoding_to_char(encoding)::text as encoding,
      (select extnamespace::regnamespace::text from pg_extension join pg_namespace on pg_namespace.oid = extnamespace
        where extname = 'pg_trgm' and nspname <> all (current_schemas(true))) as hidden_extension
    from pg_database where datname = current_database()
  `)
  if (found?.may_create !== true) {
    return yield* new MigrationRefused({
      message: `The database has pending migrations, and ${found?.role ?? "its role"} may not apply them. ` +
        `Run \`${tickerlineCommand} migrate\` with the DATABASE_URL of the role that owns the tables.`,
    })
  }
  if (found.encoding !== "UTF8") {
    return yield* new MigrationRefused({
      message:
        `The encoding of the database ${found.database} is ${found.encoding}, in which names of companies would ` +
        `be damaged. Create one in UTF-8: create database NAME template template0 encoding 'UTF8'.`,
    })
  }
  if (found.hidden_extension !== null) {
    return yield* new MigrationRefused({
      message: `The schema ${found.hidden_extension} has the extension pg_trgm, but the service only searches ` +
        "public. Move the extension with a role that may: alter extension pg_trgm set schema public.",
    })
  }
})

/**
 * The id of the advisory lock that serializes migrations. It must never change, because two different releases may run
 * migrations at the same time.
 */
export const migrationLockId = 7_101_884

/**
 * Time limit for each wait for a lock. It is short because all later lock requests for the table queue behind this one.
 */
const lockTimeout = "250ms"

/** Pause between attempts to lock a table that is in use. */
const lockRetryInterval = Duration.millis(750)

/** At about one attempt per second, this allows ten minutes, which is longer than any request uses a table. */
const maxLockRetries = 600

class MigrationLockBusy extends Data.TaggedError("MigrationLockBusy")<{}> {}

/**
 * Takes the migration lock and creates the table of applied migrations. Waits only briefly for the lock. The process
 * that holds the lock may be running `create index concurrently`, which waits for this transaction to end. A longer
 * wait for the lock would therefore be a deadlock.
 */
const acquireMigrationLock = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`set local statement_timeout = 0`
  yield* sql`set local idle_in_transaction_session_timeout = 0`
  yield* sql.unsafe(`set local lock_timeout = '${lockTimeout}'`)
  yield* Effect.catchIf(
    sql`select pg_advisory_xact_lock(${migrationLockId}::int8)`,
    isLockTimeout,
    () => Effect.fail(new MigrationLockBusy()),
  )
  yield* sql`
    create table if not exists ${sql(migrationsTableName)} (
      migration_id integer primary key,
      created_at timestamptz not null default now(),
      name text not null
    )
  `
})

const runStatements = (sql: SqlClient.SqlClient, { statements }: MigrationScript) =>
  Effect.forEach(statements, (statement) => sql.unsafe(statement), { discard: true })

/**
 * Runs a script outside a transaction. Uses a second connection, because the lock is held by the transaction on the
 * first connection. The script's statements do not block other sessions while they wait for a lock, so they have no
 * lock timeout.
 */
const runOutsideTransaction = Effect.fnUntraced(
  function* (script: MigrationScript) {
    const { config } = yield* PgClient.PgClient
    const lockConnection = yield* SqlClient.SqlClient
    // Running any statement makes the session release the snapshot of its previous query. Otherwise `create index
    // concurrently` on the other connection would wait for that snapshot forever.
    yield* lockConnection`set local statement_timeout = 0`
    const sql = yield* PgClient.makeClient(config)
    yield* sql`set statement_timeout = 0`
    yield* sql`set lock_timeout = 0`
    yield* runStatements(sql, script)
  },
  Effect.scoped,
  Effect.provide(Reactivity.layer),
)

/**
 * Applies the next pending migration and records it in the table of applied migrations. After the last one, also
 * updates the privileges of existing service and admin roles. Returns the migration's id and name, or undefined if no
 * migration is pending. The caller runs this in a transaction, which holds the migration lock.
 */
const applyNextMigration = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const progress = yield* OperationProgress
  yield* acquireMigrationLock
  const applied = yield* sql<{ readonly id: number }>`select migration_id as id from ${sql(migrationsTableName)}`
  const migrations = yield* listMigrationScripts
  const pending = migrations.filter(([id]) => !applied.some((migration) => migration.id === id))
  const [next] = pending
  if (next === undefined) return undefined
  const [id, name, read] = next
  const done = migrations.length - pending.length
  Object.assign(progress, { label: `migration ${formatMigration(id, name)}`, done, total: migrations.length, count: 0 })
  const script = yield* Effect.orDie(read)
  const work = Effect.gen(function* () {
    yield* script.inTransaction ? runStatements(sql, script) : runOutsideTransaction(script)
    yield* sql`insert into ${sql(migrationsTableName)} (migration_id, name) values (${id}, ${name})`
    if (pending.length === 1) yield* renewRolePrivileges
  })
  yield* Effect.mapError(
    work,
    // If the first migration fails, the database may contain the tables of another program.
    (error) =>
      SqlError.isSqlError(error)
        ? new MigrationFailed({ message: formatMigration(id, name), isFirst: applied.length === 0, cause: error })
        : error,
  )
  return [id, name] as const
})

/** Describes the oldest open transaction, which is probably the one that blocks the migration. */
const describeOldestTransaction = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* sql<{ readonly who: string }>`
    select format('%s (process %s of PostgreSQL) for %s', coalesce(nullif(application_name, ''), usename), pid,
      date_trunc('second', now() - xact_start)) as who
    from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null
    order by xact_start limit 1
  `
  return found === undefined ? "" : ` The oldest transaction is from ${found.who}.`
}).pipe(Effect.catch(() => Effect.succeed("")))

const describeBlockedMigration = ({ message }: MigrationFailed) =>
  Effect.map(describeOldestTransaction, (oldest) => `Migration ${message} is waiting for a table in use.${oldest}`)

/**
 * Creates the error for a database that has tables but no record of applied migrations. A restore writes that record
 * last, so a partially restored database ends up in this state.
 */
const explainUnmigratedTables = Effect.fnUntraced(function* (error: MigrationFailed) {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* decodeRows(Schema.Struct({ name: Schema.String }))(
    sql`select quote_ident(current_database()) as name`,
  )
  const name = found?.name ?? "NAME"
  return new MigrationFailed({
    message:
      `The database ${name} is not empty, but no migration was applied to it. If it has the tables of a restore ` +
      `that did not finish, drop and create it (drop database ${name}; create database ${name}), then restore again. ` +
      "Otherwise check DATABASE_URL: the service needs a database of its own. Nothing was changed.",
    isFirst: error.isFirst,
    cause: error.cause,
  })
})

/**
 * Replaces a failure's message, which contains only the migration's name, with an explanation for the operator: which
 * transaction has blocked the migration, that the database already contains tables that no migration has created, or
 * else PostgreSQL's error.
 */
const explainMigrationFailure = (error: MigrationFailed) => {
  if (isLockTimeout(error.cause)) {
    return Effect.map(
      describeBlockedMigration(error),
      (description) =>
        new MigrationFailed({
          message: `${description} Nothing was changed. End that transaction, and migrate again.`,
          isFirst: error.isFirst,
          cause: error.cause,
        }),
    )
  }
  if (error.isFirst && isDuplicateObject(error.cause)) return explainUnmigratedTables(error)
  return Effect.succeed(
    new MigrationFailed({
      message: `Migration ${error.message} failed: ${describeSqlError(error.cause)}`,
      isFirst: error.isFirst,
      cause: error.cause,
    }),
  )
}

/**
 * Applies the next migration in a transaction of its own. Retries without limit while another process is migrating, and
 * up to `maxLockRetries` times while a table that the migration must lock is in use. The first of these retries is
 * logged.
 */
const applyNextWithRetry = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  let isLogged = false
  const logOnce = (error: MigrationFailed) =>
    Effect.suspend(() => {
      if (isLogged || !isLockTimeout(error.cause)) return Effect.void
      isLogged = true
      return Effect.flatMap(describeBlockedMigration(error), Effect.logInfo)
    })
  return yield* sql.withTransaction(applyNextMigration).pipe(
    Effect.retry({ while: ({ _tag }) => _tag === "MigrationLockBusy" }),
    Effect.tapErrorTag("MigrationFailed", logOnce),
    Effect.retry({
      while: (error) => error._tag === "MigrationFailed" && isLockTimeout(error.cause),
      schedule: Schedule.spaced(lockRetryInterval),
      times: maxLockRetries,
    }),
    Effect.catchTag("MigrationFailed", (error) => Effect.flatMap(explainMigrationFailure(error), Effect.fail)),
  )
})

/**
 * Applies all pending migrations and returns those applied, oldest first. Only one process at a time applies
 * migrations.
 */
export const runMigrations = Effect.gen(function* () {
  const applied: Array<readonly [id: number, name: string]> = []
  if (yield* isCurrent) return applied
  yield* requireSuitableDatabase
  yield* Effect.logInfo("Applying migrations to the database.")
  for (let next = yield* applyNextWithRetry; next !== undefined; next = yield* applyNextWithRetry) applied.push(next)
  return applied
})

/** Applies all pending migrations before any layer that depends on this one is built. */
export const migrationsLayer = Layer.effectDiscard(runMigrations)

/**
 * Restores and checks backups. A check either restores the backup into a scratch database, or compares a database that
 * was restored from a base backup with the recorded digests.
 */
import { PgClient } from "@effect/sql-pg"
import { Data, Effect, FileSystem, Schema } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { describeSqlError } from "../../postgres/FailureText.ts"
import { recordAuditEvent } from "../../postgres/AuditLog.ts"
import { DirectConnectionConfig, quoteIdentifier } from "../../postgres/pool/ConnectionSettings.ts"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import { listMigrationScripts } from "../../postgres/migrations/MigrationScripts.ts"
import { migrationLockId, migrationsTableName, runMigrations } from "../../postgres/migrations/Migrations.ts"
import { renewRolePrivileges } from "../../postgres/migrations/ServiceRole.ts"
import { OperationProgress } from "../../postgres/metrics/OperationProgress.ts"
import { makeDatabaseArgument, requireClientProgram, runClientProgram } from "./PostgresClientPrograms.ts"
import { dumpFolderName, type Manifest, readManifest, readManifestWithDump, verifyBackupFiles } from "./Manifest.ts"
import { findDatabaseDifferences } from "./TableDigests.ts"

/** The backup cannot be restored here. Nothing was changed. The message tells the operator why, and how to proceed. */
export class RestoreRefused extends Data.TaggedError("RestoreRefused")<{ readonly message: string }> {}

/** The restored rows differ from the rows that were backed up. */
export class BackupDiffers extends Data.TaggedError("BackupDiffers")<{ readonly message: string }> {}

/** Options for a restore. */
export interface RestoreTask {
  /** The folder that contains the backup. */
  readonly folder: string
  /** The number of tables and indexes that `pg_restore` restores in parallel. */
  readonly jobs: number
}

const maxReportedDifferences = 10

/** The maximum length of a database name in bytes. PostgreSQL truncates longer names. */
const maxNameLength = 63

const failWithDifferences = (subject: string, differences: ReadonlyArray<string>) =>
  new BackupDiffers({
    message: `${subject} is not what was backed up:\n${
      differences.slice(0, maxReportedDifferences).map((difference) => `  ${difference}`).join("\n")
    }${
      differences.length > maxReportedDifferences
        ? `\n  and ${differences.length - maxReportedDifferences} more differences`
        : ""
    }`,
  })

const ServerRow = Schema.Struct({ database: Schema.String, user: Schema.String, postgresql: Schema.Number })
const decodeServer = decodeRows(ServerRow)
const decodeNames = decodeRows(Schema.Struct({ name: Schema.String }))
const decodeStatements = decodeRows(Schema.Struct({ statement: Schema.String }))
const decodeFlags = decodeRows(Schema.Struct({ found: Schema.Boolean }))

const readServer = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [server] = yield* decodeServer(sql`
    select current_database() as database, session_user::text as user,
      current_setting('server_version_num')::int / 10000 as postgresql
  `)
  return yield* Effect.orDie(Effect.fromNullishOr(server))
})

/** Runs an effect with a connection to another database on the same server. */
const withDatabase = <A, E, R>(database: string, effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(
    DirectConnectionConfig,
    ({ config }) => Effect.provide(effect, PgClient.layer({ ...config, database, maxConnections: 2 })),
  )

/**
 * Fails unless this release and this server can restore the backup: this release knows all migrations of the backup,
 * the server is not older than the server that was backed up, and `pg_restore` is installed in the version of the
 * server.
 */
const requireCompatible = Effect.fnUntraced(
  function* (manifest: Manifest, { postgresql }: typeof ServerRow.Type) {
    const known = new Set((yield* listMigrationScripts).map(([id]) => id))
    const unknown = manifest.migrations.filter((id) => !known.has(id))
    if (unknown.length > 0) {
      return yield* new RestoreRefused({
        message: `The backup was made by release ${manifest.tickerline}, with migrations that this release does not ` +
          `know: ${unknown.join(", ")}. Use that release or a later one.`,
      })
    }
    if (manifest.postgresql > postgresql) {
      return yield* new RestoreRefused({
        message: `The backup is from PostgreSQL ${manifest.postgresql}, and this server is ${postgresql}. ` +
          "Restore it on a server of the same or a later version.",
      })
    }
    yield* requireClientProgram("pg_restore", postgresql)
  },
)

/** Fails if a role that had privileges in the backed-up database does not exist on this server. */
const requireRoles = Effect.fnUntraced(function* ({ roles }: Manifest) {
  const sql = yield* SqlClient.SqlClient
  const existing = new Set(
    (yield* decodeNames(sql`select rolname::text as name from pg_roles`)).map(({ name }) => name),
  )
  const missing = roles.filter((role) => !existing.has(role))
  if (missing.length === 0) return
  return yield* new RestoreRefused({
    message: `This server has no role ${missing.join(", ")}, to which the backup grants privileges. Create it first: ` +
      missing.map((role) => `create role ${quoteIdentifier(role)} login password '…'`).join("; "),
  })
})

/**
 * Returns a description of one object in the database, such as `the table or view public.news`, or undefined if the
 * database is empty. PostgreSQL's own objects do not count, and neither do objects that belong to an extension:
 * `pg_depend` has a row of type `e` for each of them. Of several objects, a table is described rather than a schema or
 * a function, because its description comes last in alphabetical order.
 */
const findContent = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  // The values of `relkind` are those of tables, partitioned tables, views, materialized views and foreign tables.
  const [found] = yield* decodeNames(sql`
    select * from (
      select format('the schema %I', nspname) as name from pg_namespace
      where nspname not in ('public', 'information_schema') and nspname !~ '^pg_'
        and not exists (
          select from pg_depend where classid = 'pg_namespace'::regclass and objid = pg_namespace.oid and deptype = 'e'
        )
      union all
      select format('the table or view %I.%I', nspname, relname) from pg_class
        join pg_namespace on pg_namespace.oid = relnamespace
      where relkind in ('r', 'p', 'v', 'm', 'f') and nspname <> 'information_schema' and nspname !~ '^pg_'
        and not exists (
          select from pg_depend where classid = 'pg_class'::regclass and objid = pg_class.oid and deptype = 'e'
        )
      union all
      select format('the function %I.%I', nspname, proname) from pg_proc
        join pg_namespace on pg_namespace.oid = pronamespace
      where nspname <> 'information_schema' and nspname !~ '^pg_'
        and not exists (
          select from pg_depend where classid = 'pg_proc'::regclass and objid = pg_proc.oid and deptype = 'e'
        )
    ) as objects order by name desc limit 1
  `)
  return found?.name
})

/**
 * Returns whether an earlier restore into this database did not finish. A restore creates the migrations table early
 * but fills it last, so an empty migrations table shows that it did not finish.
 */
const hasUnfinishedRestore = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [migrated] = yield* decodeFlags(sql`
    select to_regclass(${`public.${migrationsTableName}`}) is not null as found
  `)
  return migrated?.found === true &&
    (yield* sql`select from ${sql(`public.${migrationsTableName}`)} limit 1`).length === 0
})

/** Fails if the database is in use by other sessions, or if it contains anything other than extensions. */
const requireUnused = Effect.fnUntraced(function* (database: string, applicationName: string) {
  const sql = yield* SqlClient.SqlClient
  const sessions = yield* decodeNames(sql`
    select distinct format('%s as %s', coalesce(nullif(application_name, ''), 'a program'), usename) as name
    from pg_stat_activity
    -- PostgreSQL hides the type of sessions of other roles. Its own background workers have no role.
    where datname = current_database() and coalesce(backend_type, 'client backend') = 'client backend'
      and usename is not null and application_name <> ${applicationName}
    order by 1 limit 5
  `)
  const advice = "To restore into a new database of this server, add --into NAME."
  if (sessions.length > 0) {
    return yield* new RestoreRefused({
      message: `The database ${database} is in use by ${
        sessions.map(({ name }) => name).join(", ")
      }, so nothing was restored. ${advice}`,
    })
  }
  const content = yield* findContent
  if (content === undefined) return
  return yield* new RestoreRefused({
    message: (yield* hasUnfinishedRestore)
      ? `The database ${database} has the tables of a restore that did not finish. Drop and create it (drop database ` +
        `${quoteIdentifier(database)}; create database ${quoteIdentifier(database)}), then restore again. ${advice}`
      : `The database ${database} is not empty: it has ${content}. Nothing was restored. ${advice}`,
  })
})

/**
 * Splits the dump's table of contents into two lists, writes each to a temporary file, and returns the paths of the
 * files. The first list contains everything except the rows of the migrations table; the second contains only those,
 * which are restored last. `pg_restore` restores what such a list names. `target` is the server to restore to, which
 * determines the version of `pg_restore`.
 */
const splitContents = Effect.fnUntraced(function* (dump: string, target: typeof ServerRow.Type) {
  const fs = yield* FileSystem.FileSystem
  const makeFile = fs.makeTempFileScoped({ prefix: "tickerline-restore-" })
  const all = yield* makeFile
  yield* runClientProgram("pg_restore", ["--list", `--file=${all}`, dump], target)
  const contents = (yield* fs.readFileString(all)).split("\n")
  const isMigrationRows = (line: string) => line.includes(` TABLE DATA public ${migrationsTableName} `)
  const write = Effect.fnUntraced(function* (lines: ReadonlyArray<string>) {
    const file = yield* makeFile
    yield* fs.writeFileString(file, lines.join("\n"))
    return file
  })
  return yield* Effect.all([
    write(contents.filter((line) => !isMigrationRows(line))),
    write(contents.filter(isMigrationRows)),
  ])
})

/** Whether a restore also restores the privileges of roles. All these roles must then exist on the server. */
interface PrivilegeChoice {
  readonly withPrivileges: boolean
}

/**
 * Restores the dump in the task's folder into the current database, which must be empty, and compares the restored rows
 * with the manifest. Fails with `BackupDiffers` if they are not the same. The rows of the migrations table are restored
 * only after all other rows were compared, so that the service refuses to use a partially restored database.
 */
const restoreDump = Effect.fnUntraced(
  function* ({ folder, jobs }: RestoreTask, manifest: Manifest, { withPrivileges }: PrivilegeChoice) {
    const sql = yield* SqlClient.SqlClient
    const progress = yield* OperationProgress
    const target = yield* readServer
    const dump = `${folder}/${dumpFolderName}`
    const [otherContents, migrationRows] = yield* splitContents(dump, target)
    /** Restores the part of the dump that the file at this path lists. */
    const restore = (list: string) =>
      runClientProgram("pg_restore", [
        makeDatabaseArgument(target),
        `--jobs=${jobs}`,
        "--exit-on-error",
        "--no-owner",
        ...(withPrivileges ? [] : ["--no-privileges"]),
        `--use-list=${list}`,
        dump,
      ], target)
    Object.assign(progress, { label: "pg_restore", done: 0, total: undefined, count: 0 })
    yield* restore(otherContents)
    const isOfMigrations = ({ table }: Manifest["tables"][number]) => table === `public.${migrationsTableName}`
    const compare = Effect.fnUntraced(function* (recorded: Pick<Manifest, "sequences" | "tables">) {
      const differences = yield* sql.withTransaction(findDatabaseDifferences(recorded))
      if (differences.length > 0) return yield* failWithDifferences("The restored database", differences)
    })
    const { sequences, tables } = manifest
    yield* compare({ sequences, tables: tables.filter((table) => !isOfMigrations(table)) })
    yield* restore(migrationRows)
    yield* compare({ sequences: [], tables: tables.filter(isOfMigrations) })
  },
  Effect.scoped,
)

/** Creates an empty UTF-8 database with the same locale as the current database. */
const createDatabase = Effect.fnUntraced(function* (name: string) {
  const sql = yield* SqlClient.SqlClient
  const [create] = yield* decodeStatements(sql`
    select format('create database %I template template0 encoding ''UTF8'' lc_collate %L lc_ctype %L',
      ${name}::text, datcollate, datctype) as statement
    from pg_database where datname = current_database()
  `)
  yield* sql.unsafe(create?.statement ?? "")
})

/**
 * Drops a database. If a plain `drop database` fails, drops it with `force`, which ends the remaining sessions. The
 * plain form is tried first because it also ends autovacuum workers; with `force`, only a superuser may end them.
 */
const dropDatabase = Effect.fnUntraced(function* (name: string) {
  const sql = yield* SqlClient.SqlClient
  const drop = `drop database if exists ${quoteIdentifier(name)}`
  yield* Effect.catch(sql.unsafe(drop), () => sql.unsafe(`${drop} with (force)`))
})

const findDatabase = Effect.fnUntraced(function* (name: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<{ readonly comment: string | null }>`
    select shobj_description(oid, 'pg_database') as comment from pg_database where datname = ${name}
  `
})

/** Opens a backup: verifies its files, and checks that this release and this server can restore it. */
const openBackup = Effect.fnUntraced(function* ({ folder }: RestoreTask) {
  const manifest = yield* readManifestWithDump(folder)
  const server = yield* readServer
  yield* requireCompatible(manifest, server)
  yield* verifyBackupFiles(folder, manifest)
  return { manifest, server }
})

/**
 * Prepares a restored database for the service: applies this release's migrations, renews the privileges of roles,
 * records the restore in the audit log, and updates the planner statistics. Returns the migrations that it applied.
 */
const prepareForService = Effect.fnUntraced(function* (database: string, { created_at }: Manifest) {
  const sql = yield* SqlClient.SqlClient
  const progress = yield* OperationProgress
  const applied = yield* runMigrations
  yield* renewRolePrivileges
  yield* recordAuditEvent({
    subject_type: "database",
    subject: database,
    change: "created",
    after: { restored_from: created_at },
  })
  Object.assign(progress, { label: "analyze", done: 0, total: undefined, count: 0 })
  yield* sql.withTransaction(Effect.andThen(sql`set local statement_timeout = 0`, sql`analyze`))
  return applied
})

/**
 * Restores into the current database, and returns the migrations that were then applied. Holds the migration lock in a
 * transaction of its own during the restore, so that migrations by other processes wait until it has ended.
 */
const restoreHere = Effect.fnUntraced(function* (task: RestoreTask, manifest: Manifest, applicationName: string) {
  const sql = yield* SqlClient.SqlClient
  const { database } = yield* readServer
  yield* sql.withTransaction(Effect.gen(function* () {
    // This transaction is idle while `pg_restore` runs on connections of its own.
    yield* sql`set local idle_in_transaction_session_timeout = 0`
    const [lock] = yield* decodeFlags(sql`select pg_try_advisory_xact_lock(${migrationLockId}::int8) as found`)
    if (lock?.found !== true) {
      return yield* new RestoreRefused({
        message: `Another restore or a migration is running in the database ${database}. Nothing was restored.`,
      })
    }
    yield* requireUnused(database, applicationName)
    // `requireRoles` has checked that the roles exist.
    yield* restoreDump(task, manifest, { withPrivileges: true })
  }))
  return yield* prepareForService(database, manifest)
})

/**
 * Restores a backup into the command's database, which must be empty, or into a new database named `into` on the same
 * server. If the restore fails or is interrupted, drops the new database. `applicationName` identifies the command's
 * own sessions. Returns the manifest, the name of the restored database, and the migrations that were applied after the
 * restore.
 */
export const restoreBackup = Effect.fnUntraced(
  function* (task: RestoreTask, into: string | undefined, applicationName: string) {
    if (into !== undefined && Buffer.byteLength(into) > maxNameLength) {
      return yield* new RestoreRefused({
        message: `The name of a database has at most ${maxNameLength} bytes, and this one has ` +
          `${Buffer.byteLength(into)}: ${into}. Nothing was restored. Choose a shorter name.`,
      })
    }
    const { manifest, server } = yield* openBackup(task)
    yield* requireRoles(manifest)
    const restore = restoreHere(task, manifest, applicationName)
    if (into === undefined) {
      const migrations = yield* withDatabase(server.database, restore)
      return { manifest, database: server.database, migrations }
    }
    if ((yield* findDatabase(into)).length > 0) {
      return yield* new RestoreRefused({
        message: `This server already has a database ${into}. Nothing was restored. Choose another name.`,
      })
    }
    const migrations = yield* Effect.acquireUseRelease(
      createDatabase(into),
      () => withDatabase(into, restore),
      (_, exit) => exit._tag === "Failure" ? Effect.ignore(dropDatabase(into)) : Effect.void,
    )
    return { manifest, database: into, migrations }
  },
)

const scratchComment = "Scratch database of tickerline backup check"

const getScratchName = (database: string) => {
  const suffix = "_backup_check"
  return `${
    Buffer.from(database).subarray(0, maxNameLength - suffix.length).toString().replace(/\uFFFD+$/, "")
  }${suffix}`
}

/**
 * Drops the scratch database `name` that an earlier check left behind when it was killed. Checks mark their scratch
 * databases with a comment, so a database of the same name without it is not dropped: the check fails then.
 */
const dropAbandonedScratch = Effect.fnUntraced(function* (name: string) {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* findDatabase(name)
  if (found === undefined) return
  if (found.comment !== scratchComment) {
    return yield* new RestoreRefused({
      message: `The check needs a database named ${name}, and this server has one that no check has created. Drop or ` +
        "rename it.",
    })
  }
  // Does not use `force`, because another check may be using the database.
  yield* Effect.mapError(
    sql.unsafe(`drop database ${quoteIdentifier(name)}`),
    () => new RestoreRefused({ message: `Another check is running: sessions use the database ${name}.` }),
  )
})

const createScratch = Effect.fnUntraced(function* (name: string) {
  const sql = yield* SqlClient.SqlClient
  yield* createDatabase(name)
  yield* sql.unsafe(`comment on database ${quoteIdentifier(name)} is '${scratchComment}'`)
})

/**
 * Checks that a backup can be restored. Restores the backup in the task's folder into a scratch database on the server
 * that this command is connected to, which also compares all rows with the manifest. Then drops the scratch database,
 * even if the check has failed or was interrupted. Returns the manifest of the backup. Fails with `BackupDiffers` if
 * the restored rows are not those that were backed up.
 */
export const checkBackup = Effect.fnUntraced(function* (task: RestoreTask) {
  const { manifest, server } = yield* openBackup(task)
  const scratchName = getScratchName(server.database)
  yield* dropAbandonedScratch(scratchName)
  // The privileges are left out, because their roles may not exist on this server.
  const restore = restoreDump(task, manifest, { withPrivileges: false })
  const warnOfScratch = (error: SqlError.SqlError) =>
    Effect.logWarning(
      `The scratch database ${scratchName} could not be dropped: ${describeSqlError(error)}. The next check drops it.`,
    )
  yield* Effect.acquireUseRelease(
    createScratch(scratchName),
    () => withDatabase(scratchName, restore),
    () => Effect.catch(dropDatabase(scratchName), warnOfScratch),
  )
  return manifest
})

/** Compares the files of a backup with its manifest. Does not need a database. */
export const checkBackupFiles = Effect.fnUntraced(function* (folder: string) {
  const manifest = yield* readManifestWithDump(folder)
  yield* verifyBackupFiles(folder, manifest)
  return manifest
})

/** Compares the current database, which was restored from a base backup, with the digests in a manifest. */
export const checkRecoveredDatabase = Effect.fnUntraced(function* (folder: string) {
  const sql = yield* SqlClient.SqlClient
  const manifest = yield* readManifest(folder)
  const { database } = yield* readServer
  const differences = yield* sql.withTransaction(Effect.andThen(
    sql`set transaction isolation level repeatable read read only`,
    findDatabaseDifferences(manifest),
  ))
  if (differences.length > 0) return yield* failWithDifferences(`The database ${database}`, differences)
  return manifest
})

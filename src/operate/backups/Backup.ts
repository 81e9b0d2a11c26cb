/**
 * Backs up the database to a folder: a dump in the directory format of `pg_dump`, and a manifest with the row counts
 * and digests of all tables. The dump and the digests are taken from the same snapshot.
 */
import { Clock, Data, Effect, FileSystem, Schema } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { resolve } from "node:path"
import packageJson from "../../../package.json" with { type: "json" }
import { recordAuditEvent } from "../../postgres/AuditLog.ts"
import { decodeRows } from "../../postgres/DecodeRows.ts"
import { migrationsTableName } from "../../postgres/migrations/Migrations.ts"
import { makeFolderError } from "../../ingest/load/FileErrors.ts"
import { describeFailure } from "../../postgres/FailureText.ts"
import { OperationProgress } from "../../postgres/metrics/OperationProgress.ts"
import { requireClientProgram, runClientProgram } from "./PostgresClientPrograms.ts"
import { dumpFolderName, listDumpFiles, type Manifest, writeManifest } from "./Manifest.ts"
import { computeTableDigests, listBackedUpTables, readSequences } from "./TableDigests.ts"

/** The database cannot be backed up. The message tells the operator how to proceed. */
export class BackupRefused extends Data.TaggedError("BackupRefused")<{ readonly message: string }> {}

/** Options for a backup. */
export interface BackupTask {
  /** The folder to write the backup to. It must be empty or not exist yet. */
  readonly folder: string
  /** The number of tables that `pg_dump` reads in parallel. */
  readonly jobs: number
  /** If true, writes only the manifest. A database restored from a base backup can then be compared with it. */
  readonly digestsOnly: boolean
}

/**
 * Creates the folder for a backup, and fails if it is not empty. Returns an effect that removes everything written to
 * the folder, and the folder itself if this function created it.
 */
const prepareFolder = Effect.fnUntraced(function* (folder: string) {
  const fs = yield* FileSystem.FileSystem
  const isNew = !(yield* fs.exists(folder))
  if (isNew) yield* fs.makeDirectory(folder, { recursive: true, mode: 0o700 })
  const entries = yield* fs.readDirectory(folder)
  if (entries.length > 0) {
    return yield* new BackupRefused({ message: `${folder} is not empty. Choose a new folder for each backup.` })
  }
  const removeEntries = Effect.flatMap(
    fs.readDirectory(folder),
    Effect.forEach((name) => fs.remove(`${folder}/${name}`, { recursive: true })),
  )
  return Effect.ignore(isNew ? fs.remove(folder, { recursive: true }) : removeEntries)
})

const SnapshotRow = Schema.Struct({
  snapshot: Schema.String,
  database: Schema.String,
  user: Schema.String,
  postgresql: Schema.Number,
  position: Schema.NullOr(Schema.String),
  /**
   * Whether no write transaction was in progress when the snapshot was taken, so that the snapshot contains exactly
   * what had been committed until then.
   */
  is_quiet: Schema.Boolean,
})
const decodeSnapshot = decodeRows(SnapshotRow)
const decodePosition = decodeRows(Schema.Struct({ position: Schema.NullOr(Schema.String) }))
const decodeMigrations = decodeRows(Schema.Struct({ id: Schema.Number }))
const decodeRoles = decodeRows(Schema.Struct({ role: Schema.String }))

/** SQL expression for the current position in the write-ahead log. Null on a replica. */
const positionSql = "case when not pg_is_in_recovery() then pg_current_wal_insert_lsn()::text end"

const readPosition = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return (yield* decodePosition(sql.unsafe(`select ${positionSql} as position`)))[0]?.position ?? null
})

/**
 * Exports a snapshot, which remains usable until the transaction ends. Must run before any other statement of the
 * transaction.
 */
const exportSnapshot = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`set transaction isolation level repeatable read read only`
  yield* sql`set local idle_in_transaction_session_timeout = 0`
  const [found] = yield* decodeSnapshot(sql.unsafe(`
    select pg_export_snapshot() as snapshot, current_database() as database, session_user::text as user,
      current_setting('server_version_num')::int / 10000 as postgresql, ${positionSql} as position,
      pg_snapshot_xmin(pg_current_snapshot()) = pg_snapshot_xmax(pg_current_snapshot()) as is_quiet
  `))
  return yield* Effect.orDie(Effect.fromNullishOr(found))
})

/** Other transactions were in progress when the snapshot was taken. */
class SnapshotNotQuiet extends Data.TaggedError("SnapshotNotQuiet")<{}> {}

/**
 * The maximum number of retries to take a snapshot while no write transaction is in progress. The service's own write
 * transactions take about a millisecond, as does a retry, so a few retries usually suffice.
 */
const maxSnapshotAttempts = 100

type FoundSnapshot = Omit<typeof SnapshotRow.Type, "is_quiet">

/**
 * Runs an effect in a transaction with an exported snapshot. Tries to take the snapshot while no write transaction is
 * in progress, because only then does it correspond exactly to a position in the write-ahead log. The position passed
 * to `use` is null if no such snapshot could be taken, or if the server is a replica.
 */
const withSnapshot = <A, E, R>(
  use: (snapshot: FoundSnapshot) => Effect.Effect<A, E, R>,
) => {
  const attempt = (retriesLeft: number): Effect.Effect<
    A,
    E | SqlError.SqlError,
    R | SqlClient.SqlClient
  > =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const before = yield* readPosition
      return yield* sql.withTransaction(Effect.gen(function* () {
        // `is_quiet`: no other transaction had uncommitted writes when the snapshot was taken.
        const { is_quiet, ...snapshot } = yield* exportSnapshot
        // If the position has not moved, nothing was committed between reading it and taking the snapshot.
        const isExact = is_quiet && snapshot.position !== null && snapshot.position === before
        // Failing ends the transaction, because a snapshot can only be taken in a new one. A replica, which has no
        // position, needs no retry.
        if (!isExact && snapshot.position !== null && retriesLeft > 0) return yield* new SnapshotNotQuiet()
        return yield* use({ ...snapshot, position: isExact ? before : null })
      }))
    }).pipe(Effect.catchIf((error) => error instanceof SnapshotNotQuiet, () => attempt(retriesLeft - 1)))
  return attempt(maxSnapshotAttempts)
}

const readMigrations = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* decodeMigrations(sql`
    select migration_id as id from ${sql(`public.${migrationsTableName}`)} order by 1
  `)
  return rows.map(({ id }) => id)
})

/**
 * Returns the roles that have privileges in this database. A dump does not contain roles, so the manifest lists them.
 */
const readGrantedRoles = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* decodeRoles(sql`
    select distinct rolname::text as role from pg_shdepend join pg_roles on pg_roles.oid = refobjid
    where refclassid = 'pg_authid'::regclass and deptype = 'a'
      and dbid = (select oid from pg_database where datname = current_database())
    order by 1
  `)
  return rows.map(({ role }) => role)
})

const isNotAuthorized = (error: unknown) => SqlError.isSqlError(error) && error.reason._tag === "AuthorizationError"

const failUnreadable = () =>
  Effect.fail(
    new BackupRefused({
      message: "This role may not read every table. Use the DATABASE_URL of the role that owns the tables.",
    }),
  )

/** Fails if `pg_dump` reported success but wrote no dump. A faulty wrapper script can cause this. */
const requireDump = Effect.fnUntraced(function* (folder: string) {
  const fs = yield* FileSystem.FileSystem
  if (yield* Effect.orElseSucceed(fs.exists(`${folder}/${dumpFolderName}/toc.dat`), () => false)) return
  return yield* new BackupRefused({
    message:
      "pg_dump ended without an error, but wrote no dump. Check the program that POSTGRES_PROGRAMS or PATH names.",
  })
})

/** Records in the audit log that the data was copied. The backup remains valid even if recording fails. */
const recordBackup = ({ folder }: BackupTask, { created_at }: Manifest) =>
  recordAuditEvent({ subject_type: "backup", subject: resolve(folder), change: "created", after: { created_at } }).pipe(
    Effect.catch((error) => Effect.logWarning(`The audit log does not contain this backup: ${describeFailure(error)}`)),
  )

/** Runs `pg_dump` on the snapshot, and returns the version of `pg_dump`. */
const dump = Effect.fnUntraced(function* ({ folder, jobs }: BackupTask, found: FoundSnapshot) {
  const { database, postgresql, snapshot, user } = found
  const progress = yield* OperationProgress
  const version = yield* requireClientProgram("pg_dump", postgresql)
  Object.assign(progress, { label: "pg_dump", done: 0, total: undefined, count: 0 })
  const args = ["--format=directory", `--file=${folder}/${dumpFolderName}`, `--jobs=${jobs}`]
  yield* runClientProgram("pg_dump", [...args, `--snapshot=${snapshot}`, "--no-unlogged-table-data"], {
    database,
    user,
  })
  yield* requireDump(folder)
  return version
})

/**
 * Writes the dump, unless only digests are wanted, and computes the digests of all tables from the same snapshot.
 * Returns the manifest, except for its list of files. `now` is the time at which the backup started.
 */
const backUpSnapshot = (task: BackupTask, now: number) =>
  withSnapshot(Effect.fnUntraced(function* (found) {
    const sql = yield* SqlClient.SqlClient
    const { database, position, postgresql } = found
    const tables = yield* listBackedUpTables
    if (!tables.includes(`public.${migrationsTableName}`)) {
      return yield* new BackupRefused({
        message: `The database ${database} has no tables of Tickerline. Check DATABASE_URL.`,
      })
    }
    // Takes the same locks as `pg_dump`, so that no table is dropped before it is read.
    yield* sql.unsafe(`lock table ${tables.join(", ")} in access share mode`)
    // Sequences are not part of a snapshot, and the dump may contain later values. The values are read before the dump,
    // so they are never later than the dumped ones.
    const sequences = yield* readSequences
    const version = task.digestsOnly ? null : yield* dump(task, found)
    const manifest: Omit<Manifest, "files"> = {
      format: 1,
      created_at: new Date(now).toISOString(),
      tickerline: packageJson.version,
      database,
      postgresql,
      pg_dump: version,
      wal_position: position,
      migrations: yield* readMigrations,
      roles: yield* readGrantedRoles,
      sequences,
      tables: yield* computeTableDigests(tables),
    }
    return manifest
  })).pipe(Effect.catchIf(isNotAuthorized, failUnreadable))

/**
 * Backs up the database and returns the manifest, which is written last: a folder without a manifest is not a backup.
 * If the backup fails or is interrupted, removes the files it wrote. A backup of digests copies no data, so it is not
 * recorded in the audit log.
 */
export const createBackup = Effect.fnUntraced(function* (task: BackupTask) {
  const { digestsOnly, folder } = task
  const now = yield* Clock.currentTimeMillis
  const toFolderError = makeFolderError(folder)
  const removeAll = yield* Effect.catchTag(prepareFolder(folder), "PlatformError", (error) => toFolderError(error))
  const manifest = yield* Effect.gen(function* () {
    const manifestWithoutFiles = yield* backUpSnapshot(task, now)
    // Lists the files only after the dump has written them.
    const complete = Effect.gen(function* () {
      const manifest: Manifest = { ...manifestWithoutFiles, files: digestsOnly ? [] : yield* listDumpFiles(folder) }
      yield* writeManifest(folder, manifest)
      return manifest
    })
    return yield* Effect.catchTag(complete, "PlatformError", (error) => toFolderError(error))
  }).pipe(Effect.onError(() => removeAll))
  if (!digestsOnly) yield* recordBackup(task, manifest)
  return manifest
})

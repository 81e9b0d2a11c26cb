/**
 * The `backup`, `backup check`, and `restore` commands: create a backup, check that it can be restored, and restore it.
 */
import { Console, DateTime, Duration, Effect, Option, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import process from "node:process"
import { createBackup } from "../backups/Backup.ts"
import type { Manifest } from "../backups/Manifest.ts"
import { checkBackup, checkBackupFiles, checkRecoveredDatabase, restoreBackup } from "../backups/Restore.ts"
import { commandDatabaseClientLayer } from "../../postgres/ConnectionLayers.ts"
import { formatCountWithNoun } from "../../contract/rules/CountWithNoun.ts"
import { CommandFailed, makeBooleanFlag, makeFlag, makeUsageError, withExamples } from "./CommandParts.ts"
import { withProgressDisplay } from "./terminal/ProgressDisplay.ts"

/** Identifies the sessions of this process, so that a restore does not mistake them for sessions of other programs. */
const applicationName = `tickerline-backup-${process.pid}`

const databaseLayer = commandDatabaseClientLayer(applicationName)

// `Path`, unlike `Directory`, accepts a folder that does not exist yet.
const directoryArgument = Argument.Path("directory").pipe(Argument.withDescription("The folder of the backup"))

const jobsFlag = makeFlag(
  "jobs",
  Schema.FiniteFromString.check(Schema.isInt(), Schema.isBetween({ minimum: 1, maximum: 64 })),
  "Number of tables to process at the same time (default: 2)",
).pipe(Flag.withDefault(2))

const formatTotals = ({ tables }: Manifest) => {
  const rows = tables.reduce((sum, table) => sum + table.rows, 0)
  return `${formatCountWithNoun(tables.length, "table")} with ${rows.toLocaleString("en")} rows`
}

const formatOrigin = (manifest: Manifest) =>
  `the database ${manifest.database} at ${manifest.created_at} (release ${manifest.tickerline})`

const MaxAge = Schema.DurationFromString.check(
  Schema.makeFilter(Duration.isPositive, { message: "must be a duration greater than zero, such as 26 hours" }),
)

/** How far ahead of this machine's clock the clock of the machine that created the backup may be. */
const maxClockDifference = Duration.minutes(1)

/**
 * Fails if the backup is older than `maxAge` or has a timestamp in the future. Monitoring systems can therefore run the
 * command as a check.
 */
const requireRecent = Effect.fnUntraced(function* ({ created_at }: Manifest, maxAge: Option.Option<Duration.Duration>) {
  if (Option.isNone(maxAge)) return
  const age = Duration.millis(DateTime.toEpochMillis(yield* DateTime.now) - Date.parse(created_at))
  if (Duration.isLessThan(Duration.sum(age, maxClockDifference), Duration.zero)) {
    return yield* new CommandFailed({
      message: `The backup claims to be from ${created_at}, which is in the future, so its age is unknown. ` +
        "Check the clocks of this machine and of the one that made it.",
    })
  }
  if (Duration.isLessThanOrEqualTo(age, maxAge.value)) return
  return yield* new CommandFailed({
    message: `The backup is from ${created_at}, which is more than ${Duration.format(maxAge.value)} ago.`,
  })
})

const checkCommand = Command.make(
  "check",
  {
    directory: directoryArgument,
    jobs: jobsFlag,
    filesOnly: makeBooleanFlag("files-only", "Only check the files, without a database"),
    recovered: makeBooleanFlag(
      "recovered",
      "Compare the database of DATABASE_URL itself, which was restored from a base backup",
    ),
    maxAge: makeFlag("max-age", MaxAge, 'Fail if the backup is older, such as "26 hours"').pipe(
      Flag.optional,
    ),
  },
  Effect.fnUntraced(function* ({ directory, filesOnly, jobs, maxAge, recovered }) {
    if (filesOnly && recovered) {
      return yield* makeUsageError("backup check", "--files-only and --recovered exclude each other.")
    }
    const [check, result] = filesOnly
      ? [checkBackupFiles(directory), "All files are as they were written"]
      : recovered
      ? [checkRecoveredDatabase(directory).pipe(Effect.provide(databaseLayer)), "The database has exactly its rows"]
      : [
        checkBackup({ folder: directory, jobs }).pipe(Effect.provide(databaseLayer)),
        "It was restored into a scratch database, which had exactly its rows",
      ]
    const manifest = yield* withProgressDisplay(check)
    yield* requireRecent(manifest, maxAge)
    yield* Console.log(`${directory} is a backup of ${formatOrigin(manifest)}: ${formatTotals(manifest)}. ${result}.`)
  }),
).pipe(
  Command.withDescription(
    "Restore a backup into a scratch database of the same server, compare every table, and drop the scratch database",
  ),
  withExamples({
    "backup check /backups/2026-11-27": "Prove that the backup can be restored",
    'backup check /backups/latest --files-only --max-age "26 hours"': "For a monitoring system",
  }),
)

/** `backup`: creates or checks a backup. */
export const backupCommand = Command.make(
  "backup",
  {
    directory: directoryArgument,
    jobs: jobsFlag,
    digestsOnly: makeBooleanFlag("digests-only", "Write only the digests, by which a base backup can be checked"),
  },
  Effect.fnUntraced(function* ({ digestsOnly, directory, jobs }) {
    const manifest = yield* withProgressDisplay(createBackup({ folder: directory, jobs, digestsOnly })).pipe(
      Effect.provide(databaseLayer),
    )
    const bytes = manifest.files.reduce((sum, file) => sum + file.bytes, 0)
    yield* Console.log(
      digestsOnly
        ? `${directory}: digests of ${formatTotals(manifest)}, at the WAL position ${
          manifest.wal_position ?? "unknown"
        }.`
        : `${directory}: ${formatTotals(manifest)}, ${
          (bytes / 1e6).toFixed(1)
        } MB. To prove it: tickerline backup check ` +
          directory,
    )
  }),
).pipe(
  Command.withDescription(
    "Back up the database with pg_dump, and record the digest of every table in the same snapshot",
  ),
  Command.withSubcommands([checkCommand]),
  withExamples({ "backup /backups/2026-11-27": "Back up the database into a new folder" }),
)

/** `restore`: restores a backup. */
export const restoreCommand = Command.make(
  "restore",
  {
    directory: directoryArgument,
    jobs: jobsFlag,
    into: makeFlag("into", Schema.NonEmptyString, "Create this database on the same server, and restore into it").pipe(
      Flag.optional,
    ),
  },
  Effect.fnUntraced(function* ({ directory, into, jobs }) {
    const restore = restoreBackup({ folder: directory, jobs }, Option.getOrUndefined(into), applicationName)
    const { database, manifest, migrations } = yield* withProgressDisplay(restore).pipe(Effect.provide(databaseLayer))
    yield* Console.log(
      `Restored ${formatOrigin(manifest)} into the database ${database}: ${formatTotals(manifest)}, all as backed up.` +
        (migrations.length === 0 ? "" : ` Applied ${formatCountWithNoun(migrations.length, "later migration")}.`) +
        (Option.isNone(into) ? "" : ` To use it, change the database in DATABASE_URL to ${database}.`),
    )
  }),
).pipe(
  Command.withDescription("Restore a backup into an empty database, or into a new one with --into"),
  withExamples({
    "restore /backups/2026-11-27": "Restore into the empty database of DATABASE_URL",
    "restore /backups/2026-11-27 --into restored": "Restore into a new database beside the live one",
  }),
)

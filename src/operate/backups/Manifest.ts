/**
 * The `manifest.json` file of a backup: the database that was backed up, its tables with their digests, and the files
 * of the dump.
 */
import { Data, Effect, FileSystem, PlatformError, Schema, Stream } from "effect"
import { createHash } from "node:crypto"
import { describeReadError } from "../../ingest/load/FileErrors.ts"
import { OperationProgress } from "../../postgres/metrics/OperationProgress.ts"
import { SequenceValue, TableDigest } from "./TableDigests.ts"

/** The name of the subfolder that contains the dump. */
export const dumpFolderName = "dump"
const manifestName = "manifest.json"

/**
 * The maximum size of a manifest. A manifest contains only a few lines per table and file, so a larger file cannot be
 * one, and is not read.
 */
const maxManifestBytes = 64 * 1024 * 1024

const BackupFile = Schema.Struct({ file: Schema.String, bytes: Schema.Number, sha256: Schema.String })

/** The content of `manifest.json`. */
export const Manifest = Schema.Struct({
  /** The version of the format. It must be changed if an older release could misread the manifest. */
  format: Schema.Literal(1),
  created_at: Schema.String.check(
    Schema.isPattern(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/),
    Schema.makeFilter((text: string) => !Number.isNaN(Date.parse(text))),
  ),
  /** The version of Tickerline that created the backup. */
  tickerline: Schema.String,
  database: Schema.String,
  /** The major version of the PostgreSQL server. */
  postgresql: Schema.Number,
  /** The version of the `pg_dump` program, or null if the backup contains no dump. */
  pg_dump: Schema.NullOr(Schema.String),
  /**
   * The position in the write-ahead log at which the database contained exactly the recorded rows. Null on a replica,
   * or if no snapshot could be taken without other transactions in progress.
   */
  wal_position: Schema.NullOr(Schema.String),
  /** The IDs of the applied migrations. */
  migrations: Schema.Array(Schema.Number),
  /** The roles, other than the owner, that have privileges in the database. */
  roles: Schema.Array(Schema.String),
  tables: Schema.Array(TableDigest),
  sequences: Schema.Array(SequenceValue),
  files: Schema.Array(BackupFile),
})
/** The content of `manifest.json`. */
export type Manifest = typeof Manifest.Type

const ManifestText = Schema.fromJsonString(Manifest)

/** The folder does not contain a complete backup, or its files have been altered. */
export class DamagedBackup extends Data.TaggedError("DamagedBackup")<{ readonly message: string }> {}

const digestFile = Effect.fnUntraced(function* (path: string) {
  const fs = yield* FileSystem.FileSystem
  const hash = createHash("sha256")
  yield* Stream.runForEach(fs.stream(path, { chunkSize: 1 << 20 }), (chunk) => Effect.sync(() => hash.update(chunk)))
  return hash.digest("hex")
})

/** Returns the size and the digest of each file of the dump. */
export const listDumpFiles = Effect.fnUntraced(function* (folder: string) {
  const fs = yield* FileSystem.FileSystem
  const progress = yield* OperationProgress
  const names = (yield* fs.readDirectory(`${folder}/${dumpFolderName}`)).toSorted()
  return yield* Effect.forEach(names, (name, index) => {
    Object.assign(progress, { label: "digests of files", done: index, total: names.length, count: 0 })
    const file = `${dumpFolderName}/${name}`
    return Effect.map(
      Effect.all([fs.stat(`${folder}/${file}`), digestFile(`${folder}/${file}`)]),
      ([{ size }, sha256]): typeof BackupFile.Type => ({ file, bytes: Number(size), sha256 }),
    )
  })
})

/**
 * Writes the manifest and flushes it to disk. This is the last step of a backup: a folder without a manifest is not a
 * complete backup.
 */
export const writeManifest = Effect.fnUntraced(function* (folder: string, manifest: Manifest) {
  const fs = yield* FileSystem.FileSystem
  const file = yield* fs.open(`${folder}/${manifestName}`, { flag: "wx", mode: 0o600 })
  const text = yield* Effect.orDie(Schema.encodeEffect(ManifestText)(manifest))
  // Writes each value on a line of its own, so that people can read the manifest and `diff` can compare it.
  const lines = JSON.stringify(JSON.parse(text), null, 1)
  yield* file.writeAll(new TextEncoder().encode(`${lines}\n`))
  yield* file.sync
}, Effect.scoped)

/**
 * Reads the manifest of a complete backup. Fails if there is none, or if it is damaged or has a format that this
 * release does not know.
 */
export const readManifest = Effect.fnUntraced(function* (folder: string) {
  const fs = yield* FileSystem.FileSystem
  const path = `${folder}/${manifestName}`
  const text = yield* Effect.mapError(
    Effect.andThen(
      fs.stat(path),
      // An empty text fails to decode below, with the message for a damaged manifest.
      ({ size }) => size <= maxManifestBytes ? fs.readFileString(path) : Effect.succeed(""),
    ),
    (error) =>
      new DamagedBackup({
        message: error.reason._tag === "NotFound"
          ? `${folder} is no complete backup: it has no ${manifestName}, which backup writes at its end.`
          : describeReadError(path, error),
      }),
  )
  return yield* Effect.mapError(
    Schema.decodeEffect(ManifestText)(text),
    () =>
      new DamagedBackup({
        message:
          `${path} was damaged, or written by a later release of Tickerline. Use another backup, or that release.`,
      }),
  )
})

/** Reads the manifest of a complete backup that has a dump. */
export const readManifestWithDump = Effect.fnUntraced(function* (folder: string) {
  const manifest = yield* readManifest(folder)
  if (manifest.files.length > 0) return manifest
  return yield* new DamagedBackup({ message: `${folder} has only digests and no dump, so it cannot be restored.` })
})

const maxReportedFiles = 5

/**
 * Compares the files of the backup in `folder` with the sizes and digests in its manifest. Fails if any file is
 * missing, truncated, or altered, with a message that lists the first of these files.
 */
export const verifyBackupFiles = Effect.fnUntraced(function* (folder: string, { files }: Manifest) {
  const fs = yield* FileSystem.FileSystem
  const progress = yield* OperationProgress
  /**
   * Returns a list that describes the problem of a file, or an empty list. Compares the size first, which is faster.
   */
  const findProblem = Effect.fnUntraced(function* ({ bytes, file, sha256 }: typeof BackupFile.Type, index: number) {
    const path = `${folder}/${file}`
    Object.assign(progress, { label: "checking files", done: index, total: files.length, count: 0 })
    const { size } = yield* fs.stat(path)
    if (Number(size) !== bytes) return [`${file} has ${size} bytes instead of ${bytes}`]
    return (yield* digestFile(path)) === sha256 ? [] : [`${file} was altered`]
  })
  const explain = (path: string) => (error: PlatformError.PlatformError) =>
    Effect.succeed([describeReadError(path, error).replace(/\.$/, "")])
  const problems = yield* Effect.forEach(
    files,
    (file, index) => Effect.catch(findProblem(file, index), explain(`${folder}/${file.file}`)),
  )
  const found = problems.flat()
  if (found.length === 0) return
  const more = found.length > maxReportedFiles ? `; and ${found.length - maxReportedFiles} more` : ""
  return yield* new DamagedBackup({
    message: `${folder} is damaged: ${found.slice(0, maxReportedFiles).join("; ")}${more}. Use another backup.`,
  })
})

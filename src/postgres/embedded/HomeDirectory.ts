/** The embedded server's home directory: its location, its owner, and the lock that serializes changes to it. */
import { Effect, FileSystem, Option, Path, type PlatformError, Predicate, Schedule } from "effect"
import { randomBytes } from "node:crypto"
import process from "node:process"
import { DatabaseSync } from "node:sqlite"
import { canEnterDirectory, chooseSystemUser, failWithOwnerMismatch, readFileOwner } from "./SystemUser.ts"
import { databaseUrlHint, diskFullAdvice, EmbeddedPostgresError, type SystemUser } from "./ChildProcess.ts"

/** Where the embedded server's files are and which system user owns them. */
export interface ServerLocation {
  readonly home: string
  /** `<home>/postgres`, with symbolic links resolved. */
  readonly baseDirectory: string
  readonly systemUser: SystemUser | undefined
}

/** Returns the data folder to use when this process is root and the server's user cannot enter the home directory. */
export const getFallbackDataDirectory = (platform: NodeJS.Platform) =>
  platform === "darwin" ? "/var/db/tickerline" : "/var/lib/tickerline"

const systemDirectory = getFallbackDataDirectory(process.platform)

const advice: Record<string, string> = {
  ENOENT: "it does not exist and cannot be created; set TICKERLINE_HOME to a writable folder",
  ENOSPC: diskFullAdvice,
  EDQUOT: "the disk quota is used up; free some space and start again",
  EACCES: "permission denied; set TICKERLINE_HOME to a folder of your own",
  EPERM: "permission denied; set TICKERLINE_HOME to a folder of your own",
  EROFS: "the file system is read-only; set TICKERLINE_HOME to a writable folder",
  ENOTDIR: "a part of that path is a file; set TICKERLINE_HOME to a folder",
}

const explainFileError = (error: PlatformError.PlatformError): EmbeddedPostgresError => {
  const { cause } = error
  const code = Predicate.hasProperty(cause, "code") ? String(cause.code) : ""
  const from = error.reason._tag === "BadArgument" ? "a file" : error.reason.pathOrDescriptor
  const path = Predicate.hasProperty(cause, "dest") ? cause.dest : from
  const why = advice[code] ?? error.message
  return new EmbeddedPostgresError({
    message: `The embedded PostgreSQL failed at ${path}: ${why}, ${databaseUrlHint}.`,
  })
}

/** Converts file system errors to messages that tell the user how to fix the problem. */
export const explainFileErrors = <A, R>(
  effect: Effect.Effect<A, EmbeddedPostgresError | PlatformError.PlatformError, R>,
) => Effect.catchTag(effect, "PlatformError", (error) => Effect.fail(explainFileError(error)))

const lockHeld = "Another process has been starting or stopping"

const makeLockError = (home: string) => (cause: unknown) =>
  new EmbeddedPostgresError({
    message: String(cause).includes("is locked")
      ? `${lockHeld} the embedded PostgreSQL of ${home} for two minutes. Stop it, and start again.`
      : `The file ${home}/lock cannot be locked (${cause}). Set TICKERLINE_HOME to a folder of your own on a ` +
        `local disk, ${databaseUrlHint}.`,
  })

const isBusy = (error: EmbeddedPostgresError) => error.message.startsWith(lockHeld)

/**
 * Takes an exclusive lock without writing anything, not even a journal file, so that locking also works on a full disk.
 */
const lockStatements = "PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE"

/**
 * Runs an effect while holding an exclusive lock on an SQLite file in the home directory, so that only one process at a
 * time runs such an effect. An SQLite lock is the only kind of lock that is available in both Node and Deno and that
 * the kernel releases if the holder is killed.
 */
export const withHomeLock = <A, E, R>(home: string, effect: Effect.Effect<A, E, R>) =>
  Effect.acquireUseRelease(
    Effect.try({ try: () => new DatabaseSync(`${home}/lock`, { timeout: 0 }), catch: makeLockError(home) }),
    (lock) =>
      Effect.try({ try: () => lock.exec(lockStatements), catch: makeLockError(home) }).pipe(
        Effect.retry({ while: isBusy, schedule: Schedule.spaced("25 millis"), times: 4800 }),
        Effect.andThen(effect),
      ),
    (lock) => Effect.sync(() => lock.close()),
  )

/**
 * Creates a folder for the data outside the home directory, and a link to it in the home directory. The folder's name
 * is random, so that a home directory that is deleted and created again never picks up its old database.
 */
const createInSystemDirectory = Effect.fnUntraced(function* (home: string, link: string) {
  const fs = yield* FileSystem.FileSystem
  const base = `${systemDirectory}/${randomBytes(6).toString("hex")}`
  yield* fs.makeDirectory(base, { recursive: true })
  yield* Effect.forEach([systemDirectory, base], (path) => fs.chmod(path, 0o755))
  yield* fs.writeFileString(`${base}/HOME`, `${home}\n`)
  yield* fs.symlink(base, link)
  return base
})

/**
 * Makes an empty home directory accessible to the server's user. A home directory that already contains files keeps its
 * permissions.
 */
const makeAccessibleIfNew = Effect.fnUntraced(function* (home: string) {
  const fs = yield* FileSystem.FileSystem
  const entries = yield* fs.readDirectory(home)
  if (entries.every((name) => name === "lock")) yield* fs.chmod(home, 0o711)
})

/** Fails if `<home>/postgres` is a link created by `createInSystemDirectory` and its target no longer exists. */
const requireLinkTarget = Effect.fnUntraced(function* (home: string, base: string) {
  const fs = yield* FileSystem.FileSystem
  const target = yield* Effect.option(fs.readLink(base))
  if (Option.isNone(target) || (yield* fs.exists(base))) return
  return yield* new EmbeddedPostgresError({
    message: `The database of ${home} was in ${target.value}, which is gone. Restore it, or remove ${base} to ` +
      `start with an empty database.`,
  })
})

/**
 * Creates the data folder in the home directory if the server's user can enter it, otherwise in a system folder. Makes
 * a new home directory accessible to that user first.
 */
const createBase = Effect.fnUntraced(function* (home: string, systemUser: SystemUser | undefined, base: string) {
  const fs = yield* FileSystem.FileSystem
  if (!(yield* canEnterDirectory(systemUser, home))) yield* makeAccessibleIfNew(home)
  if (!(yield* canEnterDirectory(systemUser, home))) return yield* createInSystemDirectory(home, base)
  yield* fs.makeDirectory(base)
  yield* fs.chmod(base, 0o755)
  return yield* fs.realPath(base)
})

/**
 * Finds or creates the data folder, and resolves symbolic links. Fails if the server's user cannot access the folder.
 */
const findBase = Effect.fnUntraced(function* (home: string, systemUser: SystemUser | undefined) {
  const fs = yield* FileSystem.FileSystem
  const path = `${home}/postgres`
  yield* requireLinkTarget(home, path)
  if (!(yield* fs.exists(path))) return yield* createBase(home, systemUser, path)
  const base = yield* fs.realPath(path)
  if (yield* canEnterDirectory(systemUser, base)) return base
  return yield* new EmbeddedPostgresError({
    message:
      `PostgreSQL runs as user ${systemUser?.name}, who cannot access ${base}. Make that folder and its parents ` +
      `accessible (chmod a+x), set TICKERLINE_HOME to another folder, ${databaseUrlHint}.`,
  })
})

/**
 * Creates the home directory if needed, and checks that it is writable. Returns its absolute path. If it is not
 * writable because it belongs to another user, the error says so.
 */
export const openHomeDirectory = Effect.fnUntraced(function* (path: string) {
  const fs = yield* FileSystem.FileSystem
  const home = (yield* Path.Path).resolve(path)
  const existing = yield* Effect.option(fs.stat(home))
  if (Option.isSome(existing) && existing.value.type !== "Directory") {
    return yield* new EmbeddedPostgresError({
      message: `TICKERLINE_HOME is "${home}", which is a file, but must be a folder. Set it to a folder, for example ` +
        `TICKERLINE_HOME=/var/lib/tickerline, or unset it to use .tickerline next to package.json.`,
    })
  }
  yield* fs.makeDirectory(home, { recursive: true })
  const owner = yield* readFileOwner(home)
  // `flip` turns the error into the value. There is none if the directory is writable.
  const accessError = yield* Effect.flip(fs.access(home, { writable: true })).pipe(Effect.option)
  if (Option.isNone(accessError)) return home
  return yield* Option.isSome(owner) && owner.value !== process.getuid?.()
    ? failWithOwnerMismatch(home, owner.value)
    : Effect.fail(accessError.value)
}, explainFileErrors)

/** Returns the location and owner of the embedded server's files. The server need not be running. */
export const locateEmbeddedServer = Effect.fnUntraced(function* (home: string) {
  const systemUser = yield* chooseSystemUser(`${home}/postgres/cluster/data`)
  const location: ServerLocation = { home, systemUser, baseDirectory: yield* findBase(home, systemUser) }
  return location
})

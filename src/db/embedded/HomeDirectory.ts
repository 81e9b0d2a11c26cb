/** Where the embedded server lies, whose it is, and the lock under which one process at a time changes that. */
import { Effect, FileSystem, Option, Path, type PlatformError, Predicate, Schedule } from "effect"
import { randomBytes } from "node:crypto"
import process from "node:process"
import { DatabaseSync } from "node:sqlite"
import { canEnterDirectory, chooseSystemUser, failWithOwner, readOwner } from "./SystemUser.ts"
import { EmbeddedPostgresError, ownServerHint, type SystemUser } from "./ChildProcess.ts"

export interface ServerLocation {
  readonly home: string
  /** `<home>/postgres`, with links resolved. */
  readonly base: string
  readonly account: SystemUser | undefined
}

/** For root with a home that the server's user cannot enter, such as one below /root. */
export const fallbackDirectory = (platform: NodeJS.Platform) =>
  platform === "darwin" ? "/var/db/tickerline" : "/var/lib/tickerline"

const outside = fallbackDirectory(process.platform)

const advice: Record<string, string> = {
  ENOENT: "it is not there and cannot be made; set TICKERLINE_HOME to a folder that can be written",
  ENOSPC: "the disk is full; free some space and start again",
  EDQUOT: "the disk quota is used up; free some space and start again",
  EACCES: "this user may not do that; set TICKERLINE_HOME to a folder of your own",
  EPERM: "this user may not do that; set TICKERLINE_HOME to a folder of your own",
  EROFS: "the file system is read-only; set TICKERLINE_HOME to a folder that can be written",
  ENOTDIR: "a part of that path is a file; set TICKERLINE_HOME to a folder",
}

const explain = (error: PlatformError.PlatformError): EmbeddedPostgresError => {
  const { cause } = error
  const code = Predicate.hasProperty(cause, "code") ? String(cause.code) : ""
  const from = error.reason._tag === "BadArgument" ? "a file" : error.reason.pathOrDescriptor
  const path = Predicate.hasProperty(cause, "dest") ? cause.dest : from
  const why = advice[code] ?? error.message
  return new EmbeddedPostgresError({ message: `The embedded PostgreSQL failed at ${path}: ${why}, ${ownServerHint}.` })
}

/** File errors as something a person can act on. */
export const explainFileErrors = <A, R>(
  effect: Effect.Effect<A, EmbeddedPostgresError | PlatformError.PlatformError, R>,
) => Effect.catchTag(effect, "PlatformError", (error) => Effect.fail(explain(error)))

const held = "Another process has been starting or stopping"

const cannotLock = (home: string) => (cause: unknown) =>
  new EmbeddedPostgresError({
    message: String(cause).includes("is locked")
      ? `${held} the embedded PostgreSQL of ${home} for two minutes. End it, and start again.`
      : `The file ${home}/lock cannot be locked (${cause}). Set TICKERLINE_HOME to a local folder of your own, ` +
        `${ownServerHint}.`,
  })

const isBusy = (error: EmbeddedPostgresError) => error.message.startsWith(held)

/** Nothing is ever written, not even a journal: a full disk must not keep anybody from leaving. */
const lockOnly = "PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE"

/**
 * One process at a time. SQLite's file lock belongs to the kernel, which frees it however its holder ends, and it is
 * the only such lock that both Node and Deno offer.
 */
export const withHomeLock = <A, E, R>(home: string, effect: Effect.Effect<A, E, R>) =>
  Effect.acquireUseRelease(
    Effect.try({ try: () => new DatabaseSync(`${home}/lock`, { timeout: 0 }), catch: cannotLock(home) }),
    (lock) =>
      Effect.try({ try: () => lock.exec(lockOnly), catch: cannotLock(home) }).pipe(
        Effect.retry({ while: isBusy, schedule: Schedule.spaced("25 millis"), times: 4800 }),
        Effect.andThen(effect),
      ),
    (lock) => Effect.sync(() => lock.close()),
  )

/** The name is new every time, so that removing the home never brings an old database back. */
const makeOutside = Effect.fnUntraced(function* (home: string, link: string) {
  const fs = yield* FileSystem.FileSystem
  const base = `${outside}/${randomBytes(6).toString("hex")}`
  yield* fs.makeDirectory(base, { recursive: true })
  yield* Effect.forEach([outside, base], (path) => fs.chmod(path, 0o755))
  yield* fs.writeFileString(`${base}/HOME`, `${home}\n`)
  yield* fs.symlink(base, link)
  return base
})

/** A new home, closed by the umask or by mkdtemp, is ours to let the server's user pass; anything else is not. */
const openIfNew = Effect.fnUntraced(function* (home: string) {
  const fs = yield* FileSystem.FileSystem
  const entries = yield* fs.readDirectory(home)
  if (entries.every((name) => name === "lock")) yield* fs.chmod(home, 0o711)
})

const findBase = Effect.fnUntraced(function* (home: string, account: SystemUser | undefined) {
  const fs = yield* FileSystem.FileSystem
  const link = `${home}/postgres`
  const target = yield* Effect.option(fs.readLink(link))
  if (Option.isSome(target) && !(yield* fs.exists(link))) {
    return yield* new EmbeddedPostgresError({
      message: `The database of ${home} lay in ${target.value}, which is gone. Bring it back, or remove ${link} to ` +
        `begin with an empty one.`,
    })
  }
  if (!(yield* fs.exists(link))) {
    if (!(yield* canEnterDirectory(account, home))) yield* openIfNew(home)
    if (!(yield* canEnterDirectory(account, home))) return yield* makeOutside(home, link)
    yield* fs.makeDirectory(link)
    yield* fs.chmod(link, 0o755)
  }
  const base = yield* fs.realPath(link)
  if (yield* canEnterDirectory(account, base)) return base
  return yield* new EmbeddedPostgresError({
    message: `PostgreSQL runs as user ${account?.name}, who cannot enter ${base}. Open that folder and those above ` +
      `it (chmod a+x), set TICKERLINE_HOME to another folder, ${ownServerHint}.`,
  })
})

/** Makes the home if need be; everything else happens under its lock. */
export const openHomeDirectory = Effect.fnUntraced(function* (path: string) {
  const fs = yield* FileSystem.FileSystem
  const home = (yield* Path.Path).resolve(path)
  const known = yield* Effect.option(fs.stat(home))
  if (Option.isSome(known) && known.value.type !== "Directory") {
    return yield* new EmbeddedPostgresError({
      message: `TICKERLINE_HOME is "${home}", which is a file, but must be a folder. Set it to a folder, for example ` +
        `TICKERLINE_HOME=/var/lib/tickerline, or unset it for .tickerline beside package.json.`,
    })
  }
  yield* fs.makeDirectory(home, { recursive: true })
  const owner = yield* readOwner(home)
  const refused = yield* Effect.flip(fs.access(home, { writable: true })).pipe(Effect.option)
  if (Option.isNone(refused)) return home
  return yield* Option.isSome(owner) && owner.value !== process.getuid?.()
    ? failWithOwner(home, owner.value)
    : Effect.fail(refused.value)
}, explainFileErrors)

export const locateServer = Effect.fnUntraced(function* (home: string): Effect.fn.Return<
  ServerLocation,
  EmbeddedPostgresError | PlatformError.PlatformError,
  FileSystem.FileSystem
> {
  const account = yield* chooseSystemUser(`${home}/postgres/cluster/data`)
  return { home, account, base: yield* findBase(home, account) }
})

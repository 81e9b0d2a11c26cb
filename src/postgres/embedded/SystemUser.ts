/** The system user that runs the embedded server and owns the server's data. */
import { Effect, FileSystem, Option } from "effect"
import process from "node:process"
import { databaseUrlHint, EmbeddedPostgresError, runProcessToCompletion, type SystemUser } from "./ChildProcess.ts"

const readUsers = Effect.fnUntraced(function* () {
  const fs = yield* FileSystem.FileSystem
  const text = yield* Effect.orElseSucceed(fs.readFileString("/etc/passwd"), () => "")
  return text.split("\n").map((line) => line.split(":")).map(([name = "", , uid, gid]): SystemUser => ({
    name,
    uid: Number(uid),
    gid: Number(gid),
  }))
})

/** Returns the uid of a file's owner, or `None` if the file does not exist. */
export const readFileOwner = (path: string) =>
  FileSystem.FileSystem.pipe(
    Effect.flatMap((fs) => fs.stat(path)),
    Effect.map((info) => info.uid),
    Effect.catch(() => Effect.succeedNone),
  )

/** Fails with advice for a user whose database belongs to a different user. */
export const failWithOwnerMismatch = Effect.fnUntraced(function* (path: string, uid: number) {
  // On macOS, /etc/passwd does not list regular users, so the name may be missing.
  const name = (yield* readUsers()).find((user) => user.uid === uid)?.name
  return yield* new EmbeddedPostgresError({
    message:
      `${path} belongs to ${
        name === undefined ? `uid ${uid}` : `user ${name} (uid ${uid})`
      } and cannot be used by uid ${process.getuid?.()}. ` +
      `Start as that user, set TICKERLINE_HOME to a folder of your own, ${databaseUrlHint}.`,
  })
})

/**
 * Returns the names of unprivileged users that can run PostgreSQL. On macOS, `nobody` has a negative uid, which Node
 * rejects.
 */
export const listUnprivilegedUsers = (platform: NodeJS.Platform): ReadonlyArray<string> =>
  platform === "darwin" ? ["_postgres"] : ["postgres", "nobody"]

/**
 * If this process is root, chooses the unprivileged user that runs PostgreSQL, because PostgreSQL refuses to run as
 * root. `data` is the data directory, which may not exist yet. The user is the owner of the existing data, if any.
 * Otherwise it is the first user from `listUnprivilegedUsers` that is in /etc/passwd, because `initdb` looks the user
 * up there. Returns undefined if this process is not root, so that PostgreSQL runs as the same user. Fails if the data
 * belongs to a user that this process cannot use.
 */
export const chooseSystemUser = Effect.fnUntraced(function* (data: string) {
  const owner = yield* readFileOwner(data)
  if (process.getuid?.() !== 0) {
    if (Option.isNone(owner) || owner.value === process.getuid?.()) return undefined
    return yield* failWithOwnerMismatch(data, owner.value)
  }
  const systemUsers = yield* readUsers()
  const names = listUnprivilegedUsers(process.platform)
  const candidates = names.flatMap((name) => systemUsers.find((user) => user.name === name) ?? [])
  const systemUser = Option.isSome(owner) ? candidates.find(({ uid }) => uid === owner.value) : candidates[0]
  if (systemUser) return systemUser
  if (Option.isSome(owner)) return yield* failWithOwnerMismatch(data, owner.value)
  return yield* new EmbeddedPostgresError({
    message:
      `PostgreSQL does not run as root, and there is no user ${names.join(" or ")}. Start without sudo, create ` +
      `that user, ${databaseUrlHint}.`,
  })
})

/**
 * Returns whether the server's user can enter the directory. This depends on the permissions of all parent directories.
 */
export const canEnterDirectory = (systemUser: SystemUser | undefined, path: string) =>
  systemUser === undefined ? Effect.succeed(true) : Effect.map(
    runProcessToCompletion({ command: "/bin/sh", args: ["-c", 'test -x "$1"', "sh", path], systemUser }),
    ({ code }) => code === 0,
  )

/** Whose the server's process and data are. */
import { Effect, FileSystem, Option } from "effect"
import process from "node:process"
import { EmbeddedPostgresError, ownServerHint, runToCompletion, type SystemUser } from "./ChildProcess.ts"

const users = Effect.fnUntraced(function* () {
  const fs = yield* FileSystem.FileSystem
  const text = yield* Effect.orElseSucceed(fs.readFileString("/etc/passwd"), () => "")
  return text.split("\n").map((line) => line.split(":")).map(([name = "", , uid, gid]): SystemUser => ({
    name,
    uid: Number(uid),
    gid: Number(gid),
  }))
})

export const readOwner = (path: string) =>
  FileSystem.FileSystem.pipe(
    Effect.flatMap((fs) => fs.stat(path)),
    Effect.map((info) => info.uid),
    Effect.catch(() => Effect.succeedNone),
  )

export const failWithOwner = Effect.fnUntraced(function* (path: string, uid: number) {
  // On macOS people are not in /etc/passwd.
  const name = (yield* users()).find((user) => user.uid === uid)?.name
  return yield* new EmbeddedPostgresError({
    message:
      `${path} belongs to ${
        name === undefined ? `uid ${uid}` : `user ${name} (uid ${uid})`
      } and cannot be used by uid ${process.getuid?.()}. ` +
      `Start as that user, set TICKERLINE_HOME to a folder of your own, ${ownServerHint}.`,
  })
})

/** System users without rights. On macOS `nobody` has a uid below 0, which Node takes for none. */
export const unprivilegedUserNames = (platform: NodeJS.Platform): ReadonlyArray<string> =>
  platform === "darwin" ? ["_postgres"] : ["postgres", "nobody"]

/** As root: the user the data already has, else one of `ableUsers`; initdb wants one that /etc/passwd knows. */
export const chooseSystemUser = Effect.fnUntraced(function* (data: string) {
  const owner = yield* readOwner(data)
  if (process.getuid?.() !== 0) {
    if (Option.isNone(owner) || owner.value === process.getuid?.()) return undefined
    return yield* failWithOwner(data, owner.value)
  }
  const known = yield* users()
  const names = unprivilegedUserNames(process.platform)
  const able = names.flatMap((name) => known.find((user) => user.name === name) ?? [])
  const account = Option.isSome(owner) ? able.find(({ uid }) => uid === owner.value) : able[0]
  if (account) return account
  if (Option.isSome(owner)) return yield* failWithOwner(data, owner.value)
  return yield* new EmbeddedPostgresError({
    message: `PostgreSQL does not run as root, and there is no user ${names.join(" or ")}. Start without sudo, add ` +
      `that user, ${ownServerHint}.`,
  })
})

export const canEnterDirectory = (account: SystemUser | undefined, path: string) =>
  account === undefined ? Effect.succeed(true) : Effect.map(
    runToCompletion({ command: "/bin/sh", args: ["-c", 'test -x "$1"', "sh", path], account }),
    ({ code }) => code === 0,
  )

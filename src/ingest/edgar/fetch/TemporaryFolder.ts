/** The folder for the files of a run. Its name has the process id, so that later runs can remove it after a kill. */
import { Effect, FileSystem, Path, Predicate } from "effect"
import { hostname, tmpdir } from "node:os"
import process from "node:process"

/** Process ids are those of one host or container. A function, because Deno may refuse the name of the host. */
const makePrefix = () => `tickerline-ingest-${hostname()}-`

/** The folders of this process. */
const ownFolders = new Set<string>()

const isProcessGone = (pid: number) => {
  try {
    process.kill(pid, 0)
    return false
  } catch (error) {
    return Predicate.hasProperty(error, "code") && error.code === "ESRCH"
  }
}

const isAbandoned = (prefix: string) => (folder: string) => {
  const [, pid] = /^(\d+)-/.exec(folder.slice(prefix.length)) ?? []
  if (!folder.startsWith(prefix) || pid === undefined) return false
  return Number(pid) === process.pid ? !ownFolders.has(folder) : isProcessGone(Number(pid))
}

/** Creates the folder, and removes those of processes that were killed. The scope removes it. */
export const makeTemporaryFolder = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const parent = tmpdir()
  const prefix = makePrefix()
  const names = yield* Effect.orElseSucceed(fs.readDirectory(parent), () => [])
  yield* Effect.forEach(
    names.filter(isAbandoned(prefix)),
    (name) => Effect.ignore(fs.remove(path.join(parent, name), { recursive: true })),
    { discard: true },
  )
  const folder = yield* fs.makeTempDirectoryScoped({ directory: parent, prefix: `${prefix}${process.pid}-` })
  const name = path.basename(folder)
  yield* Effect.acquireRelease(
    Effect.sync(() => ownFolders.add(name)),
    () => Effect.sync(() => ownFolders.delete(name)),
  )
  return folder
})

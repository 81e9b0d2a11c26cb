/** The server process of a cluster. Every function here expects the home's lock to be held. */
import { Data, Effect, FileSystem, Option, Schedule } from "effect"
import { closeSync, openSync } from "node:fs"
import process from "node:process"
import { chooseFreePort, type Cluster, readCredentials, savePort } from "./Cluster.ts"
import {
  EmbeddedPostgresError,
  launchDetached,
  ownServerHint,
  runToCompletion,
  summarizeOutput,
} from "./ChildProcess.ts"

interface Postmaster {
  readonly pid: number
  readonly port: number
  readonly ready: boolean
}

/** Something that passes: a server on its way up or down, or the children of a killed one. */
class NotYet extends Data.TaggedError("NotYet")<{ readonly why: string }> {}

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

const identity = Effect.fnUntraced(function* (path: string) {
  const info = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.stat(path))
  return `${info.dev}:${Option.getOrElse(info.ino, () => 0n)}`
})

/** The folder in a command line of /proc, where a NUL ends each argument. */
const folderInProc = (line: string) => {
  const [command = "", ...args] = line.split("\0")
  return command.endsWith("/postgres") && args.includes("-D") ? args[args.indexOf("-D") + 1] : undefined
}

/** The folder in a command line that `ps` prints, whose arguments may have spaces in them. */
export const parseDataDirectory = (line: string) => /^.*\/postgres -D (.+?) -c port=\d+ /.exec(line)?.[1]

/** The data folder of the server with this pid; every user's command lines can be read. */
export const findDataDirectory = Effect.fnUntraced(function* (pid: number, platform: NodeJS.Platform) {
  if (platform === "linux") {
    const fs = yield* FileSystem.FileSystem
    return folderInProc(yield* fs.readFileString(`/proc/${pid}/cmdline`))
  }
  const args = ["-ww", "-o", "command=", "-p", String(pid)]
  return parseDataDirectory((yield* runToCompletion({ command: "/bin/ps", args, account: undefined })).output)
})

/**
 * A pid may belong to another program by now, as after a reboot. The command line tells; a dead child that nobody
 * awaited has none.
 */
const serves = Effect.fnUntraced(function* (pid: number, data: string) {
  const folder = yield* findDataDirectory(pid, process.platform)
  if (folder === undefined) return false
  return (yield* identity(folder)) === (yield* identity(data))
}, Effect.orElseSucceed(() => false))

const readPid = Effect.fnUntraced(function* (data: string) {
  const fs = yield* FileSystem.FileSystem
  const lines = (yield* Effect.orElseSucceed(fs.readFileString(`${data}/postmaster.pid`), () => "")).split("\n")
  return { pid: Number(lines[0]), port: Number(lines[3]), ready: lines[7]?.trim() === "ready" }
})

export const findRunningServer = Effect.fnUntraced(function* ({ data }: Pick<Cluster, "data">) {
  const noted = yield* readPid(data)
  const found: Postmaster | undefined = noted.pid > 0 && (yield* serves(noted.pid, data)) ? noted : undefined
  return found
})

/** PostgreSQL clears a dead server's file by itself, but takes any living process of its user for a server. */
const clearForeignPid = Effect.fnUntraced(function* ({ data }: Cluster) {
  const { pid } = yield* readPid(data)
  if (!(pid > 0) || !isAlive(pid)) return
  const fs = yield* FileSystem.FileSystem
  yield* Effect.logDebug(`The pid ${pid} in ${data}/postmaster.pid is not a server of this data; removing the file.`)
  yield* Effect.ignore(fs.remove(`${data}/postmaster.pid`))
})

const logSize = Effect.fnUntraced(function* ({ log }: Cluster) {
  const fs = yield* FileSystem.FileSystem
  const size = yield* Effect.orElseSucceed(Effect.map(fs.stat(log), (info) => Number(info.size)), () => 0)
  if (size < 10_000_000) return size
  yield* Effect.ignore(fs.rename(log, `${log}.old`))
  return 0
})

const openLog = ({ log }: Cluster) =>
  Effect.acquireRelease(
    Effect.try({
      try: () => openSync(log, "a", 0o600),
      catch: (cause) =>
        new EmbeddedPostgresError({
          message:
            `The embedded PostgreSQL cannot write its log (${cause}). Make room or rights there, ${ownServerHint}.`,
        }),
    }),
    (output) => Effect.sync(() => closeSync(output)),
  )

const launchServer = Effect.fnUntraced(function* (cluster: Cluster, port: number) {
  const options = [`port=${port}`, "listen_addresses=127.0.0.1", "unix_socket_directories=", "logging_collector=off"]
  return yield* launchDetached({
    command: `${cluster.programs}/bin/postgres`,
    args: ["-D", cluster.data, ...options.flatMap((option) => ["-c", option])],
    account: cluster.account,
    output: yield* openLog(cluster),
  })
}, Effect.scoped)

const failedStart = ({ log }: Cluster, said: string) =>
  new EmbeddedPostgresError({
    message: `The embedded PostgreSQL did not start; its log is ${log}${summarizeOutput(said)}`,
  })

const whyExited = Effect.fnUntraced(function* (cluster: Cluster, offset: number, port: number, killed: boolean) {
  if (killed) return yield* new NotYet({ why: "the starting server was killed" })
  const fs = yield* FileSystem.FileSystem
  const log = yield* Effect.orElseSucceed(fs.readFile(cluster.log), () => new Uint8Array())
  const said = new TextDecoder().decode(log.subarray(offset))
  if (/"postmaster.pid" already exists|pre-existing shared memory block/.test(said)) {
    return yield* new NotYet({ why: "another server still uses its data" })
  }
  if (/could not create any TCP\/IP sockets/.test(said)) return yield* new PortTaken({ port })
  return yield* failedStart(cluster, said)
})

class PortTaken extends Data.TaggedError("PortTaken")<{ readonly port: number }> {}

/** An interruption takes the half-started server along: nobody holds it yet. */
const start = (cluster: Cluster, port: number) =>
  Effect.uninterruptibleMask(Effect.fnUntraced(function* (restore) {
    yield* clearForeignPid(cluster)
    const offset = yield* logSize(cluster)
    const child = yield* launchServer(cluster, port)
    const ready = findRunningServer(cluster).pipe(
      Effect.repeat({ until: (found) => found?.ready === true, schedule: Schedule.spaced("20 millis") }),
    )
    const failed = Effect.flatMap(child.exited, ({ killed }) => whyExited(cluster, offset, port, killed))
    yield* restore(Effect.raceFirst(ready, failed)).pipe(
      Effect.onInterrupt(() => Effect.andThen(child.kill("SIGINT"), child.exited)),
    )
    return port
  }))

const portTaken = Effect.fnUntraced(function* (cluster: Cluster, port: number, fixed: boolean) {
  if (fixed) {
    return yield* new EmbeddedPostgresError({
      message: `Another program has taken the port ${port} of the embedded PostgreSQL. End it, or start again.`,
    })
  }
  yield* savePort(cluster, yield* chooseFreePort)
  return yield* new NotYet({ why: `the port ${port} is taken` })
})

const attempt = Effect.fnUntraced(function* (cluster: Cluster, fixed: number | undefined) {
  const found = yield* findRunningServer(cluster)
  if (found?.ready) return found.port
  if (found) return yield* new NotYet({ why: "the server is on its way up or down" })
  const port = fixed ?? (yield* readCredentials(cluster.base)).port
  return yield* Effect.catchTag(start(cluster, port), "PortTaken", () => portTaken(cluster, port, fixed !== undefined))
})

/** The port of the running server, started if need be: on the remembered port or a new one, or only on `fixed`. */
export const ensureServerRuns = (cluster: Cluster, fixed: number | undefined) =>
  attempt(cluster, fixed).pipe(
    Effect.retry({ while: ({ _tag }) => _tag === "NotYet", schedule: Schedule.spaced("100 millis"), times: 1200 }),
    Effect.catchTag("NotYet", ({ why }) =>
      new EmbeddedPostgresError({
        message:
          `The embedded PostgreSQL did not start within two minutes: ${why}. See ${cluster.log}, ${ownServerHint}.`,
      })),
  )

/** A fast shutdown: connections are cut, everything is written. */
export const stopServer = Effect.fnUntraced(function* (cluster: Cluster) {
  const found = yield* findRunningServer(cluster)
  if (found === undefined) return
  yield* Effect.ignore(Effect.try(() => process.kill(found.pid, "SIGINT")))
  const left = yield* findRunningServer(cluster).pipe(
    Effect.repeat({ until: (found) => found === undefined, schedule: Schedule.spaced("20 millis"), times: 3000 }),
  )
  if (left) yield* Effect.logWarning(`The embedded PostgreSQL (pid ${left.pid}) is still stopping; see ${cluster.log}`)
})

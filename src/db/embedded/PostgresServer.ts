/** Finds, starts and stops the embedded server. Callers hold the home directory's file lock. */
import { Data, Effect, FileSystem, Option, Schedule } from "effect"
import { closeSync, openSync } from "node:fs"
import process from "node:process"
import { chooseFreePort, type EmbeddedCluster, readServerCredentials, savePort } from "./EmbeddedCluster.ts"
import {
  databaseUrlHint,
  EmbeddedPostgresError,
  launchDetachedProcess,
  runProcessToCompletion,
  summarizeProcessOutput,
} from "./ChildProcess.ts"

/** A temporary failure: the server is starting or stopping, or a killed server's child processes are still running. */
class ServerNotReady extends Data.TaggedError("ServerNotReady")<{ readonly reason: string }> {}

const isProcessAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

const readInode = Effect.fnUntraced(function* (path: string) {
  const info = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.stat(path))
  return `${info.dev}:${Option.getOrElse(info.ino, () => 0n)}`
})

/** Returns the data directory in a /proc command line, in which NUL separates the arguments. */
const parseProcCommandLine = (line: string) => {
  const [command = "", ...args] = line.split("\0")
  return command.endsWith("/postgres") && args.includes("-D") ? args[args.indexOf("-D") + 1] : undefined
}

/** Returns the data directory in a command line printed by `ps`. The path may contain spaces. */
export const parsePsCommandLine = (line: string) => /^.*\/postgres -D (.+?) -c port=\d+ /.exec(line)?.[1]

/** Reads the data directory of the server with this pid from its command line, which is readable by all users. */
export const readServerDataDirectory = Effect.fnUntraced(function* (pid: number, platform: NodeJS.Platform) {
  if (platform === "linux") {
    const fs = yield* FileSystem.FileSystem
    return parseProcCommandLine(yield* fs.readFileString(`/proc/${pid}/cmdline`))
  }
  const args = ["-ww", "-o", "command=", "-p", String(pid)]
  return parsePsCommandLine((yield* runProcessToCompletion({ command: "/bin/ps", args, systemUser: undefined })).output)
})

/**
 * Whether the process with this pid is the server for this data directory. After a reboot, the pid may belong to a
 * different program. A zombie process has no command line, so it does not count.
 */
const isServerProcess = Effect.fnUntraced(function* (pid: number, data: string) {
  const folder = yield* readServerDataDirectory(pid, process.platform)
  if (folder === undefined) return false
  return (yield* readInode(folder)) === (yield* readInode(data))
}, Effect.orElseSucceed(() => false))

const readPidFile = Effect.fnUntraced(function* (data: string) {
  const fs = yield* FileSystem.FileSystem
  const lines = (yield* Effect.orElseSucceed(fs.readFileString(`${data}/postmaster.pid`), () => "")).split("\n")
  return { pid: Number(lines[0]), port: Number(lines[3]), ready: lines[7]?.trim() === "ready" }
})

export const findRunningPostgres = Effect.fnUntraced(
  function* ({ dataDirectory: data }: Pick<EmbeddedCluster, "dataDirectory">) {
    const saved = yield* readPidFile(data)
    return saved.pid > 0 && (yield* isServerProcess(saved.pid, data)) ? saved : undefined
  },
)

/** Removes the pid file if its pid now belongs to another program, which PostgreSQL would mistake for a server. */
const removeStalePidFile = Effect.fnUntraced(function* ({ dataDirectory: data }: EmbeddedCluster) {
  const { pid } = yield* readPidFile(data)
  if (!(pid > 0) || !isProcessAlive(pid)) return
  const fs = yield* FileSystem.FileSystem
  yield* Effect.logDebug(
    `The pid ${pid} in ${data}/postmaster.pid does not belong to a server of this data directory. Removing the file.`,
  )
  yield* Effect.ignore(fs.remove(`${data}/postmaster.pid`))
})

const rotateLog = Effect.fnUntraced(function* ({ logFile: log }: EmbeddedCluster) {
  const fs = yield* FileSystem.FileSystem
  const size = yield* Effect.orElseSucceed(Effect.map(fs.stat(log), (info) => Number(info.size)), () => 0)
  if (size < 10_000_000) return size
  yield* Effect.ignore(fs.rename(log, `${log}.old`))
  return 0
})

const openLog = ({ logFile: log }: EmbeddedCluster) =>
  Effect.acquireRelease(
    Effect.try({
      try: () => openSync(log, "a", 0o600),
      catch: (cause) =>
        new EmbeddedPostgresError({
          message: `The embedded PostgreSQL cannot write its log (${cause}). Free disk space or fix the permissions, ` +
            `${databaseUrlHint}.`,
        }),
    }),
    (output) => Effect.sync(() => closeSync(output)),
  )

const launchServer = Effect.fnUntraced(function* (cluster: EmbeddedCluster, port: number) {
  const options = [`port=${port}`, "listen_addresses=127.0.0.1", "unix_socket_directories=", "logging_collector=off"]
  return yield* launchDetachedProcess({
    command: `${cluster.programsDirectory}/bin/postgres`,
    args: ["-D", cluster.dataDirectory, ...options.flatMap((option) => ["-c", option])],
    systemUser: cluster.systemUser,
    output: yield* openLog(cluster),
  })
}, Effect.scoped)

const makeStartError = ({ logFile: log }: EmbeddedCluster, output: string) =>
  new EmbeddedPostgresError({
    message: `The embedded PostgreSQL did not start. Its log is ${log}${summarizeProcessOutput(output)}`,
  })

const explainExit = Effect.fnUntraced(
  function* (cluster: EmbeddedCluster, offset: number, port: number, killed: boolean) {
    if (killed) return yield* new ServerNotReady({ reason: "the starting server was killed" })
    const fs = yield* FileSystem.FileSystem
    const log = yield* Effect.orElseSucceed(fs.readFile(cluster.logFile), () => new Uint8Array())
    const output = new TextDecoder().decode(log.subarray(offset))
    if (/"postmaster.pid" already exists|pre-existing shared memory block/.test(output)) {
      return yield* new ServerNotReady({ reason: "another server still uses its data directory" })
    }
    if (/could not create any TCP\/IP sockets/.test(output)) return yield* new PortTaken({ port })
    return yield* makeStartError(cluster, output)
  },
)

class PortTaken extends Data.TaggedError("PortTaken")<{ readonly port: number }> {}

/** Starts the server. An interruption stops the half-started server, which no process uses yet. */
const startServer = (cluster: EmbeddedCluster, port: number) =>
  Effect.uninterruptibleMask(Effect.fnUntraced(function* (restore) {
    yield* removeStalePidFile(cluster)
    const offset = yield* rotateLog(cluster)
    const child = yield* launchServer(cluster, port)
    const ready = findRunningPostgres(cluster).pipe(
      Effect.repeat({ until: (found) => found?.ready === true, schedule: Schedule.spaced("20 millis") }),
    )
    const failed = Effect.flatMap(child.exited, ({ killed }) => explainExit(cluster, offset, port, killed))
    yield* restore(Effect.raceFirst(ready, failed)).pipe(
      Effect.onInterrupt(() => Effect.andThen(child.kill("SIGINT"), child.exited)),
    )
    return port
  }))

const onPortTaken = Effect.fnUntraced(function* (cluster: EmbeddedCluster, port: number, isFixed: boolean) {
  if (isFixed) {
    return yield* new EmbeddedPostgresError({
      message: `Another program uses port ${port} of the embedded PostgreSQL. Stop it, and start again.`,
    })
  }
  yield* savePort(cluster, yield* chooseFreePort)
  return yield* new ServerNotReady({ reason: `port ${port} is in use` })
})

const attemptStart = Effect.fnUntraced(function* (cluster: EmbeddedCluster, fixedPort: number | undefined) {
  const found = yield* findRunningPostgres(cluster)
  if (found?.ready) return found.port
  if (found) return yield* new ServerNotReady({ reason: "the server is starting or stopping" })
  const port = fixedPort ?? (yield* readServerCredentials(cluster.baseDirectory)).port
  return yield* Effect.catchTag(
    startServer(cluster, port),
    "PortTaken",
    () => onPortTaken(cluster, port, fixedPort !== undefined),
  )
})

/** Starts the server unless it is running, and returns its port. Without `fixedPort`, avoids a port that is in use. */
export const ensurePostgresIsRunning = (cluster: EmbeddedCluster, fixedPort: number | undefined) =>
  attemptStart(cluster, fixedPort).pipe(
    Effect.retry({
      while: ({ _tag }) => _tag === "ServerNotReady",
      schedule: Schedule.spaced("100 millis"),
      times: 1200,
    }),
    Effect.catchTag("ServerNotReady", ({ reason }) =>
      new EmbeddedPostgresError({
        message: `The embedded PostgreSQL did not start within two minutes: ${reason}. ` +
          `See ${cluster.logFile}, ${databaseUrlHint}.`,
      })),
  )

/** Stops the server with a fast shutdown, which closes all connections and writes all data to disk. */
export const stopPostgres = Effect.fnUntraced(function* (cluster: EmbeddedCluster) {
  const found = yield* findRunningPostgres(cluster)
  if (found === undefined) return
  yield* Effect.ignore(Effect.try(() => process.kill(found.pid, "SIGINT")))
  const remaining = yield* findRunningPostgres(cluster).pipe(
    Effect.repeat({ until: (found) => found === undefined, schedule: Schedule.spaced("20 millis"), times: 3000 }),
  )
  if (remaining) {
    yield* Effect.logWarning(
      `The embedded PostgreSQL (pid ${remaining.pid}) is still stopping. See ${cluster.logFile}.`,
    )
  }
})

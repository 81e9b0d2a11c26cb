/** Finds, starts and stops the embedded server. The caller must hold the home directory's file lock. */
import { Data, Effect, FileSystem, Option, Schedule } from "effect"
import process from "node:process"
import { chooseFreePort, type EmbeddedCluster, readServerCredentials, savePostgresPort } from "./EmbeddedCluster.ts"
import {
  databaseUrlHint,
  EmbeddedPostgresError,
  runProcessToCompletion,
  summarizeProcessOutput,
} from "./ChildProcess.ts"
import { explainFileErrors } from "./HomeDirectory.ts"

/** A temporary failure: the server is starting or stopping, or child processes of a killed server are still running. */
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

/** Returns the data directory from a command line in /proc, where NUL characters separate the arguments. */
const parseProcCommandLine = (line: string) => {
  const [command = "", ...args] = line.split("\0")
  return command.endsWith("/postgres") && args.includes("-D") ? args[args.indexOf("-D") + 1] : undefined
}

/** Returns the data directory from a command line printed by `ps`. The path may contain spaces. */
export const parsePsCommandLine = (line: string) => /^.*\/postgres -D (.+?) -c port=\d+ /.exec(line)?.[1]

/** Reads a server process's data directory from its command line, which every user may read. */
export const readServerDataDirectory = Effect.fnUntraced(function* (pid: number, platform: NodeJS.Platform) {
  if (platform === "linux") {
    const fs = yield* FileSystem.FileSystem
    return parseProcCommandLine(yield* fs.readFileString(`/proc/${pid}/cmdline`))
  }
  const args = ["-ww", "-o", "command=", "-p", String(pid)]
  return parsePsCommandLine((yield* runProcessToCompletion({ command: "/bin/ps", args, systemUser: undefined })).output)
})

/**
 * Returns whether the process with this pid is the server for this data directory. After a reboot, the pid may belong
 * to another program. A zombie process has no command line and therefore does not count.
 */
const isServerProcess = Effect.fnUntraced(function* (pid: number, data: string) {
  const folder = yield* readServerDataDirectory(pid, process.platform)
  if (folder === undefined) return false
  return (yield* readInode(folder)) === (yield* readInode(data))
}, Effect.orElseSucceed(() => false))

const readPidFile = Effect.fnUntraced(function* (data: string) {
  const fs = yield* FileSystem.FileSystem
  const lines = (yield* Effect.orElseSucceed(fs.readFileString(`${data}/postmaster.pid`), () => "")).split("\n")
  return { pid: Number(lines[0]), port: Number(lines[3]), status: lines[7]?.trim() }
})

/** Returns the pid, port and status of the cluster's server, or undefined if the server is not running. */
export const findRunningPostgres = Effect.fnUntraced(
  function* ({ dataDirectory: data }: Pick<EmbeddedCluster, "dataDirectory">) {
    const saved = yield* readPidFile(data)
    return saved.pid > 0 && (yield* isServerProcess(saved.pid, data)) ? saved : undefined
  },
)

/**
 * Removes the pid file if the pid now belongs to another program. Otherwise PostgreSQL would mistake that program for a
 * running server.
 */
const removeStalePidFile = Effect.fnUntraced(function* ({ dataDirectory: data }: EmbeddedCluster) {
  const { pid } = yield* readPidFile(data)
  if (!(pid > 0) || !isProcessAlive(pid)) return
  const fs = yield* FileSystem.FileSystem
  yield* Effect.logDebug(
    `The pid ${pid} in ${data}/postmaster.pid does not belong to a server of this data directory. Removing the file.`,
  )
  yield* Effect.ignore(fs.remove(`${data}/postmaster.pid`))
})

/** Creates or rotates the log file, makes it writable for the server's user, and returns its size. */
const prepareLog = Effect.fnUntraced(function* ({ logFile: log, systemUser }: EmbeddedCluster) {
  const fs = yield* FileSystem.FileSystem
  const size = yield* Effect.orElseSucceed(Effect.map(fs.stat(log), (info) => Number(info.size)), () => 0)
  if (size > 10_000_000) yield* fs.rename(log, `${log}.old`)
  yield* fs.writeFileString(log, "", { flag: "a", mode: 0o600 })
  if (systemUser !== undefined) yield* fs.chown(log, systemUser.uid, systemUser.gid)
  return size > 10_000_000 ? 0 : size
}, explainFileErrors)

const runPgCtl = (cluster: EmbeddedCluster, ...args: ReadonlyArray<string>) =>
  runProcessToCompletion({
    command: `${cluster.programsDirectory}/bin/pg_ctl`,
    args: [...args, "--wait", `--pgdata=${cluster.dataDirectory}`],
    systemUser: cluster.systemUser,
  })

class PortTaken extends Data.TaggedError("PortTaken")<{ readonly port: number }> {}

const explainFailedStart = Effect.fnUntraced(
  function* ({ logFile: log }: EmbeddedCluster, offset: number, port: number) {
    const fs = yield* FileSystem.FileSystem
    const bytes = yield* Effect.orElseSucceed(fs.readFile(log), () => new Uint8Array())
    const output = new TextDecoder().decode(bytes.subarray(offset))
    if (/"postmaster.pid" already exists|pre-existing shared memory block/.test(output)) {
      return yield* new ServerNotReady({ reason: "another server still uses its data directory" })
    }
    if (/could not create any TCP\/IP sockets/.test(output)) return yield* new PortTaken({ port })
    return yield* new EmbeddedPostgresError({
      message: `The embedded PostgreSQL did not start. Its log is ${log}${summarizeProcessOutput(output)}`,
    })
  },
)

/** Starts the server and waits until it is ready. After a crash, recovery may take a long time. */
const startServer = Effect.fnUntraced(function* (cluster: EmbeddedCluster, port: number) {
  yield* removeStalePidFile(cluster)
  const offset = yield* prepareLog(cluster)
  const options = [`port=${port}`, "listen_addresses=127.0.0.1", "unix_socket_directories=", "logging_collector=off"]
    .map((option) => `-c ${option}`).join(" ")
  // This is uninterruptible because after a crash, other processes use the server as soon as it accepts connections.
  const { code } = yield* Effect.uninterruptible(
    runPgCtl(cluster, "start", "--timeout=86400", `--log=${cluster.logFile}`, `--options=${options}`),
  )
  return code === 0 ? port : yield* explainFailedStart(cluster, offset, port)
})

const onPortTaken = Effect.fnUntraced(function* (cluster: EmbeddedCluster, port: number, isFixed: boolean) {
  if (isFixed) {
    return yield* new EmbeddedPostgresError({
      message: `Another program uses port ${port} of the embedded PostgreSQL. Stop it, and start again.`,
    })
  }
  yield* savePostgresPort(cluster, yield* chooseFreePort)
  return yield* new ServerNotReady({ reason: `port ${port} is in use` })
})

/**
 * Stops the server. First tries a fast shutdown, which closes all connections and writes all data to disk. A fast
 * shutdown that begins during crash recovery never finishes. In that case the server is stopped immediately, and the
 * next start replays the latest changes from the WAL.
 */
export const stopPostgres = Effect.fnUntraced(function* (cluster: EmbeddedCluster) {
  for (const mode of ["fast", "immediate"]) {
    if ((yield* findRunningPostgres(cluster)) === undefined) return
    const { code } = yield* runPgCtl(cluster, "stop", `--mode=${mode}`, "--timeout=30")
    if (code === 0) return
  }
  yield* Effect.logWarning(`The embedded PostgreSQL is still stopping. See ${cluster.logFile}.`)
})

const attemptStart = Effect.fnUntraced(function* (cluster: EmbeddedCluster, fixedPort: number | undefined) {
  const found = yield* findRunningPostgres(cluster)
  if (found?.status === "ready") return found.port
  // The process that was stopping the server may have been killed, or the stop began during crash recovery and never
  // finishes. Either way, stop the server again.
  if (found?.status === "stopping") yield* stopPostgres(cluster)
  if (found) return yield* new ServerNotReady({ reason: "the server is starting or stopping" })
  const port = fixedPort ?? (yield* readServerCredentials(cluster.baseDirectory)).port
  return yield* Effect.catchTag(
    startServer(cluster, port),
    "PortTaken",
    () => onPortTaken(cluster, port, fixedPort !== undefined),
  )
})

/**
 * Starts the server unless it is already running, and returns its port. Without `fixedPort`, chooses another port if
 * the saved one is in use.
 */
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

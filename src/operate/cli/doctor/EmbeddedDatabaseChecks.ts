/** Checks the folder and the process of the embedded server without creating, locking, or starting anything. */
import { Effect, FileSystem, Option, Path, type Redacted } from "effect"
import { statfs } from "node:fs/promises"
import process from "node:process"
import { makeEmbeddedUrl, readServerCredentials } from "../../../postgres/embedded/EmbeddedCluster.ts"
import { TickerlineHomeConfig } from "../../../postgres/embedded/EmbeddedPostgres.ts"
import { findPostgresPackage } from "../../../postgres/embedded/PostgresPrograms.ts"
import { findRunningPostgres } from "../../../postgres/embedded/PostgresServer.ts"
import { installCommand, startCommand } from "../../../postgres/ProjectCommands.js"
import * as Finding from "./DoctorFinding.ts"

const gibibyte = 2 ** 30

/** Reports how much space is free on the disk that contains the folder. */
const checkFreeSpace = (folder: string) =>
  Effect.tryPromise(() => statfs(folder)).pipe(
    Effect.map(({ bavail, bsize }): Finding.CheckResult => {
      const free = Number(bavail) * Number(bsize)
      const found = `${(free / gibibyte).toFixed(1)} GiB free`
      if (free < gibibyte / 4) {
        return Finding.failed(found, "Free some disk space. PostgreSQL stops when the disk is full.", "disk")
      }
      return free < 2 * gibibyte
        ? Finding.warning(found, "Free some disk space. A load needs twice the size of its table.", "disk")
        : Finding.passed(found, "disk")
    }),
    Effect.orElseSucceed(() => Finding.skipped("this system does not report its free space", "disk")),
  )

/** Returns the files that other users of the machine can read. */
const findReadableFiles = Effect.fnUntraced(function* (files: ReadonlyArray<string>) {
  const fs = yield* FileSystem.FileSystem
  return yield* Effect.filter(files, (file) =>
    Effect.map(
      Effect.option(fs.stat(file)),
      (info) => Option.isSome(info) && (info.value.mode & 0o077) !== 0,
    ))
})

/**
 * Checks the owner and the permissions of Tickerline's home directory (`TICKERLINE_HOME`), and of the files in it that
 * contain secrets.
 */
const checkHomeFolder = Effect.fnUntraced(function* (home: string) {
  const fs = yield* FileSystem.FileSystem
  const info = yield* Effect.option(fs.stat(home))
  if (Option.isNone(info)) {
    return [Finding.passed(`${home} does not exist yet; the first start creates it`, "home")]
  }
  if (info.value.type !== "Directory") {
    return [Finding.failed(`${home} is a file`, "Set TICKERLINE_HOME to a folder, or unset it.", "home")]
  }
  const owner = Option.getOrUndefined(info.value.uid)
  const user = process.getuid?.()
  // Windows has no user IDs, and user 0 (root) may write everywhere.
  if (owner !== undefined && user !== undefined && user !== 0 && owner !== user) {
    const advice = "Run as that user, or set TICKERLINE_HOME to a folder of your own."
    return [
      Finding.failed(`${home} belongs to user ${owner}, but this process runs as user ${user}`, advice, "home"),
    ]
  }
  const writable = yield* Effect.option(fs.access(home, { writable: true }))
  if (Option.isNone(writable)) {
    const advice = "Make it writable (chmod u+rwx), or set TICKERLINE_HOME to another folder."
    return [Finding.failed(`${home} is not writable`, advice, "home")]
  }
  // The first file contains the demo key; the second contains the database credentials.
  const readable = yield* findReadableFiles([`${home}/demo-key`, `${home}/postgres/cluster/server.json`])
  return [
    readable.length === 0 ? Finding.passed(home, "home") : Finding.warning(
      `other users can read ${readable.join(" and ")}`,
      `Restrict access: chmod 600 ${readable.join(" ")}`,
      "home",
    ),
    yield* checkFreeSpace(home),
  ]
})

const checkPrograms = findPostgresPackage().pipe(
  Effect.map(({ version }) => ({ version, finding: Finding.passed(`PostgreSQL ${version}`, "programs") })),
  Effect.catchTag(
    "EmbeddedPostgresError",
    ({ message }) =>
      Effect.succeed({
        version: undefined,
        finding: Finding.failed(message, `Run \`${installCommand}\`, or set DATABASE_URL.`, "programs"),
      }),
  ),
)

/**
 * Checks the embedded server, in the order in which a start needs its parts: the programs, the home directory, the data
 * directory, the running process, and the credentials. Stops at the first part that does not exist. Returns the
 * findings, and the server's URL, or `None` if the server is not running or its credentials cannot be read.
 */
export const checkEmbeddedDatabase = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const home = (yield* Path.Path).resolve(yield* TickerlineHomeConfig)
  const programs = yield* checkPrograms
  const findings: Array<Finding.CheckResult> = [programs.finding, ...yield* checkHomeFolder(home)]
  /** Returns the result with one more finding, but without a URL. */
  const endWith = (finding: Finding.CheckResult) => ({
    findings: [...findings, finding],
    url: Option.none<Redacted.Redacted>(),
  })
  // `base` is the real path, without symbolic links. It is "" if the folder does not exist.
  const base = yield* Effect.orElseSucceed(fs.realPath(`${home}/postgres`), () => "")
  const data = `${base}/cluster/data`
  if (base === "" || !(yield* Effect.orElseSucceed(fs.exists(data), () => false))) {
    return endWith(Finding.passed("there is no database yet; the first start creates it", "server"))
  }
  const dataVersion = (yield* Effect.orElseSucceed(fs.readFileString(`${data}/PG_VERSION`), () => "")).trim()
  const major = programs.version?.split(".")[0]
  if (dataVersion !== "" && major !== undefined && dataVersion !== major) {
    findings.push(
      Finding.failed(
        `the data directory belongs to PostgreSQL ${dataVersion}`,
        `Dump it with PostgreSQL ${dataVersion}, then restore the dump in PostgreSQL ${major}.`,
        "data",
      ),
    )
  }
  const running = yield* findRunningPostgres({ dataDirectory: data })
  if (running === undefined) {
    return endWith(
      Finding.passed(`it is not running; \`${startCommand}\` and every command that needs it start it`, "server"),
    )
  }
  findings.push(Finding.passed(`it is running (pid ${running.pid}, port ${running.port})`, "server"))
  const credentials = yield* Effect.result(readServerCredentials(base))
  if (credentials._tag === "Failure") {
    return endWith(Finding.failed(credentials.failure.message, "Restore the file or its permissions.", "access"))
  }
  const url = makeEmbeddedUrl(credentials.success.password, running.port)
  return { findings, url: Option.some(url) }
})

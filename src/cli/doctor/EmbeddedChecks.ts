/** The embedded server's folder and process, looked at from outside: nothing is made, locked or started. */
import { Effect, FileSystem, Option, Path, Redacted } from "effect"
import { statfs } from "node:fs/promises"
import process from "node:process"
import { TickerlineHome as configured } from "../../db/embedded/EmbeddedPostgres.ts"
import { databaseUser, readCredentials } from "../../db/embedded/Cluster.ts"
import { findPostgresPackage } from "../../db/embedded/PostgresPrograms.ts"
import { findRunningServer } from "../../db/embedded/PostgresServer.ts"
import { failed, type Finding, passed, skipped, warned } from "./Finding.ts"

const gibibyte = 2 ** 30

const spaceAt = (folder: string) =>
  Effect.tryPromise(() => statfs(folder)).pipe(
    Effect.map(({ bavail, bsize }) => Number(bavail) * Number(bsize)),
    Effect.map((free): Finding => {
      const said = `${(free / gibibyte).toFixed(1)} GiB free`
      if (free < gibibyte / 4) return failed("disk", said, "Free some space: PostgreSQL stops when it has none.")
      return free < 2 * gibibyte ? warned("disk", said, "Loads need room for a table twice.") : passed("disk", said)
    }),
    Effect.orElseSucceed(() => skipped("disk", "this system does not tell its free space")),
  )

/** Whoever can read them can open the database, or be the demo account. */
const openSecrets = Effect.fnUntraced(function* (files: ReadonlyArray<string>) {
  const fs = yield* FileSystem.FileSystem
  const modes = yield* Effect.forEach(
    files,
    (file) =>
      Effect.map(
        Effect.option(fs.stat(file)),
        (info) => ({ file, mode: Option.map(info, ({ mode }) => mode & 0o077) }),
      ),
  )
  return modes.filter(({ mode }) => Option.isSome(mode) && mode.value !== 0).map(({ file }) => file)
})

const checkFolder = Effect.fnUntraced(function* (home: string) {
  const fs = yield* FileSystem.FileSystem
  const info = yield* Effect.option(fs.stat(home))
  if (Option.isNone(info)) {
    return [passed("home", `${home} is not there; the first start makes it`)]
  }
  if (info.value.type !== "Directory") {
    return [failed("home", `${home} is a file`, "Set TICKERLINE_HOME to a folder, or unset it.")]
  }
  const owner = Option.getOrUndefined(info.value.uid)
  const own = process.getuid?.()
  if (owner !== undefined && own !== undefined && own !== 0 && owner !== own) {
    const advice = "Run as that user, or set TICKERLINE_HOME to a folder of your own."
    return [failed("home", `${home} belongs to uid ${owner}, and this is uid ${own}`, advice)]
  }
  const writable = yield* Effect.option(fs.access(home, { writable: true }))
  if (Option.isNone(writable)) {
    return [failed("home", `${home} cannot be written`, "Open it (chmod u+rwx), or set TICKERLINE_HOME to another.")]
  }
  const open = yield* openSecrets([`${home}/demo-key`, `${home}/postgres/cluster/server.json`])
  return [
    open.length === 0 ? passed("home", home) : warned(
      "home",
      `other users may read ${open.join(" and ")}`,
      `Close them: chmod 600 ${open.join(" ")}`,
    ),
    yield* spaceAt(home),
  ]
})

export interface EmbeddedCheckResult {
  readonly findings: ReadonlyArray<Finding>
  /** Where the running server takes connections. */
  readonly url: Option.Option<Redacted.Redacted>
}

const programs = findPostgresPackage().pipe(
  Effect.map(({ version }) => ({ version, finding: passed("programs", `PostgreSQL ${version}`) })),
  Effect.catchTag(
    "EmbeddedPostgresError",
    ({ message }) =>
      Effect.succeed({ version: undefined, finding: failed("programs", message, "npm ci, or set DATABASE_URL.") }),
  ),
)

export const checkEmbeddedDatabase = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const home = (yield* Path.Path).resolve(yield* configured)
  const { finding, version } = yield* programs
  const folder = yield* checkFolder(home)
  const base = yield* Effect.option(fs.realPath(`${home}/postgres`))
  const data = Option.map(base, (path) => `${path}/cluster/data`)
  if (
    Option.isNone(base) || Option.isNone(data) || !(yield* Effect.orElseSucceed(fs.exists(data.value), () => false))
  ) {
    const server = passed("server", "there is no database yet; the first start makes it")
    return { findings: [finding, ...folder, server], url: Option.none() } satisfies EmbeddedCheckResult
  }
  const had = yield* Effect.option(fs.readFileString(`${data.value}/PG_VERSION`))
  const major = version?.split(".")[0]
  const stale = Option.isSome(had) && major !== undefined && had.value.trim() !== major
    ? [
      failed(
        "data",
        `it is of PostgreSQL ${had.value.trim()}`,
        `Dump it with that version, and load it into ${major}.`,
      ),
    ]
    : []
  const running = yield* findRunningServer({ data: data.value })
  if (running === undefined) {
    const server = passed("server", "it does not run; npm start and every command start it")
    return { findings: [finding, ...folder, ...stale, server], url: Option.none() } satisfies EmbeddedCheckResult
  }
  const access = yield* Effect.result(readCredentials(base.value))
  const server = passed("server", `it runs (pid ${running.pid}, port ${running.port})`)
  if (access._tag === "Failure") {
    const locked = failed("access", access.failure.message, "Restore the file, or its rights.")
    return {
      findings: [finding, ...folder, ...stale, server, locked],
      url: Option.none(),
    } satisfies EmbeddedCheckResult
  }
  return {
    findings: [finding, ...folder, ...stale, server],
    url: Option.some(
      Redacted.make(`postgres://${databaseUser}:${access.success.password}@127.0.0.1:${running.port}/${databaseUser}`),
    ),
  } satisfies EmbeddedCheckResult
})

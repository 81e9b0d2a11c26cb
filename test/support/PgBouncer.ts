/** Starts PgBouncer in transaction mode in front of a test server. */
import { Effect, FileSystem, Schedule } from "effect"
import { execFileSync } from "node:child_process"
import { connect } from "node:net"
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import { getCandidateProgramPaths, isExecutable, startProgram } from "./Processes.ts"

/** The path of the PgBouncer executable, if it is installed. */
export const pgBouncerProgram = [...getCandidateProgramPaths("pgbouncer"), "/usr/sbin/pgbouncer"].find(isExecutable)

/** Whether tests with PgBouncer are skipped, because it is not installed and `REQUIRE_PGBOUNCER` is not set. */
export const isPgBouncerMissing = pgBouncerProgram === undefined && (process.env["REQUIRE_PGBOUNCER"] ?? "") === ""

/** Whether the installed PgBouncer supports prepared statements in transaction mode. */
export const supportsPreparedStatements = (() => {
  const [, major = 0, minor = 0] = isPgBouncerMissing || pgBouncerProgram === undefined
    ? []
    : /PgBouncer (\d+)\.(\d+)/.exec(String(execFileSync(pgBouncerProgram, ["--version"])))?.map(Number) ?? []
  return major > 1 || minor >= 21
})()

/** A suffix for test titles. States that the test is skipped if PgBouncer is missing, and is empty otherwise. */
export const pgBouncerTestSuffix = isPgBouncerMissing ? " (skipped: no PgBouncer here)" : ""

interface Server {
  readonly port: number
  readonly user: string
  readonly password: string
}

const acceptsConnections = (port: number) =>
  Effect.callback<boolean>((resume) => {
    const socket = connect(port, "127.0.0.1")
    socket.on("connect", () => resume(Effect.succeed(true))).on("error", () => resume(Effect.succeed(false)))
    return Effect.sync(() => socket.destroy())
  })

/** Starts a pooler for all databases and roles on the server. */
export const startPgBouncer = Effect.fnUntraced(function* (
  { password, port, user }: Server,
  settings: Readonly<Record<string, string>> = {},
  fixed?: number,
) {
  if (pgBouncerProgram === undefined) {
    return yield* Effect.die(new Error("There is no pgbouncer here: install it (Debian has it)."))
  }
  const fs = yield* FileSystem.FileSystem
  const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-pooler-" })
  const listening = fixed ?? (yield* chooseFreePort)
  const values = {
    listen_addr: "127.0.0.1",
    listen_port: String(listening),
    unix_socket_dir: "",
    auth_type: "scram-sha-256",
    auth_file: `${folder}/users`,
    auth_user: user,
    admin_users: user,
    pool_mode: "transaction",
    default_pool_size: "20",
    max_client_conn: "1000",
    server_login_retry: "1",
    // Closes idle connections after a few seconds, because a test cannot drop its database while a connection to it is
    // open.
    server_idle_timeout: "5",
    ...settings,
  }
  const lines = Object.entries(values).map(([name, value]) => `${name} = ${value}`)
  yield* fs.writeFileString(`${folder}/users`, `"${user}" "${password}"\n`)
  yield* fs.writeFileString(
    `${folder}/pgbouncer.ini`,
    ["[databases]", `* = host=127.0.0.1 port=${port}`, "[pgbouncer]", ...lines, ""].join("\n"),
  )
  yield* fs.chmod(folder, 0o755)
  const running = yield* startProgram(
    pgBouncerProgram,
    // PgBouncer refuses to run as root.
    [...(process.getuid?.() === 0 ? ["--user", "nobody"] : []), `${folder}/pgbouncer.ini`],
    {},
  )
  yield* acceptsConnections(listening).pipe(
    Effect.repeat({
      until: (there) => there || running.child.exitCode !== null,
      schedule: Schedule.spaced("10 millis"),
    }),
    Effect.flatMap((there) => there ? Effect.void : Effect.die(new Error(`PgBouncer ended: ${running.output.err}`))),
  )
  return { port: listening, running }
})

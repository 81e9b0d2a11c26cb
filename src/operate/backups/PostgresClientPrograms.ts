/**
 * Runs `pg_dump` and `pg_restore`, which the embedded PostgreSQL does not include. The password is passed in an
 * environment variable, because any user of the machine can read a program's arguments.
 */
import { Config, Data, Duration, Effect, Option, Redacted, Stream } from "effect"
import { ChildProcess } from "effect/process"
import { dirname } from "node:path"
import process from "node:process"
import { DirectConnectionConfig } from "../../postgres/pool/ConnectionSettings.ts"
import { readTlsSettings } from "../../postgres/pool/DatabaseTls.ts"
import { parseDatabaseAddress } from "../../postgres/health/SocketRegistry.ts"

/** The folder that contains `pg_dump` and `pg_restore`. If unset, they are looked up in PATH. */
export const PostgresProgramsConfig = Config.option(Config.NonEmptyString("POSTGRES_PROGRAMS"))

type ClientProgram = "pg_dump" | "pg_restore"

/** The program is missing, or its version does not match the server. The message says which package to install. */
export class ClientProgramUnusable extends Data.TaggedError("ClientProgramUnusable")<{ readonly message: string }> {}

/** The program failed. The message contains the last lines of its output. */
export class ClientProgramFailed extends Data.TaggedError("ClientProgramFailed")<{ readonly message: string }> {}

/** How long an interrupted program has to end its child processes and cancel its statements before it is killed. */
const stopTimeout = Duration.seconds(15)

/** The number of characters of output that are kept. Earlier output is discarded. */
const maxOutput = 4_000

const getInstallAdvice = (major: number) =>
  `Install the client programs of PostgreSQL ${major}: the package postgresql-client-${major} of Debian and Ubuntu ` +
  `(from apt.postgresql.org, if your release does not have it), or postgresql@${major} of Homebrew. Then set ` +
  `POSTGRES_PROGRAMS to their folder, such as /usr/lib/postgresql/${major}/bin.`

/**
 * Runs a client program with the environment variables in `variables`, and waits until it exits. It inherits only PATH
 * from this process's environment. Returns the exit code and the last `maxOutput` characters of the output.
 */
const run = Effect.fnUntraced(
  function* (program: ClientProgram, args: ReadonlyArray<string>, variables: Record<string, string | undefined>) {
    const folder = yield* PostgresProgramsConfig
    const handle = yield* ChildProcess.make(
      Option.match(folder, { onNone: () => program, onSome: (path) => `${path}/${program}` }),
      args,
      {
        // The locale C makes the program print English messages, which are parsed.
        env: { PATH: process.env["PATH"], LC_ALL: "C", TZ: "UTC", ...variables },
        extendEnv: false,
        stdin: "ignore",
        forceKillAfter: stopTimeout,
      },
    )
    // `all` contains both the standard output and the errors of the program.
    const output = yield* handle.all.pipe(
      Stream.decodeText,
      Stream.runFold(() => "", (text, more) => `${text}${more}`.slice(-maxOutput)),
    )
    return { code: Number(yield* handle.exitCode), output }
  },
  Effect.scoped,
)

/**
 * Returns the program's version, such as `18.1`. Fails unless its major version equals the server's: an older program
 * refuses to work with a newer server, and an older server rejects the statements of a newer program.
 */
export const requireClientProgram = Effect.fnUntraced(function* (program: ClientProgram, major: number) {
  const { output } = yield* Effect.mapError(
    run(program, ["--version"], {}),
    (error) =>
      error instanceof Config.ConfigError ? error : new ClientProgramUnusable({
        message: `${program} cannot be started (${error.reason._tag === "NotFound" ? "not found" : error.message}). ` +
          getInstallAdvice(major),
      }),
  )
  const version = /\(PostgreSQL\) (\d+(?:\.\d+)?)/.exec(output)?.[1]
  if (version === undefined || Number.parseInt(version, 10) !== major) {
    return yield* new ClientProgramUnusable({
      message: `${program} ${version === undefined ? "does not state its version" : `has version ${version}`}, but ` +
        `the server is PostgreSQL ${major}, and both must have the same major version. ${getInstallAdvice(major)}`,
    })
  }
  return version
})

/**
 * The database and the user that a program connects with. The server is the one that the command itself is connected
 * to.
 */
export interface ClientProgramTarget {
  readonly database: string
  readonly user: string
}

/**
 * Returns the libpq environment variables with which a client program connects as this command does: to the same
 * server, with the same password and TLS settings, but to the target's database and as its user.
 */
const makeConnectionVariables = Effect.fnUntraced(function* ({ database, user }: ClientProgramTarget) {
  const { config: { password, url } } = yield* DirectConnectionConfig
  if (url === undefined) return yield* Effect.die(new Error("The connection has no URL."))
  // The password can be a value or an effect that reads it. If the configuration has none, it is in the URL.
  const configured = password === undefined || Redacted.isRedacted(password) ? password : yield* password
  const parsed = new URL(Redacted.value(url))
  const passwordInUrl = parsed.searchParams.get("password") ?? decodeURIComponent(parsed.password)
  const address = parseDatabaseAddress(parsed.href)
  const tls = yield* readTlsSettings(url)
  // For a Unix socket, such as `/run/.s.PGSQL.5432`, libpq takes the folder as the host and the number as the port.
  const [host, port] = "path" in address
    ? [dirname(address.path), address.path.slice(address.path.lastIndexOf(".") + 1)]
    : [address.host, String(address.port)]
  // If the URL does not specify certificate authorities, the system's are used, as in the command's own connection.
  const defaultAuthority = tls.mode === "verify-full" ? "system" : undefined
  return {
    PGHOST: host,
    PGPORT: port,
    PGUSER: user,
    PGDATABASE: database,
    PGPASSWORD: configured === undefined ? passwordInUrl : Redacted.value(configured),
    PGSSLMODE: tls.mode,
    PGSSLROOTCERT: tls.rootCertificate ?? defaultAuthority,
    PGSSLCERT: tls.certificate,
    PGSSLKEY: tls.key,
    PGAPPNAME: "tickerline-backup",
  }
})

const diskFullAdvice = (output: string) => /No space left/.test(output) ? " The disk is full: free some space." : ""

/** Runs a program, and fails if its exit code is not 0. Interrupting the effect ends the program. */
export const runClientProgram = Effect.fnUntraced(
  function* (program: ClientProgram, args: ReadonlyArray<string>, target: ClientProgramTarget) {
    const { code, output } = yield* run(program, ["--no-password", ...args], yield* makeConnectionVariables(target))
    if (code === 0) return
    return yield* new ClientProgramFailed({
      message: `${program} failed with status ${code}.${diskFullAdvice(output)}\n${
        output.trim().replaceAll("\t", "  ").split("\n").slice(-10).join("\n")
      }`,
    })
  },
)

/**
 * Returns the `pg_restore` argument that specifies the database. A plain database name would not work if it contains
 * `=`, because libpq would parse it as a connection string.
 */
export const makeDatabaseArgument = ({ database }: ClientProgramTarget) =>
  `--dbname=dbname='${database.replaceAll(/[\\']/g, String.raw`\$&`)}'`

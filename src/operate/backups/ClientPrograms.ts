/**
 * Runs `pg_dump` and `pg_restore`, which the embedded PostgreSQL does not include. The password is passed in the
 * environment, because every user of a machine can read the arguments of a program.
 */
import { Config, Data, Duration, Effect, Option, Redacted, Stream } from "effect"
import { ChildProcess } from "effect/process"
import { dirname } from "node:path"
import process from "node:process"
import { DirectConnectionConfig } from "../../postgres/pool/ConnectionSettings.ts"
import { readTlsSettings } from "../../postgres/pool/DatabaseTls.ts"
import { parseDatabaseAddress } from "../../postgres/health/SocketRegistry.ts"

/** The folder that contains `pg_dump` and `pg_restore`. If unset, PATH is searched. */
export const PostgresProgramsConfig = Config.option(Config.NonEmptyString("POSTGRES_PROGRAMS"))

type ClientProgram = "pg_dump" | "pg_restore"

/** A program is missing or too old. The message names the package to install. */
export class ClientProgramUnusable extends Data.TaggedError("ClientProgramUnusable")<{ readonly message: string }> {}

/** A program failed. The message contains the end of its output. */
export class ClientProgramFailed extends Data.TaggedError("ClientProgramFailed")<{ readonly message: string }> {}

/** How long an interrupted program may take to end its own processes and cancel its statements. */
const stopTimeout = Duration.seconds(15)

/** How many characters of the output are kept, from its end. */
const maxOutput = 4_000

const getInstallAdvice = (major: number) =>
  `Install the client programs of PostgreSQL ${major}: the package postgresql-client-${major} of Debian and Ubuntu ` +
  `(from apt.postgresql.org, if your release does not have it), or postgresql@${major} of Homebrew. Then set ` +
  `POSTGRES_PROGRAMS to their folder, such as /usr/lib/postgresql/${major}/bin.`

/**
 * Runs a program with nothing from this process's environment but PATH. Returns its exit code and the end of its
 * output.
 */
const run = Effect.fnUntraced(
  function* (program: ClientProgram, args: ReadonlyArray<string>, variables: Record<string, string | undefined>) {
    const folder = yield* PostgresProgramsConfig
    const handle = yield* ChildProcess.make(
      Option.match(folder, { onNone: () => program, onSome: (path) => `${path}/${program}` }),
      args,
      {
        env: { PATH: process.env["PATH"], LC_ALL: "C", TZ: "UTC", ...variables },
        extendEnv: false,
        stdin: "ignore",
        forceKillAfter: stopTimeout,
      },
    )
    const output = yield* handle.all.pipe(
      Stream.decodeText,
      Stream.runFold(() => "", (text, more) => `${text}${more}`.slice(-maxOutput)),
    )
    return { code: Number(yield* handle.exitCode), output }
  },
  Effect.scoped,
)

/**
 * Returns the version of the program, such as `18.1`. Fails unless its major version equals the server's: an older
 * program refuses a newer server, and an older server rejects what a newer program sends.
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

/** The database to which a program connects, on the server to which the command itself is connected. */
export interface ProgramTarget {
  readonly database: string
  readonly user: string
}

/** Returns the environment variables with which libpq connects as the command itself does. */
const makeConnectionVariables = Effect.fnUntraced(function* ({ database, user }: ProgramTarget) {
  const { config: { password, url } } = yield* DirectConnectionConfig
  if (url === undefined) return yield* Effect.die(new Error("The connection has no URL."))
  const given = password === undefined || Redacted.isRedacted(password) ? password : yield* password
  const parsed = new URL(Redacted.value(url))
  const ownPassword = parsed.searchParams.get("password") ?? decodeURIComponent(parsed.password)
  const address = parseDatabaseAddress(parsed.href)
  const tls = yield* readTlsSettings(url)
  const [host, port] = "path" in address
    ? [dirname(address.path), address.path.slice(address.path.lastIndexOf(".") + 1)]
    : [address.host, String(address.port)]
  // If the URL names no certificate authorities, Node uses those of the system.
  const defaultAuthority = tls.mode === "verify-full" ? "system" : undefined
  return {
    PGHOST: host,
    PGPORT: port,
    PGUSER: user,
    PGDATABASE: database,
    PGPASSWORD: given === undefined ? ownPassword : Redacted.value(given),
    PGSSLMODE: tls.mode,
    PGSSLROOTCERT: tls.rootCertificate ?? defaultAuthority,
    PGSSLCERT: tls.certificate,
    PGSSLKEY: tls.key,
    PGAPPNAME: "tickerline-backup",
  }
})

const diskFullAdvice = (output: string) => /No space left/.test(output) ? " The disk is full: free some space." : ""

/** Runs a program to completion. An interruption ends it. */
export const runClientProgram = Effect.fnUntraced(
  function* (program: ClientProgram, args: ReadonlyArray<string>, target: ProgramTarget) {
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
 * Returns the argument with which `pg_restore` finds the database. A plain name that contains `=` would be read as a
 * connection string.
 */
export const makeDatabaseArgument = ({ database }: ProgramTarget) =>
  `--dbname=dbname='${database.replaceAll(/[\\']/g, String.raw`\$&`)}'`

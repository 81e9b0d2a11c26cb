/** The embedded server's database cluster: its data directory, its password and its port. */
import { Effect, FileSystem, Redacted, Schema } from "effect"
import { randomBytes, randomInt } from "node:crypto"
import { createServer } from "node:net"
import process from "node:process"
import {
  explainFileErrors,
  locateEmbeddedServer,
  openHomeDirectory,
  type ServerLocation,
  withHomeLock,
} from "./HomeDirectory.ts"
import {
  databaseUrlHint,
  EmbeddedPostgresError,
  runProcessToCompletion,
  summarizeProcessOutput,
} from "./ChildProcess.ts"
import { findPostgresPackage, installPostgresPrograms, makeTemporaryDirectory } from "./PostgresPrograms.ts"

/** The embedded server's superuser. */
export const embeddedDatabaseUser = "tickerline"

/** Returns the embedded server's URL. It includes `sslmode`, so the environment variable `PGSSLMODE` has no effect. */
export const makeEmbeddedUrl = (password: string, port: number) =>
  Redacted.make(
    `postgres://${embeddedDatabaseUser}:${password}@127.0.0.1:${port}/${embeddedDatabaseUser}?sslmode=disable`,
  )

/** The embedded server's cluster: where its programs and data are, which user runs it, and how to connect to it. */
export interface EmbeddedCluster extends ServerLocation {
  readonly programsDirectory: string
  readonly dataDirectory: string
  readonly logFile: string
  readonly password: string
}

const Credentials = Schema.fromJsonString(Schema.Struct({ password: Schema.String, port: Schema.Int }))

/**
 * Settings that `initdb` writes to postgresql.conf, where users can change them. They affect only the log. Settings
 * that statements rely on are set in each session (`sessionSettings`), so that they also apply to external servers.
 */
const settings = {
  log_timezone: "UTC",
  log_checkpoints: "off",
}

/** Returns the arguments for `initdb`. */
export const makeInitdbArguments = (platform: NodeJS.Platform) => [
  ...Object.entries(settings).map(([name, value]) => `--set=${name}=${value}`),
  `--username=${embeddedDatabaseUser}`,
  "--auth=scram-sha-256",
  "--encoding=UTF8",
  "--locale=C",
  "--locale-provider=builtin",
  "--builtin-locale=C.UTF-8",
  // `syncfs` syncs the whole file system, including the installed programs, in one call. It exists only on Linux.
  ...(platform === "linux" ? ["--sync-method=syncfs"] : []),
]

const isPortFree = (port: number) =>
  Effect.callback<boolean>((resume) => {
    const server = createServer()
    server.once("error", () => resume(Effect.succeed(false)))
    server.listen(port, "127.0.0.1", () => server.close(() => resume(Effect.succeed(true))))
  })

/**
 * Chooses a port below the system's ephemeral range, so that no outgoing connection can take it while the server
 * restarts.
 */
export const chooseFreePort: Effect.Effect<number> = Effect.suspend(() => {
  const port = randomInt(20_000, 32_000)
  return Effect.flatMap(isPortFree(port), (free) => free ? Effect.succeed(port) : chooseFreePort)
})

const credentialsFile = (base: string) => `${base}/cluster/server.json`

/** Reads the embedded server's password and the port that it last used. */
export const readServerCredentials = Effect.fnUntraced(function* (base: string) {
  const fs = yield* FileSystem.FileSystem
  return yield* fs.readFileString(credentialsFile(base)).pipe(
    Effect.flatMap(Schema.decodeEffect(Credentials)),
    Effect.mapError(() =>
      new EmbeddedPostgresError({
        message: `The password of the embedded PostgreSQL cannot be read from ${credentialsFile(base)}. Restore that ` +
          `file, remove ${base}/cluster to start with an empty database, ${databaseUrlHint}.`,
      })
    ),
  )
})

const writeCredentials = Effect.fnUntraced(function* (file: string, credentials: typeof Credentials.Type) {
  const fs = yield* FileSystem.FileSystem
  yield* fs.writeFileString(`${file}.new`, `${yield* Effect.orDie(Schema.encodeEffect(Credentials)(credentials))}\n`, {
    mode: 0o600,
  })
  yield* fs.rename(`${file}.new`, file)
})

/** Saves the server's port together with its password, so that the next start uses the same port. */
export const savePostgresPort = ({ baseDirectory: base, password }: EmbeddedCluster, port: number) =>
  explainFileErrors(writeCredentials(credentialsFile(base), { password, port }))

/**
 * Runs `initdb`, which creates the cluster in the temporary folder `folder`. `programs` is the directory of
 * PostgreSQL's programs. The data directory and the password file belong to the user that runs PostgreSQL. Passes the
 * password in a file, because every user can read a process's arguments.
 */
const initdb = Effect.fnUntraced(
  function* (location: ServerLocation, programs: string, folder: string, password: string) {
    const fs = yield* FileSystem.FileSystem
    const [data, secret] = [`${folder}/cluster/data`, `${folder}/password`]
    yield* fs.makeDirectory(data, { recursive: true })
    // The user that runs PostgreSQL must be able to reach the data directory, which only this user may read.
    yield* Effect.forEach([folder, `${folder}/cluster`], (path) => fs.chmod(path, 0o755))
    yield* fs.chmod(data, 0o700)
    yield* fs.writeFileString(secret, password, { mode: 0o600 })
    if (location.systemUser) {
      const { uid, gid } = location.systemUser
      yield* Effect.forEach([data, secret], (path) => fs.chown(path, uid, gid))
    }
    const { code, output } = yield* runProcessToCompletion({
      command: `${programs}/bin/initdb`,
      args: [`--pgdata=${data}`, `--pwfile=${secret}`, ...makeInitdbArguments(process.platform)],
      systemUser: location.systemUser,
    })
    if (code === 0) return
    return yield* new EmbeddedPostgresError({
      message: `The embedded PostgreSQL could not create its database in ${location.baseDirectory}${
        summarizeProcessOutput(output)
      }`,
    })
  },
)

/** Creates the cluster in a temporary folder, and moves it to its final path once it is complete. */
const createCluster = Effect.fnUntraced(function* (location: ServerLocation, programs: string) {
  const fs = yield* FileSystem.FileSystem
  const folder = yield* makeTemporaryDirectory(location)
  const password = randomBytes(24).toString("hex")
  yield* initdb(location, programs, folder, password)
  yield* writeCredentials(`${folder}/cluster/server.json`, { password, port: yield* chooseFreePort })
  yield* fs.rename(`${folder}/cluster`, `${location.baseDirectory}/cluster`)
}, Effect.scoped)

/**
 * Fails if a different major version of PostgreSQL wrote the data. The error gives better advice than PostgreSQL's own
 * message.
 */
const checkVersion = Effect.fnUntraced(function* (data: string, version: string) {
  const fs = yield* FileSystem.FileSystem
  const [dataVersion, programVersion] = [(yield* fs.readFileString(`${data}/PG_VERSION`)).trim(), version.split(".")[0]]
  if (dataVersion === programVersion) return
  return yield* new EmbeddedPostgresError({
    message:
      `The data in ${data} belongs to PostgreSQL ${dataVersion}, but PostgreSQL ${programVersion} is installed. ` +
      `Dump it with the older version, move the folder away to start with an empty database, ${databaseUrlHint}.`,
  })
})

const removeLeftovers = Effect.fnUntraced(function* (base: string) {
  const fs = yield* FileSystem.FileSystem
  const leftovers = (yield* fs.readDirectory(base)).filter((name) => name.startsWith("tmp-"))
  yield* Effect.forEach(leftovers, (name) => Effect.ignore(fs.remove(`${base}/${name}`, { recursive: true })))
})

/**
 * Creates the cluster in the home directory, or checks the existing one, and returns it. Also removes what an
 * interrupted start left behind, and installs PostgreSQL's programs. `folder` is the PostgreSQL npm package, if it is
 * not in node_modules. The caller must hold the home directory's lock.
 */
const prepareCluster = Effect.fnUntraced(function* (home: string, folder: string | undefined) {
  const fs = yield* FileSystem.FileSystem
  const source = yield* findPostgresPackage(folder)
  const location = yield* locateEmbeddedServer(home)
  yield* removeLeftovers(location.baseDirectory)
  const isNew = !(yield* fs.exists(`${location.baseDirectory}/cluster`))
  if (isNew) yield* Effect.logInfo(`Creating a PostgreSQL database in ${home}. Only the first start does this.`)
  if (!location.baseDirectory.startsWith(yield* fs.realPath(home))) {
    yield* Effect.logInfo(`The database is in ${location.baseDirectory}, because its user cannot enter ${home}.`)
  }
  const programs = yield* installPostgresPrograms(location, source)
  const data = `${location.baseDirectory}/cluster/data`
  if (isNew) yield* createCluster(location, programs)
  yield* checkVersion(data, source.version)
  const { password } = yield* readServerCredentials(location.baseDirectory)
  const cluster: EmbeddedCluster = {
    ...location,
    programsDirectory: programs,
    dataDirectory: data,
    logFile: `${location.baseDirectory}/postgres.log`,
    password,
  }
  return cluster
})

/** Opens the cluster in a home directory and creates whatever is missing. Does not start the server. */
export const openEmbeddedCluster = (path: string, folder: string | undefined) =>
  Effect.flatMap(openHomeDirectory(path), (home) => explainFileErrors(withHomeLock(home, prepareCluster(home, folder))))

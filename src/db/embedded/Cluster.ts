/** The data of the embedded server and what opens it, made together once. */
import { Effect, FileSystem, Schema } from "effect"
import { randomBytes, randomInt } from "node:crypto"
import { createServer } from "node:net"
import process from "node:process"
import {
  explainFileErrors,
  locateServer,
  openHomeDirectory,
  type ServerLocation,
  withHomeLock,
} from "./HomeDirectory.ts"
import { EmbeddedPostgresError, ownServerHint, runToCompletion, summarizeOutput } from "./ChildProcess.ts"
import { findPostgresPackage, installPostgresPrograms, makeTemporaryDirectory } from "./PostgresPrograms.ts"

export const databaseUser = "tickerline"

export interface Cluster extends ServerLocation {
  readonly programs: string
  readonly data: string
  readonly log: string
  readonly password: string
}

const Access = Schema.fromJsonString(Schema.Struct({ password: Schema.String, port: Schema.Int }))

/** Written into postgresql.conf, where a person can change them. */
const settings = {
  max_connections: "200",
  shared_buffers: "128MB",
  jit: "off",
  timezone: "UTC",
  log_timezone: "UTC",
  log_checkpoints: "off",
}

/** Arguments of initdb. */
export const initdbOptions = (platform: NodeJS.Platform) => [
  ...Object.entries(settings).map(([name, value]) => `--set=${name}=${value}`),
  `--username=${databaseUser}`,
  "--auth=scram-sha-256",
  "--encoding=UTF8",
  "--locale=C",
  "--locale-provider=builtin",
  "--builtin-locale=C.UTF-8",
  // Syncs the whole file system, and so the programs beside the data too. Linux alone has it.
  ...(platform === "linux" ? ["--sync-method=syncfs"] : []),
]

const isFree = (port: number) =>
  Effect.callback<boolean>((resume) => {
    const server = createServer()
    server.once("error", () => resume(Effect.succeed(false)))
    server.listen(port, "127.0.0.1", () => server.close(() => resume(Effect.succeed(true))))
  })

/** Below the range the kernel takes for outgoing connections, which could otherwise hold the port at a restart. */
export const chooseFreePort: Effect.Effect<number> = Effect.suspend(() => {
  const port = randomInt(20_000, 32_000)
  return Effect.flatMap(isFree(port), (free) => free ? Effect.succeed(port) : chooseFreePort)
})

const accessFile = (base: string) => `${base}/cluster/server.json`

export const readCredentials = Effect.fnUntraced(function* (base: string) {
  const fs = yield* FileSystem.FileSystem
  return yield* fs.readFileString(accessFile(base)).pipe(
    Effect.flatMap(Schema.decodeEffect(Access)),
    Effect.mapError(() =>
      new EmbeddedPostgresError({
        message: `The password of the embedded PostgreSQL cannot be read from ${accessFile(base)}. Restore that ` +
          `file, remove ${base}/cluster to begin with an empty database, ${ownServerHint}.`,
      })
    ),
  )
})

const writeAccess = Effect.fnUntraced(function* (file: string, access: typeof Access.Type) {
  const fs = yield* FileSystem.FileSystem
  yield* fs.writeFileString(`${file}.new`, `${yield* Effect.orDie(Schema.encodeEffect(Access)(access))}\n`, {
    mode: 0o600,
  })
  yield* fs.rename(`${file}.new`, file)
})

export const savePort = ({ base, password }: Cluster, port: number) =>
  explainFileErrors(writeAccess(accessFile(base), { password, port }))

const initdb = Effect.fnUntraced(function* (place: ServerLocation, programs: string, folder: string, password: string) {
  const fs = yield* FileSystem.FileSystem
  const [data, secret] = [`${folder}/cluster/data`, `${folder}/password`]
  yield* fs.makeDirectory(data, { recursive: true })
  yield* Effect.forEach([folder, `${folder}/cluster`], (path) => fs.chmod(path, 0o755))
  yield* fs.chmod(data, 0o700)
  yield* fs.writeFileString(secret, password, { mode: 0o600 })
  if (place.account) {
    const { uid, gid } = place.account
    yield* Effect.forEach([data, secret], (path) => fs.chown(path, uid, gid))
  }
  const { code, output } = yield* runToCompletion({
    command: `${programs}/bin/initdb`,
    args: [`--pgdata=${data}`, `--pwfile=${secret}`, ...initdbOptions(process.platform)],
    account: place.account,
  })
  if (code === 0) return
  return yield* new EmbeddedPostgresError({
    message: `The embedded PostgreSQL could not make its database in ${place.base}${summarizeOutput(output)}`,
  })
})

const initialise = Effect.fnUntraced(function* (place: ServerLocation, programs: string) {
  const fs = yield* FileSystem.FileSystem
  const folder = yield* makeTemporaryDirectory(place)
  const password = randomBytes(24).toString("hex")
  yield* initdb(place, programs, folder, password)
  yield* writeAccess(`${folder}/cluster/server.json`, { password, port: yield* chooseFreePort })
  yield* fs.rename(`${folder}/cluster`, `${place.base}/cluster`)
}, Effect.scoped)

/** Another major version neither reads the data nor says so in a way that helps. */
const checkVersion = Effect.fnUntraced(function* (data: string, version: string) {
  const fs = yield* FileSystem.FileSystem
  const [had, has] = [(yield* fs.readFileString(`${data}/PG_VERSION`)).trim(), version.split(".")[0]]
  if (had === has) return
  return yield* new EmbeddedPostgresError({
    message: `The data in ${data} is of PostgreSQL ${had}, but PostgreSQL ${has} is installed. Dump it with the ` +
      `older version, move the folder away to begin with an empty database, ${ownServerHint}.`,
  })
})

const sweep = Effect.fnUntraced(function* (base: string) {
  const fs = yield* FileSystem.FileSystem
  const left = (yield* fs.readDirectory(base)).filter((name) => name.startsWith("tmp-"))
  yield* Effect.forEach(left, (name) => Effect.ignore(fs.remove(`${base}/${name}`, { recursive: true })))
})

const prepare = Effect.fnUntraced(function* (home: string, folder: string | undefined) {
  const fs = yield* FileSystem.FileSystem
  const source = yield* findPostgresPackage(folder)
  const place = yield* locateServer(home)
  yield* sweep(place.base)
  const programs = yield* installPostgresPrograms(place, source)
  const data = `${place.base}/cluster/data`
  if (!(yield* fs.exists(`${place.base}/cluster`))) yield* initialise(place, programs)
  yield* checkVersion(data, source.version)
  const { password } = yield* readCredentials(place.base)
  const cluster: Cluster = { ...place, programs, data, log: `${place.base}/postgres.log`, password }
  return cluster
})

/** Finds or makes everything below `path`; the server is not started yet. */
export const openCluster = (path: string, folder: string | undefined) =>
  Effect.flatMap(openHomeDirectory(path), (home) => explainFileErrors(withHomeLock(home, prepare(home, folder))))

/**
 * Creates the PostgreSQL server for the tests. By default, this is the embedded server. With
 * `TEST_POSTGRES_BIN=/usr/lib/postgresql/15/bin`, the server uses the programs in that folder.
 */
import { Effect, FileSystem } from "effect"
import { randomBytes } from "node:crypto"
import { dirname } from "node:path"
import {
  chooseFreePort,
  type EmbeddedCluster,
  embeddedDatabaseUser,
  openEmbeddedCluster,
  readServerCredentials,
} from "../../src/postgres/embedded/EmbeddedCluster.ts"
import { locateEmbeddedServer, openHomeDirectory } from "../../src/postgres/embedded/HomeDirectory.ts"
import { EmbeddedPostgresError, runProcessToCompletion } from "../../src/postgres/embedded/ChildProcess.ts"

/** The folder of the installed PostgreSQL programs, or undefined to use the embedded ones. */
export const installedPostgresPrograms = process.env["TEST_POSTGRES_BIN"] || undefined

/**
 * Creates a cluster in the home directory `path` with the installed `initdb` in the folder `bin`, unless it exists. The
 * folders and files are those of an embedded cluster, so that the service finds and starts it in the same way.
 */
const initdb = Effect.fnUntraced(function* (path: string, bin: string) {
  const fs = yield* FileSystem.FileSystem
  const location = yield* locateEmbeddedServer(yield* openHomeDirectory(path))
  const { systemUser, baseDirectory: base } = location
  const [folder, passwordFile] = [`${base}/cluster`, `${base}/password`]
  const data = `${folder}/data`
  const describe = (password: string): EmbeddedCluster => ({
    ...location,
    programsDirectory: dirname(bin),
    dataDirectory: data,
    logFile: `${base}/postgres.log`,
    password,
  })
  if (yield* fs.exists(folder)) return describe((yield* readServerCredentials(base)).password)
  const password = randomBytes(24).toString("hex")
  yield* fs.makeDirectory(data, { recursive: true })
  yield* fs.writeFileString(passwordFile, password, { mode: 0o600 })
  yield* Effect.forEach(
    [data, passwordFile],
    (file) => systemUser === undefined ? Effect.void : fs.chown(file, systemUser.uid, systemUser.gid),
  )
  const { code, output } = yield* runProcessToCompletion({
    command: `${bin}/initdb`,
    args: [
      `--pgdata=${data}`,
      `--pwfile=${passwordFile}`,
      `--username=${embeddedDatabaseUser}`,
      "--auth=scram-sha-256",
      "--encoding=UTF8",
      "--locale=C.UTF-8",
      "--no-sync",
    ],
    systemUser,
  })
  if (code !== 0) return yield* new EmbeddedPostgresError({ message: output })
  // The service reads the port and password from this file.
  yield* fs.writeFileString(`${folder}/server.json`, JSON.stringify({ password, port: yield* chooseFreePort }))
  return describe(password)
})

/** Creates a server's data directory below `path` if it does not exist yet. Does not start the server. */
export const makePostgresCluster = (path: string) =>
  installedPostgresPrograms === undefined
    ? openEmbeddedCluster(path, undefined)
    : initdb(path, installedPostgresPrograms)

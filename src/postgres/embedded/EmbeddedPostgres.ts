/**
 * Starts an embedded PostgreSQL server. All processes with the same home directory share the server, and the last
 * process to exit stops it. docs/decisions/0085-embedded-server-is-shared.md explains the locks.
 */
import { PgConnection } from "@effect/sql-pg"
import { Config, Duration, Effect, FileSystem, Redacted, Schedule } from "effect"
import { DatabaseSync } from "node:sqlite"
import { fileURLToPath } from "node:url"
import { addForkedFinalizer, repeatInBackground } from "../metrics/BackgroundFibers.ts"
import { type EmbeddedCluster, embeddedDatabaseUser, makeEmbeddedUrl, openEmbeddedCluster } from "./EmbeddedCluster.ts"
import { withHomeLock } from "./HomeDirectory.ts"
import { EmbeddedPostgresError } from "./ChildProcess.ts"
import { ensurePostgresIsRunning, findRunningPostgres, stopPostgres } from "./PostgresServer.ts"

/** The home directory. The default is `.tickerline` next to package.json, so that commands work from any folder. */
export const TickerlineHomeConfig: Config.Config<string> = Config.NonEmptyString("TICKERLINE_HOME").pipe(
  Config.withDefault(fileURLToPath(new URL("../../../.tickerline", import.meta.url))),
)

const createDatabase = Effect.fnUntraced(function* ({ password }: EmbeddedCluster, port: number) {
  const connection = yield* PgConnection.make({
    host: "127.0.0.1",
    port,
    username: embeddedDatabaseUser,
    password: Redacted.make(password),
    database: "postgres",
    ssl: false,
  })
  const found = yield* connection.query("SELECT FROM pg_database WHERE datname = $1", [embeddedDatabaseUser])
  if (found.rowCount === 0) yield* connection.query(`CREATE DATABASE ${embeddedDatabaseUser}`)
}, Effect.scoped)

/**
 * Starts the server unless it is already running, and returns its port. Retries, because the server may stop before it
 * can be used.
 */
const ensureUsable = (cluster: EmbeddedCluster, fixedPort: number | undefined) =>
  Effect.tap(ensurePostgresIsRunning(cluster, fixedPort), (port) => createDatabase(cluster, port)).pipe(
    Effect.retry({
      while: (error) => error._tag === "SqlError" && error.reason._tag !== "AuthenticationError",
      schedule: Schedule.spaced("100 millis"),
      times: 100,
    }),
    Effect.catchTag("SqlError", (error) =>
      new EmbeddedPostgresError({
        message:
          `The embedded PostgreSQL is running but not usable (${error.message}). See its log, ${cluster.logFile}.`,
      })),
  )

/** Restarts the server if it has died. If several processes notice, the first one to get the file lock restarts it. */
const restartIfDead = Effect.fnUntraced(function* (cluster: EmbeddedCluster, port: number) {
  if ((yield* findRunningPostgres(cluster)) !== undefined) return
  yield* Effect.logWarning("The embedded PostgreSQL has stopped unexpectedly. Restarting it.")
  yield* withHomeLock(cluster.home, ensureUsable(cluster, port)).pipe(
    Effect.tapError((error) => Effect.logError(error.message)),
    Effect.retry(Schedule.min([Schedule.exponential("250 millis"), Schedule.spaced("10 seconds")])),
  )
  yield* Effect.logInfo("The embedded PostgreSQL is running again.")
})

/**
 * Opens the presence file. Every process that uses the server holds a shared lock on this file, which shows whether
 * other processes still use the server. The kernel releases the lock if a process is killed.
 */
const openPresenceFile = ({ home }: Pick<EmbeddedCluster, "home">) => new DatabaseSync(`${home}/users`, { timeout: 0 })

const lockPresenceFile = (file: DatabaseSync, transaction: string) =>
  file.exec(`PRAGMA journal_mode = MEMORY; ${transaction}`)

/** Returns whether no process holds a lock on the presence file. */
const isUnused = (cluster: EmbeddedCluster) =>
  Effect.isSuccess(Effect.try(() => {
    const file = openPresenceFile(cluster)
    try {
      lockPresenceFile(file, "BEGIN EXCLUSIVE")
    } finally {
      file.close()
    }
  }))

/** Stops using the server, and shuts it down if no other process uses it. */
const leave = Effect.fnUntraced(function* (cluster: EmbeddedCluster, presence: DatabaseSync) {
  const fs = yield* FileSystem.FileSystem
  presence.close()
  const stopIfUnused = Effect.flatMap(isUnused(cluster), (unused) => unused ? stopPostgres(cluster) : Effect.void)
  // If the home directory was deleted, no other process can find the server, so no lock is needed.
  yield* (yield* fs.exists(cluster.home)) ? withHomeLock(cluster.home, stopIfUnused) : stopPostgres(cluster)
}, Effect.catchCause((cause) => Effect.logWarning("The embedded PostgreSQL may still be running:", cause)))

/** How often a process checks whether the server is still running. */
const checkInterval = Duration.seconds(1)

/**
 * Keeps a server running for the home directory `path` until the scope closes. `package` is the folder of the
 * PostgreSQL npm package, if the package is not in node_modules.
 */
export const startEmbeddedPostgres = Effect.fnUntraced(
  function* (path: string, options?: { readonly package?: string }) {
    const cluster = yield* openEmbeddedCluster(path, options?.package)
    const presence = openPresenceFile(cluster)
    yield* addForkedFinalizer(leave(cluster, presence))
    const port = yield* withHomeLock(
      cluster.home,
      Effect.suspend(() => {
        lockPresenceFile(presence, "BEGIN; SELECT * FROM sqlite_schema")
        return ensureUsable(cluster, undefined)
      }),
    )
    yield* repeatInBackground(restartIfDead(cluster, port), checkInterval)
    const { dataDirectory, password } = cluster
    return { url: makeEmbeddedUrl(password, port), port, dataDirectory }
  },
)

/** A running embedded server. */
export type EmbeddedPostgres = Effect.Success<ReturnType<typeof startEmbeddedPostgres>>

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
 * Starts the server unless it is already running, creates the database if it is missing, and returns the port.
 * `fixedPort` is the port to start on, or undefined for any port. Retries for ten seconds, because another process may
 * stop the server before it can be used here.
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

/**
 * Restarts the server on the same port if it has died. If several processes notice, the first one to get the home
 * directory's lock restarts it, and the others then find it running.
 */
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
 * Opens the presence file, an SQLite database without any tables. It serves only as a lock (`HomeDirectory.ts` explains
 * why it is SQLite's). Every process that uses the server keeps a read transaction open on the file, which holds a
 * shared lock. A process that gets an exclusive lock therefore knows that no other process uses the server. The kernel
 * releases the locks of a process that is killed. With `timeout: 0`, a lock that is not available fails immediately.
 */
const openPresenceFile = ({ home }: Pick<EmbeddedCluster, "home">) => new DatabaseSync(`${home}/users`, { timeout: 0 })

/**
 * Runs the statements that take a lock on the presence file. The lock is held until the file is closed. With the
 * journal in memory, SQLite writes no journal file, so that locking also works on a full disk.
 */
const lockPresenceFile = (file: DatabaseSync, transaction: string) =>
  file.exec(`PRAGMA journal_mode = MEMORY; ${transaction}`)

/**
 * Returns whether no process holds a lock on the presence file. An exclusive lock can be taken only in that case, and
 * it is released again immediately.
 */
const isUnused = (cluster: EmbeddedCluster) =>
  Effect.isSuccess(Effect.try(() => {
    const file = openPresenceFile(cluster)
    try {
      lockPresenceFile(file, "BEGIN EXCLUSIVE")
    } finally {
      file.close()
    }
  }))

/**
 * Stops using the server: releases this process's presence lock, and shuts the server down if no other process uses it.
 */
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
 * Keeps a server running for the home directory `path` until the scope closes. If other processes already use a server
 * for that directory, shares it with them. `package` is the folder of the PostgreSQL npm package, if the package is not
 * in node_modules. Returns the server's URL, port and data directory.
 *
 * The home lock ensures that only one process at a time starts or stops the server. The presence lock is taken while
 * the home lock is held. Otherwise, a process that is leaving could stop the server between its start here and the
 * presence lock.
 */
export const startEmbeddedPostgres = Effect.fnUntraced(
  function* (path: string, options?: { readonly package?: string }) {
    const cluster = yield* openEmbeddedCluster(path, options?.package)
    const presence = openPresenceFile(cluster)
    yield* addForkedFinalizer(leave(cluster, presence))
    const port = yield* withHomeLock(
      cluster.home,
      Effect.suspend(() => {
        // `BEGIN` alone takes no lock. Reading the database takes the shared lock, which lasts until the transaction
        // ends: until the file is closed.
        lockPresenceFile(presence, "BEGIN; SELECT * FROM sqlite_schema")
        const anyPort = undefined
        return ensureUsable(cluster, anyPort)
      }),
    )
    yield* repeatInBackground(restartIfDead(cluster, port), checkInterval)
    const { dataDirectory, password } = cluster
    return { url: makeEmbeddedUrl(password, port), port, dataDirectory }
  },
)

/** A running embedded server. */
export type EmbeddedPostgres = Effect.Success<ReturnType<typeof startEmbeddedPostgres>>

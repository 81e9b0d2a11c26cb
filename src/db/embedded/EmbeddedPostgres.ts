/**
 * Starts an embedded PostgreSQL server. All processes with the same home directory share it; the last one to exit stops
 * it. docs/decisions/0085-embedded-server-is-shared.md explains the locks.
 */
import { PgConnection } from "@effect/sql-pg"
import { Config, Deferred, Effect, FileSystem, Queue, Redacted, Schedule } from "effect"
import { fileURLToPath } from "node:url"
import { addForkedFinalizer } from "../../observability/BackgroundFibers.ts"
import { isLockTimeout } from "../SqlState.ts"
import { type EmbeddedCluster, embeddedDatabaseUser, makeEmbeddedUrl, openEmbeddedCluster } from "./EmbeddedCluster.ts"
import { withHomeLock } from "./HomeDirectory.ts"
import { EmbeddedPostgresError } from "./ChildProcess.ts"
import { ensurePostgresIsRunning, findRunningPostgres, stopPostgres } from "./PostgresServer.ts"

export interface EmbeddedPostgres {
  readonly url: Redacted.Redacted<string>
  readonly port: number
  readonly dataDirectory: string
  readonly logFile: string
}

/** The home directory. The default is `.tickerline` next to package.json, so that commands work from any folder. */
export const TickerlineHomeConfig: Config.Config<string> = Config.NonEmptyString("TICKERLINE_HOME").pipe(
  Config.withDefault(fileURLToPath(new URL("../../../.tickerline", import.meta.url))),
)

/**
 * The advisory lock that every process holds in shared mode, so that a process can tell whether it is the last one. It
 * is taken in the database `postgres`, so it never collides with the service's locks.
 */
const presenceLockId = 7_101_883

const connect = (cluster: EmbeddedCluster, port: number) =>
  Effect.flatMap(
    PgConnection.make({
      host: "127.0.0.1",
      port,
      username: embeddedDatabaseUser,
      password: Redacted.make(cluster.password),
      database: "postgres",
      applicationName: "tickerline-presence",
    }),
    (connection) => connection.pin,
  )

const createDatabase = Effect.fnUntraced(function* (connection: PgConnection.PgConnection) {
  const found = yield* connection.query("SELECT FROM pg_database WHERE datname = $1", [embeddedDatabaseUser])
  if (found.rowCount === 0) yield* connection.query(`CREATE DATABASE ${embeddedDatabaseUser}`)
})

/**
 * Starts the server unless it is running, and connects. Retries, because the server may die before the connection is
 * open, or refuse it during crash recovery.
 */
const ensureConnected = (cluster: EmbeddedCluster, fixedPort: number | undefined) =>
  ensurePostgresIsRunning(cluster, fixedPort).pipe(
    Effect.bindTo("port"),
    Effect.bind("connection", ({ port }) => connect(cluster, port)),
    Effect.retry({
      while: (error) => error._tag === "SqlError" && error.reason._tag !== "AuthenticationError",
      schedule: Schedule.spaced("100 millis"),
      times: 100,
    }),
  )

/** Registers this process as a user of the server. `lost` completes when its connection ends: the server has died. */
const join = Effect.fnUntraced(function* (cluster: EmbeddedCluster, fixedPort: number | undefined) {
  const { port, connection } = yield* ensureConnected(cluster, fixedPort)
  yield* connection.query("SET lock_timeout = '10s'")
  yield* connection.query(`SELECT pg_advisory_lock_shared(${presenceLockId})`)
  yield* createDatabase(connection)
  const messages = yield* connection.listen("tickerline_presence")
  return { port, lost: Effect.ignore(Effect.forever(Queue.take(messages))) }
}, (effect, cluster) =>
  Effect.catchTag(effect, "SqlError", (error) =>
    Effect.fail(
      new EmbeddedPostgresError({
        message:
          `The embedded PostgreSQL is running but not usable (${error.message}). See its log, ${cluster.logFile}.`,
      }),
    )))

const keepPresence = Effect.fnUntraced(
  function* (
    cluster: EmbeddedCluster,
    fixedPort: number | undefined,
    onJoin: (port: number) => Effect.Effect<unknown>,
  ) {
    const session = yield* withHomeLock(cluster.home, join(cluster, fixedPort))
    yield* onJoin(session.port)
    yield* session.lost
  },
  Effect.scoped,
)

/**
 * Reconnects after the server died. All processes that used the server do so; the first one to get the file lock
 * restarts it.
 */
const restorePresence = Effect.fnUntraced(function* (cluster: EmbeddedCluster, port: number) {
  yield* Effect.logWarning("The embedded PostgreSQL has stopped unexpectedly. Restarting it.")
  yield* keepPresence(
    cluster,
    port,
    (currentPort) =>
      currentPort === port
        ? Effect.logInfo("The embedded PostgreSQL is running again.")
        : Effect.logError(`The embedded PostgreSQL now uses port ${currentPort}. Restart this program.`),
  ).pipe(
    Effect.tapError((error) => Effect.logError(error.message)),
    Effect.retry(Schedule.min([Schedule.exponential("250 millis"), Schedule.spaced("10 seconds")])),
  )
})

/** Whether no other process is using the server. Gives the server 250 ms to notice that processes have exited. */
const isLastProcess = Effect.fnUntraced(
  function* (cluster: EmbeddedCluster, port: number) {
    const connection = yield* connect(cluster, port)
    yield* connection.query("SET lock_timeout = '250ms'")
    yield* connection.query(`SELECT pg_advisory_lock(${presenceLockId})`)
    return true
  },
  Effect.scoped,
  Effect.catchTag(
    "SqlError",
    (error) => isLockTimeout(error) ? Effect.succeed(false) : Effect.fail(error),
  ),
)

const stopIfLastProcess = Effect.fnUntraced(function* (cluster: EmbeddedCluster) {
  const found = yield* findRunningPostgres(cluster)
  if (found && (yield* isLastProcess(cluster, found.port))) yield* stopPostgres(cluster)
}, Effect.retry({ schedule: Schedule.spaced("100 millis"), times: 50 }))

const leave = Effect.fnUntraced(function* (cluster: EmbeddedCluster) {
  const fs = yield* FileSystem.FileSystem
  // If the home was deleted, no other process can find the server, so no lock is needed.
  yield* (yield* fs.exists(cluster.home))
    ? withHomeLock(cluster.home, stopIfLastProcess(cluster))
    : stopIfLastProcess(cluster)
}, Effect.catchCause((cause) => Effect.logWarning("The embedded PostgreSQL may still be running:", cause)))

/**
 * Keeps a server running for the home directory `path` until the scope closes.
 * `package` is the folder of PostgreSQL's npm package, if it is not in node_modules.
 */
export const startEmbeddedPostgres = Effect.fnUntraced(
  function* (path: string, options?: { readonly package?: string }) {
    const cluster = yield* openEmbeddedCluster(path, options?.package)
    yield* addForkedFinalizer(leave(cluster))
    const joined = yield* Deferred.make<number, EmbeddedPostgresError>()
    yield* keepPresence(cluster, undefined, (port) => Deferred.succeed(joined, port)).pipe(
      Effect.andThen(Effect.flatMap(Deferred.await(joined), (port) => Effect.forever(restorePresence(cluster, port)))),
      Effect.onError((cause) => Deferred.failCause(joined, cause)),
      Effect.forkScoped,
    )
    const port = yield* Deferred.await(joined)
    const server: EmbeddedPostgres = {
      url: makeEmbeddedUrl(cluster.password, port),
      port,
      dataDirectory: cluster.dataDirectory,
      logFile: cluster.logFile,
    }
    return server
  },
)

/**
 * A real PostgreSQL that the service brings along, shared by the processes with the same home. Each holds a connection
 * with a shared advisory lock, which tells the others of it and it of the server's death; whoever leaves last stops
 * the server. Every change happens under the home's file lock, which frees itself when its holder is killed.
 */
import { PgConnection } from "@effect/sql-pg"
import { Config, Deferred, Effect, Fiber, FileSystem, Queue, Redacted, Schedule } from "effect"
import { fileURLToPath } from "node:url"
import { type Cluster, databaseUser, openCluster } from "./Cluster.ts"
import { withHomeLock } from "./HomeDirectory.ts"
import { EmbeddedPostgresError } from "./ChildProcess.ts"
import { ensureServerRuns, findRunningServer, stopServer } from "./PostgresServer.ts"

export { EmbeddedPostgresError }

export interface EmbeddedPostgres {
  readonly url: Redacted.Redacted<string>
  readonly port: number
  readonly data: string
  readonly log: string
}

/** Beside package.json rather than in the current folder, so that commands work from anywhere. */
export const TickerlineHome: Config.Config<string> = Config.NonEmptyString("TICKERLINE_HOME").pipe(
  Config.withDefault(fileURLToPath(new URL("../../../.tickerline", import.meta.url))),
)

/** Any number will do; the locks live in the database `postgres`, away from those of the service. */
const presence = 7_101_883

const connect = (cluster: Cluster, port: number) =>
  Effect.flatMap(
    PgConnection.make({
      host: "127.0.0.1",
      port,
      username: databaseUser,
      password: Redacted.make(cluster.password),
      database: "postgres",
      applicationName: "tickerline-presence",
    }),
    (connection) => connection.pin,
  )

const createDatabase = Effect.fnUntraced(function* (connection: PgConnection.PgConnection) {
  const found = yield* connection.query("SELECT FROM pg_database WHERE datname = $1", [databaseUser])
  if (found.rowCount === 0) yield* connection.query(`CREATE DATABASE ${databaseUser}`)
})

/** A server may die between its start and the connection, or mend itself after a crash and take nobody in yet. */
const reach = (cluster: Cluster, fixed: number | undefined) =>
  ensureServerRuns(cluster, fixed).pipe(
    Effect.bindTo("port"),
    Effect.bind("connection", ({ port }) => connect(cluster, port)),
    Effect.retry({
      while: (error) => error._tag === "SqlError" && error.reason._tag !== "AuthenticationError",
      schedule: Schedule.spaced("100 millis"),
      times: 100,
    }),
  )

/** One stay with the server: `lost` ends when the connection does. */
const join = Effect.fnUntraced(function* (cluster: Cluster, fixed: number | undefined) {
  const { port, connection } = yield* reach(cluster, fixed)
  yield* connection.query("SET lock_timeout = '10s'")
  yield* connection.query(`SELECT pg_advisory_lock_shared(${presence})`)
  yield* createDatabase(connection)
  const messages = yield* connection.listen("tickerline_presence")
  return { port, lost: Effect.ignore(Effect.forever(Queue.take(messages))) }
}, (effect, cluster) =>
  Effect.catchTag(effect, "SqlError", (error) =>
    Effect.fail(
      new EmbeddedPostgresError({
        message: `The embedded PostgreSQL runs but does not work (${error.message}). See its log ${cluster.log}.`,
      }),
    )))

const hold = Effect.fnUntraced(
  function* (cluster: Cluster, fixed: number | undefined, joined: (port: number) => Effect.Effect<unknown>) {
    const session = yield* withHomeLock(cluster.home, join(cluster, fixed))
    yield* joined(session.port)
    yield* session.lost
  },
  Effect.scoped,
)

/** All holders notice at once; the file lock lets the first start the server, and the others find it running. */
const holdAgain = Effect.fnUntraced(function* (cluster: Cluster, port: number) {
  yield* Effect.logWarning("The embedded PostgreSQL has gone away; bringing it back.")
  yield* hold(
    cluster,
    port,
    (now) =>
      now === port
        ? Effect.logInfo("The embedded PostgreSQL is back.")
        : Effect.logError(`The embedded PostgreSQL now has the port ${now}; restart this program.`),
  ).pipe(
    Effect.tapError((error) => Effect.logError(error.message)),
    Effect.retry(Schedule.min([Schedule.exponential("250 millis"), Schedule.spaced("10 seconds")])),
  )
})

/** The wait covers the server's clean-up after other processes that ended just now. */
const isLast = Effect.fnUntraced(
  function* (cluster: Cluster, port: number) {
    const connection = yield* connect(cluster, port)
    yield* connection.query("SET lock_timeout = '250ms'")
    yield* connection.query(`SELECT pg_advisory_lock(${presence})`)
    return true
  },
  Effect.scoped,
  Effect.catchTag(
    "SqlError",
    ({ reason }) => reason._tag === "LockTimeoutError" ? Effect.succeed(false) : Effect.fail(reason),
  ),
)

const stopIfLast = Effect.fnUntraced(function* (cluster: Cluster) {
  const found = yield* findRunningServer(cluster)
  if (found && (yield* isLast(cluster, found.port))) yield* stopServer(cluster)
}, Effect.retry({ schedule: Schedule.spaced("100 millis"), times: 50 }))

const leave = Effect.fnUntraced(function* (cluster: Cluster) {
  const fs = yield* FileSystem.FileSystem
  // Without its home nobody else finds the server.
  yield* (yield* fs.exists(cluster.home)) ? withHomeLock(cluster.home, stopIfLast(cluster)) : stopIfLast(cluster)
}, Effect.catchCause((cause) => Effect.logWarning("The embedded PostgreSQL may still be running:", cause)))

/**
 * A running server for the `path` of a home, until the scope closes. `package` is another folder than node_modules
 * for PostgreSQL's npm package.
 */
export const startEmbeddedPostgres = Effect.fnUntraced(
  function* (path: string, options?: { readonly package?: string }) {
    const cluster = yield* openCluster(path, options?.package)
    // In a fiber of its own, where timeouts work although the scope's fiber is no longer interruptible.
    yield* Effect.addFinalizer(() => Effect.flatMap(Effect.forkDetach(leave(cluster)), Fiber.await))
    const joined = yield* Deferred.make<number, EmbeddedPostgresError>()
    yield* hold(cluster, undefined, (port) => Deferred.succeed(joined, port)).pipe(
      Effect.andThen(Effect.flatMap(Deferred.await(joined), (port) => Effect.forever(holdAgain(cluster, port)))),
      Effect.onError((cause) => Deferred.failCause(joined, cause)),
      Effect.forkScoped,
    )
    const port = yield* Deferred.await(joined)
    const server: EmbeddedPostgres = {
      url: Redacted.make(`postgres://${databaseUser}:${cluster.password}@127.0.0.1:${port}/${databaseUser}`),
      port,
      data: cluster.data,
      log: cluster.log,
    }
    return server
  },
)

/**
 * A PostgreSQL server that a test can kill, stop and restart without losing its data.
 *
 * ```ts
 * const database = TestKeys.layer.pipe(Layer.provideMerge(sampleDedicatedLayer), Layer.provideMerge(NodeCrypto.layer))
 * layer(database, { excludeTestServices: true })("A request", (it) => {
 *   it.effect("succeeds after PostgreSQL has restarted (RELIABILITY.md)", () =>
 *     Effect.gen(function* () {
 *       const server = yield* DedicatedPostgres
 *       const port = yield* startServiceInstance()
 *       yield* server.stop("SIGKILL")
 *       yield* server.start
 *       // Requests to `port` succeed again, after retries.
 *     }).pipe(Effect.scoped))
 * })
 * ```
 */
import { NodeServices } from "@effect/platform-node"
import { Context, Effect, FileSystem, Layer, Logger, Redacted, Schedule } from "effect"
import { inject } from "vitest"
import { runProcessToCompletion } from "../../src/postgres/embedded/ChildProcess.ts"
import {
  chooseFreePort,
  type EmbeddedCluster,
  embeddedDatabaseUser,
} from "../../src/postgres/embedded/EmbeddedCluster.ts"
import { withHomeLock } from "../../src/postgres/embedded/HomeDirectory.ts"
import { ensurePostgresIsRunning, findRunningPostgres } from "../../src/postgres/embedded/PostgresServer.ts"
import { databaseClientLayer } from "../../src/postgres/pool/PooledClient.ts"
import * as Migrations from "../../src/postgres/migrations/Migrations.ts"
import { makePostgresCluster } from "./PostgresCluster.ts"
import { loadSampleMarket } from "./Service.ts"

/** A server on a fixed port, with the URL of its superuser. */
export interface PostgresServer {
  readonly url: string
  readonly port: number
  /** The path of the server's log file. */
  readonly logFile: string
  readonly cluster: EmbeddedCluster
  /** The process ID of the postmaster. */
  readonly pid: Effect.Effect<number>
  /** Sends the signal and waits until the server has exited. `SIGINT` requests a fast shutdown. */
  readonly stop: (signal: "SIGINT" | "SIGKILL") => Effect.Effect<void>
  /** Restarts the server on the same port. */
  readonly start: Effect.Effect<void>
}

/**
 * Creates the controls for a server with this data directory, without starting the server. The server stops when the
 * scope closes.
 */
export const makeServerControls = Effect.fnUntraced(function* (cluster: EmbeddedCluster, port: number) {
  const services = yield* Effect.context<FileSystem.FileSystem>()
  const findServer = Effect.provide(findRunningPostgres(cluster), services)
  const waitUntilEnded = Effect.repeat(findServer, {
    until: (server) => server === undefined,
    schedule: Schedule.spaced("10 millis"),
  })
  // 0 if the server is not running. It must not be sent a signal: 0 would stand for the process group of the tests.
  const pid = Effect.map(findServer, (server) => server?.pid ?? 0)
  const end = (signal: NodeJS.Signals) =>
    Effect.flatMap(pid, (pid) => pid === 0 ? Effect.void : Effect.sync(() => process.kill(pid, signal))).pipe(
      Effect.andThen(waitUntilEnded),
      Effect.asVoid,
    )
  yield* Effect.addFinalizer(() => end("SIGINT"))
  const url = `postgres://${embeddedDatabaseUser}:${cluster.password}@127.0.0.1:${port}/postgres`
  const start = ensurePostgresIsRunning(cluster, port).pipe(Effect.orDie, Effect.asVoid, Effect.provide(services))
  const server: PostgresServer = { url, port, logFile: cluster.logFile, cluster, pid, stop: end, start }
  return server
})

const connectTo = (url: string) => databaseClientLayer({ url: Redacted.make(url), applicationName: "tickerline-test" })

/**
 * Returns a cluster that contains the sample market and whose server is stopped. The first test in a run that needs the
 * cluster creates it, while tests in other workers wait.
 */
const prepareSampleCluster = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const folder = inject("sampleServerFolder")
  const complete = `${folder}/complete`
  return yield* withHomeLock(
    folder,
    Effect.gen(function* () {
      const cluster = yield* makePostgresCluster(`${folder}/home`)
      if (yield* fs.exists(complete)) return cluster
      const { url } = yield* makeServerControls(cluster, yield* ensurePostgresIsRunning(cluster, undefined))
      yield* Effect.andThen(Migrations.runMigrations, loadSampleMarket).pipe(
        Effect.provide(Layer.merge(connectTo(url), Logger.layer([]))),
      )
      yield* fs.writeFileString(complete, "")
      return cluster
    }).pipe(Effect.scoped),
  )
})

const makeServerFolder = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-faults-" })
  yield* fs.chmod(folder, 0o755)
  return folder
})

/** Provides a PostgreSQL server that belongs to a single test file. */
export class DedicatedPostgres
  extends Context.Service<DedicatedPostgres, PostgresServer>()("test/support/DedicatedPostgres") {
  /** A server with an empty database. */
  static readonly layer = Layer.effect(
    DedicatedPostgres,
    Effect.gen(function* () {
      const cluster = yield* makePostgresCluster(`${yield* makeServerFolder}/home`)
      return DedicatedPostgres.of(
        yield* makeServerControls(cluster, yield* ensurePostgresIsRunning(cluster, undefined)),
      )
    }),
  )

  /** A server with the sample market. Copying the data is much cheaper than creating it. */
  static readonly sampleLayer = Layer.effect(
    DedicatedPostgres,
    Effect.gen(function* () {
      const prepared = yield* prepareSampleCluster
      const folder = yield* makeServerFolder
      const data = `${folder}/data`
      yield* runProcessToCompletion({
        command: "cp",
        args: ["-a", prepared.dataDirectory, data],
        systemUser: undefined,
      })
      const cluster = { ...prepared, baseDirectory: folder, dataDirectory: data, logFile: `${folder}/postgres.log` }
      const server = yield* makeServerControls(cluster, yield* chooseFreePort)
      yield* server.start
      return DedicatedPostgres.of(server)
    }),
  )
}

const clientLayer = Layer.unwrap(Effect.map(DedicatedPostgres, ({ url }) => connectTo(url)))

/** Provides a client for a migrated, empty database on a dedicated server. */
export const migratedDedicatedLayer = Layer.effectDiscard(Migrations.runMigrations).pipe(
  Layer.provide(Logger.layer([])),
  Layer.provideMerge(clientLayer),
  Layer.provideMerge(DedicatedPostgres.layer),
  Layer.provideMerge(NodeServices.layer),
)

/** Provides a client for a migrated database with the sample market on a dedicated server. */
export const sampleDedicatedLayer = clientLayer.pipe(
  Layer.provideMerge(DedicatedPostgres.sampleLayer),
  Layer.provideMerge(NodeServices.layer),
)

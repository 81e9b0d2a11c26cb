/**
 * Changes the database password under continuous load, both in PostgreSQL and in the file that contains the URL
 * (RELIABILITY.md).
 */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { ConfigProvider, Effect, Fiber, FileSystem, Layer, Logger, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { secretFilesLayer } from "../../src/operate/cli/SecretFiles.ts"
import { secretNames } from "../../src/operate/cli/Settings.ts"
import { serverDatabaseClientLayer } from "../../src/postgres/ConnectionLayers.ts"
import * as CustomerUsage from "../support/CustomerUsage.ts"
import { DedicatedPostgres, sampleDedicatedLayer } from "../support/DedicatedPostgres.ts"
import { requestOverWire, startServiceInstance } from "../support/ServiceInstances.ts"
import { recordFaultSummary } from "../support/FaultSummaries.ts"
import { startSteadyClients } from "../support/SteadyClients.ts"
import { TestKeys } from "../support/Service.ts"

// @module-tag slow

const role = "rotated"

/** Waits until the condition is true. */
const waitUntil = <E, R>(condition: Effect.Effect<boolean, E, R>) =>
  Effect.repeat(condition, { until: (holds) => holds, schedule: Schedule.spaced("20 millis") }).pipe(
    Effect.timeout("60 seconds"),
  )

/** Starts an instance that reads its database URL from a file, and clients that send requests continuously. */
const startInstance = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const server = yield* DedicatedPostgres
  const owner = yield* SqlClient.SqlClient
  const file = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-rotation-" })}/url`
  const setPassword = (password: string) => owner.unsafe(`alter role ${role} password '${password}'`)
  const writeUrl = (password: string, host = "127.0.0.1") =>
    fs.writeFileString(file, `postgres://${role}:${password}@${host}:${server.port}/postgres\n`)
  yield* owner.unsafe(`drop role if exists ${role}`)
  yield* owner.unsafe(`create role ${role} superuser login password 'first'`)
  yield* writeUrl("first")

  const messages: Array<string> = []
  const logger = Logger.layer([Logger.make(({ message }) => void messages.push(String(message)))])
  const settings = secretFilesLayer(secretNames).pipe(
    Layer.provideMerge(ConfigProvider.layer(ConfigProvider.fromEnv({ env: { DATABASE_URL_FILE: file } }))),
    Layer.provideMerge(logger),
  )
  const database = yield* Layer.build(Layer.provide(serverDatabaseClientLayer(role), settings))
  const { key } = yield* CustomerUsage.createCustomer(`rotation ${performance.now()}`, { tier: "ultimate" })
  const port = yield* Effect.provideContext(startServiceInstance({}, { port: 0 }, { watched: logger }), database)
  const clients = yield* startSteadyClients({ port, key })

  const readPids = Effect.map(
    owner<{ readonly pid: number }>`select pid from pg_stat_activity where usename = ${role}`,
    (rows) => rows.map(({ pid }) => pid),
  )
  const rejections = Effect.map(
    fs.readFileString(server.logFile),
    (log) => log.split(`password authentication failed for user "${role}"`).length - 1,
  )
  const endConnections = owner`select pg_terminate_backend(pid) from pg_stat_activity where usename = ${role}`
  return {
    ...clients,
    readPids,
    rejections,
    setPassword,
    writeUrl,
    emptyFile: fs.writeFileString(file, ""),
    messages,
    request: (path: string) => requestOverWire(port, path, key),
    /** Terminates all of the instance's database connections, so that it needs new ones. */
    endConnections,
    /**
     * Terminates all of the instance's database connections, then waits until the instance logs a matching message
     * about a new connection. Until then, caches serve many of the requests.
     */
    endConnectionsUntilLogged: (pattern: RegExp) =>
      Effect.andThen(endConnections, waitUntil(Effect.sync(() => messages.some((message) => pattern.test(message))))),
    /** Stops the clients. Fails if any request failed. */
    stopWithoutFailure: Effect.fnUntraced(function* (fault: string) {
      const all = yield* clients.stop
      yield* recordFaultSummary(fault, all)
      assert.deepStrictEqual(Object.keys(all.responses).filter((outcome) => !/^(200|404|409|422)/.test(outcome)), [])
    }),
  }
})

const database = TestKeys.layer.pipe(
  Layer.provideMerge(sampleDedicatedLayer),
  Layer.provideMerge(NodeCrypto.layer),
  Layer.provideMerge(NodeServices.layer),
)

layer(database, { excludeTestServices: true, timeout: "120 seconds" })("The database password", (it) => {
  it.effect("may be changed in the file before PostgreSQL: the old one is used until PostgreSQL accepts the new one (operations/deployment)", () =>
    Effect.gen(function* () {
      const service = yield* startInstance
      const { endConnectionsUntilLogged, messages, more, readPids, setPassword, writeUrl } = service
      yield* more()
      yield* writeUrl("second")
      yield* endConnectionsUntilLogged(/^PostgreSQL does not accept the password in /)
      yield* more()
      assert.isAbove(yield* service.rejections, 0)
      const before = yield* readPids
      yield* setPassword("second")
      yield* more()
      assert.includeMembers(yield* readPids, before.slice(0, 1))
      const isAccepted = /^New connections use the new password in /
      yield* endConnectionsUntilLogged(isAccepted)
      yield* more()
      assert.lengthOf(messages.filter((message) => isAccepted.test(message)), 1)
      yield* service.stopWithoutFailure("Password changed in the file, then in PostgreSQL")
    }))

  it.effect("may be changed in PostgreSQL before the file: new connections wait for the file, open ones continue (operations/deployment)", () =>
    Effect.gen(function* () {
      const service = yield* startInstance
      yield* service.more()
      const before = yield* service.rejections
      yield* service.setPassword("second")
      // Connections that are already open continue to work after the password change.
      yield* service.more()
      assert.strictEqual(yield* service.rejections, before)
      yield* service.endConnections
      const waiting = yield* Effect.forEach(
        ["/v1/news?limit=all&format=ndjson", "/v1/news?limit=11", "/v1/screener?limit=11"],
        (path) => Effect.forkChild(service.request(path)),
      )
      // By this time, any request that was not retried would have failed.
      yield* waitUntil(Effect.map(service.rejections, (count) => count > before + 20))
      yield* service.writeUrl("second")
      for (const response of waiting) assert.strictEqual((yield* Fiber.join(response)).status, 200)
      yield* service.more()
      yield* service.stopWithoutFailure("Password changed in PostgreSQL, then in the file")
    }))

  it.effect("stays in use while the file is empty or names another server (operations/deployment)", () =>
    Effect.gen(function* () {
      const { emptyFile, endConnectionsUntilLogged, messages, more, stopWithoutFailure, writeUrl } =
        yield* startInstance
      yield* more()
      yield* emptyFile
      yield* endConnectionsUntilLogged(/^The database URL in \S+ can no longer be read, so new connections/)
      yield* more()
      yield* writeUrl("second", "192.0.2.1")
      yield* endConnectionsUntilLogged(/^The database URL in \S+ differs in more than the password, so new connections/)
      yield* more()
      assert.notMatch(messages.join("\n"), /first|second/)
      yield* stopWithoutFailure("File with the database URL damaged")
    }))
})

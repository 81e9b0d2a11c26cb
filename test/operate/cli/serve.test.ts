/** Tests how the service starts and stops: its connections, its jobs, and ports shared with REUSE_PORT. */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { ConfigProvider, Deferred, Duration, Effect, Exit, Fiber, FileSystem, Layer, Schedule, Scope } from "effect"
import { SqlClient } from "effect/sql"
import { inspect } from "node:util"
import { chooseFreePort } from "../../../src/postgres/embedded/EmbeddedCluster.ts"
import { type ConnectionTimeouts, defaultConnectionTimeouts } from "../../../src/api/ConnectionLimits.ts"
import * as ServeCommand from "../../../src/operate/cli/ServeCommand.ts"
import * as ServiceInstances from "../../support/ServiceInstances.ts"
import { beginTransaction, waitUntilBlocked } from "../../support/HeldTransactions.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import * as RawSockets from "../../support/RawSockets.ts"
import { startTcpProxy } from "../../support/TcpProxy.ts"
import { TestKeys } from "../../support/Service.ts"

/** Returns whether the connection was refused because nothing listens on the port. */
const isRefused = (error: Error) => error.message.includes("ECONNREFUSED")

layer(ServiceInstances.databaseWithKeysLayer, { excludeTestServices: true, timeout: "60 seconds" })("serve", (it) => {
  it.effect("responds on every connection that it accepts while starting (operations/deployment)", () =>
    Effect.gen(function* () {
      const port = yield* chooseFreePort
      const requestWhenOpen = ServiceInstances.requestOverWire(port, "/health/live", "").pipe(
        Effect.retry({ while: isRefused, schedule: Schedule.spaced("5 millis") }),
        Effect.timeout("20 seconds"),
      )
      // Each request retries until it connects, so all of them arrive as soon as the port opens.
      const first = yield* Effect.forkChild(
        Effect.all(Array.from({ length: 20 }, () => requestWhenOpen), { concurrency: 20 }),
      )
      yield* ServiceInstances.startServiceInstance({}, { port })
      for (const { status } of yield* Fiber.join(first)) assert.strictEqual(status, 200)
    }).pipe(Effect.scoped))

  it.effect("lets instances share a port with REUSE_PORT, even after one of them stops (operations/deployment)", () =>
    Effect.gen(function* () {
      const { basic } = yield* TestKeys
      const sharedPort = { port: yield* chooseFreePort, reusePort: true }
      const sendRequests = Effect.all(
        Array.from(
          { length: 60 },
          () =>
            ServiceInstances.requestOverWire(sharedPort.port, "/v1/screener", basic, {
              headers: { Connection: "close" },
            }),
        ),
        { concurrency: 20 },
      )
      yield* ServiceInstances.startServiceInstance({}, sharedPort)
      yield* Effect.scoped(Effect.gen(function* () {
        yield* ServiceInstances.startServiceInstance({ RATE_LIMIT_BASIC: "2000000" }, sharedPort)
        const responses = yield* sendRequests
        assert.deepStrictEqual(new Set(responses.map(({ status }) => status)), new Set([200]))
        const limits = new Set(responses.map(({ headers }) => headers["x-ratelimit-limit"]))
        assert.deepStrictEqual(limits, new Set(["1000000", "2000000"]))
      }))
      const responses = yield* sendRequests
      assert.deepStrictEqual(new Set(responses.map(({ status }) => status)), new Set([200]))
    }).pipe(Effect.scoped))

  it.effect("keeps idle connections open longer than load balancers, which use 60 seconds (operations/upgrades)", () =>
    Effect.gen(function* () {
      const port = yield* ServiceInstances.startServiceInstance({}, { port: 0 })
      const { headers } = yield* ServiceInstances.requestOverWire(port, "/health/live", "", {
        headers: { Connection: "keep-alive" },
      })
      assert.strictEqual(headers["keep-alive"], "timeout=75")
    }).pipe(Effect.scoped))

  it.effect("closes each connection after its current request when the service stops (operations/deployment)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { basic } = yield* TestKeys
      const scope = yield* Scope.make()
      const port = yield* Scope.provide(ServiceInstances.startServiceInstance({}, { port: 0 }), scope)
      const released = yield* Deferred.make<void>()
      const locked = yield* Deferred.make<void>()
      const holding = yield* Effect.forkChild(sql.withTransaction(
        sql`lock table screener in access exclusive mode`.pipe(
          Effect.andThen(Deferred.succeed(locked, undefined)),
          Effect.andThen(Deferred.await(released)),
        ),
      ))
      yield* Deferred.await(locked)
      const request = yield* Effect.forkChild(
        ServiceInstances.requestOverWire(port, "/v1/screener?limit=7", basic, {
          headers: { Connection: "keep-alive" },
        }),
      )
      const waits = sql`select 1 from pg_locks where relation = 'screener'::regclass and not granted`
      yield* Effect.repeat(waits, { until: (rows) => rows.length > 0, schedule: Schedule.spaced("10 millis") })
      const ending = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      const isOpen = Effect.match(ServiceInstances.requestOverWire(port, "/health/live", ""), {
        onFailure: (error) => !isRefused(error),
        onSuccess: () => true,
      })
      yield* Effect.repeat(isOpen, { until: (open) => !open, schedule: Schedule.spaced("10 millis") })
      yield* Deferred.succeed(released, undefined)
      const { headers, status } = yield* Fiber.join(request)
      yield* Effect.all([Fiber.join(ending), Fiber.join(holding)])
      assert.deepStrictEqual([status, headers["connection"]], [200, "close"])
    }).pipe(Effect.scoped))

  it.effect("responds with 503 to a request that runs too long when the service stops, and records it (operations/deployment)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { basic } = yield* TestKeys
      const scope = yield* Scope.make()
      const timeouts: ConnectionTimeouts = { ...defaultConnectionTimeouts, shutdown: Duration.millis(300) }
      const port = yield* Scope.provide(ServiceInstances.startServiceInstance({}, { port: 0 }, { timeouts }), scope)
      const { commit } = yield* beginTransaction(sql`lock table screener in access exclusive mode`)
      const headers = { "X-Request-Id": "late", Connection: "keep-alive" }
      const request = yield* Effect.forkScoped(
        ServiceInstances.requestOverWire(port, "/v1/screener?limit=8", basic, { headers }),
      )
      yield* waitUntilBlocked
      yield* Scope.close(scope, Exit.void)
      const response = yield* Fiber.join(request)
      yield* commit
      assert.deepStrictEqual([response.status, response.headers["retry-after"]], [503, "5"])
      const recorded = yield* sql`
        select status_code::int as status, cost_microdollars::int as cost from usage_requests where request_id = 'late'
      `
      assert.deepStrictEqual(recorded, [{ status: 503, cost: 0 }])
    }).pipe(Effect.scoped))

  it.effect("shuts down without waiting for a client that does not read its response (operations/deployment)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { ultimate } = yield* TestKeys
      // Inserts more data than the socket buffers can hold.
      yield* sql`
        insert into research_reports
          (report_id, ticker, gain_percentage, report_text, tldr_text, created_at, last_updated)
        select 'long ' || n, 'LONG', n, repeat('x', 4000000), 'x', '2026-01-01', '2026-01-01'
        from generate_series(1, 8) as n
      `
      const scope = yield* Scope.make()
      const timeouts: ConnectionTimeouts = { ...defaultConnectionTimeouts, shutdown: Duration.millis(300) }
      const port = yield* Scope.provide(ServiceInstances.startServiceInstance({}, { port: 0 }, { timeouts }), scope)
      const { socket } = yield* RawSockets.openConnection(port)
      const beginning = Effect.callback<void>((resume) => {
        socket.removeAllListeners("data").once("data", () => {
          socket.pause()
          resume(Effect.void)
        })
      })
      const begun = yield* Effect.forkChild(beginning, { startImmediately: true })
      const target = "/v1/research-reports?ticker=LONG&limit=all&format=ndjson"
      socket.write(`GET ${target} HTTP/1.1\r\nHost: x\r\nX-API-Key: ${ultimate}\r\n\r\n`)
      for (let at = 0; at < 100; at++) socket.write("GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n")
      yield* Fiber.join(begun)
      yield* Scope.close(scope, Exit.void)
    }).pipe(Effect.scoped))
})

layer(NodeServices.layer, { excludeTestServices: true })("serve", (it) => {
  it.effect("starts even if a client connects while it looks whether its ports are free (operations/deployment)", () =>
    Effect.gen(function* () {
      const port = yield* chooseFreePort
      // Resolving the host name takes time, during which the first port is open.
      const metrics = { METRICS_HOST: "localhost", METRICS_PORT: String(yield* chooseFreePort) }
      const settings = ConfigProvider.layer(ConfigProvider.fromUnknown({ PORT: String(port), ...metrics }))
      // The port is open only briefly each time, so the client retries until enough of its connections have succeeded.
      const request = Effect.repeat(Effect.flip(ServiceInstances.requestOverWire(port, "/health/live", "")), {
        until: (error) => !isRefused(error),
        schedule: Schedule.spaced(0),
      })
      const client = Effect.repeat(request, { times: 30 })
      yield* Effect.raceFirst(client, Effect.forever(Effect.provide(ServeCommand.requireFreePorts, settings))).pipe(
        Effect.timeout("20 seconds"),
      )
    }))

  it.effect.each(["PORT", "METRICS_PORT", "ADMIN_PORT"])(
    "refuses a %s that is in use before it creates the embedded database (operations/deployment)",
    (setting) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const home = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-serve-" })}/home`
        const { port } = yield* startTcpProxy(1)
        const { code, err } = yield* runCommandInProcess(["serve"], {
          TICKERLINE_HOME: home,
          PORT: String(yield* chooseFreePort),
          [setting]: String(port),
        })
        assert.strictEqual(code, 1)
        assert.include(err, `${setting} is ${port}, but another program already uses that port on 127.0.0.1`)
        assert.isFalse(yield* fs.exists(home))
      }).pipe(Effect.scoped),
  )
})

layer(Layer.fresh(ServiceInstances.databaseWithKeysLayer), { excludeTestServices: true })("serve", (it) => {
  it.effect("starts no jobs if its port is in use (operations/deployment)", () =>
    Effect.gen(function* () {
      const { port } = yield* startTcpProxy(1)
      const error = yield* Effect.flip(Effect.scoped(ServiceInstances.startServiceInstance({}, { port })))
      assert.match(inspect(error), /EADDRINUSE/)
      const sql = yield* SqlClient.SqlClient
      assert.deepStrictEqual(yield* sql`select name from leases`, [])
    }).pipe(Effect.scoped))
})

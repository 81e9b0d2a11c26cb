/**
 * Tests that connections to a silent or replaced database are closed, but that those running slow statements stay open
 * (§8, database load).
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Logger, Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { mkdtempSync, rmSync } from "node:fs"
import { createServer, type ListenOptions } from "node:net"
import { tmpdir } from "node:os"
import { databaseClientLayer } from "../../../src/postgres/pool/PooledClient.ts"
import { HealthProbe } from "../../../src/postgres/health/HealthProbe.ts"
import { makeSocketRegistry } from "../../../src/postgres/health/SocketRegistry.ts"
import * as Service from "../../support/Service.ts"
import { startTcpProxy } from "../../support/TcpProxy.ts"

// @module-tag waiting

/** Connects a database client that has a health probe through a proxy. */
const connectThroughProxy = Effect.gen(function* () {
  const url = new URL(Redacted.value(yield* Service.copyMigratedDatabase))
  const serverPort = Number(url.port)
  const proxy = yield* startTcpProxy(serverPort)
  url.port = String(proxy.port)
  const services = yield* Layer.build(
    Layer.fresh(HealthProbe.layer).pipe(
      Layer.provide(Logger.layer([])),
      Layer.provideMerge(databaseClientLayer({ url: Redacted.make(url.href), applicationName: "probed" })),
    ),
  )
  const { isUp } = Context.get(services, HealthProbe)
  return { proxy, serverPort, sql: Context.get(services, SqlClient.SqlClient), isUp }
})

const waitUntil = (condition: () => boolean) =>
  Effect.repeat(Effect.sync(condition), { until: (isMet) => isMet, schedule: Schedule.spaced("20 millis") })

layer(Layer.empty, { excludeTestServices: true, timeout: "60 seconds" })("The health probe", (it) => {
  it.effect("lets a statement run for longer than the silence limit while the server responds to probes (§8)", () =>
    Effect.gen(function* () {
      const { sql } = yield* connectThroughProxy
      const [row] = yield* sql<{ readonly done: number }>`select 1 as done from pg_sleep(7)`
      assert.strictEqual(row?.done, 1)
    }).pipe(Effect.scoped))

  it.effect("ends running statements after five seconds of silence, and rejects new ones until the server responds (§8)", () =>
    Effect.gen(function* () {
      const { isUp, proxy, serverPort, sql } = yield* connectThroughProxy
      yield* sql`select 1`
      assert.isTrue(isUp())
      yield* proxy.stall
      const stalledAt = performance.now()
      const error = yield* Effect.flip(sql`select 1`)
      assert.strictEqual(error.reason._tag, "ConnectionError")
      const silence = performance.now() - stalledAt
      assert.isAbove(silence, 4_000)
      const rejectedAt = performance.now()
      const rejection = yield* Effect.flip(sql`select 1`)
      assert.match(String(rejection.reason.cause), /has not responded for five seconds/)
      assert.isFalse(isUp())
      assert.isBelow(performance.now() - rejectedAt, silence / 2, "a statement that is sent would wait as long")
      yield* proxy.lead(serverPort)
      yield* Effect.retry(sql`select 1`, { schedule: Schedule.spaced("20 millis"), times: 2_000 })
      yield* waitUntil(isUp)
    }).pipe(Effect.scoped))

  it.effect("reports the database as down after three seconds of silence, before it ends a statement (§8)", () =>
    Effect.gen(function* () {
      const { isUp, proxy, sql } = yield* connectThroughProxy
      yield* sql`select 1`
      yield* proxy.stall
      const stalledAt = performance.now()
      const statement = yield* Effect.forkChild(Effect.exit(sql`select 1`))
      yield* waitUntil(() => !isUp())
      assert.isAbove(performance.now() - stalledAt, 2_500, "short network stalls are tolerated")
      assert.isUndefined(statement.pollUnsafe())
      yield* proxy.resume
      yield* Fiber.join(statement)
      yield* waitUntil(isUp)
    }).pipe(Effect.scoped))
})

describe("The socket registry", () => {
  const isReached = (address: (port: number) => string, listen: ListenOptions) =>
    Effect.callback<boolean>((resume) => {
      const server = createServer((socket) => {
        socket.destroy()
        server.close(() => resume(Effect.succeed(true)))
      })
      server.listen(listen, () => {
        const found = server.address()
        const port = typeof found === "object" && found !== null ? found.port : 5432
        const { open } = Effect.runSync(makeSocketRegistry(Redacted.make(address(port))))
        open().on("error", () => resume(Effect.succeed(false)))
      })
    })

  it.effect("connects to the server that DATABASE_URL names, in each form of URL (operations/settings)", () =>
    Effect.gen(function* () {
      const host = "127.0.0.1"
      assert.isTrue(yield* isReached((port) => `postgres://u:p%40@127.0.0.1:${port}/db`, { host, port: 0 }))
      assert.isTrue(yield* isReached((port) => `postgresql:///db?host=127.0.0.1&port=${port}`, { host, port: 0 }))
      assert.isTrue(
        yield* isReached((port) => `postgres://u@nowhere.invalid:1/db?host=${host}&port=${port}`, { host, port: 0 }),
      )
      assert.isTrue(yield* isReached((port) => `postgres://[::1]:${port}/db`, { host: "::1", port: 0 }))
      const folder = mkdtempSync(`${tmpdir()}/socket-`)
      const path = `${folder}/.s.PGSQL.5432`
      assert.isTrue(yield* isReached(() => `postgres://u@${encodeURIComponent(folder)}/db`, { path }))
      assert.isTrue(yield* isReached(() => `postgres:///db?host=${encodeURIComponent(folder)}`, { path }))
      rmSync(folder, { recursive: true })
    }))
})

/** §8: connections that lead to nothing, or to a server that was replaced, are left; those that only take long are not. */
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Logger, Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { createServer, type ListenOptions } from "node:net"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { databaseClientLayer } from "../../../src/db/Database.ts"
import { HealthProbe } from "../../../src/db/health/HealthProbe.ts"
import * as Line from "../../../src/db/health/SocketRegistry.ts"
import { startTcpProxy } from "../../support/TcpProxy.ts"
import * as Service from "../../support/Service.ts"

/** A pool whose database is watched, and the way to it. */
const watched = Effect.gen(function* () {
  const url = new URL(Redacted.value(yield* Service.copyMigratedDatabase))
  const target = Number(url.port)
  const way = yield* startTcpProxy(target)
  url.port = String(way.port)
  const services = yield* Layer.build(
    Layer.fresh(HealthProbe.layer).pipe(
      Layer.provide(Logger.layer([])),
      Layer.provideMerge(databaseClientLayer({ url: Redacted.make(url.href), applicationName: "watched" })),
    ),
  )
  return { way, target, sql: Context.get(services, SqlClient.SqlClient), isUp: Context.get(services, HealthProbe).isUp }
})

layer(Layer.empty, { excludeTestServices: true, timeout: "60 seconds" })("the heartbeat", (it) => {
  it.effect("§8 a statement that takes longer than a silence is let be, while the database answers others", () =>
    Effect.gen(function* () {
      const { sql } = yield* watched
      const [row] = yield* sql<{ readonly done: number }>`select 1 as done from pg_sleep(7)`
      assert.strictEqual(row?.done, 1)
    }).pipe(Effect.scoped))

  it.effect("§8 nothing is heard: statements under way end after five seconds, and others are refused at once until it answers", () =>
    Effect.gen(function* () {
      const { isUp, sql, target, way } = yield* watched
      yield* sql`select 1`
      assert.isTrue(isUp())
      yield* way.stall
      const began = performance.now()
      const error = yield* Effect.flip(sql`select 1`)
      assert.strictEqual(error.reason._tag, "ConnectionError")
      assert.isAbove(performance.now() - began, 4_000)
      assert.isBelow(performance.now() - began, 8_000)
      const again = performance.now()
      const refused = yield* Effect.flip(sql`select 1`)
      assert.match(String(refused.reason.cause), /has said nothing for five seconds/)
      assert.isFalse(isUp())
      assert.isBelow(performance.now() - again, 1_000)
      yield* way.lead(target)
      yield* Effect.retry(sql`select 1`, { schedule: Schedule.spaced("20 millis"), times: 200 })
      yield* Effect.repeat(Effect.sync(isUp), { until: (up) => up, schedule: Schedule.spaced("20 millis") })
    }).pipe(Effect.scoped))

  it.effect("§8 a database that is silent for three seconds is away, before any statement is ended for it", () =>
    Effect.gen(function* () {
      const { isUp, sql, way } = yield* watched
      yield* sql`select 1`
      yield* way.stall
      const began = performance.now()
      const statement = yield* Effect.forkChild(Effect.exit(sql`select 1`))
      yield* Effect.repeat(Effect.sync(isUp), { until: (up) => !up, schedule: Schedule.spaced("20 millis") })
      assert.isAbove(performance.now() - began, 2_500, "a network may stall for a while")
      assert.isUndefined(statement.pollUnsafe())
      yield* way.resume
      yield* Fiber.join(statement)
      yield* Effect.repeat(Effect.sync(isUp), { until: (up) => up, schedule: Schedule.spaced("20 millis") })
    }).pipe(Effect.scoped))
})

describe("a line", () => {
  const reached = (address: (port: number) => string, listen: ListenOptions) =>
    Effect.callback<boolean>((resume) => {
      const server = createServer((socket) => {
        socket.destroy()
        server.close(() => resume(Effect.succeed(true)))
      })
      server.listen(listen, () => {
        const found = server.address()
        const port = typeof found === "object" && found !== null ? found.port : 5432
        Line.makeSocketRegistry(Redacted.make(address(port))).open().on("error", () => resume(Effect.succeed(false)))
      })
    })

  it.effect("README, settings: it leads where DATABASE_URL says, in each way of saying it", () =>
    Effect.gen(function* () {
      const host = "127.0.0.1"
      assert.isTrue(yield* reached((port) => `postgres://u:p%40@127.0.0.1:${port}/db`, { host, port: 0 }))
      assert.isTrue(yield* reached((port) => `postgresql:///db?host=127.0.0.1&port=${port}`, { host, port: 0 }))
      assert.isTrue(
        yield* reached((port) => `postgres://u@nowhere.invalid:1/db?host=${host}&port=${port}`, { host, port: 0 }),
      )
      assert.isTrue(yield* reached((port) => `postgres://[::1]:${port}/db`, { host: "::1", port: 0 }))
      const folder = mkdtempSync(`${tmpdir()}/line-`)
      const path = `${folder}/.s.PGSQL.5432`
      assert.isTrue(yield* reached(() => `postgres://u@${encodeURIComponent(folder)}/db`, { path }))
      assert.isTrue(yield* reached(() => `postgres:///db?host=${encodeURIComponent(folder)}`, { path }))
      rmSync(folder, { recursive: true })
    }))
})

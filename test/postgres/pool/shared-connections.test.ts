/**
 * Tests short statements that share connections: each gets its own result, and none waits behind another that needs a
 * lock (§7.2, §8).
 */
import { PgConnection } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Array, Cause, ConfigProvider, Context, Effect, Exit, Fiber, Layer, Schedule } from "effect"
import { SharedConnections } from "../../../src/postgres/pool/SharedConnections.ts"
import { DatabaseReader } from "../../../src/postgres/DatabaseReader.ts"
import { isPoolerRequested, makePoolableClientLayer } from "../../support/PoolerMode.ts"
import * as Service from "../../support/Service.ts"
import { interruptAfterEachOperation } from "../../support/Interruptions.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

// @module-tag waiting

class OtherConnection
  extends Context.Service<OtherConnection, PgConnection.PgConnection>()("test/postgres/OtherConnection") {}

const makeDatabase = (poolSize: number) =>
  Layer.unwrap(Effect.gen(function* () {
    const url = yield* Service.copyMigratedDatabase
    return Layer.mergeAll(
      Layer.provideMerge(DatabaseReader.layer, makePoolableClientLayer({ url, applicationName: "tickerline-test" })),
      Layer.effect(OtherConnection, PgConnection.make({ url, applicationName: "other" })),
    ).pipe(
      Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ DATABASE_POOL_SIZE: String(poolSize) }))),
    )
  }))

const readShort = (text: string, parameters: ReadonlyArray<unknown> = [], partition = "test") =>
  Effect.flatMap(
    DatabaseReader,
    ({ read }) =>
      Effect.withTracerEnabled(
        read({ text, parameters, isPrepared: true, isShort: true }, { partition, from: "primary" }),
        false,
      ),
  )

const waitUntil = <E, R>(condition: Effect.Effect<boolean, E, R>) =>
  Effect.repeat(condition, { until: (holds) => holds, schedule: Schedule.spaced("5 millis") }).pipe(
    Effect.timeout("60 seconds"),
  )

/** Runs 100 short statements. Returns the process IDs of the sessions that ran them. */
const readPids = Effect.gen(function* () {
  const statements = Array.replicate(readShort("select pg_backend_pid()"), 100)
  const found = yield* Effect.forEach(statements, (statement) => statement, { concurrency: 10 })
  return new Set(found.map(([row]) => Number(row?.[0])))
})

/** The number of shared connections in a pool of ten. */
const sharedConnections = 2

/**
 * Waits until short statements run on the shared connections. These open in the background after the first statement
 * that could use them.
 */
const waitUntilShared = waitUntil(Effect.map(readPids, ({ size }) => size <= sharedConnections))

const countWaitingForLock = Effect.gen(function* () {
  const other = yield* OtherConnection
  // Within a transaction, PostgreSQL caches the first snapshot of `pg_stat_activity`, so newer sessions would not
  // appear.
  yield* other.query("select pg_stat_clear_snapshot()")
  const waiting = yield* other.query(`
    select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
  `)
  return waiting.rowCount
})

if (isPoolerRequested) {
  layer(makeDatabase(10), { excludeTestServices: true })("Behind a pooler, short statements", (it) => {
    it.effect("share no connection (decision 0144)", () =>
      Effect.gen(function* () {
        yield* readPids
        const other = yield* OtherConnection
        const { rows } = yield* other.query(
          `select 1 from pg_stat_activity where query ~ 'client_connection_check_interval' and pid <> pg_backend_pid()`,
        )
        assert.strictEqual(rows.length, 0)
      }))
  })
} else {
  const poolSize = 10
  layer(makeDatabase(poolSize), { excludeTestServices: true })("Short statements that share connections", (it) => {
    it.effect("get their own rows, however many are sent at once (decision 0144)", () =>
      Effect.gen(function* () {
        yield* waitUntilShared
        const texts = ["select $1::text", "select $1::text, length($1::text)", "select repeat($1::text, 400)"]
        const inputs = Array.makeBy(
          getInputCount(20_000),
          (at) => ({ text: texts[at % 3] ?? "", value: `value ${at}` }),
        )
        const found = yield* Effect.forEach(inputs, ({ text, value }) => readShort(text, [value]), { concurrency: 100 })
        for (const [at, { text, value }] of inputs.entries()) {
          const expected = text === texts[0] ? [value] : text === texts[1] ? [value, value.length] : [value.repeat(400)]
          assert.deepStrictEqual(found[at], [expected], `statement ${at}`)
        }
      }))

    it.effect("do not wait for one that waits for a lock: it runs again on a connection of its own (§7.2)", () =>
      Effect.gen(function* () {
        const other = yield* OtherConnection
        const { blockedCount } = yield* SharedConnections
        const readers = 20
        yield* waitUntilShared
        const blockedBefore = blockedCount()
        yield* other.query("begin")
        yield* other.query("lock table registrations in access exclusive mode")
        const blocked = yield* Effect.forkChild(
          Effect.forEach(
            Array.replicate(readShort("select count(*) from registrations", [], "blocked"), readers),
            (read) => read,
            { concurrency: "unbounded" },
          ),
        )
        yield* waitUntil(Effect.map(countWaitingForLock, (count) => count > 0))
        const others = yield* Effect.forEach(
          Array.replicate(readShort("select 1", [], "others"), 500),
          (read) => read,
          { concurrency: 20 },
        )
        assert.deepStrictEqual(Array.dedupe(others.map(([row]) => row?.[0])), [1])
        assert.isAbove(yield* countWaitingForLock, 0, "the lock was held all the time")
        assert.isAbove(blockedCount(), blockedBefore, "a connection was closed instead of waiting for the lock")
        // The statements on the shared connections have ended. A single partition may use all remaining connections
        // except one.
        const unshared = poolSize - sharedConnections
        yield* waitUntil(Effect.map(countWaitingForLock, (count) => count === unshared - 1))
        yield* waitUntilShared
        yield* other.query("rollback")
        assert.strictEqual((yield* Fiber.join(blocked)).length, readers)
      }))

    it.effect("end soon if the client disconnects (§8)", () =>
      Effect.gen(function* () {
        const other = yield* OtherConnection
        yield* waitUntilShared
        yield* other.query("begin")
        yield* other.query("lock table news in access exclusive mode")
        const read = yield* Effect.forkChild(readShort("select count(*) from news", [], "disconnected"))
        yield* waitUntil(Effect.map(countWaitingForLock, (count) => count === 1))
        yield* Fiber.interrupt(read)
        yield* waitUntil(Effect.map(countWaitingForLock, (count) => count === 0))
        yield* other.query("rollback")
        yield* waitUntilShared
      }))

    it.effect("get their rows even if PostgreSQL ends all sessions again and again (§7.2)", () =>
      Effect.gen(function* () {
        const other = yield* OtherConnection
        const terminate = other.query(`
          select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and pid <> pg_backend_pid()
        `)
        const killer = yield* Effect.forkChild(Effect.repeat(terminate, Schedule.spaced("300 millis")))
        const inputs = Array.makeBy(getInputCount(5_000), String)
        const found = yield* Effect.forEach(inputs, (value) => readShort("select $1::text", [value]), {
          concurrency: 20,
        })
        yield* Fiber.interrupt(killer)
        assert.deepStrictEqual(found.flat(2), inputs)
        yield* waitUntilShared
      }))

    it.effect("are no longer counted if they are interrupted at any operation (decision 0144)", () =>
      Effect.gen(function* () {
        yield* waitUntilShared
        const { blockedCount, connectionsInUse, read } = yield* SharedConnections
        const before = blockedCount()
        const statement = { text: "select 1", parameters: [], isPrepared: true }
        yield* interruptAfterEachOperation(() => read("test", statement), () => Effect.void)
        yield* waitUntil(Effect.sync(() => connectionsInUse() === 0))
        assert.strictEqual(blockedCount(), before)
      }))

    it.effect("fail as others do, without an effect on later statements (decision 0144)", () =>
      Effect.gen(function* () {
        yield* waitUntilShared
        const exits = yield* Effect.forEach(
          Array.makeBy(100, (at) => readShort("select 1 / $1::int", [at % 2])),
          Effect.exit,
          { concurrency: 20 },
        )
        for (const [at, exit] of exits.entries()) {
          if (at % 2 === 1) assert.deepStrictEqual(exit, Exit.succeed([[1]]))
          else assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause), `statement ${at}`)
        }
      }))
  })

  const smallPoolSize = 9
  layer(makeDatabase(smallPoolSize), { excludeTestServices: true })("A pool with fewer than ten connections", (it) => {
    it.effect("shares none (operations/settings)", () =>
      Effect.gen(function* () {
        yield* readPids
        const other = yield* OtherConnection
        const opened = yield* other.query(
          `select 1 from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
        )
        assert.isAtMost(opened.rowCount, smallPoolSize)
        const shared = yield* other.query(
          `select 1 from pg_stat_activity where query ~ '^set client_connection' and datname = current_database()`,
        )
        assert.strictEqual(shared.rowCount, 0)
      }))
  })
}

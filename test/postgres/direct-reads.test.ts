/**
 * Tests reads that bypass `SqlClient`: they can be canceled, they survive closed connections, and they never leak a
 * permit (§7.2).
 */
import { PgConnection } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { ConfigProvider, Context, Effect, Fiber, Layer, type Redacted, Schedule, Schema, Tracer } from "effect"
import { SqlClient } from "effect/sql"
import { DatabaseReader } from "../../src/postgres/DatabaseReader.ts"
import { isPoolerRequested, makePoolableClientLayer } from "../support/PoolerMode.ts"
import * as Service from "../support/Service.ts"
import { getInputCount } from "../support/Thoroughness.ts"
import { paceWorkload } from "../support/Pauses.ts"

const poolSize = 3

class TestDatabase
  extends Context.Service<TestDatabase, { readonly url: Redacted.Redacted }>()("test/postgres/TestDatabase") {}

class OtherConnection
  extends Context.Service<OtherConnection, PgConnection.PgConnection>()("test/postgres/OtherConnection") {}

const database = Layer.unwrap(Effect.gen(function* () {
  const url = yield* Service.copyMigratedDatabase
  return Layer.mergeAll(
    Layer.succeed(TestDatabase, { url }),
    Layer.provideMerge(DatabaseReader.layer, makePoolableClientLayer({ url, applicationName: "tickerline-test" })),
    Layer.effect(OtherConnection, PgConnection.make({ url, applicationName: "other" })),
  ).pipe(
    Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ DATABASE_POOL_SIZE: String(poolSize) }))),
  )
}))

const readValues = (text: string, parameters: ReadonlyArray<unknown> = [], isPrepared = true, partition = "test") =>
  Effect.flatMap(
    DatabaseReader,
    ({ read }) =>
      Effect.withTracerEnabled(read({ text, parameters, isPrepared }, { partition, from: "primary" }), false),
  )

/** The SQL `from` clause that selects the other sessions in this database. */
const sessions = `
  from pg_stat_activity
  where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
`

/** Counts the sessions that run a statement with `mark` in a comment. */
const countRunning = (mark: string) =>
  Effect.gen(function* () {
    const other = yield* OtherConnection
    return (yield* other.query(`select 1 ${sessions} and state = 'active' and query like '%/* ${mark} */%'`)).rowCount
  })

/**
 * Waits up to a time limit longer than `statement_timeout`, which is 30 seconds. On a slow machine, a cancel request
 * can arrive before its query, and PostgreSQL ignores it. The driver then closes the connection, but the query runs
 * until the timeout.
 */
const waitUntil = <E, R>(condition: Effect.Effect<boolean, E, R>) =>
  Effect.repeat(condition, { until: (holds) => holds, schedule: Schedule.spaced("5 millis") }).pipe(
    Effect.timeout("60 seconds"),
  )

const waitUntilRunning = (mark: string, wanted: number) =>
  waitUntil(Effect.map(countRunning(mark), (count) => count === wanted))

/** Starts a read that sleeps for `seconds`. Its statement contains `mark` in a comment. */
const startSleep = (mark: string, seconds = 60, partition?: string) =>
  Effect.forkChild(
    readValues(`select pg_sleep($1), 'done' /* ${mark} */`, [seconds], true, partition),
    { startImmediately: true },
  )

/**
 * Starts one read per pool connection. Each read uses a different partition, because no partition may use all
 * connections.
 */
const startSleepOnEachConnection = (mark: string) =>
  Effect.forEach(Array.from({ length: poolSize }, (_, index) => `${index}`), (name) => startSleep(mark, 60, name))

/** Runs one read on every pool connection at the same time. Times out if a permit or connection was leaked. */
const checkPool = (mark: string) =>
  Effect.gen(function* () {
    const other = yield* OtherConnection
    const fibers = yield* startSleepOnEachConnection(mark)
    yield* waitUntilRunning(mark, poolSize)
    // A session that the pool has closed may remain listed briefly.
    const countSessions = Effect.map(other.query(`select 1 ${sessions}`), ({ rowCount }) => rowCount)
    if (!isPoolerRequested) yield* waitUntil(Effect.map(countSessions, (count) => count === poolSize))
    yield* Effect.forEach(fibers, Fiber.interrupt, { concurrency: "unbounded" })
    yield* waitUntilRunning(mark, 0)
    assert.deepStrictEqual(yield* readValues("select 1"), [[1]])
  })

layer(database, { excludeTestServices: true })("Reading values", (it) => {
  it.effect("returns what SqlClient returns, prepared or not (§7.2)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const text = "select $1::int8, $2::numeric, null, $3::text[], now()::date"
      const parameters = ["9007199254740993", "1.50", ["a", "b"]]
      const expected = yield* sql.unsafe(text, parameters).values
      for (const isPrepared of [true, false]) {
        assert.deepStrictEqual(yield* readValues(text, parameters, isPrepared), expected)
      }
    }))

  it.effect("creates the same span as SqlClient if a tracer is configured (D12)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { read } = yield* DatabaseReader
      const spans: Array<Tracer.NativeSpan> = []
      const tracer = Tracer.make({
        span: (options) => {
          const span = new Tracer.NativeSpan(options)
          spans.push(span)
          return span
        },
      })
      yield* Effect.withTracer(sql.unsafe("select 1").values, tracer)
      const statement = { text: "select 1", parameters: [], isPrepared: true }
      yield* Effect.withTracer(read(statement, { partition: "test", from: "primary" }), tracer)
      const described = spans.map(({ attributes, kind, name }) => ({
        kind,
        name,
        attributes: Array.from(attributes).filter(([key]) => key !== "db.client.connection.wait_time"),
      }))
      assert.lengthOf(described, 2)
      assert.deepStrictEqual(described[1], described[0])
      assert.include(Array.from(described[1]?.attributes ?? [], ([key]) => key), "db.query.text")
    }))

  it.effect("shares its connections with SqlClient, so that the pool's size is the total (operations/settings)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { query } = yield* DatabaseReader
      const sleep = sql`select pg_sleep(0.01)`.values
      yield* Effect.forEach(
        Array.from({ length: 30 }, (_, index) => index),
        (index) => index % 2 === 0 ? readValues("select pg_sleep(0.01)") : query(sleep, "test"),
        { concurrency: "unbounded", discard: true },
      )
      yield* checkPool("shared")
    }))

  it.effect("cancels the query on the server when it is interrupted (§7.2)", () =>
    Effect.gen(function* () {
      const [interrupted, unaffected] = [yield* startSleep("interrupted"), yield* startSleep("unaffected", 0.5)]
      yield* waitUntilRunning("interrupted", 1)
      yield* Fiber.interrupt(interrupted)
      yield* waitUntilRunning("interrupted", 0)
      assert.deepStrictEqual((yield* Fiber.join(unaffected)).map(([, done]) => done), ["done"])
      yield* checkPool("after cancellation")
    }))

  it.effect("repeats a query whose connection was closed with 57P01 while it ran (§7.2)", () =>
    Effect.gen(function* () {
      const other = yield* OtherConnection
      const fiber = yield* startSleep("closed", 0.5)
      yield* waitUntilRunning("closed", 1)
      yield* other.query(`select pg_terminate_backend(pid) ${sessions} and query like '%/* closed */%'`)
      assert.deepStrictEqual((yield* Fiber.join(fiber)).map(([, done]) => done), ["done"])
      yield* checkPool("after closing")
    }))

  it.effect("fails with database_pool_timeout after DATABASE_POOL_TIMEOUT, and recovers (§7.2)", () =>
    Effect.gen(function* () {
      const settings = { DATABASE_POOL_SIZE: String(poolSize), DATABASE_POOL_TIMEOUT: "100 millis" }
      const config = ConfigProvider.layer(ConfigProvider.fromUnknown(settings))
      const { url } = yield* TestDatabase
      const context = yield* Layer.build(
        Layer.fresh(
          Layer.provide(DatabaseReader.layer, makePoolableClientLayer({ url, applicationName: "tickerline-test" })),
        )
          .pipe(Layer.provide(config)),
      )
      yield* Effect.gen(function* () {
        const holders = yield* startSleepOnEachConnection("holder")
        const { _tag } = yield* Effect.flip(readValues("select 1"))
        assert.strictEqual(_tag, "DatabasePoolTimeout")
        yield* Effect.forEach(holders, Fiber.interrupt, { concurrency: "unbounded" })
        assert.deepStrictEqual(yield* readValues("select 1"), [[1]])
      }).pipe(Effect.provideContext(context))
    }).pipe(Effect.scoped))

  const Step = Schema.Literals(["short", "long", "long", "interrupt oldest", "interrupt newest", "kill", "pause"])
  let run = 0

  it.effect.prop(
    "loses no permit and no connection, no matter what is interrupted or closed at which moment (§7.2)",
    { steps: Schema.Array(Step) },
    ({ steps }) =>
      Effect.gen(function* () {
        const other = yield* OtherConnection
        const mark = `run ${run++}`
        const fibers: Array<Fiber.Fiber<unknown, unknown>> = []
        for (const step of steps) {
          if (step === "short" || step === "long") fibers.push(yield* startSleep(mark, step === "short" ? 0.005 : 60))
          if (step === "pause") yield* paceWorkload("10 millis")
          if (step === "kill") {
            yield* other.query(`select pg_terminate_backend(pid) ${sessions} and query like '%${mark}%' limit 1`)
          }
          const fiber = step === "interrupt oldest"
            ? fibers.shift()
            : step === "interrupt newest"
            ? fibers.pop()
            : undefined
          if (fiber !== undefined) yield* Fiber.interrupt(fiber)
        }
        yield* Effect.forEach(fibers, Fiber.interrupt, { concurrency: "unbounded" })
        yield* waitUntilRunning(mark, 0)
        yield* checkPool(`${mark}, check`)
      }),
    { arbitrary: { runs: getInputCount(40) } },
  )
})

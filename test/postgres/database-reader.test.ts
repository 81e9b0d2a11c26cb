/** Tests the reader's policies on a test clock: queueing, time limits, retries and closed connections (§7.2, §8). */
import { PgConnection } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Context, Deferred, Duration, Effect, Fiber, Layer, Queue, Redacted, Stream } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { TestClock } from "effect/testing"
import { ConnectionPool, makeConnectionPool } from "../../src/postgres/pool/ConnectionPool.ts"
import { DatabaseReader } from "../../src/postgres/DatabaseReader.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../src/contract/rules/ApiErrors.ts"
import { makePoolableClientLayer } from "../support/PoolerMode.ts"

type Statement = Effect.Effect<ReadonlyArray<ReadonlyArray<unknown>>, SqlError.SqlError>

const makeError = (reason: SqlError.SqlErrorReason) => new SqlError.SqlError({ reason })
const connectionLost = makeError(new SqlError.ConnectionError({ cause: new Error("ECONNREFUSED") }))

/** A client that never connects, because the reader's statements run on connections from `makeServer`. */
const unusedClient = makePoolableClientLayer({
  url: Redacted.make("postgres://127.0.0.1:1/none"),
  applicationName: "none",
})

interface ServerOptions {
  readonly size?: number
  readonly statement: Statement
  /** Runs before each connection opens. */
  readonly connecting?: Effect.Effect<void, SqlError.SqlError>
}

/**
 * Creates a reader with a connection pool to a simulated server, on which every statement runs the effect `statement`.
 * `retire` contains one function per connection, in the order of opening. Calling it tells the pool that the server has
 * closed that connection.
 */
const makeServer = Effect.fnUntraced(function* ({ connecting = Effect.void, size = 10, statement }: ServerOptions) {
  const counts = { opened: 0, closed: 0, statements: 0, canceled: 0 }
  const retire: Array<() => void> = []

  const connect = (onRetire: () => void) =>
    Effect.gen(function* () {
      yield* connecting
      counts.opened += 1
      retire.push(onRetire)
      const closed = yield* Deferred.make<never, SqlError.SqlError>()
      yield* Effect.addFinalizer(() => {
        counts.closed += 1
        return Deferred.fail(closed, connectionLost)
      })
      const run = Effect.suspend(() => {
        counts.statements += 1
        return Effect.raceFirst(statement, Deferred.await(closed))
      })
      const connection: PgConnection.PgConnection = {
        [PgConnection.TypeId]: PgConnection.TypeId,
        config: {},
        processId: counts.opened,
        pin: Effect.suspend(() => Effect.succeed(connection)),
        query: () => Effect.as(run, { command: "SELECT", rowCount: 0, oid: null, rows: [], fields: [] }),
        queryValues: () => run,
        stream: () => Stream.empty,
        listen: () => Queue.unbounded<PgConnection.Notification, SqlError.SqlError>(),
        interrupt: Effect.sync(() => {
          counts.canceled += 1
        }),
      }
      return connection
    })

  const context = yield* Layer.build(
    Layer.fresh(DatabaseReader.layer).pipe(
      Layer.provideMerge(Layer.effect(
        ConnectionPool,
        makeConnectionPool({ connect, size, timeout: Duration.seconds(5) }),
      )),
      Layer.provideMerge(unusedClient),
      Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({}))),
    ),
  )
  const reader = Context.get(context, DatabaseReader)
  const sql = Context.get(context, SqlClient.SqlClient)
  const read = (partition = "a"): Effect.Effect<unknown, DataRefreshing | DatabasePoolTimeout> =>
    Effect.withTracerEnabled(
      reader.read({ text: "select 1", parameters: [], isPrepared: true }, { partition, from: "primary" }),
      false,
    )
  const query = (partition = "a"): Effect.Effect<unknown, DataRefreshing | DatabasePoolTimeout> =>
    reader.query(sql`select 1`, partition)
  return { counts, pool: Context.get(context, ConnectionPool), query, read, reader, retire }
})

const lockErrors = [
  ["a lock timeout", makeError(new SqlError.LockTimeoutError({ cause: new Error("55P03") }))],
  ["a deadlock", makeError(new SqlError.DeadlockError({ cause: new Error("40P01") }))],
] as const

const start = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.forkChild(effect, { startImmediately: true })

for (const method of ["read", "query"] as const) {
  describe(`DatabaseReader.${method}`, () => {
    for (const [name, error] of lockErrors) {
      it.effect(`retries once, two seconds after ${name} (§8)`, () =>
        Effect.gen(function* () {
          const { counts, pool, [method]: run } = yield* makeServer({ statement: Effect.fail(error) })
          const fiber = yield* start(Effect.flip(run()))
          yield* TestClock.adjust("1999 millis")
          assert.strictEqual(counts.statements, 1)
          assert.strictEqual(pool.connectionsInUse(), 0, "the connection serves others until the retry")
          yield* TestClock.adjust("1 millis")
          assert.instanceOf(yield* Fiber.join(fiber), DataRefreshing)
          assert.deepStrictEqual(counts, { opened: 1, closed: 0, statements: 2, canceled: 0 })
        }).pipe(Effect.scoped))
    }

    it.effect("retries for 150 ms if the server is down, and then fails with database_pool_timeout (§7.2)", () =>
      Effect.gen(function* () {
        let attempts = 0
        const connecting = Effect.suspend(() => {
          attempts += 1
          return Effect.fail(connectionLost)
        })
        const { [method]: run } = yield* makeServer({ connecting, statement: Effect.never })
        const fiber = yield* start(Effect.flip(run()))
        yield* TestClock.adjust("149 millis")
        assert.strictEqual(attempts, 3)
        yield* TestClock.adjust("1 millis")
        assert.instanceOf(yield* Fiber.join(fiber), DatabasePoolTimeout)
        assert.strictEqual(attempts, 4)
      }).pipe(Effect.scoped))

    it.effect("does not retry if it lost its connection after four seconds (§7.2)", () =>
      Effect.gen(function* () {
        const statement = Effect.delay(Effect.fail(connectionLost), "4 seconds")
        const { counts, [method]: run } = yield* makeServer({ statement })
        const fiber = yield* start(Effect.flip(run()))
        yield* TestClock.adjust("4 seconds")
        assert.instanceOf(yield* Fiber.join(fiber), DatabasePoolTimeout)
        assert.strictEqual(counts.statements, 1)
      }).pipe(Effect.scoped))

    it.effect("ends after 30 seconds, cancels its statement and closes its connection (§8)", () =>
      Effect.gen(function* () {
        const { counts, pool, [method]: run } = yield* makeServer({ statement: Effect.never })
        const first = yield* start(Effect.flip(run()))
        yield* TestClock.adjust("10 seconds")
        const second = yield* start(Effect.flip(run()))
        yield* TestClock.adjust("19999 millis")
        assert.deepStrictEqual(counts, { opened: 2, closed: 0, statements: 2, canceled: 0 })
        yield* TestClock.adjust("1 millis")
        assert.instanceOf(yield* Fiber.join(first), DataRefreshing)
        assert.deepStrictEqual(counts, { opened: 2, closed: 1, statements: 2, canceled: 1 })
        yield* TestClock.adjust("10 seconds")
        assert.instanceOf(yield* Fiber.join(second), DataRefreshing)
        assert.deepStrictEqual(counts, { opened: 2, closed: 2, statements: 2, canceled: 2 })
        assert.strictEqual(pool.connectionsInUse(), 0)
      }).pipe(Effect.scoped))

    it.effect("waits at most five seconds for a connection, and leaks none (§7.2)", () =>
      Effect.gen(function* () {
        const { pool, [method]: run } = yield* makeServer({ statement: Effect.never })
        // One partition may use at most four fifths of ten connections.
        const share = 8
        for (const _ of [1, 2]) {
          const running = yield* Effect.forEach(Array.from({ length: share }), () => start(run()))
          const waiting = yield* start(run())
          const late = yield* start(Effect.flip(run()))
          yield* Fiber.interrupt(waiting)
          yield* TestClock.adjust("4999 millis")
          assert.isUndefined(late.pollUnsafe())
          yield* TestClock.adjust("1 millis")
          assert.instanceOf(yield* Fiber.join(late), DatabasePoolTimeout)
          for (const fiber of running) yield* Fiber.interrupt(fiber)
          assert.deepStrictEqual([pool.connectionsInUse(), pool.waiterCount()], [0, 0])
        }
        assert.strictEqual(pool.timeoutCount(), 2)
      }).pipe(Effect.scoped))

    it.effect("converts an error that no retry can fix to a defect (§7.1)", () =>
      Effect.gen(function* () {
        const wrong = makeError(new SqlError.SqlSyntaxError({ cause: new Error("42P01") }))
        const { [method]: run } = yield* makeServer({ statement: Effect.fail(wrong) })
        const exit = yield* Effect.exit(run())
        assert.isTrue(exit._tag === "Failure" && exit.cause.reasons.every(({ _tag }) => _tag === "Die"))
      }).pipe(Effect.scoped))
  })
}

describe("The reader's connections", () => {
  for (const size of [2, 3, 4]) {
    it.effect(`leave one of ${size} to other partitions while one waits for a locked table (§7.2)`, () =>
      Effect.gen(function* () {
        const end = yield* Deferred.make<void>()
        const { counts, query, read, reader } = yield* makeServer({
          size,
          statement: Effect.as(Deferred.await(end), []),
        })
        const locked = yield* Effect.forEach(Array.from({ length: size + 1 }), () => start(read("locked")))
        assert.strictEqual(counts.statements, size - 1)
        assert.strictEqual(yield* reader.query(Effect.succeed("other"), "other"), "other")
        yield* Deferred.succeed(end, undefined)
        yield* Effect.forEach(locked, Fiber.join)
        yield* query("locked")
      }).pipe(Effect.scoped))
  }

  it.effect("take turns if there is only one: another partition waits for one read, not for all (§7.2)", () =>
    Effect.gen(function* () {
      const { query, reader } = yield* makeServer({ size: 1, statement: Effect.as(Effect.sleep("2 seconds"), []) })
      const locked = yield* Effect.forEach(Array.from({ length: 4 }), () => start(Effect.exit(query("locked"))))
      const other = yield* start(reader.query(Effect.succeed("other"), "other"))
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual(yield* Fiber.join(other), "other")
      // After five seconds, the third read is still running, and the fourth has timed out.
      yield* TestClock.adjust("4 seconds")
      const exits = yield* Effect.forEach(locked.slice(2), Fiber.join)
      assert.deepStrictEqual(exits.map(({ _tag }) => _tag), ["Success", "Failure"])
    }).pipe(Effect.scoped))

  it.effect("are reused, and closed after a minute without use (decision 0140)", () =>
    Effect.gen(function* () {
      const { counts, read } = yield* makeServer({ statement: Effect.succeed([]) })
      const reads = 20
      yield* Effect.forEach(Array.from({ length: reads }), () => read())
      assert.deepStrictEqual(counts, { opened: 1, closed: 0, statements: reads, canceled: 0 })
      yield* TestClock.adjust("59 seconds")
      assert.strictEqual(counts.closed, 0)
      // The pool checks for unused connections every 30 seconds.
      yield* TestClock.adjust("31 seconds")
      assert.strictEqual(counts.closed, 1)
    }).pipe(Effect.scoped))

  it.effect("are closed and replaced if the server ends them, at once or, if in use, afterwards (§7.2)", () =>
    Effect.gen(function* () {
      const { counts, read, retire } = yield* makeServer({ statement: Effect.as(Effect.sleep("1 second"), []) })
      const first = yield* start(read())
      retire[0]?.()
      assert.strictEqual(counts.closed, 0)
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(first)
      assert.deepStrictEqual(counts, { opened: 1, closed: 1, statements: 1, canceled: 0 })
      const second = yield* start(read())
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(second)
      retire[1]?.()
      retire[0]?.()
      assert.deepStrictEqual(counts, { opened: 2, closed: 2, statements: 2, canceled: 0 })
    }).pipe(Effect.scoped))

  it.effect("take up no permit if opening one is interrupted or fails (§7.2)", () =>
    Effect.gen(function* () {
      let connecting: Effect.Effect<void, SqlError.SqlError> = Effect.never
      const { counts, pool, read } = yield* makeServer({
        size: 1,
        connecting: Effect.suspend(() => connecting),
        statement: Effect.succeed([[1]]),
      })
      const opening = yield* start(read())
      assert.strictEqual(pool.connectionsInUse(), 1)
      yield* Fiber.interrupt(opening)
      connecting = Effect.die("broken")
      assert.strictEqual((yield* Effect.exit(read()))._tag, "Failure")
      assert.strictEqual(pool.connectionsInUse(), 0)
      connecting = Effect.void
      assert.deepStrictEqual(yield* read(), [[1]])
      assert.strictEqual(counts.opened, 1)
    }).pipe(Effect.scoped))
})

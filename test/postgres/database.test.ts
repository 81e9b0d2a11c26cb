/** Tests database reads: locks, time limits, retries, an exhausted pool, and an unreachable database (§7.2, §8). */
import { PgConnection } from "@effect/sql-pg"
import { assert, describe, it, layer } from "@effect/vitest"
import { ConfigProvider, Context, Duration, Effect, Fiber, Layer, Metric, Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { PrepaidBalances } from "../../src/accounts/billing/PrepaidBalances.ts"
import { makeApiKeyLookup } from "../../src/accounts/keys/KeyLookup.ts"
import { retriedReadCounters } from "../../src/postgres/ReadTimeoutsAndRetries.ts"
import { DatabaseReader } from "../../src/postgres/DatabaseReader.ts"
import { isLockError } from "../../src/postgres/SqlState.ts"
import * as Service from "../support/Service.ts"
import { isPoolerRequested, makePoolableClientLayer } from "../support/PoolerMode.ts"
import { waitAtMost } from "../support/Pauses.ts"

// @module-tag waiting

const { requestJson, valueAt, insertRows } = Service

class TestDatabase
  extends Context.Service<TestDatabase, { readonly url: Redacted.Redacted }>()("test/postgres/TestDatabase") {}

/** Provides a connection that does not belong to the service's pool. */
class OtherConnection
  extends Context.Service<OtherConnection, PgConnection.PgConnection>()("test/postgres/OtherConnection") {}

const databaseLayer = Layer.unwrap(Effect.gen(function* () {
  const url = yield* Service.copyMigratedDatabase
  return Layer.mergeAll(
    makePoolableClientLayer({ url, applicationName: "tickerline-test" }),
    Layer.succeed(TestDatabase, { url }),
    Layer.effect(OtherConnection, PgConnection.make({ url, applicationName: "other" })),
  )
}))

/** Provides the service with the given settings, and another connection that can hold locks in its database. */
const service = (settings: Record<string, string>) =>
  Service.serviceLayerOver(databaseLayer).pipe(
    Layer.provide(ConfigProvider.layerAdd(ConfigProvider.fromUnknown(settings), { asPrimary: true })),
  )

/** A row of `ticker_changes`, the table that these tests lock. */
const tickerChange = { old_ticker: "LCK1", new_ticker: "LCK2", effective_date: "2024-01-02", status: "confirmed" }
const path = "/v1/ticker-changes?ticker=LCK1"

const measureSeconds = Effect.fnUntraced(function* <A, E, R>(effect: Effect.Effect<A, E, R>) {
  const [duration, value] = yield* Effect.timed(effect)
  return { value, seconds: Duration.toSeconds(duration) }
})

/** Counts the sessions in this database that wait for a lock. */
const countLockWaits = Effect.gen(function* () {
  const other = yield* OtherConnection
  const result = yield* other.query(
    `select 1 from pg_locks join pg_database on pg_database.oid = database where not granted and datname = current_database()`,
  )
  return result.rowCount
})

const waitUntil = <E, R>(condition: Effect.Effect<boolean, E, R>) =>
  Effect.repeat(condition, { until: (holds) => holds, schedule: Schedule.spaced("10 millis") }).pipe(
    Effect.timeout("60 seconds"),
  )

const countRetries = Effect.map(
  Effect.forEach(retriedReadCounters, (counter) => Metric.value(counter)),
  (values) => values.reduce((sum, { count }) => sum + Number(count), 0),
)

/** Counts how often any session in this database starts waiting for a lock while the effect runs. */
const countWaitsDuring = Effect.fnUntraced(function* <A, E, R>(effect: Effect.Effect<A, E, R>) {
  let [waits, isWaiting] = [0, false]
  const observe = Effect.map(countLockWaits, (count) => {
    if (count > 0 && !isWaiting) waits += 1
    isWaiting = count > 0
  })
  const observer = yield* Effect.forkChild(Effect.repeat(observe, Schedule.spaced("10 millis")))
  const value = yield* effect
  yield* Fiber.interrupt(observer)
  return [value, waits] as const
})

layer(service({}), { excludeTestServices: true })("A blocked or slow read", (it) => {
  it.effect("is retried once after two seconds, and then gets 503 data_refreshing with Retry-After 5 (§7.2)", () =>
    Effect.gen(function* () {
      const other = yield* OtherConnection
      yield* insertRows("ticker_changes", tickerChange)
      yield* other.query("begin")
      yield* other.query("lock table ticker_changes in access exclusive mode")
      const [{ seconds, value }, waits] = yield* countWaitsDuring(measureSeconds(requestJson(path)))
      yield* other.query("rollback")
      assert.strictEqual(value.status, 503)
      assert.strictEqual(valueAt(value.body, "error", "code"), "data_refreshing")
      assert.match(String(valueAt(value.body, "error", "message")), /being refreshed.*[Rr]etry in a few seconds/)
      assert.strictEqual(value.headers["retry-after"], "5")
      assert.strictEqual(value.headers["x-request-id"], valueAt(value.body, "request_id"))
      assert.isAtLeast(seconds, 5.9, "two lock waits of two seconds each, and a delay of two seconds")
      assert.strictEqual(waits, 2, "the first attempt and one retry")
    }))

  it.effect("succeeds if the lock ends before the retry (§7.2)", () =>
    Effect.gen(function* () {
      const other = yield* OtherConnection
      yield* other.query("begin")
      yield* other.query("lock table ticker_changes in access exclusive mode")
      const response = yield* Effect.forkChild(measureSeconds(requestJson(path)))
      yield* waitUntil(Effect.map(countLockWaits, (count) => count === 1))
      yield* waitUntil(Effect.map(countLockWaits, (count) => count === 0))
      yield* other.query("rollback")
      const { seconds, value } = yield* Fiber.join(response)
      assert.strictEqual(value.status, 200)
      assert.isAtLeast(seconds, 3.9, "a lock wait of two seconds, and a delay of two seconds")
    }))

  it.effect("is not retried if the lock ends within two seconds (§8)", () =>
    Effect.gen(function* () {
      const other = yield* OtherConnection
      yield* other.query("begin")
      yield* other.query("lock table ticker_changes in access exclusive mode")
      const retries = yield* countRetries
      const response = yield* Effect.forkChild(requestJson(path))
      yield* waitUntil(Effect.map(countLockWaits, (count) => count === 1))
      yield* other.query("rollback")
      assert.strictEqual((yield* Fiber.join(response)).status, 200)
      assert.strictEqual(yield* countRetries, retries)
    }))

  it.effect("succeeds on retry if PostgreSQL ends it because of a deadlock (§8)", () =>
    Effect.gen(function* () {
      const other = yield* OtherConnection
      const causeDeadlock = Effect.gen(function* () {
        yield* other.query("begin")
        yield* other.query("lock table registrations in access exclusive mode")
        const response = yield* Effect.forkChild(requestJson("/v1/timeline?ticker=LCK1"))
        yield* waitUntil(Effect.map(countLockWaits, (count) => count === 1))
        const { rows } = yield* other.query(`
          select relname as name from pg_locks join pg_class on pg_class.oid = relation
          where granted and mode = 'AccessShareLock' and relkind = 'r' and relnamespace = 'public'::regnamespace
            and pid in (select pid from pg_locks where not granted)
        `)
        assert.isAbove(rows.length, 0)
        // PostgreSQL cancels the first session that has waited for one second. On a slow machine, that may be the
        // test's session instead of the read, in which case the test retries.
        const hasEndedRead = yield* other.query(
          `lock table ${String(valueAt(rows, 0, "name"))} in access exclusive mode`,
        ).pipe(Effect.as(true), Effect.catchIf(isLockError, () => Effect.succeed(false)))
        yield* other.query("rollback")
        assert.strictEqual((yield* Fiber.join(response)).status, 200)
        return hasEndedRead
      })
      yield* Effect.repeat(causeDeadlock, { until: (isDone) => isDone })
    }))

  it.effect("has server-side time limits: 2 s for a lock, 30 s for a statement (§8)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const settings = yield* sql`
        select current_setting('lock_timeout') as lock, current_setting('statement_timeout') as statement,
          current_setting('TimeZone') as zone
      `
      assert.deepStrictEqual(settings, [{ lock: "2s", statement: "30s", zone: "UTC" }])
    }))

  it.effect("fails with data_refreshing, without a retry, at the time limit for statements (§7.2)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const reader = yield* Effect.provide(DatabaseReader, DatabaseReader.layer)
      let attempts = 0
      const slow = Effect.gen(function* () {
        attempts++
        yield* sql`set statement_timeout = '50ms'`
        return yield* Effect.ensuring(sql`select pg_sleep(5)`, Effect.orDie(sql`reset statement_timeout`))
      })
      const value = yield* Effect.flip(reader.query(slow, "test"))
      assert.strictEqual(value._tag, "DataRefreshing")
      assert.strictEqual(attempts, 1)
    }))
})

layer(service({ DATABASE_POOL_SIZE: "3", DATABASE_POOL_TIMEOUT: "300 millis" }), { excludeTestServices: true })(
  "A pool at its limit",
  (it) => {
    it.effect("causes 503 database_pool_timeout after the timeout, and recovers at once (§7.2)", () =>
      Effect.gen(function* () {
        const other = yield* OtherConnection
        const sql = yield* SqlClient.SqlClient
        yield* insertRows("ticker_changes", tickerChange)
        assert.strictEqual((yield* requestJson(path)).status, 200)
        // Waits for the job that counts corrections: when it starts, it reads the locked table, which would occupy a
        // connection.
        yield* waitUntil(
          Effect.map(sql`select 1 from history.counting_place where cursor is not null`, ({ length }) => length > 0),
        )
        yield* other.query("begin")
        yield* other.query("lock table ticker_changes in access exclusive mode")
        const holders = yield* Effect.forEach(
          ["A", "B"],
          (ticker) => Effect.forkChild(requestJson(`/v1/ticker-changes?ticker=${ticker}`)),
        )
        yield* waitUntil(Effect.map(countLockWaits, (count) => count === 2))
        const value = yield* requestJson(path)
        assert.strictEqual(value.status, 503)
        // If the read had got a connection and waited for the lock, the code would be `data_refreshing`.
        assert.strictEqual(valueAt(value.body, "error", "code"), "database_pool_timeout")
        assert.strictEqual(value.headers["retry-after"], "5")
        // An instance whose pool is exhausted stays ready, because its health check does not use the pool.
        assert.strictEqual((yield* requestJson("/health/ready")).status, 200)
        yield* other.query("rollback")
        for (const holder of holders) assert.strictEqual((yield* Fiber.join(holder)).status, 200)
        assert.strictEqual((yield* requestJson(path)).status, 200)
      }))

    it.effect("serves other endpoints while one waits for a locked table with its full share (§7.2)", () =>
      Effect.gen(function* () {
        const other = yield* OtherConnection
        yield* other.query("begin")
        yield* other.query("lock table ticker_changes in access exclusive mode")
        const holders = yield* Effect.forEach(
          ["A", "B"],
          (ticker) => Effect.forkChild(requestJson(`/v1/ticker-changes?ticker=${ticker}`)),
        )
        yield* waitUntil(Effect.map(countLockWaits, (count) => count === 2))
        assert.strictEqual((yield* requestJson("/v1/intraday-runners")).status, 200)
        assert.strictEqual((yield* requestJson(path)).status, 503)
        yield* other.query("rollback")
        for (const holder of holders) assert.strictEqual((yield* Fiber.join(holder)).status, 200)
      }))

    it.effect("leaves connections for key lookups while one endpoint uses its full share, in a pool of 2 to 5 (§7.2)", () =>
      Effect.gen(function* () {
        const { url } = yield* TestDatabase
        for (const [size, share] of [[2, 1], [3, 2], [4, 3], [5, 4]] as const) {
          const settings = { DATABASE_POOL_SIZE: String(size), DATABASE_POOL_TIMEOUT: "300 millis" }
          yield* Effect.gen(function* () {
            const services = Layer.provideMerge(PrepaidBalances.layer, Layer.fresh(DatabaseReader.layer)).pipe(
              Layer.provideMerge(makePoolableClientLayer({ url, applicationName: "tickerline-test" })),
              Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(settings))),
            )
            const context = yield* Layer.build(Layer.fresh(services))
            const { query } = Context.get(context, DatabaseReader)
            const { lookUp } = yield* Effect.provideContext(makeApiKeyLookup, context)
            for (let count = 0; count < share; count++) {
              yield* Effect.forkChild(query(Effect.never, "/v1/busy"), { startImmediately: true })
            }
            assert.strictEqual((yield* Effect.flip(query(Effect.void, "/v1/busy")))._tag, "DatabasePoolTimeout")
            assert.strictEqual((yield* Effect.flip(lookUp("00")))._tag, "InvalidApiKey")
          }).pipe(Effect.scoped)
        }
      }))

    it.effect("retries a request whose connection the server has closed (§7.2)", () =>
      Effect.gen(function* () {
        const other = yield* OtherConnection
        for (const _ of [1, 2, 3]) {
          yield* other.query(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'tickerline-test' " +
              "and datname = current_database()",
          )
          const responses = yield* Effect.forEach([1, 2, 3, 4], () => requestJson(path), { concurrency: "unbounded" })
          assert.deepStrictEqual(responses.map(({ status }) => status), [200, 200, 200, 200])
        }
      }))

    it.effect("cancels the query of a client that disconnects (§7.2)", () =>
      Effect.gen(function* () {
        const other = yield* OtherConnection
        yield* other.query("begin")
        yield* other.query("lock table ticker_changes in access exclusive mode")
        const response = yield* Effect.forkChild(requestJson(path))
        yield* waitUntil(Effect.map(countLockWaits, (count) => count === 1))
        yield* Fiber.interrupt(response)
        yield* waitAtMost(waitUntil(Effect.map(countLockWaits, (count) => count === 0)), "1900 millis")
        yield* other.query("rollback")
        assert.strictEqual((yield* requestJson(path)).status, 200)
      }))
  },
)

describe("A database that is down", () => {
  it.live("makes every endpoint that reads it respond with 503 and Retry-After, never with 500 (§7.2)", () =>
    Effect.gen(function* () {
      const url = yield* Service.copyMigratedDatabase
      const context = yield* Layer.build(
        Service.serviceLayerOver(makePoolableClientLayer({ url, applicationName: "tickerline-test" })),
      )
      const name = new URL(Redacted.value(url)).pathname.slice(1)
      const admin = new URL(Redacted.value(url))
      admin.pathname = "/postgres"
      const connection = yield* PgConnection.make({ url: Redacted.make(admin.href) })
      yield* Effect.gen(function* () {
        assert.strictEqual((yield* requestJson("/health/ready")).status, 200)
        yield* connection.query(`alter database ${name} with allow_connections false`)
        yield* connection.query(`select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`)
        yield* waitUntil(Effect.map(requestJson("/health/ready"), ({ status }) => status === 503))
        for (
          const unavailable of ["/health/ready", path, "/v1/intraday-runners", "/v1/historical-tickers?ticker=LCK1"]
        ) {
          const { body, headers, status } = yield* requestJson(unavailable)
          assert.strictEqual(status, 503, unavailable)
          assert.strictEqual(valueAt(body, "error", "code"), "database_pool_timeout")
          assert.strictEqual(headers["retry-after"], "5")
        }
        assert.strictEqual((yield* requestJson("/health/live")).status, 200)
        yield* connection.query(`alter database ${name} with allow_connections true`)
        // A pooler reconnects only after a delay, so the first requests may still fail.
        if (isPoolerRequested) yield* waitUntil(Effect.map(requestJson(path), ({ status }) => status === 200))
        assert.strictEqual((yield* requestJson(path)).status, 200, "the pool connects again by itself")
      }).pipe(Effect.provideContext(context))
    }).pipe(Effect.scoped))
})

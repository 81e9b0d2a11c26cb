/** Tests the service behind a pooler that is full, down or shared with other programs (RELIABILITY.md). */
import { PgConnection } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { databaseClientLayer } from "../../src/postgres/pool/PooledClient.ts"
import { DatabaseReader } from "../../src/postgres/DatabaseReader.ts"
import { repairSessionSettings } from "../../src/postgres/pool/PoolerCheck.ts"
import * as PgBouncer from "../support/PgBouncer.ts"
import {
  getOwnerUrl,
  makeServiceRoleDatabase,
  replaceUrlPort,
  silentPlatformLayer,
  startTestPooler,
} from "../support/PooledDatabases.ts"
import * as Service from "../support/Service.ts"

// @module-tag slow

const { requestJson, valueAt } = Service

const until = <E, R>(condition: Effect.Effect<boolean, E, R>) =>
  Effect.repeat(condition, { until: (holds) => holds, schedule: Schedule.spaced("20 millis") }).pipe(
    Effect.timeout("60 seconds"),
  )

const path = "/v1/screener?limit=1"

/**
 * Starts the service behind a pooler. By default, all of the pooler's clients share a single connection to PostgreSQL.
 */
const startService = Effect.fnUntraced(function* (settings: Readonly<Record<string, string>> = {}) {
  const { admin, name, url } = yield* makeServiceRoleDatabase()
  const started = yield* startTestPooler({ default_pool_size: "1", query_wait_timeout: "1", ...settings })
  const poolerUrl = Redacted.make(replaceUrlPort(url, started.port))
  const owner = yield* Layer.build(databaseClientLayer({ url: getOwnerUrl(url), applicationName: "owner" }))
  const keys = yield* Effect.provide(Layer.build(Service.TestKeys.layer), owner)
  const context = yield* Layer.build(
    Service.serviceLayerWithKeys(
      Layer.succeedContext(keys),
      databaseClientLayer({ url: poolerUrl, direct: url, applicationName: "tickerline-test" }),
    ),
  )
  const otherProgram = PgConnection.make({ url: poolerUrl, prepare: false })
  return { ...started, admin, name, context, otherProgram }
})

describe.skipIf(PgBouncer.isPgBouncerMissing)(`The service through a pooler${PgBouncer.pgBouncerTestSuffix}`, () => {
  it.live("corrects session settings that another program left on a connection (§8, operations/poolers)", () =>
    Effect.gen(function* () {
      const { context, otherProgram } = yield* startService()
      const other = yield* otherProgram
      yield* other.query("set statement_timeout = 0")
      yield* other.query("set lock_timeout = '1h'")
      yield* other.query("set timezone = 'Asia/Tokyo'")
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const now = sql`
          select current_setting('lock_timeout') as lock, current_setting('statement_timeout') as statement,
            current_setting('TimeZone') as zone
        `
        // PgBouncer itself restores each client's time zone, so the service does not need to correct it.
        assert.deepStrictEqual(yield* now, [{ lock: "1h", statement: "0", zone: "UTC" }])
        yield* repairSessionSettings
        assert.deepStrictEqual(yield* now, [{ lock: "2s", statement: "30s", zone: "UTC" }])
      }).pipe(Effect.provideContext(context))
    }).pipe(Effect.provide(silentPlatformLayer), Effect.scoped))

  it.live("responds with 503 while the pooler is full or down, and recovers afterwards (§7.2, RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const { context, port, running, otherProgram } = yield* startService({ max_client_conn: "20" })
      const away = Effect.gen(function* () {
        const { body, headers, status } = yield* requestJson(path)
        assert.strictEqual(status, 503)
        assert.strictEqual(valueAt(body, "error", "code"), "database_pool_timeout")
        assert.strictEqual(headers["retry-after"], "5")
      })
      const back = until(Effect.map(requestJson(path), ({ status }) => status === 200))
      const ready = Effect.map(requestJson("/health/ready"), ({ status }) => status)
      yield* Effect.gen(function* () {
        yield* back
        const other = yield* otherProgram
        yield* other.query("begin")
        yield* away
        assert.strictEqual(yield* ready, 200, "a busy pooler is up")
        yield* other.query("rollback")
        yield* back
        yield* Effect.sync(() => running.child.kill("SIGKILL"))
        yield* Effect.promise(() => running.ended)
        yield* away
        yield* until(Effect.map(ready, (status) => status === 503))
        yield* startTestPooler({ default_pool_size: "1", max_client_conn: "20" }, port)
        yield* back
        yield* until(Effect.map(ready, (status) => status === 200))
      }).pipe(Effect.provideContext(context))
    }).pipe(Effect.provide(silentPlatformLayer), Effect.scoped))

  it.live("completes all requests even if PostgreSQL closes a connection behind the pooler (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const { admin, context, name } = yield* startService({ default_pool_size: "4", server_login_retry: "1" })
      yield* Effect.gen(function* () {
        for (let time = 0; time < 5; time += 1) {
          const responses = yield* Effect.forkChild(
            Effect.all(Array.from({ length: 8 }, () => requestJson(path)), { concurrency: 8 }),
          )
          yield* admin.query(`select pg_terminate_backend(pid) from pg_stat_activity where usename = '${name}'`)
          assert.deepStrictEqual((yield* Fiber.join(responses)).map(({ status }) => status), Array(8).fill(200))
        }
      }).pipe(Effect.provideContext(context))
    }).pipe(Effect.provide(silentPlatformLayer), Effect.scoped))

  it.live("cancels the query of a client that disconnects, and no other query (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const { admin, context } = yield* startService({ default_pool_size: "2", query_wait_timeout: "20" })
      const countSleeping = (mark: string) =>
        Effect.map(
          admin.query(
            `select 1 from pg_stat_activity where state = 'active' and query like '%/* ${mark} */%' and pid <> pg_backend_pid()`,
          ),
          ({ rowCount }) => rowCount,
        )
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { query } = yield* Effect.provide(DatabaseReader, DatabaseReader.layer)
        const slow = (mark: string, seconds: number) =>
          Effect.forkChild(query(sql.unsafe(`select pg_sleep(${seconds}) /* ${mark} */`), "test"))
        const [gone, stays] = [yield* slow("gone", 25), yield* slow("stays", 3)]
        yield* until(
          Effect.zipWith(countSleeping("gone"), countSleeping("stays"), (one, other) => one === 1 && other === 1),
        )
        yield* Fiber.interrupt(gone)
        yield* until(Effect.map(countSleeping("gone"), (count) => count === 0))
        assert.lengthOf(yield* Fiber.join(stays), 1)
      }).pipe(Effect.provideContext(context))
    }).pipe(Effect.provide(silentPlatformLayer), Effect.scoped))
})

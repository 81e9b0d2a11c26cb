/**
 * Tests faults in each step of the request pipeline. Despite a fault, each request counts once toward the rate limit,
 * and once in usage and metrics. No permit, connection or query is left behind.
 */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { PgConnection } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Array, Context, Effect, Fiber, Layer, Metric, Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { databaseClientLayer } from "../../src/postgres/pool/PooledClient.ts"
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import { breakGzip, gzipHeaders } from "../support/BrokenCompression.ts"
import * as CustomerUsage from "../support/CustomerUsage.ts"
import * as GeneratedRows from "../support/GeneratedRows.ts"
import * as Service from "../support/Service.ts"
import * as ServiceInstances from "../support/ServiceInstances.ts"
import { startTcpProxy } from "../support/TcpProxy.ts"

// @module-tag slow

const { requestOverWire } = ServiceInstances
const { valueAt } = Service

/** A proxy between the service and the database, and two of the test's own connections that bypass the proxy. */
class DatabaseAccess extends Context.Service<DatabaseAccess, {
  readonly proxy: Effect.Success<ReturnType<typeof startTcpProxy>>
  readonly proxyUrl: Redacted.Redacted
  readonly admin: PgConnection.PgConnection
  /**
   * Holds locks in a transaction. `admin` cannot hold them, because `pg_stat_activity` does not change within a
   * transaction.
   */
  readonly locker: PgConnection.PgConnection
}>()("test/faults/DatabaseAccess") {
  static readonly layer = Layer.effect(
    DatabaseAccess,
    Effect.gen(function* () {
      const databaseUrl = yield* Service.copyMigratedDatabase
      const url = new URL(Redacted.value(databaseUrl))
      const proxy = yield* startTcpProxy(Number(url.port))
      url.port = String(proxy.port)
      const admin = yield* PgConnection.make({ url: databaseUrl, applicationName: "admin" })
      const locker = yield* PgConnection.make({ url: databaseUrl, applicationName: "locker" })
      return DatabaseAccess.of({ proxy, proxyUrl: Redacted.make(url.href), admin, locker })
    }),
  )
}

const database = Layer.effectDiscard(
  Effect.andThen(GeneratedRows.fillAllTables(200), ServiceInstances.refuseJobLeases),
).pipe(
  Layer.provideMerge(
    Layer.unwrap(
      Effect.map(
        DatabaseAccess,
        ({ proxyUrl }) => databaseClientLayer({ url: proxyUrl, applicationName: "tickerline-test" }),
      ),
    ),
  ),
  Layer.provideMerge(DatabaseAccess.layer),
  Layer.provideMerge(NodeCrypto.layer),
  Layer.provideMerge(NodeServices.layer),
)

const waitUntil = <E, R>(condition: Effect.Effect<boolean, E, R>) =>
  Effect.repeat(condition, { until: (holds) => holds, schedule: Schedule.spaced("10 millis") }).pipe(
    Effect.timeout("60 seconds"),
  )

const limit = 50

/** Creates an account with a rate limit that is not refilled during the test. */
const createCustomer = Effect.fnUntraced(function* (name: string, options: CustomerUsage.CustomerOptions = {}) {
  const sql = yield* SqlClient.SqlClient
  const customer = yield* CustomerUsage.createCustomer(name, { tier: "ultimate", ...options })
  yield* sql`
    insert into rate_limit_buckets (account_id, used, refilled_at, granted)
    values (${customer.account_id}::float8, 0, now() + interval '1 day', 0)
  `
  return customer
})

interface RecordedRow {
  readonly id: string
  readonly status: number
  readonly requests: number
}

/** Starts an instance and creates an account. Returns functions that send requests and check usage and metrics. */
const startService = Effect.fnUntraced(function* (
  name: string,
  options: CustomerUsage.CustomerOptions = {},
  settings: Readonly<Record<string, string>> = {},
) {
  const sql = yield* SqlClient.SqlClient
  const { admin, locker } = yield* DatabaseAccess
  const customer = yield* createCustomer(name, options)
  const metricsPort = yield* chooseFreePort
  const port = yield* ServiceInstances.startServiceInstance({
    METRICS_PORT: String(metricsPort),
    CACHE_MEGABYTES: "0",
    DATABASE_POOL_SIZE: "5",
    DATABASE_POOL_TIMEOUT: "500 millis",
    RATE_LIMIT_ULTIMATE: String(limit),
    ...settings,
  }).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))

  const send = (path: string, id: string, more: ServiceInstances.WireRequestOptions = {}) =>
    requestOverWire(port, path, customer.key, { ...more, headers: { ...more.headers, "X-Request-Id": id } })

  const scrape = Effect.map(requestOverWire(metricsPort, "/metrics", ""), ({ text }) => text)
  const readGauge = (gauge: string) =>
    Effect.map(scrape, (text) => Number(new RegExp(`^${gauge} (\\S+)$`, "m").exec(text)?.[1]))

  /** Reads the number of requests by status from the metrics. */
  const countStatuses = Effect.map(scrape, (text) => {
    const counts: Record<string, number> = {}
    const line = /^tickerline_http_requests_total\{.*status="(\d+)".*\} (\d+)$/gm
    for (const [, status = "", count] of text.matchAll(line)) counts[status] = (counts[status] ?? 0) + Number(count)
    return counts
  })

  const readUsage = Effect.map(
    sql<RecordedRow>`
      select request_id as id, status_code::int as status, request_count::int as requests
      from usage_requests where account_id = ${customer.account_id} order by request_id
    `,
    (rows) => rows.map(({ id, requests, status }) => `${id} ${status} ${requests}`),
  )

  const countSessions = (condition: string) =>
    Effect.map(
      admin.query(
        `select 1 from pg_stat_activity where datname = current_database() and application_name = 'tickerline-test'
          and ${condition}`,
      ),
      ({ rowCount }) => rowCount,
    )
  const countLockWaits = countSessions("wait_event_type = 'Lock'")

  /** Waits until no request uses the pool or PostgreSQL. */
  const waitUntilIdle = Effect.gen(function* () {
    yield* waitUntil(Effect.map(readGauge("tickerline_database_pool_connections_used"), (used) => used === 0))
    yield* waitUntil(Effect.map(readGauge("tickerline_database_pool_waiting"), (waiting) => waiting === 0))
    yield* waitUntil(Effect.map(readGauge("tickerline_whole_lists"), (exports) => exports === 0))
    yield* waitUntil(Effect.map(countLockWaits, (count) => count === 0))
    yield* waitUntil(Effect.map(countSessions("query ~ 'export'"), (count) => count === 0))
    yield* waitUntil(Effect.map(countSessions("query ~ 'from news' and state <> 'idle'"), (count) => count === 0))
    const { text } = yield* requestOverWire(port, "/health/ready", "")
    assert.include(text, "ok")
  })

  /**
   * Asserts that the usage contains exactly the `expected` requests (as `id status count`), and that the metrics count
   * these and the `unrecorded` requests. Then sends another request, whose headers show how many requests the rate
   * limit has counted.
   */
  const assertRecorded = Effect.fnUntraced(
    function* (expected: ReadonlyArray<string>, unrecorded: ReadonlyArray<string> = []) {
      yield* waitUntilIdle
      const last = yield* send("/v1/account", "z-last")
      const statuses = [...expected.filter((row) => !row.includes(" 429 ")), ...unrecorded].map((row) =>
        row.split(" ")[1]
      )
      const refusals = expected.filter((row) => row.includes(" 429 ")).map((row) => Number(row.split(" ")[2]))
      const rows = [...expected, ...(last.status === 401 ? [] : [`z-last ${last.status} 1`])].toSorted()
      yield* CustomerUsage.retryUntil(readUsage, (found) => found.length >= rows.length)
      assert.deepStrictEqual(yield* readUsage, rows)
      const counts: Record<string, number> = refusals.length === 0
        ? {}
        : { 429: refusals.reduce((sum, next) => sum + next) }
      // The metrics also count the request to /health/ready from `waitUntilIdle`.
      for (const status of [...statuses, "200", String(last.status)]) {
        counts[status ?? ""] = (counts[status ?? ""] ?? 0) + 1
      }
      assert.deepStrictEqual(yield* countStatuses, counts)
      if (last.status === 200) {
        assert.strictEqual(last.headers["x-ratelimit-remaining"], String(limit - rows.length))
      }
      return last
    },
  )

  /** Locks the `news` table until the scope closes, so that every read of the table waits. */
  const lockNews = Effect.acquireRelease(
    Effect.andThen(locker.query("begin"), locker.query("lock table news in access exclusive mode")),
    () => Effect.orDie(locker.query("rollback")),
  )
  return {
    ...customer,
    admin,
    send,
    readGauge,
    countLockWaits,
    countSessions,
    assertRecorded,
    lockNews,
    readUsage,
  }
})

const path = "/v1/news?limit=3"

const makeToolCall = (name: string, parameters: object): ServiceInstances.WireRequestOptions => ({
  method: "POST",
  headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
  body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: parameters } }),
})

const assertError = ({ status, text }: ServiceInstances.WireResponse, expected: number, code: string, id: string) => {
  const body: unknown = JSON.parse(text)
  assert.deepStrictEqual([status, valueAt(body, "error", "code"), valueAt(body, "request_id")], [expected, code, id])
}

layer(database, { excludeTestServices: true, timeout: "120 seconds" })("A request", (it) => {
  it.effect("is repeated if its database connection is cut inside a row, and recorded once (§7.2, D18, D29)", () =>
    Effect.gen(function* () {
      const { proxy } = yield* DatabaseAccess
      const { assertRecorded, readGauge, send } = yield* startService("cut")
      const whole = yield* send(path, "a")
      const title = /"title":"([^"]+)"/g
      const [, second = ""] = Array.fromIterable(whole.text.matchAll(title)).map(([, text = ""]) => text)
      const before = proxy.cuts()
      yield* proxy.cutBefore(second)
      const repeated = yield* send(path, "b")
      assert.strictEqual(proxy.cuts(), before + 1)
      assert.deepStrictEqual([repeated.status, repeated.text], [200, whole.text])
      assert.strictEqual(yield* readGauge('tickerline_database_retries_total\\{why="lost"\\}'), 1)
      yield* assertRecorded(["a 200 1", "b 200 1"])
    }).pipe(Effect.scoped))

  it.effect("for an export gets a truncated response if its database connection is cut inside a row, and is recorded once without cost (D27, D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { proxy } = yield* DatabaseAccess
      const { account_id, assertRecorded, send } = yield* startService("cut export")
      const whole = yield* send("/v1/news?limit=all&format=ndjson", "a")
      const last: unknown = JSON.parse(whole.text.trimEnd().split("\n").at(-1) ?? "")
      const before = proxy.cuts()
      yield* proxy.cutBefore(String(valueAt(last, "body")))
      const exit = yield* Effect.exit(send("/v1/news?limit=all&format=ndjson", "b"))
      assert.strictEqual(exit._tag, "Failure", "the body is incomplete")
      assert.strictEqual(proxy.cuts(), before + 1)
      yield* assertRecorded(["a 200 1", "b 503 1"])
      const costs = yield* sql<{ readonly is_free: boolean }>`
        select cost_microdollars = 0 as is_free from usage_requests
        where account_id = ${account_id} and request_id in ('a', 'b') order by request_id
      `
      assert.deepStrictEqual(costs.map(({ is_free }) => is_free), [false, true])
    }).pipe(Effect.scoped))

  it.effect("for an export gets 503 if its database connection is cut in the first row (§7.2, D29)", () =>
    Effect.gen(function* () {
      const { proxy } = yield* DatabaseAccess
      const { assertRecorded, send } = yield* startService("cut first row")
      const whole = yield* send("/v1/news?limit=all&format=ndjson", "a")
      const first: unknown = JSON.parse(whole.text.split("\n")[0] ?? "")
      yield* proxy.cutBefore(String(valueAt(first, "title")))
      const response = yield* send("/v1/news?limit=all&format=ndjson", "b")
      assertError(response, 503, "database_pool_timeout", "b")
      yield* assertRecorded(["a 200 1", "b 503 1"])
    }).pipe(Effect.scoped))

  it.effect("gets 500 if its response cannot be compressed, and is recorded once without cost (D11, D27, D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, assertRecorded, send } = yield* startService("incompressible")
      const ask = (id: string) => send("/v1/news?limit=20", id, { headers: gzipHeaders })
      assertError(yield* Effect.scoped(Effect.andThen(breakGzip, ask("a"))), 500, "internal_error", "a")
      assert.strictEqual((yield* ask("b")).headers["content-encoding"], "gzip")
      yield* assertRecorded(["a 500 1", "b 200 1"])
      const paid = yield* sql`
        select request_id from usage_requests where account_id = ${account_id} and cost_microdollars > 0
      `
      assert.deepStrictEqual(paid, [{ request_id: "b" }])
    }).pipe(Effect.scoped))

  it.effect("for an export gets a truncated response if it cannot be compressed, and is recorded once without cost (D27, D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, assertRecorded, send } = yield* startService("incompressible export")
      yield* breakGzip
      const exit = yield* Effect.exit(send("/v1/news?limit=all&format=ndjson", "a", { headers: gzipHeaders }))
      assert.strictEqual(exit._tag, "Failure", "the body is incomplete")
      yield* assertRecorded(["a 500 1"])
      const paid = yield* sql`select 1 from usage_requests where account_id = ${account_id} and cost_microdollars > 0`
      assert.deepStrictEqual(paid, [])
    }).pipe(Effect.scoped))

  it.effect("is run again when its client disconnects while other requests wait for its result (D17, §7.2, D29)", () =>
    Effect.gen(function* () {
      const { assertRecorded, countLockWaits, lockNews, readUsage, send } = yield* startService("followed")
      const followers = yield* Effect.scoped(Effect.gen(function* () {
        yield* lockNews
        const leader = yield* Effect.forkDetach(send(path, "a"))
        yield* waitUntil(Effect.map(countLockWaits, (count) => count === 1))
        const fibers = yield* Effect.forEach(["b", "c", "d"], (id) => Effect.forkDetach(send(path, id)))
        // This request is sent after requests b, c and d. Its response shows that those three have arrived.
        yield* send("/v1/datasets", "e")
        assert.strictEqual(yield* countLockWaits, 1)
        yield* Fiber.interrupt(leader)
        yield* waitUntil(Effect.map(readUsage, (rows) => rows.includes("a 499 1")))
        return fibers
      }))
      for (const follower of followers) assert.strictEqual((yield* Fiber.join(follower)).status, 200)
      yield* assertRecorded(["a 499 1", "b 200 1", "c 200 1", "d 200 1", "e 200 1"])
    }).pipe(Effect.scoped))

  it.effect("is repeated if an administrator ends its session (57P01), and recorded once (§7.2, D18, D29)", () =>
    Effect.gen(function* () {
      const { admin, assertRecorded, countLockWaits, lockNews, send } = yield* startService("terminated")
      const pending = yield* Effect.scoped(Effect.gen(function* () {
        yield* lockNews
        const fiber = yield* Effect.forkDetach(send(path, "a"))
        yield* waitUntil(Effect.map(countLockWaits, (count) => count === 1))
        const { rowCount } = yield* admin.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock'`,
        )
        assert.strictEqual(rowCount, 1)
        return fiber
      }))
      assert.strictEqual((yield* Fiber.join(pending)).status, 200)
      yield* assertRecorded(["a 200 1"])
    }).pipe(Effect.scoped))

  it.effect("gets 503 data_refreshing after one retry if its table stays locked, and is recorded once (§7.2, D29)", () =>
    Effect.gen(function* () {
      const { assertRecorded, lockNews, readGauge, send } = yield* startService("locked")
      const response = yield* Effect.scoped(Effect.andThen(lockNews, send(path, "a")))
      assertError(response, 503, "data_refreshing", "a")
      assert.strictEqual(response.headers["retry-after"], "5")
      assert.strictEqual(response.headers["x-cost-microdollars"], "0")
      assert.strictEqual(yield* readGauge('tickerline_database_retries_total\\{why="locked"\\}'), 1)
      yield* assertRecorded(["a 503 1"])
    }).pipe(Effect.scoped))

  it.effect("gets 503 database_pool_timeout if its share of the pool is full, and is recorded once (§7.2, D29)", () =>
    Effect.gen(function* () {
      const { assertRecorded, countLockWaits, lockNews, send } = yield* startService("bulkhead")
      const ids = ["a", "b", "c", "d"]
      const holders = yield* Effect.scoped(Effect.gen(function* () {
        yield* lockNews
        const fibers = yield* Effect.forEach(
          ids,
          (id, index) => Effect.forkDetach(send(`${path}&page=${index + 1}`, id)),
        )
        yield* waitUntil(Effect.map(countLockWaits, (count) => count === 4))
        const response = yield* send(`${path}&page=9`, "e")
        assertError(response, 503, "database_pool_timeout", "e")
        assert.strictEqual(response.headers["retry-after"], "5")
        return fibers
      }))
      for (const holder of holders) assert.strictEqual((yield* Fiber.join(holder)).status, 200)
      yield* assertRecorded([...ids.map((id) => `${id} 200 1`), "e 503 1"])
    }).pipe(Effect.scoped))

  it.effect("leaves the queue when its client disconnects, and is recorded once with 499 (§7.2, D29)", () =>
    Effect.gen(function* () {
      // The timeout is long enough for the test to observe the request in the queue.
      const settings = { DATABASE_POOL_TIMEOUT: "30 seconds" }
      const { assertRecorded, countLockWaits, lockNews, readGauge, readUsage, send } = yield* startService(
        "impatient",
        {},
        settings,
      )
      const ids = ["a", "b", "c", "d"]
      const holders = yield* Effect.scoped(Effect.gen(function* () {
        yield* lockNews
        const fibers = yield* Effect.forEach(
          ids,
          (id, index) => Effect.forkDetach(send(`${path}&page=${index + 1}`, id)),
        )
        yield* waitUntil(Effect.map(countLockWaits, (count) => count === 4))
        const waiting = yield* Effect.forkDetach(send(`${path}&page=9`, "e"))
        yield* waitUntil(Effect.map(readGauge("tickerline_database_pool_waiting"), (count) => count === 1))
        yield* Fiber.interrupt(waiting)
        yield* waitUntil(Effect.map(readGauge("tickerline_database_pool_waiting"), (count) => count === 0))
        return fibers
      }))
      for (const holder of holders) assert.strictEqual((yield* Fiber.join(holder)).status, 200)
      yield* waitUntil(Effect.map(readUsage, (rows) => rows.length === 5))
      yield* assertRecorded([...ids.map((id) => `${id} 200 1`), "e 499 1"])
    }).pipe(Effect.scoped))

  it.effect("cancels its query when its client disconnects, and is recorded once with 499 (§7.2, D29)", () =>
    Effect.gen(function* () {
      const { assertRecorded, countLockWaits, lockNews, readGauge, readUsage, send } = yield* startService("gone")
      yield* Effect.scoped(Effect.gen(function* () {
        yield* lockNews
        const fiber = yield* Effect.forkDetach(send(path, "a"))
        yield* waitUntil(Effect.map(countLockWaits, (count) => count === 1))
        yield* Fiber.interrupt(fiber)
        // The table is still locked, so a query's wait for the lock ends only if the query is canceled.
        yield* waitUntil(Effect.map(countLockWaits, (count) => count === 0))
        yield* waitUntil(Effect.map(readGauge("tickerline_database_pool_connections_used"), (used) => used === 0))
        assert.strictEqual(yield* readGauge('tickerline_database_retries_total\\{why="locked"\\}'), 0)
      }))
      yield* waitUntil(Effect.map(readUsage, (rows) => rows.length === 1))
      yield* assertRecorded(["a 499 1"])
    }).pipe(Effect.scoped))

  it.effect("of a tool whose client disconnects is recorded once, or its message is (D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, countLockWaits, lockNews, readUsage, send } = yield* startService("gone message")
      yield* Effect.scoped(Effect.gen(function* () {
        yield* lockNews
        const fiber = yield* Effect.forkDetach(send("/mcp", "a", makeToolCall("query", { endpoint: "/v1/news" })))
        yield* waitUntil(Effect.map(countLockWaits, (count) => count === 1))
        yield* Fiber.interrupt(fiber)
        yield* waitUntil(Effect.map(countLockWaits, (count) => count === 0))
      }))
      const ids = Array.makeBy(30, (at) => `b${at}`)
      for (const id of ids) {
        const call = yield* Effect.forkDetach(send("/mcp", id, makeToolCall("lineage", { ticker: "OSTK" })))
        // The client disconnects before, during or after the response to the tool call.
        yield* Effect.race(Fiber.await(call), Effect.yieldNow.pipe(Effect.repeat({ times: Number(id.slice(1)) * 4 })))
        yield* Fiber.interrupt(call)
      }
      yield* send("/v1/account", "z")
      yield* waitUntil(Effect.map(readUsage, (rows) => rows.some((row) => row.startsWith("z "))))
      const found = yield* sql<{ readonly id: string; readonly row: string }>`
        select request_id as id, concat_ws(' ', request_id, endpoint, via, status_code) as row
        from usage_requests where account_id = ${account_id}
      `
      assert.match(found.find(({ id }) => id === "a")?.row ?? "", /^a (\/v1\/news mcp|\/mcp) 499$/)
      assert.deepStrictEqual(Array.dedupe(found.map(({ id }) => id)).length, found.length, "each id has one row")
    }).pipe(Effect.scoped))

  it.effect("gets 429 beyond the rate limit; such requests share a usage row and run no query (D18, D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, assertRecorded, countSessions, send } = yield* startService("limited")
      yield* sql`update rate_limit_buckets set used = ${limit - 1}::float8 where account_id = ${account_id}`
      assert.strictEqual((yield* send(path, "a")).status, 200)
      for (const id of ["b", "c", "d"]) {
        const response = yield* send(path, id)
        assertError(response, 429, "rate_limit_exceeded", id)
        assert.strictEqual(response.headers["x-ratelimit-remaining"], "0")
        assert.strictEqual(response.headers["x-cost-microdollars"], "0")
      }
      assert.strictEqual(yield* countSessions("query ~ 'from news' and state <> 'idle'"), 0)
      yield* assertRecorded(["a 200 1", "b 429 3"])
    }).pipe(Effect.scoped))

  it.effect("is completed even if its key is revoked meanwhile; later requests get 401 and count only in the metrics (D2, D29)", () =>
    Effect.gen(function* () {
      const { admin, assertRecorded, countLockWaits, key_id, lockNews, send } = yield* startService("revoked")
      const pending = yield* Effect.scoped(Effect.gen(function* () {
        yield* lockNews
        const fiber = yield* Effect.forkDetach(send(path, "a"))
        yield* waitUntil(Effect.map(countLockWaits, (count) => count === 1))
        yield* admin.query(`update api_keys set revoked_at = now() where key_id = ${key_id}`)
        return fiber
      }))
      assert.strictEqual((yield* Fiber.join(pending)).status, 200)
      const accepted: Array<string> = []
      yield* waitUntil(Effect.gen(function* () {
        const id = `b${accepted.length + 1000}`
        const { status } = yield* send("/v1/account/api-keys", id)
        if (status === 200) accepted.push(`${id} 200 1`)
        return status === 401
      }))
      assert.isBelow(accepted.length, limit)
      const last = yield* send(path, "c")
      assertError(last, 401, "api_key_disabled", "c")
      yield* assertRecorded(["a 200 1", ...accepted], ["- 401", "c 401"])
    }).pipe(Effect.scoped))

  it.effect("gets 402 once the balance is used up, and is recorded once without cost (D13, D27, D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, assertRecorded, send } = yield* startService("poor", { balance: 1 })
      const response = yield* send(path, "a")
      assert.strictEqual(response.status, 200)
      const cost = Number(response.headers["x-cost-microdollars"])
      assert.isAbove(cost, 1)
      const accepted: Array<string> = []
      yield* waitUntil(Effect.gen(function* () {
        const id = `b${accepted.length + 1000}`
        const { status } = yield* send("/v1/news?limit=1&ticker=NONE", id)
        accepted.push(`${id} ${status} 1`)
        return status === 402
      }))
      const refused = yield* send(path, "c")
      assertError(refused, 402, "insufficient_credits", "c")
      assert.strictEqual(refused.headers["x-cost-microdollars"], "0")
      yield* assertRecorded(["a 200 1", ...accepted, "c 402 1"])
      const [sums] = yield* sql<{ readonly cost: number; readonly refused: number; readonly balance: number }>`
        select sum(cost_microdollars)::int as cost, current_balance(accounts)::int as balance,
          sum(cost_microdollars) filter (where status_code = 402)::int as refused
        from usage_requests join accounts using (account_id) where account_id = ${account_id} group by accounts.account_id
      `
      assert.deepStrictEqual({ ...sums }, { cost: sums?.cost, refused: 0, balance: 1 - (sums?.cost ?? 0) })
    }).pipe(Effect.scoped))

  const secret = "confidential-4711"

  /** Stores an invalid value until the scope closes. Also permanently drops the constraint that forbids the value. */
  const corruptOwner = Effect.fnUntraced(function* (ticker: string) {
    const { admin } = yield* DatabaseAccess
    yield* Effect.acquireRelease(
      Effect.andThen(
        admin.query("alter table ownership drop constraint if exists ownership_owner_type_check"),
        admin.query(`update ownership set owner_type = '${secret}' where ticker = '${ticker}'`),
      ),
      () => Effect.orDie(admin.query(`update ownership set owner_type = null where owner_type = '${secret}'`)),
    )
  })

  it.effect.each(["json", "csv", "ndjson", "csv&limit=all", "ndjson&limit=all"])(
    "gets 500 without the value that does not match its schema, and is recorded once: format=%s (§7.1, D11, D29)",
    (format) =>
      Effect.gen(function* () {
        const { assertRecorded, send } = yield* startService(`defect ${format}`)
        yield* corruptOwner("T2")
        const response = yield* send(`/v1/ownership?ticker=T1,T2,T3&format=${format}`, "a")
        assertError(response, 500, "internal_error", "a")
        assert.notInclude(response.text, secret)
        assert.notMatch(response.text, /owner_type|schema|\.ts/)
        assert.strictEqual(response.headers["x-cost-microdollars"], "0")
        assert.isUndefined(response.headers["content-disposition"])
        yield* assertRecorded(["a 500 1"])
      }).pipe(Effect.scoped),
  )

  it.effect("for an export gets a truncated response if a later row does not match its schema, and is recorded once without cost (D27, D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, assertRecorded, send } = yield* startService("broken export")
      const tickers = Array.makeBy(90, (index) => `T${index + 1}`)
      yield* corruptOwner("T89")
      const exit = yield* Effect.exit(send(`/v1/ownership?ticker=${tickers.join(",")}&limit=all&format=csv`, "a"))
      assert.strictEqual(exit._tag, "Failure", "the body is incomplete")
      yield* assertRecorded(["a 500 1"])
      const [row] = yield* sql<{ readonly cost: number }>`
        select cost_microdollars::int as cost from usage_requests where account_id = ${account_id} and request_id = 'a'
      `
      assert.strictEqual(row?.cost, 0)
    }).pipe(Effect.scoped))
})

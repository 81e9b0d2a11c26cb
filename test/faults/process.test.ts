/** Stops and kills the process, and runs it in another time zone, while clients send requests (RELIABILITY.md). */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, FileSystem, Layer, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import { requestOverWire, startServiceProcess } from "../support/ServiceInstances.ts"
import * as CustomerUsage from "../support/CustomerUsage.ts"
import * as Dedicated from "../support/DedicatedPostgres.ts"
import { endProcess, type Environment, startCommandProcess } from "../support/Processes.ts"
import { beginTransaction, waitUntilBlocked } from "../support/HeldTransactions.ts"
import { openConnection } from "../support/RawSockets.ts"
import * as Service from "../support/Service.ts"
import * as SteadyClients from "../support/SteadyClients.ts"
import { recordFaultSummary } from "../support/FaultSummaries.ts"

// @module-tag slow

const database = Service.sampleDatabaseLayer.pipe(
  Layer.provideMerge(Layer.merge(NodeServices.layer, NodeCrypto.layer)),
)

const startServing = Effect.fnUntraced(function* (more: Environment = {}) {
  const { port, running } = yield* startServiceProcess(yield* Service.databaseUrl, more)
  return { ...running, running, port }
})

const customer = Effect.suspend(() => CustomerUsage.createCustomer(`faults ${performance.now()}`, { tier: "ultimate" }))

const charged = Effect.fnUntraced(function* (account_id: number) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<
    { readonly rows: number; readonly summed: number; readonly cost: number; readonly sums: number }
  >`
    select count(*)::int as rows, coalesce(sum(cost_microdollars), 0)::float8 as cost,
      (select coalesce(sum(requests), 0)::int from usage_totals where account_id = ${account_id}) as summed,
      (select coalesce(sum(cost_microdollars), 0)::float8 from usage_totals where account_id = ${account_id}) as sums
    from usage_requests where account_id = ${account_id}
  `
  assert.strictEqual(row?.rows, row?.summed)
  assert.strictEqual(row?.cost, row?.sums)
  return row?.rows ?? 0
})

layer(database, { excludeTestServices: true, timeout: "120 seconds" })("The process", (it) => {
  it.effect("completes and records the requests in progress after SIGTERM, and exits with 0 (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const { account_id, key } = yield* customer
      const { port, running } = yield* startServing()
      let stopping = false
      const { more, stop } = yield* SteadyClients.startSteadyClients({ port, key, pause: 0, mayRefuse: () => stopping })
      yield* more(100)
      stopping = true
      const ended = yield* Effect.timeout(endProcess(running, "SIGTERM"), "30 seconds")
      assert.strictEqual(ended.code, 0, ended.err)
      const seen = yield* stop
      const { "no response": refused = 0, ...received } = seen.responses
      assert.isAbove(refused, 0)
      const expected = Object.values(received).reduce((sum, count) => sum + count, 0) +
        SteadyClients.mixedRequestPaths.length
      assert.strictEqual(yield* charged(account_id), expected)
      assert.notMatch(ended.err, /ERROR|could not be recorded/)
      const { "no response": _, ...responses } = seen.responses
      yield* recordFaultSummary("SIGTERM under load", { ...seen, responses })
    }))

  it.effect("closes connections without a complete request at SIGTERM, on each port, and finishes all others (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const { key } = yield* customer
      const [adminPort, metricsPort] = [yield* chooseFreePort, yield* chooseFreePort]
      const { port, running } = yield* startServing({
        ADMIN_PORT: String(adminPort),
        METRICS_PORT: String(metricsPort),
      })
      const sql = yield* SqlClient.SqlClient
      const { commit } = yield* beginTransaction(sql`lock table news in access exclusive mode`)
      const inProgress = yield* Effect.forkChild(requestOverWire(port, "/v1/news?limit=1", key))
      yield* waitUntilBlocked
      const begin = Effect.fnUntraced(function* (port: number, bytes: string) {
        const connection = yield* openConnection(port)
        yield* Effect.callback<void>((resume) => void connection.socket.write(bytes, () => resume(Effect.void)))
        return connection
      })
      const begun = yield* Effect.all([
        begin(port, ""),
        begin(port, "GET /v1/news HTTP/1.1\r\nHost: x\r\n"),
        begin(port, `POST /mcp HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\nContent-Length: 100\r\n\r\n{`),
        begin(port, "GET /health/live HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"),
        begin(adminPort, "GET /v1/accounts HTTP/1.1\r\n"),
        begin(adminPort, "POST /console/sign-in HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx"),
        begin(metricsPort, "GET /metrics HTTP/1.1\r\n"),
      ])
      const ended = yield* Effect.forkChild(endProcess(running, "SIGTERM"))
      // The metrics port closes last, after all requests have ended.
      yield* Effect.forEach(begun.slice(0, -1), ({ ended }) => ended)
      assert.isUndefined(inProgress.pollUnsafe(), "the request in progress still waits")
      yield* commit
      // On a slow machine, the wait for the lock may have timed out.
      assert.include([200, 503], (yield* Fiber.join(inProgress)).status)
      yield* Effect.forEach(begun, ({ ended }) => ended)
      const { code, err } = yield* Fiber.join(ended)
      assert.strictEqual(code, 0, err)
    }))

  it.effect("still responds during SHUTDOWN_DELAY while /health/ready returns 503, and exits with 0 (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const { account_id, key } = yield* customer
      const { port, running } = yield* startServing({ SHUTDOWN_DELAY: "3 seconds" })
      const path = "/v1/news?limit=1"
      assert.strictEqual((yield* requestOverWire(port, path, key)).status, 200)
      const ended = yield* Effect.forkChild(endProcess(running, "SIGTERM"))
      const refused = yield* Effect.repeat(requestOverWire(port, "/health/ready", ""), {
        until: ({ status }) => status !== 200,
        schedule: Schedule.spaced("10 millis"),
      })
      assert.strictEqual(refused.status, 503)
      assert.deepInclude(JSON.parse(refused.text).error, {
        message: "Not ready: the service is shutting down.",
        details: { parts: { service: "ending", database: "ok", usage: "ok", limits: "ok", cache: "ok", clock: "ok" } },
      })
      // Each request uses a new connection. This shows that the process still accepts connections.
      const responses = yield* Effect.forEach(
        [1, 2, 3],
        () => requestOverWire(port, path, key, { headers: { Connection: "close" } }),
      )
      assert.deepStrictEqual(responses.map(({ status }) => status), [200, 200, 200])
      assert.strictEqual((yield* requestOverWire(port, "/health/live", "")).status, 200)
      const { code, err } = yield* Effect.timeout(Fiber.join(ended), "30 seconds")
      assert.strictEqual(code, 0, err)
      assert.strictEqual(yield* charged(account_id), 4)
    }))

  it.effect("starts again without help after SIGKILL under load, and records no request twice (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const { account_id, key } = yield* customer
      const first = yield* startServing()
      let gone = false
      const { more, stop } = yield* SteadyClients.startSteadyClients({
        port: first.port,
        key,
        pause: 0,
        mayRefuse: () => gone,
      })
      yield* more(100)
      gone = true
      yield* endProcess(first.running, "SIGKILL")
      // `stop` fails if a response was cut off. This may happen to requests that were in progress when the process was
      // killed.
      const seen = yield* Effect.exit(stop)
      const { port } = yield* startServing()
      const { status } = yield* requestOverWire(port, "/v1/news?limit=1", key)
      assert.strictEqual(status, 200)
      const rows = yield* charged(account_id)
      assert.isAbove(rows, 0)
      if (seen._tag === "Success") {
        assert.isAtMost(rows, seen.value.requests + SteadyClients.mixedRequestPaths.length + 1)
      }
    }))

  it.effect("sends the same responses whatever the machine's time zone (§2, D19, RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const { key } = yield* customer
      const zones = ["Asia/Tokyo", "America/Los_Angeles"]
      const responses = yield* Effect.forEach(zones, (TZ) =>
        Effect.scoped(Effect.gen(function* () {
          const { port } = yield* startServing({ TZ })
          const paths = [
            ...SteadyClients.mixedRequestPaths,
            "/v1/premarket-stats?limit=5",
            "/v1/pump-and-dump-tracker?limit=5",
          ]
          return yield* Effect.forEach(
            paths,
            (path) =>
              Effect.map(requestOverWire(port, path, key), ({ text }) => text.replace(/"request_id":"[^"]*"/, "")),
          )
        })))
      assert.deepStrictEqual(responses[1], responses[0])
    }))

  it.effect("continues to read while the database accepts no writes, and records the usage afterwards (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, key } = yield* customer
      const name = new URL(yield* Service.databaseUrl).pathname.slice(1)
      const { port } = yield* startServing()
      yield* requestOverWire(port, "/v1/news?limit=1", key)
      yield* CustomerUsage.waitForRecordedRequests(account_id, 1)
      // Each request has a limit of its own, so that no cached result can replace a read.
      const lastLimit = 11
      yield* sql`alter database ${sql(name)} set default_transaction_read_only = on`
      const cut = sql`
        select pg_terminate_backend(pid) from pg_stat_activity
        where application_name = 'tickerline' and datname = current_database()
      `
      yield* cut
      for (let limit = 2; limit <= lastLimit; limit++) {
        assert.strictEqual((yield* requestOverWire(port, `/v1/news?limit=${limit}`, key)).status, 200)
      }
      assert.strictEqual((yield* requestOverWire(port, "/health/ready", "")).status, 200)
      assert.strictEqual(yield* charged(account_id), 1)
      yield* sql`alter database ${sql(name)} reset default_transaction_read_only`
      yield* cut
      yield* CustomerUsage.waitForRecordedRequests(account_id, lastLimit)
      assert.strictEqual(yield* charged(account_id), lastLimit)
    }))

  it.effect("reports that the database was killed during a load, exits with 1 and keeps the old rows (D31, RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const server = yield* Dedicated.DedicatedPostgres
      const sql = yield* SqlClient.SqlClient
      const rows = Effect.map(
        sql<{ readonly rows: number }>`select count(*)::int as rows from ticker_changes`,
        ([row]) => row?.rows,
      )
      yield* Service.insertRows("ticker_changes", {
        old_ticker: "OLD",
        new_ticker: "NEW",
        effective_date: "2025-01-02",
        status: "confirmed",
      })
      const before = yield* rows
      const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-faults-" })
      const lines = Array.from({ length: 100_000 }, (_, at) => `T${at + 1},U${at + 1},2025-01-02,confirmed`)
      const file = `${folder}/changes.csv`
      yield* fs.writeFileString(file, `old_ticker,new_ticker,effective_date,status\n${lines.join("\n")}\n`)
      const loading = yield* startCommandProcess(["load", "ticker_changes", file, "--yes"], {
        DATABASE_URL: server.url,
      })
      const isFilling = Effect.map(
        sql`select 1 from pg_stat_activity where query like '/* load %' and pid <> pg_backend_pid()`,
        (found) => found.length > 0,
      )
      yield* Effect.repeat(isFilling, { until: (is) => is, schedule: Schedule.spaced("10 millis") }).pipe(
        Effect.timeout("20 seconds"),
      )
      yield* server.stop("SIGKILL")
      const ended = yield* Effect.timeoutOption(Effect.promise(() => loading.ended), "20 seconds")
      yield* server.start
      assert.strictEqual(ended._tag, "Some", "the command hangs")
      if (ended._tag === "None") return
      assert.strictEqual(ended.value.code, 1, ended.value.err)
      assert.match(ended.value.err, /^tickerline: PostgreSQL: [^\n]+$/m)
      assert.notMatch(ended.value.err, /\n\s+at /)
      assert.strictEqual(yield* Effect.retry(rows, { times: 300, schedule: Schedule.spaced("100 millis") }), before)
      const [leftover] = yield* sql`select 1 from pg_class where relnamespace = 'loading'::regnamespace`
      assert.isUndefined(leftover)
    }).pipe(Effect.provide(Dedicated.sampleDedicatedLayer)))
})

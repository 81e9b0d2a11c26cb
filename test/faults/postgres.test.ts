/** Kills and restarts PostgreSQL, and terminates its connections, under continuous load (RELIABILITY.md). */
import { NodeCrypto } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { readTraffic } from "../../src/operate/admin/Traffic.ts"
import { requestOverWire, startServiceInstance } from "../support/ServiceInstances.ts"
import * as CustomerUsage from "../support/CustomerUsage.ts"
import { DedicatedPostgres, sampleDedicatedLayer } from "../support/DedicatedPostgres.ts"
import * as Service from "../support/Service.ts"
import * as SteadyClients from "../support/SteadyClients.ts"
import { recordFaultSummary } from "../support/FaultSummaries.ts"
import { holdFault } from "../support/Pauses.ts"

// @module-tag slow

const database = Service.TestKeys.layer.pipe(
  Layer.provideMerge(sampleDedicatedLayer),
  Layer.provideMerge(NodeCrypto.layer),
)

/** Starts a service and steady clients. Without the cache, every response comes from the database. */
const startClients = Effect.fnUntraced(function* (memory: "with memory" | "without memory") {
  const { key, ...ids } = yield* CustomerUsage.createCustomer(`faults ${performance.now()}`, { tier: "ultimate" })
  const port = yield* startServiceInstance({ CACHE_MEGABYTES: memory === "with memory" ? "16" : "0" })
  const steady = yield* SteadyClients.startSteadyClients({ port, key })
  return { ...ids, ...steady, port }
})

/** Asserts that every response except a 503 is recorded exactly once. */
const assertRecordedExactly = Effect.fnUntraced(function* (account_id: number, seen: SteadyClients.ClientSummary) {
  const sql = yield* SqlClient.SqlClient
  const good = Object.entries(seen.responses).filter(([name]) => !name.startsWith("503"))
  const expected = good.reduce((sum, [, count]) => sum + count, 0) + SteadyClients.mixedRequestPaths.length
  const counted = Effect.map(
    sql<{ readonly rows: number }>`
      select count(*)::int as rows from usage_requests where account_id = ${account_id} and status_code <> 503
    `,
    ([row]) => row?.rows ?? 0,
    // Retries the query, because the test's pool may still contain connections from before the restart.
  ).pipe(Effect.retry({ times: 10 }))
  yield* CustomerUsage.retryUntil(counted, (rows) => rows >= expected)
  assert.strictEqual(yield* counted, expected)
})

/** Reads the number of 503 responses that the console shows. */
const countUnavailable = readTraffic.pipe(
  Effect.map(({ errors }) =>
    errors.reduce((sum, { requests, status_code }) => sum + (status_code === 503 ? requests : 0), 0)
  ),
  Effect.retry({ times: 10 }),
)

layer(database, { excludeTestServices: true, timeout: "120 seconds" })("PostgreSQL", (it) => {
  it.effect("may be killed and restarted: clients get correct responses or 503, and all usage is recorded (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const server = yield* DedicatedPostgres
      const before = yield* countUnavailable
      const { account_id, more, port, stop } = yield* startClients("with memory")
      yield* more()
      yield* server.stop("SIGKILL")
      // A health probe is not a customer request, so the console does not count it.
      yield* Effect.repeat(requestOverWire(port, "/health/ready", ""), { until: ({ status }) => status === 503 })
      yield* holdFault("1500 millis")
      yield* server.start
      yield* more()
      const seen = yield* stop
      assert.isAbove(seen.responses["503 database_pool_timeout"] ?? 0, 0)
      const refused = Object.entries(seen.responses).reduce(
        (sum, [name, count]) => sum + (name.startsWith("503") ? count : 0),
        0,
      )
      yield* CustomerUsage.retryUntil(countUnavailable, (count) => count >= before + refused)
      assert.strictEqual(yield* countUnavailable, before + refused, "the console counts each of them")
      yield* assertRecordedExactly(account_id, seen)
      yield* recordFaultSummary("PostgreSQL killed with kill -9, started again after 1.5 s", seen)
    }))

  it.effect("may be restarted repeatedly: clients get no error except 503, and no request is charged twice (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const server = yield* DedicatedPostgres
      const { account_id, more, stop } = yield* startClients("without memory")
      for (let round = 0; round < 4; round++) {
        yield* more()
        yield* server.stop("SIGINT")
        yield* server.start
      }
      yield* more()
      const seen = yield* stop
      yield* assertRecordedExactly(account_id, seen)
      yield* recordFaultSummary("PostgreSQL restarted four times in a row", seen)
    }))

  it.effect("may close connections one by one without an effect on clients (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, more, stop } = yield* startClients("without memory")
      yield* more()
      yield* Effect.repeat(
        Effect.retry(
          sql`
            select pg_terminate_backend(pid) from pg_stat_activity
            where application_name = 'tickerline-test' and pid <> pg_backend_pid() order by random() limit 1
          `,
          { times: 5 },
        ),
        { schedule: Schedule.spaced("50 millis"), times: 40 },
      )
      yield* more()
      const seen = yield* stop
      assert.deepStrictEqual(Object.keys(seen.responses).filter((name) => name.startsWith("5")), [])
      yield* assertRecordedExactly(account_id, seen)
      yield* recordFaultSummary("40 connections cut, one every 50 ms", seen)
    }))
})

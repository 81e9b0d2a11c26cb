/** Tests failover under load: the primary fails, and its standby takes over at the same address (RELIABILITY.md). */
import { NodeCrypto } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Redacted, Schedule } from "effect"
import { databaseClientLayer } from "../../src/postgres/pool/PooledClient.ts"
import { startServiceInstance } from "../support/ServiceInstances.ts"
import * as CustomerUsage from "../support/CustomerUsage.ts"
import { DedicatedPostgres, sampleDedicatedLayer } from "../support/DedicatedPostgres.ts"
import { startTcpProxy } from "../support/TcpProxy.ts"
import * as Service from "../support/Service.ts"
import { queryServer } from "../support/TwoStandbys.ts"
import * as SynchronousStandby from "../support/SynchronousStandby.ts"
import * as SteadyClients from "../support/SteadyClients.ts"
import { recordFaultSummary } from "../support/FaultSummaries.ts"
import { holdFault } from "../support/Pauses.ts"

// @module-tag slow

/** A prepaid balance that the tests cannot exhaust, in microdollars. */
const credit = 9_000_000_000

/**
 * Every fourth path of the mixed requests. The clients request each path once before the fault, so fewer paths save
 * time.
 */
const paths = SteadyClients.mixedRequestPaths.filter((_, at) => at % 4 === 0)

/** Starts a service that connects to the database through a proxy. Tests redirect the proxy to another server. */
const startService = Effect.gen(function* () {
  const server = yield* DedicatedPostgres
  const proxy = yield* startTcpProxy(server.port)
  const url = new URL(server.url)
  url.port = String(proxy.port)
  const through = yield* Layer.build(databaseClientLayer({ url: Redacted.make(url.href), applicationName: "failover" }))
  const port = yield* Effect.provide(startServiceInstance({ CACHE_MEGABYTES: "0" }), through)
  return { proxy, port }
})

interface Totals {
  readonly rows: number
  readonly ids: number
  readonly cost: number
  readonly summed: number
  readonly charged: number
}

/** Reads the totals of an account's usage and charges from one server, excluding responses with 503. */
const readTotals = (url: string, account_id: number) =>
  Effect.map(
    queryServer(
      url,
      `select count(*)::int as rows, count(distinct request_id)::int as ids,
        coalesce(sum(cost_microdollars), 0)::float8 as cost,
        (select coalesce(sum(cost_microdollars), 0)::float8 from usage_totals where account_id = ${account_id}) as summed,
        (select ${credit}::float8 - current_balance(accounts) from accounts where account_id = ${account_id}) as charged
      from usage_requests where account_id = ${account_id} and status_code <> 503`,
    ),
    ({ rows: [row] }): Totals => ({
      rows: Number(row?.["rows"]),
      ids: Number(row?.["ids"]),
      cost: Number(row?.["cost"]),
      summed: Number(row?.["summed"]),
      charged: Number(row?.["charged"]),
    }),
  )

const countResponses = (seen: SteadyClients.ClientSummary) =>
  Object.entries(seen.responses).filter(([name]) => !name.startsWith("503")).reduce(
    (sum, [, count]) => sum + count,
    0,
  ) +
  paths.length

/**
 * Waits until all usage is written, then asserts that each request is recorded and charged exactly once. Responses with
 * 503 do not count.
 */
const assertRecorded = Effect.fnUntraced(function* (url: string, account_id: number, rows: number, cost: number) {
  const found = yield* CustomerUsage.retryUntil(readTotals(url, account_id), (now) => now.rows >= rows)
  assert.deepStrictEqual(found, { rows, ids: rows, cost, summed: cost, charged: cost })
})

// Each test has its own servers, because a failed primary is not restarted.
const database = () =>
  Layer.fresh(
    Service.TestKeys.layer.pipe(Layer.provideMerge(sampleDedicatedLayer), Layer.provideMerge(NodeCrypto.layer)),
  )

layer(database(), { excludeTestServices: true, timeout: "180 seconds" })("With synchronous replication,", (it) => {
  it.effect("a failover under load records and charges each answered request once (D29, RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const server = yield* DedicatedPostgres
      const { account_id, key } = yield* CustomerUsage.createCustomer("failover", { tier: "ultimate", balance: credit })
      const standby = yield* SynchronousStandby.makeSynchronousStandby
      yield* standby.synchronous
      const { port, proxy } = yield* startService
      const { more, seen, stop } = yield* SteadyClients.startSteadyClients({ port, key, paths, pause: 30 })
      yield* more(100)
      yield* server.stop("SIGKILL")
      yield* holdFault("1 second")
      // The service now reaches a read-only server, as may happen behind a load balancer or after the primary was
      // demoted.
      yield* proxy.lead(standby.port)
      yield* holdFault("2 seconds")
      const { responses: before, requests } = seen()
      yield* Effect.repeat(Effect.sync(seen), {
        until: (now) => now.requests >= requests + 50,
        schedule: Schedule.spaced("20 millis"),
      })
      assert.strictEqual(seen().responses["200"], before["200"], "a standby's stale rows are never served")
      yield* standby.promote
      yield* more(100)
      const all = yield* stop
      assert.isAbove(all.responses["503 database_pool_timeout"] ?? 0, 0)
      yield* assertRecorded(standby.url, account_id, countResponses(all), all.cost)
      yield* recordFaultSummary("Primary killed under load, standby promoted later", all)
    }))
})

layer(database(), { excludeTestServices: true, timeout: "180 seconds" })("With asynchronous replication,", (it) => {
  it.effect("two simultaneous primaries never record the same usage (D29, RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const server = yield* DedicatedPostgres
      const { account_id, key } = yield* CustomerUsage.createCustomer("split", { tier: "ultimate", balance: credit })
      const standby = yield* SynchronousStandby.makeSynchronousStandby
      const cutOff = yield* startService
      const sendRequests = (port: number) =>
        Effect.gen(function* () {
          const { more, stop } = yield* SteadyClients.startSteadyClients({ port, key, paths, clients: 4 })
          yield* more(50)
          const seen = yield* stop
          return { rows: countResponses(seen), cost: seen.cost }
        })
      const together = (...parts: ReadonlyArray<{ readonly rows: number; readonly cost: number }>) =>
        [
          parts.reduce((sum, { rows }) => sum + rows, 0),
          parts.reduce((sum, { cost }) => sum + cost, 0),
        ] as const

      const before = yield* sendRequests(cutOff.port)
      yield* assertRecorded(standby.url, account_id, ...together(before))
      yield* standby.link.stall
      const discarded = yield* sendRequests(cutOff.port)
      yield* assertRecorded(server.url, account_id, ...together(before, discarded))
      yield* standby.promote
      const other = yield* startService
      yield* other.proxy.lead(standby.port)
      yield* other.proxy.cut
      const there = yield* sendRequests(other.port)
      yield* assertRecorded(standby.url, account_id, ...together(before, there))

      // With synchronous replication and no reachable standby, the old primary still serves reads but can no longer
      // record usage.
      yield* queryServer(
        server.url,
        `alter system set synchronous_standby_names = '${SynchronousStandby.standbyName}'`,
      )
      yield* queryServer(server.url, "select pg_reload_conf()")
      const waits = yield* sendRequests(cutOff.port)
      yield* assertRecorded(server.url, account_id, ...together(before, discarded))
      const ids = (url: string) =>
        Effect.map(
          queryServer(url, "select request_id from usage_requests order by 1"),
          ({ rows }) => new Set(rows.map((row) => String(row["request_id"]))),
        )
      const old = yield* ids(server.url)
      yield* server.stop("SIGKILL")
      yield* cutOff.proxy.lead(standby.port)
      yield* assertRecorded(standby.url, account_id, ...together(before, there, waits))
      const both = (yield* ids(standby.url)).intersection(old)
      assert.strictEqual(old.size - both.size, discarded.rows)
    }))
})

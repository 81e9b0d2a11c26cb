/** RELIABILITY.md: the primary dies under load and its standby takes its place, with real servers and one address. */
import { NodeCrypto } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { databaseClientLayer } from "../../src/db/Database.ts"
import { startInstance } from "../support/ServiceInstances.ts"
import * as Ledger from "../support/CustomerUsage.ts"
import { DedicatedPostgres, sampleDatabaseLayer } from "../support/DedicatedPostgres.ts"
import { startTcpProxy } from "../support/TcpProxy.ts"
import * as Service from "../support/Service.ts"
import * as Standby from "../support/SynchronousStandby.ts"
import * as Steady from "../support/SteadyClients.ts"
import { recordFaultSummary } from "../support/FaultSummaries.ts"

// @module-tag slow

/** Paid in advance, by a customer whom nothing of this empties. */
const credit = 9_000_000_000

/** A service at the end of an address that may lead elsewhere. */
const serving = Effect.gen(function* () {
  const server = yield* DedicatedPostgres
  const way = yield* startTcpProxy(server.port)
  const url = new URL(server.url)
  url.port = String(way.port)
  const through = yield* Layer.build(databaseClientLayer({ url: Redacted.make(url.href), applicationName: "failover" }))
  const port = yield* Effect.provide(startInstance({ CACHE_MEGABYTES: "0" }), through)
  return { way, port }
})

interface Sums {
  readonly rows: number
  readonly ids: number
  readonly cost: number
  readonly summed: number
  readonly charged: number
}

/** What a server has of the account; refusals aside, which its clients do not count either. */
const sums = (url: string, account_id: number) =>
  Effect.map(
    Standby.queryOnce(
      url,
      `select count(*)::int as rows, count(distinct usage_id)::int as ids,
        coalesce(sum(cost_microdollars), 0)::float8 as cost,
        (select coalesce(sum(cost_microdollars), 0)::float8 from usage_daily where account_id = ${account_id}) as summed,
        (select ${credit}::float8 - balance_microdollars from accounts where account_id = ${account_id}) as charged
      from usage where account_id = ${account_id} and status_code <> 503`,
    ),
    ({ rows: [row] }): Sums => ({
      rows: Number(row?.["rows"]),
      ids: Number(row?.["ids"]),
      cost: Number(row?.["cost"]),
      summed: Number(row?.["summed"]),
      charged: Number(row?.["charged"]),
    }),
  )

const answered = (seen: Steady.ClientSummary) =>
  Object.entries(seen.answers).filter(([name]) => !name.startsWith("503")).reduce((sum, [, count]) => sum + count, 0) +
  Steady.mixedPaths.length

/** Once all is written: each answered request is there once, and the balance went down by what they said they cost. */
const recorded = Effect.fnUntraced(function* (url: string, account_id: number, rows: number, cost: number) {
  const found = yield* Ledger.retryUntil(sums(url, account_id), (now) => now.rows >= rows)
  assert.deepStrictEqual(found, { rows, ids: rows, cost, summed: cost, charged: cost })
})

// A primary that died is not brought back: each test has servers of its own.
const database = () =>
  Layer.fresh(
    Service.TestKeys.layer.pipe(Layer.provideMerge(sampleDatabaseLayer), Layer.provideMerge(NodeCrypto.layer)),
  )

layer(database(), { excludeTestServices: true, timeout: "180 seconds" })("synchronous replication", (it) => {
  it.effect("RELIABILITY D29 the primary dies under load and the standby takes over: each answered request is recorded once, and charged once", () =>
    Effect.gen(function* () {
      const server = yield* DedicatedPostgres
      const { account_id, key } = yield* Ledger.createCustomer("failover", { tier: "ultimate", balance: credit })
      const standby = yield* Standby.makeSynchronousStandby
      yield* standby.synchronous
      const { port, way } = yield* serving
      const { more, stop } = yield* Steady.startSteadyClients({ port, key })
      yield* more(300)
      yield* server.stop("SIGKILL")
      yield* Effect.sleep("1 second")
      // As a balancer may have it for a moment, and a demoted primary for longer.
      yield* way.lead(standby.port)
      yield* Effect.sleep("2 seconds")
      const early = yield* Effect.flip(Effect.timeout(more(1), "1 second"))
      assert.strictEqual(early._tag, "TimeoutError", "a standby's old rows are nobody's answer")
      yield* standby.promote
      yield* more(300)
      const seen = yield* stop
      assert.isAbove(seen.answers["503 database_pool_timeout"] ?? 0, 0)
      yield* recorded(standby.url, account_id, answered(seen), seen.cost)
      yield* recordFaultSummary("Primary killed under load, standby promoted four seconds later", seen)
    }))
})

layer(database(), { excludeTestServices: true, timeout: "180 seconds" })("asynchronous replication", (it) => {
  it.effect("RELIABILITY D29 two primaries at once: what the new one was not sent is lost with the old one, and nothing is recorded on both", () =>
    Effect.gen(function* () {
      const server = yield* DedicatedPostgres
      const { account_id, key } = yield* Ledger.createCustomer("split", { tier: "ultimate", balance: credit })
      const standby = yield* Standby.makeSynchronousStandby
      const cutOff = yield* serving
      const asked = (port: number) =>
        Effect.gen(function* () {
          const { more, stop } = yield* Steady.startSteadyClients({ port, key, clients: 4 })
          yield* more(100)
          const seen = yield* stop
          return { rows: answered(seen), cost: seen.cost }
        })
      const together = (...parts: ReadonlyArray<{ readonly rows: number; readonly cost: number }>) =>
        [
          parts.reduce((sum, { rows }) => sum + rows, 0),
          parts.reduce((sum, { cost }) => sum + cost, 0),
        ] as const

      const before = yield* asked(cutOff.port)
      yield* recorded(standby.url, account_id, ...together(before))
      yield* standby.link.stall
      const lost = yield* asked(cutOff.port)
      yield* recorded(server.url, account_id, ...together(before, lost))
      yield* standby.promote
      const other = yield* serving
      yield* other.way.lead(standby.port)
      yield* other.way.cut
      const there = yield* asked(other.port)
      yield* recorded(standby.url, account_id, ...together(before, there))

      // With synchronous replication the old one answers reads, and can record nothing any more.
      yield* Standby.queryOnce(server.url, `alter system set synchronous_standby_names = '${Standby.standbyName}'`)
      yield* Standby.queryOnce(server.url, "select pg_reload_conf()")
      const waits = yield* asked(cutOff.port)
      yield* recorded(server.url, account_id, ...together(before, lost))
      const ids = (url: string) =>
        Effect.map(
          Standby.queryOnce(url, "select usage_id::text from usage order by 1"),
          ({ rows }) => new Set(rows.map((row) => String(row["usage_id"]))),
        )
      const old = yield* ids(server.url)
      yield* server.stop("SIGKILL")
      yield* cutOff.way.lead(standby.port)
      yield* recorded(standby.url, account_id, ...together(before, there, waits))
      const both = (yield* ids(standby.url)).intersection(old)
      assert.strictEqual(old.size - both.size, lost.rows)
    }))
})

/** Stalls and breaks the network between the service and PostgreSQL under continuous load (RELIABILITY.md). */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer, Redacted, Schedule } from "effect"
import { databaseClientLayer } from "../../src/postgres/pool/PooledClient.ts"
import { startServiceInstance } from "../support/ServiceInstances.ts"
import * as CustomerUsage from "../support/CustomerUsage.ts"
import { startTcpProxy } from "../support/TcpProxy.ts"
import * as Service from "../support/Service.ts"
import * as SteadyClients from "../support/SteadyClients.ts"
import { recordFaultSummary } from "../support/FaultSummaries.ts"
import { holdFault } from "../support/Pauses.ts"

// @module-tag slow

/** A TCP proxy in front of a database with the sample data. */
class DatabaseProxy extends Context.Service<
  DatabaseProxy,
  Effect.Success<ReturnType<typeof startTcpProxy>> & { readonly url: string; readonly target: number }
>()("test/faults/DatabaseProxy") {
  static readonly layer = Layer.effect(
    DatabaseProxy,
    Effect.gen(function* () {
      const url = new URL(Redacted.value(yield* Service.copySampleDatabase))
      const target = Number(url.port)
      const proxy = yield* startTcpProxy(target)
      url.port = String(proxy.port)
      return DatabaseProxy.of({ ...proxy, target, url: url.href })
    }),
  )
}

const database = Service.TestKeys.layer.pipe(
  Layer.provideMerge(
    Layer.unwrap(
      Effect.map(
        DatabaseProxy,
        ({ url }) => databaseClientLayer({ url: Redacted.make(url), applicationName: "tickerline-test" }),
      ),
    ),
  ),
  Layer.provideMerge(DatabaseProxy.layer),
  Layer.provideMerge(NodeCrypto.layer),
  Layer.provideMerge(NodeServices.layer),
)

const startClients = Effect.gen(function* () {
  const { key } = yield* CustomerUsage.createCustomer(`faults ${performance.now()}`, { tier: "ultimate" })
  const port = yield* startServiceInstance({ CACHE_MEGABYTES: "16" })
  return yield* SteadyClients.startSteadyClients({ port, key })
})

layer(database, { excludeTestServices: true, timeout: "120 seconds" })("The network", (it) => {
  it.effect("may stall for three seconds: requests wait, none is lost, and none is served from a stale cache (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const proxy = yield* DatabaseProxy
      const { more, seen, stop } = yield* startClients
      yield* more(100)
      yield* proxy.stall
      // Cached results are valid for less than a second. After that, every request must wait for the database.
      yield* holdFault("1500 millis")
      const waiting = seen().requests
      yield* holdFault("1500 millis")
      assert.isAtMost(seen().requests - waiting, 8)
      yield* proxy.resume
      yield* more(100)
      const all = yield* stop
      assert.isAbove(all.slowest, 1_500)
      yield* recordFaultSummary("Network to PostgreSQL stalled for 3 s", all)
    }))

  it.effect("may lose the database host silently: clients get 503, and data from the next server (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const proxy = yield* DatabaseProxy
      const { more, seen, stop } = yield* startClients
      yield* more(100)
      yield* proxy.stall
      yield* Effect.repeat(Effect.sync(() => seen().responses["503 database_pool_timeout"] ?? 0), {
        until: (refused) => refused > 20,
        schedule: Schedule.spaced("50 millis"),
      }).pipe(Effect.timeout("30 seconds"))
      // Only new connections reach the new server. Connections opened before the host disappeared remain silent.
      yield* proxy.lead(proxy.target)
      yield* more(100)
      const all = yield* stop
      yield* recordFaultSummary(
        "PostgreSQL's host vanishes, and its address then leads to another server",
        all,
      )
    }).pipe(Effect.ensuring(Effect.flatMap(DatabaseProxy, (proxy) => proxy.lead(proxy.target)))))

  it.effect("may reset every connection repeatedly: clients get no error except 503 (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const proxy = yield* DatabaseProxy
      const { more, stop } = yield* startClients
      for (let round = 0; round < 5; round++) {
        yield* more(50)
        yield* proxy.cut
      }
      yield* more(50)
      yield* recordFaultSummary("All connections to PostgreSQL reset, five times", yield* stop)
    }))
})

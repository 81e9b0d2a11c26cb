/** RELIABILITY.md: the network between the service and PostgreSQL stalls and breaks, while clients ask all the time. */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, FileSystem, Layer, Logger, Redacted, Schedule } from "effect"
import { databaseClientLayer } from "../../src/db/Database.ts"
import * as FirstStart from "../../src/cli/FirstStart.ts"
import { startInstance } from "../support/ServiceInstances.ts"
import * as Ledger from "../support/CustomerUsage.ts"
import { startTcpProxy } from "../support/TcpProxy.ts"
import * as Service from "../support/Service.ts"
import * as Steady from "../support/SteadyClients.ts"
import { recordFaultSummary } from "../support/FaultSummaries.ts"

// @module-tag slow

/** The way to a database that is filled. */
class Way extends Context.Service<
  Way,
  Effect.Success<ReturnType<typeof startTcpProxy>> & { readonly url: string; readonly target: number }
>()("test/faults/Way") {
  static readonly layer = Layer.effect(
    Way,
    Effect.gen(function* () {
      const url = new URL(Redacted.value(yield* Service.copyMigratedDatabase))
      const target = Number(url.port)
      const way = yield* startTcpProxy(target)
      url.port = String(way.port)
      return Way.of({ ...way, target, url: url.href })
    }),
  )
}

const samples = Effect.flatMap(
  FileSystem.FileSystem,
  (fs) => Effect.flatMap(fs.makeTempDirectoryScoped({ prefix: "tickerline-samples-" }), FirstStart.loadSampleMarket),
)

const database = Layer.effectDiscard(samples).pipe(
  Layer.provide(Logger.layer([])),
  Layer.provideMerge(Service.TestKeys.layer),
  Layer.provideMerge(
    Layer.unwrap(
      Effect.map(
        Way,
        ({ url }) => databaseClientLayer({ url: Redacted.make(url), applicationName: "tickerline-test" }),
      ),
    ),
  ),
  Layer.provideMerge(Way.layer),
  Layer.provideMerge(NodeCrypto.layer),
  Layer.provideMerge(NodeServices.layer),
)

const atWork = Effect.gen(function* () {
  const { key } = yield* Ledger.createCustomer(`faults ${performance.now()}`, { tier: "ultimate" })
  const port = yield* startInstance({ CACHE_MEGABYTES: "16" })
  return yield* Steady.startSteadyClients({ port, key })
})

layer(database, { excludeTestServices: true, timeout: "120 seconds" })("The network", (it) => {
  it.effect("RELIABILITY stalled for three seconds: requests wait, none is lost, none is answered from old memory", () =>
    Effect.gen(function* () {
      const way = yield* Way
      const { more, seen, stop } = yield* atWork
      yield* more(100)
      yield* way.stall
      // What is kept is believed for less than a second; then all wait.
      yield* Effect.sleep("1500 millis")
      const waiting = seen().requests
      yield* Effect.sleep("1500 millis")
      assert.isAtMost(seen().requests - waiting, 8)
      yield* way.resume
      yield* more(100)
      const all = yield* stop
      assert.isAbove(all.slowest, 1_500)
      yield* recordFaultSummary("Network to PostgreSQL stalled for 3 s", all)
    }))

  it.effect("RELIABILITY the database vanishes without a word: 503s within seconds, and answers as soon as its address leads to one", () =>
    Effect.gen(function* () {
      const way = yield* Way
      const { more, seen, stop } = yield* atWork
      yield* more(100)
      yield* way.stall
      yield* Effect.repeat(Effect.sync(() => seen().answers["503 database_pool_timeout"] ?? 0), {
        until: (refused) => refused > 20,
        schedule: Schedule.spaced("50 millis"),
      }).pipe(Effect.timeout("30 seconds"))
      // Those that were open lead nowhere for good.
      yield* way.lead(way.target)
      const back = performance.now()
      yield* more(100)
      assert.isBelow(performance.now() - back, 5_000)
      const all = yield* stop
      assert.isBelow(all.slowest, 12_000)
      yield* recordFaultSummary(
        "PostgreSQL's host vanishes without a word, its address leads to another one after that",
        all,
      )
    }).pipe(Effect.ensuring(Effect.flatMap(Way, (way) => way.lead(way.target)))))

  it.effect("RELIABILITY every connection reset at once, again and again: clients notice by 503s at most", () =>
    Effect.gen(function* () {
      const way = yield* Way
      const { more, stop } = yield* atWork
      for (let round = 0; round < 5; round++) {
        yield* more(50)
        yield* way.cut
      }
      yield* more(50)
      yield* recordFaultSummary("All connections to PostgreSQL reset, five times", yield* stop)
    }))
})

/** Reads from replicas: D17 holds over them, and nobody notices where one is behind, away, or somebody else's. */
import { NodeCrypto } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Layer, Logger, Metric, Random, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { Elsewhere } from "../../src/db/Database.ts"
import { Database } from "../../src/db/Database.ts"
import { endpoints, url as urlOf } from "../support/Contract.ts"
import * as Instances from "../support/Instances.ts"
import { filled, OwnServer } from "../support/OwnServer.ts"
import { freePort } from "../support/Processes.ts"
import * as Service from "../support/Service.ts"
import { Standbys } from "../support/Standbys.ts"
import * as Steady from "../support/Steady.ts"

const { wire } = Instances

const database = Standbys.layer.pipe(
  Layer.provideMerge(Service.TestKeys.layer),
  Layer.provideMerge(filled),
  Layer.provideMerge(NodeCrypto.layer),
)

/** An instance that reads from both standbys, and what it measures. */
const reading = Effect.fnUntraced(function* (values: Readonly<Record<string, string>> = {}) {
  const { urls } = yield* Standbys
  const metrics = yield* freePort
  const port = yield* Instances.instance({ DATABASE_READ_URLS: urls, METRICS_PORT: String(metrics), ...values }).pipe(
    Effect.provideService(Metric.MetricRegistry, new Map()),
  )
  const scrape = Effect.map(
    wire(metrics, "/metrics", ""),
    ({ text }) =>
      new Map(
        text.split("\n").filter((line) => line !== "" && !line.startsWith("#")).map((line) => {
          const at = line.lastIndexOf(" ")
          return [line.slice(0, at), Number(line.slice(at + 1))]
        }),
      ),
  )
  const value = (name: string) => Effect.map(scrape, (found) => found.get(name) ?? 0)
  const of = (name: string) => ({ name: replica }: { readonly name: string }) =>
    value(`tickerline_replica_${name}{replica="${replica}"}`)
  return { port, value, reads: of("reads_total"), used: of("used"), lag: of("lag_seconds") }
})

const until = <A, E, R>(look: Effect.Effect<A, E, R>, holds: (found: A) => boolean) =>
  Effect.repeat(look, { until: holds, schedule: Schedule.spaced("20 millis") }).pipe(Effect.timeout("30 seconds"))

layer(database, { excludeTestServices: true, timeout: "120 seconds" })("Replicas", (it) => {
  it.effect("README, Replicas: what all accounts share is read from replicas, in turn; what is an account's own never", () =>
    Effect.gen(function* () {
      const { first, second } = yield* Standbys
      const { ultimate } = yield* Service.TestKeys
      const { port, reads, used } = yield* reading({ CACHE_MEGABYTES: "0" })
      yield* until(Effect.all([used(first), used(second)]), ([one, other]) => one === 1 && other === 1)
      console.log(yield* reads(first), yield* reads(second), port, ultimate, endpoints.length, urlOf)
    }))
})

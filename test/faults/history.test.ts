/**
 * Tests that responses about the past do not change while servers are killed, and that the change feed stays complete
 * and in order (decisions 0113 to 0115). `HISTORY_SEED` seeds the random choices. `test/soak/history.test.ts` is the
 * longer version of this test.
 */
import { NodeCrypto } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import { migratedDedicatedLayer } from "../support/DedicatedPostgres.ts"
import { recordFaultSummary } from "../support/FaultSummaries.ts"
import { runHistoryWorkload } from "../support/HistoryWorkload.ts"

// @module-tag slow

const database = Layer.provideMerge(migratedDedicatedLayer, NodeCrypto.layer)

layer(database, { excludeTestServices: true, timeout: "180 seconds" })("The history", (it) => {
  it.effect("stays the same for readers and complete for consumers while servers are killed (decision 0113, decision 0114, decision 0115)", () =>
    Effect.gen(function* () {
      const summary = yield* runHistoryWorkload({
        seed: Number(process.env["HISTORY_SEED"] ?? 113),
        services: 1,
        writers: 4,
        readers: 2,
        duration: Duration.zero,
        transactionsPerFault: 15,
        maxLoadedRows: 40,
        pause: 150,
        loadPause: 6_000,
      })
      assert.containsAllKeys(summary.faults, ["load killed", "service killed", "PostgreSQL killed", "failover"])
      assert.isAbove(summary.changes, summary.committed)
      assert.isAbove(summary.pastRequests, 2 * summary.pastResponses)
      yield* recordFaultSummary("History: load, service and PostgreSQL killed, and a failover", summary)
    }))
})

/**
 * Runs the workload of `test/faults/history.test.ts` for half an hour, with two service processes and repeated
 * failovers (RELIABILITY.md). `SOAK_MINUTES` sets a different duration, and `HISTORY_SEED` sets the seed of the random
 * choices.
 */
import { NodeCrypto } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import { migratedDedicatedLayer } from "../support/DedicatedPostgres.ts"
import { recordFaultSummary } from "../support/FaultSummaries.ts"
import { runHistoryWorkload } from "../support/HistoryWorkload.ts"

const duration = Duration.minutes(Number(process.env["SOAK_MINUTES"] ?? "30"))

/** Leaves time for the last round of faults, and for repeating all `as_of` requests after it. */
const timeout = Duration.toMillis(duration) * 2 + 600_000

const database = Layer.provideMerge(migratedDedicatedLayer, NodeCrypto.layer)

layer(database, { excludeTestServices: true, timeout: "10 minutes" })("The history", (it) => {
  it.effect(
    "stays the same for readers and complete for consumers during many faults (RELIABILITY.md, decision 0113, decision 0114, decision 0115)",
    () =>
      Effect.gen(function* () {
        const summary = yield* runHistoryWorkload({
          seed: Number(process.env["HISTORY_SEED"] ?? Date.now() % 1_000_000_000),
          services: 2,
          writers: 6,
          readers: 3,
          duration,
          transactionsPerFault: 100,
          maxLoadedRows: 60,
          pause: 150,
          loadPause: 6_000,
        })
        assert.containsAllKeys(summary.faults, ["load killed", "service killed", "PostgreSQL killed", "failover"])
        assert.isAbove(summary.changes, summary.committed)
        yield* recordFaultSummary(`History for ${Duration.toMinutes(duration)} minutes`, summary)
      }),
    timeout,
  )
})

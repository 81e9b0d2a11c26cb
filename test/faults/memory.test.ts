/**
 * Measures the memory of a separate process with a small heap that receives many long queries, all of them different.
 */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Redacted, Schedule, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import { maxRequestHeadBytes } from "../../src/api/ProtocolErrors.ts"
import { buildUrl, documentedEndpoints } from "../support/DocumentedEndpoints.ts"
import { printOnSignal, takeHeapSample } from "../support/HeapSamples.ts"
import { makePoolableClientLayer } from "../support/PoolerMode.ts"
import { commandFile, type RunningProcess, startProgram, waitForOutput } from "../support/Processes.ts"
import * as Service from "../support/Service.ts"
import { requestOverWire } from "../support/ServiceInstances.ts"

// @module-tag slow

const requests = 600
const queryBytes = 14_500
const mebibyte = 1_048_576

const printLiveMemory = printOnSignal("(gc(), gc(), process.memoryUsage())")

/** Returns the size of all live objects in the process, in bytes. */
const measureMemory = (running: RunningProcess) =>
  takeHeapSample(running).pipe(
    Effect.flatMap(Schema.decodeUnknownEffect(Schema.Struct({ external: Schema.Finite, heapUsed: Schema.Finite }))),
    Effect.map(({ external, heapUsed }) => external + heapUsed),
  )

const screener = documentedEndpoints.find(({ path }) => path === "/v1/screener")

/** Returns a query of about 15 KB: 100 symbols, and as many filters as fit. Most filters have the maximum length. */
const makeLongQuery = (number: number) => {
  const query: Array<readonly [string, string]> = [
    ["ticker", Array.from({ length: 100 }, (_, at) => `T${String(number * 100 + at).padStart(15, "0")}`).join(",")],
  ]
  for (const { kind, name } of screener?.parameters ?? []) {
    if (kind === "number") query.push([name, `1.${String(number).padStart(62, "0")}`])
    if (kind === "text" && name !== "cik") {
      // In a URL, a non-ASCII character takes six bytes.
      const filler = name === "sector" ? "é" : "x"
      query.push([name, Array.from({ length: 4 }, (_, at) => `${at}${number}`.padStart(200, filler)).join(",")])
    }
  }
  return buildUrl("/v1/screener", query)
}

layer(Layer.merge(NodeServices.layer, NodeCrypto.layer), { excludeTestServices: true })("A small heap", (it) => {
  it.effect("is enough for any number of long queries that all differ (SECURITY.md)", () =>
    Effect.gen(function* () {
      const url = yield* Service.copyMigratedDatabase
      const context = yield* Layer.build(makePoolableClientLayer({ url, applicationName: "tickerline-test" }))
      const key = yield* Effect.provide(Service.ensureAccountWithKey("memory", "ultimate"), context)
      const sql = yield* Effect.provide(SqlClient.SqlClient, context)
      const port = yield* chooseFreePort
      const running = yield* startProgram(
        process.execPath,
        ["--expose-gc", "--max-old-space-size=128", "--import", printLiveMemory, commandFile, "serve"],
        { DATABASE_URL: Redacted.value(url), PORT: String(port), RATE_LIMIT_ULTIMATE: "1000000" },
      )
      yield* waitForOutput(running, /keys create/)

      const sendMany = (from: number) =>
        Effect.forEach(
          Array.from({ length: requests }, (_, index) => makeLongQuery(from + index)),
          (query) =>
            Effect.map(requestOverWire(port, query, key), ({ status, text }) => assert.strictEqual(status, 200, text)),
          { concurrency: 8, discard: true },
        )
      /** Waits until the process has written the usage of all requests. Until then, it keeps the usage in memory. */
      const waitForUsage = (count: number) =>
        Effect.repeat(sql<{ readonly count: number }>`select count(*)::int as count from usage_requests`, {
          until: ([row]) => row?.count === count,
          schedule: Schedule.spaced("100 millis"),
        })

      assert.isAbove(makeLongQuery(1).length, queryBytes)
      assert.isBelow(makeLongQuery(1).length, maxRequestHeadBytes - 256)
      yield* sendMany(0)
      yield* waitForUsage(requests)
      const first = yield* measureMemory(running)
      yield* sendMany(requests)
      yield* waitForUsage(2 * requests)
      const second = yield* measureMemory(running)
      // Retaining the query texts would take more than 8 MB.
      assert.isBelow(second - first, 5 * mebibyte)
    }))
})

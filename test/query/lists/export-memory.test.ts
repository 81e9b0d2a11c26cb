/** Measures the memory that a separate service process uses while it sends a large export. */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { readFileSync } from "node:fs"
import { chooseFreePort } from "../../../src/postgres/embedded/EmbeddedCluster.ts"
import * as ListDownloads from "../../support/ListDownloads.ts"
import { readGroupSizes } from "../../support/ParquetFiles.ts"
import { commandFile, startProgram, waitForOutput } from "../../support/Processes.ts"
import * as Service from "../../support/Service.ts"
import { makePoolableClientLayer } from "../../support/PoolerMode.ts"

// @module-tag slow

const rows = 1_500
/** The number of characters in each row's text, which makes the export 150 MB in size. */
const textLength = 100_000
/** A row group is about eight megabytes, so the export has about eighteen row groups. */
const leastRowGroups = 15
/** Much less than the size of the export, but enough for its buffers. */
const mostAddedMemory = 120 * 1_048_576

/** Returns the peak resident memory of a process, in bytes. */
const readPeakMemory = (pid: number | undefined) =>
  Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) * 1024

/** Returns whether the service has paused fetching rows because the client is not reading. */
const isWaiting = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.map(
    sql`
      select 1 from pg_stat_activity
      where datname = current_database() and query like 'fetch forward % from export' and state = 'idle'
        and state_change < now() - interval '500 milliseconds'
    `,
    (found) => found.length === 1,
  ))

layer(Layer.merge(NodeServices.layer, NodeCrypto.layer), { excludeTestServices: true })("An export", (it) => {
  it.effect("of 150 MB keeps only one chunk or row group in memory, even if the client pauses (RELIABILITY.md)", () =>
    Effect.gen(function* () {
      const url = yield* Service.copyMigratedDatabase
      const context = yield* Layer.build(makePoolableClientLayer({ url, applicationName: "tickerline-test" }))
      const key = yield* Effect.provide(Service.ensureAccountWithKey("memory", "basic"), context)
      const waiting = Effect.provide(isWaiting, context)
      const sql = yield* Effect.provide(SqlClient.SqlClient, context)
      yield* sql`
        insert into news (id, ticker, form_type, title, body, filed_at, created_at, last_updated)
        select 'long ' || g, 'LONG', 'news', 'Long', g || repeat('x', ${textLength}::int), '2026-01-02', '2026-01-02', '2026-01-02'
        from generate_series(1, ${rows}::int) as g
      `
      const port = yield* chooseFreePort
      const running = yield* startProgram(
        process.execPath,
        ["--max-semi-space-size=16", "--max-old-space-size=128", commandFile, "serve"],
        { DATABASE_URL: Redacted.value(url), PORT: String(port) },
      )
      yield* waitForOutput(running, /keys create/)
      const before = readPeakMemory(running.child.pid)
      const response = yield* ListDownloads.startPausedDownload(port, "/v1/news?format=ndjson&limit=all", key)
      assert.strictEqual(response.headers["x-row-count"], String(rows))
      yield* Effect.repeat(waiting, { until: (is) => is, schedule: Schedule.spaced("50 millis") }).pipe(
        Effect.timeout("30 seconds"),
      )
      let received = 0
      response.on("data", (chunk: Buffer) => received += chunk.length)
      assert.isTrue(yield* ListDownloads.finishDownload(response))
      assert.isAbove(received, rows * textLength)
      const parquet = yield* ListDownloads.download(port, "/v1/news?format=parquet&limit=all", key)
      assert.isTrue(parquet.isComplete)
      assert.isAbove(readGroupSizes(parquet.bytes).length, leastRowGroups)
      assert.isBelow(readPeakMemory(running.child.pid) - before, mostAddedMemory)
    }))
})

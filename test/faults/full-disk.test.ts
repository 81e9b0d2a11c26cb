/**
 * Tests what happens when the disk that holds PostgreSQL's tables is full (RELIABILITY.md). The test mounts a small
 * disk, which requires root.
 */
import { NodeCrypto } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Layer, Logger, Option, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { requestOverWire, startServiceInstance } from "../support/ServiceInstances.ts"
import * as CustomerUsage from "../support/CustomerUsage.ts"
import { DedicatedPostgres, sampleDedicatedLayer } from "../support/DedicatedPostgres.ts"
import * as Service from "../support/Service.ts"
import { mayMount, mountSmallDisk, smallDiskSize, unmountSmallDisk } from "../support/SmallDisks.ts"

// @module-tag slow

const database = Service.TestKeys.layer.pipe(
  Layer.provideMerge(sampleDedicatedLayer),
  Layer.provideMerge(NodeCrypto.layer),
)

layer(database, { excludeTestServices: true, timeout: "120 seconds" })("A full disk", (it) => {
  it.effect.skipIf(!mayMount)(
    "does not stop reads; usage is buffered, which log and health check explain, and recorded when there is space again (D29, RELIABILITY.md)",
    () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const sql = yield* SqlClient.SqlClient
        const { account_id, key } = yield* CustomerUsage.createCustomer("disk", { tier: "ultimate" })
        const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-disk-" })
        yield* fs.chmod(folder, 0o755)
        const disk = `${folder}/disk`
        yield* fs.makeDirectory(disk)
        const { pid } = yield* DedicatedPostgres
        const uid = Option.getOrElse((yield* fs.stat(`/proc/${yield* pid}`)).uid, () => 0)
        yield* Effect.acquireRelease(
          Effect.sync(() => assert.isTrue(mountSmallDisk(disk, uid))),
          () =>
            moveTo("pg_default")("usage_batches").pipe(
              Effect.andThen(sql.unsafe("drop tablespace small")),
              Effect.orDie,
              Effect.ensuring(Effect.sync(() => unmountSmallDisk(disk))),
            ),
        )
        yield* sql.unsafe(`create tablespace small location '${disk}'`)

        const log: Array<string> = []
        const watched = Logger.layer([Logger.make(({ message }) => log.push(String(message)))])
        const port = yield* startServiceInstance({ CACHE_MEGABYTES: "0" }, undefined, { watched })
        assert.strictEqual((yield* requestOverWire(port, "/v1/news?limit=1", key)).status, 200)
        yield* CustomerUsage.waitForRecordedRequests(account_id, 1)
        yield* moveTo("small")("usage_batches")
        yield* Effect.ignore(fs.writeFile(`${disk}/filler`, new Uint8Array(smallDiskSize)))
        // The usage of these requests needs a new table page, for which the full disk has no space.
        const requestCount = 500
        const longId = "x".repeat(128)
        const limits = Array.from({ length: requestCount }, (_, at) => (at % 100) + 1)
        const responses = yield* Effect.forEach(
          limits,
          (limit) => requestOverWire(port, `/v1/news?limit=${limit}`, key, { headers: { "X-Request-Id": longId } }),
          {
            concurrency: 8,
          },
        )
        assert.deepStrictEqual(new Set(responses.map(({ status }) => status)), new Set([200]))
        const ready = yield* Effect.repeat(requestOverWire(port, "/health/ready", ""), {
          until: ({ text }) => text.includes(`"usage":"late"`),
          schedule: Schedule.spaced("100 millis"),
          times: 600,
        })
        assert.strictEqual(ready.status, 200)
        assert.include(ready.text, `"usage":"late"`)
        assert.isBelow(
          yield* CustomerUsage.countRecordedRequests(account_id),
          requestCount + 1,
          "the disk was not full",
        )
        const failures = log.filter((line) => line.startsWith("Usage was not recorded"))
        assert.isNotEmpty(failures)
        for (const line of failures) assert.match(line, /could not extend file .*: No space left on device$/)
        yield* fs.remove(`${disk}/filler`)
        yield* CustomerUsage.waitForRecordedRequests(account_id, requestCount + 1)
        assert.strictEqual(yield* CustomerUsage.countRecordedRequests(account_id), requestCount + 1)
      }),
  )
})

/** Returns a function that moves a table's partitions to the tablespace. */
const moveTo = (tablespace: string) => (table: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const partitions = yield* sql<{ readonly name: string }>`
      select inhrelid::regclass::text as name from pg_inherits where inhparent = ${table}::text::regclass
    `
    for (const { name } of partitions) yield* sql.unsafe(`alter table ${name} set tablespace ${tablespace}`)
  })

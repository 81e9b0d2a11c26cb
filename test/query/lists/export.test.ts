/** Tests exports (`limit=all`): their cost, limits and failures. */
import { assert, it, layer } from "@effect/vitest"
import { Context, Deferred, Duration, Effect, Fiber, Layer, Predicate, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { globSync, readFileSync } from "node:fs"
import { connect } from "node:net"
import { join } from "node:path"
import { valueAt } from "../../support/DocumentedEndpoints.ts"
import { ExportReadTimeout } from "../../../src/query/lists/ExportCursors.ts"
import { chooseFreePort } from "../../../src/postgres/embedded/EmbeddedCluster.ts"
import { MaxExportPause } from "../../../src/query/lists/ExportSlots.ts"
import { makeDataRefreshingError } from "../../../src/contract/rules/ApiErrors.ts"
import { openEventStream, waitForCondition } from "../../support/EventStreams.ts"
import { projectRoot } from "../../support/Processes.ts"
import * as ListDownloads from "../../support/ListDownloads.ts"
import * as ServiceInstances from "../../support/ServiceInstances.ts"
import * as CustomerUsage from "../../support/CustomerUsage.ts"
import * as Service from "../../support/Service.ts"

// @module-tag slow

const { startServiceInstance, requestOverWire } = ServiceInstances

const rows = 1_000

/** Inserts a thousand news items with texts of `length` characters. `length` must be divisible by five. */
const insertNews = (length: number) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql`
    insert into news (id, ticker, form_type, title, body, filed_at, created_at, last_updated)
    select 'long ' || g, 'LONG', 'news', 'Long', repeat('long ', ${length / 5}::int), '2026-01-02', '2026-01-02',
      '2026-01-02'
    from generate_series(1, ${rows}::int) as g
  `)

/** Provides the port of the instance that a layer's tests share. */
class SharedPort extends Context.Service<SharedPort, number>()("test/query/lists/SharedPort") {}

const filled = (length: number) =>
  Layer.effect(SharedPort, startServiceInstance()).pipe(
    Layer.provideMerge(Layer.effectDiscard(insertNews(length))),
    Layer.provideMerge(ServiceInstances.databaseWithKeysLayer),
  )

const path = "/v1/news?limit=all&format=csv"

/** Repeats `read` until its result meets the condition. Returns that result. */
const until = <A, E, R>(read: Effect.Effect<A, E, R>, condition: (found: A) => boolean) =>
  Effect.repeat(read, { until: condition, schedule: Schedule.spaced("20 millis") }).pipe(Effect.timeout("30 seconds"))

/** Counts the database sessions that exports occupy. A session that last ran this very query is not counted. */
const countExportSessions = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.map(
    sql<{ readonly pid: number }>`
      select pid from pg_stat_activity
      where datname = current_database() and query ~ 'export' and query !~ 'pg_stat_activity'
    `,
    (found) => found.length,
  ))

/** Reads the key's recorded requests to `/v1/news`, newest first. */
const readUsage = Effect.fnUntraced(function* (port: number, key: string) {
  const { text } = yield* requestOverWire(port, "/v1/usage?endpoint=/v1/news", key)
  const found = valueAt(JSON.parse(text), "results")
  return Array.isArray(found) ? found.filter(Predicate.isObject) : []
})

/** Waits until at least `count` requests to `/v1/news` are recorded. Returns them, newest first. */
const waitForUsage = Effect.fnUntraced(function* (port: number, key: string, count: number) {
  return yield* until(readUsage(port, key), (found) => found.length >= count)
})

/** The cost of a news response in microdollars: one per hundred bytes, rounded up (D27). */
const costOf = (bytes: number) => Math.ceil(bytes / 100)

// The export is 2 MB in size, so it is sent in several chunks.
layer(filled(2_000), { excludeTestServices: true, timeout: "120 seconds" })("An export", (it) => {
  it.effect("costs as much as its uncompressed bytes, and is recorded once (D27, D29)", () =>
    Effect.gen(function* () {
      const { key } = yield* CustomerUsage.createCustomer("whole")
      const port = yield* SharedPort
      const plain = yield* ListDownloads.download(port, path, key)
      assert.isTrue(plain.isComplete)
      assert.strictEqual((yield* ListDownloads.parseCsv(plain.text)).records.length, rows)
      const cost = String(costOf(plain.bytes.length))
      assert.strictEqual(plain.trailers["x-cost-microdollars"], cost)
      assert.isUndefined(plain.headers["x-cost-microdollars"])
      for (const encoding of ["gzip", "br", "zstd"]) {
        const packed = yield* ListDownloads.download(port, path, key, { "Accept-Encoding": encoding })
        assert.strictEqual(packed.headers["content-encoding"], encoding)
        assert.isTrue(packed.bytes.equals(plain.bytes))
        assert.deepStrictEqual(packed.trailers, plain.trailers)
      }
      const exports = ["identity", "gzip", "br", "zstd"].length
      const usage = yield* waitForUsage(port, key, exports)
      assert.strictEqual(usage.length, exports)
      for (const row of usage) {
        assert.strictEqual(valueAt(row, "status_code"), 200)
        assert.strictEqual(valueAt(row, "records_returned"), rows)
        assert.strictEqual(valueAt(row, "bytes"), plain.bytes.length)
        assert.strictEqual(String(valueAt(row, "cost_microdollars")), cost)
      }
    }).pipe(Effect.scoped))

  it.effect("fails with 503 and ends its query if the database takes too long to read the rows (§8)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { key } = yield* CustomerUsage.createCustomer("long")
      const port = yield* Effect.provideService(startServiceInstance(), ExportReadTimeout, Duration.millis(500))
      // Replaces the table with a view that takes a minute to return its first row.
      yield* sql`alter table news rename to stored_news`
      yield* sql`create view news as select stored_news.* from pg_sleep(60) as slept, stored_news`
      yield* Effect.addFinalizer(() =>
        Effect.orDie(
          Effect.andThen(sql`drop view news`, sql`alter table stored_news rename to news`),
        )
      )
      const { status, text } = yield* requestOverWire(port, path, key)
      assert.strictEqual(status, 503)
      assert.strictEqual(valueAt(JSON.parse(text), "error", "code"), "data_refreshing")
      assert.strictEqual(valueAt(JSON.parse(text), "error", "message"), makeDataRefreshingError().error.message)
      yield* until(countExportSessions, (count) => count === 0)
    }).pipe(Effect.scoped))

  it.effect("costs exactly as much as estimated, and the estimate is free (D28)", () =>
    Effect.gen(function* () {
      const { key } = yield* CustomerUsage.createCustomer("estimated")
      const port = yield* SharedPort
      const exportFormats = ["csv", "ndjson", "parquet"]
      for (const format of exportFormats) {
        const query = `limit=all&format=${format}`
        const estimate = yield* requestOverWire(port, `/estimate?endpoint=/v1/news&${query}`, key)
        const download = yield* ListDownloads.download(port, `/v1/news?${query}`, key)
        const estimated = valueAt(JSON.parse(estimate.text), "results", 0)
        assert.strictEqual(valueAt(estimated, "estimated_bytes"), download.bytes.length)
        assert.strictEqual(valueAt(estimated, "records_returned"), rows)
        assert.strictEqual(valueAt(estimated, "records_total"), rows)
        assert.strictEqual(
          String(valueAt(estimated, "estimated_cost_microdollars")),
          download.trailers["x-cost-microdollars"],
        )
      }
      assert.strictEqual((yield* waitForUsage(port, key, exportFormats.length)).length, exportFormats.length)
    }).pipe(Effect.scoped))

  it.effect("fails with 402 before the first byte if the balance is too low (D13, D27)", () =>
    Effect.gen(function* () {
      const { key } = yield* CustomerUsage.createCustomer("poor", { balance: 1_000 })
      const port = yield* SharedPort
      const { headers, status, text } = yield* ListDownloads.download(port, path, key)
      assert.strictEqual(status, 402)
      assert.strictEqual(headers["content-type"], "application/json")
      const [, price] = /export costs (\d+) microdollars.*reduce the export/.exec(
        String(valueAt(JSON.parse(text), "error", "message")),
      ) ?? []
      assert.isDefined(price, text)
      yield* until(countExportSessions, (count) => count === 0)
      const [usage] = yield* waitForUsage(port, key, 1)
      assert.strictEqual(valueAt(usage, "status_code"), 402)
      assert.strictEqual(valueAt(usage, "cost_microdollars"), 0)
    }).pipe(Effect.scoped))

  it.effect.each(["csv", "ndjson", "parquet"])(
    "has the same cost in the 402, in the estimate and in its trailer: %s (D27, D28)",
    (format) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        // The export starts with rows that are shorter or longer than average, so an estimate based on its first chunk
        // is wrong.
        for (const [name, length, day] of [["short", 1_500, "2026-03-03"], ["long", 9_000, "2026-04-04"]] as const) {
          yield* sql`
          insert into news (id, ticker, form_type, title, body, filed_at, created_at, last_updated)
          select ${name}::text || g, 'EXACT', 'news', 'Exact', repeat('x', ${length}::int), ${day}::text::date,
            ${day}::text::timestamp, '2026-01-02'
          from generate_series(1, 30) as g
        `
          const query = `limit=all&format=${format}`
          const { key } = yield* CustomerUsage.createCustomer(`exact ${name} ${format}`)
          const port = yield* SharedPort
          const download = yield* ListDownloads.download(port, `/v1/news?${query}`, key)
          const cost = Number(download.trailers["x-cost-microdollars"])
          const lowBalance = yield* CustomerUsage.createCustomer(`poor ${name} ${format}`, { balance: cost - 1 })
          const exactBalance = yield* CustomerUsage.createCustomer(`exactly ${name} ${format}`, { balance: cost })
          const estimate = yield* requestOverWire(port, `/estimate?endpoint=/v1/news&${query}`, lowBalance.key)
          assert.strictEqual(valueAt(JSON.parse(estimate.text), "results", 0, "estimated_cost_microdollars"), cost)
          const refused = yield* ListDownloads.download(port, `/v1/news?${query}`, lowBalance.key)
          if (name === "long") {
            assert.strictEqual(refused.status, 402)
            assert.include(refused.text, `The export costs ${cost} microdollars`)
          }
          // An export that costs exactly the remaining balance is sent, even if its first chunk suggests a higher cost.
          assert.isTrue((yield* ListDownloads.download(port, `/v1/news?${query}`, exactBalance.key)).isComplete)
        }
        yield* sql`delete from news where ticker = 'EXACT'`
      }).pipe(Effect.scoped),
  )

  it.effect("waits while the table is locked, and then fails with 503 data_refreshing (§7.2)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { ultimate } = yield* Service.TestKeys
      const port = yield* SharedPort
      const locking = yield* Effect.forkScoped(sql.withTransaction(Effect.gen(function* () {
        yield* sql`lock table news in access exclusive mode`
        return yield* Effect.never
      })))
      yield* until(
        Effect.map(
          sql`select from pg_locks where relation = 'news'::regclass and mode = 'AccessExclusiveLock' and granted`,
          ({ length }) => length,
        ),
        (count) => count > 0,
      )
      const { status, text } = yield* ListDownloads.download(port, path, ultimate)
      assert.strictEqual(status, 503)
      assert.strictEqual(valueAt(JSON.parse(text), "error", "code"), "data_refreshing")
      yield* Fiber.interrupt(locking)
      assert.isTrue((yield* ListDownloads.download(port, path, ultimate)).isComplete)
    }).pipe(Effect.scoped))

  it.effect("is sent without trailers to a client of HTTP/1.0 (RFC 9110)", () =>
    Effect.gen(function* () {
      const { ultimate } = yield* Service.TestKeys
      const port = yield* SharedPort
      const reply = yield* Effect.callback<string>((resume) => {
        const chunks: Array<Buffer> = []
        const socket = connect({ port, host: "127.0.0.1" })
        socket.on("data", (chunk) => chunks.push(chunk))
        socket.on("close", () => resume(Effect.succeed(Buffer.concat(chunks).toString("utf8"))))
        socket.write(`GET ${path} HTTP/1.0\r\nX-API-Key: ${ultimate}\r\n\r\n`)
      })
      const [head = "", ...body] = reply.split("\r\n\r\n")
      assert.match(head, /x-row-count: 1000/i)
      assert.notMatch(head, /^trailer|^transfer-encoding/im)
      assert.strictEqual((yield* ListDownloads.parseCsv(body.join("\r\n\r\n"))).records.length, rows)
    }).pipe(Effect.scoped))
})

/**
 * The number of characters per text. It makes an export 20 MB in size, which exceeds the buffers between the service
 * and a client.
 */
const largeText = 20_000

layer(filled(largeText), { excludeTestServices: true, timeout: "120 seconds" })(
  "An export that exceeds all buffers",
  (it) => {
    it.effect("is aborted when the balance is used up, if it is longer than expected (D13, D27)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`
        insert into news (id, ticker, form_type, title, filed_at, created_at, last_updated)
        select 'short ' || g, 'SHRT', 'news', 'Short', '2026-02-02', '2026-02-02', '2026-02-02'
        from generate_series(1, 100) as g
      `
        const balance = 150_000
        const { key } = yield* CustomerUsage.createCustomer("surprised", { balance })
        const port = yield* SharedPort
        const { isComplete, status, trailers } = yield* ListDownloads.download(port, path, key)
        yield* sql`delete from news where ticker = 'SHRT'`
        assert.strictEqual(status, 200)
        assert.isFalse(isComplete)
        assert.deepStrictEqual(trailers, {})
        const [usage] = yield* waitForUsage(port, key, 1)
        assert.strictEqual(valueAt(usage, "status_code"), 402)
        assert.isAtMost(Number(valueAt(usage, "cost_microdollars")), balance)
        assert.isAbove(Number(valueAt(usage, "cost_microdollars")), balance / 2)
      }).pipe(Effect.scoped))

    it.effect("is charged for the bytes sent if the client disconnects, and its cursor is closed (D27)", () =>
      Effect.gen(function* () {
        const { key } = yield* CustomerUsage.createCustomer("gone")
        const port = yield* SharedPort
        yield* Effect.scoped(
          Effect.andThen(
            ListDownloads.startPausedDownload(port, path, key),
            until(countExportSessions, (count) => count > 0),
          ),
        )
        yield* until(countExportSessions, (count) => count === 0)
        const [usage, ...more] = yield* waitForUsage(port, key, 1)
        assert.deepStrictEqual(more, [])
        assert.strictEqual(valueAt(usage, "status_code"), 499)
        const bytes = Number(valueAt(usage, "bytes"))
        assert.isAbove(bytes, 0)
        const exportBytes = rows * largeText
        assert.isBelow(bytes, exportBytes * 0.75)
        assert.strictEqual(valueAt(usage, "cost_microdollars"), costOf(bytes))
        assert.isBelow(Number(valueAt(usage, "records_returned")), rows)
      }).pipe(Effect.scoped))

    it.effect("ends within a second after its key is revoked or loses access, and is charged for the bytes sent (D2, D27)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const port = yield* SharedPort
        const changes = [
          { name: "revoked", status: 401, update: sql`revoked_at = now()` },
          { name: "limited", status: 403, update: sql`endpoints = '{/v1/changes/stream}'` },
          { name: "moved", status: 403, update: sql`networks = '{192.0.2.0/24}'` },
        ]
        for (const { name, status, update } of changes) {
          const { key, key_id } = yield* CustomerUsage.createCustomer(`export ${name}`)
          const { key: otherKey } = yield* CustomerUsage.createCustomer(`export beside ${name}`)
          const stream = yield* openEventStream(port, "after=now", { key })
          const response = yield* ListDownloads.startPausedDownload(port, path, key)
          const unaffected = yield* ListDownloads.startPausedDownload(port, path, otherKey)
          yield* sql`update api_keys set ${update} where key_id = ${key_id}`
          // The end of the stream proves that the keys have been checked, because the same check covers streams and
          // exports.
          yield* waitForCondition("end", () => stream.end !== undefined)
          assert.isFalse(yield* ListDownloads.finishDownload(response), name)
          assert.deepStrictEqual(response.trailers, {})
          assert.isTrue(yield* ListDownloads.finishDownload(unaffected), name)
          const [usage] = yield* until(
            sql`
              select status_code, cost_microdollars::text from usage_requests
              where key_id = ${key_id} and endpoint = '/v1/news'
            `,
            ({ length }) => length > 0,
          )
          assert.strictEqual(valueAt(usage, "status_code"), status, name)
          assert.isAbove(Number(valueAt(usage, "cost_microdollars")), 0)
        }
      }).pipe(Effect.scoped))

    it.effect("is aborted visibly, and costs nothing, if the database connection is lost (D27)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { key } = yield* CustomerUsage.createCustomer("cut")
        const port = yield* SharedPort
        const response = yield* ListDownloads.startPausedDownload(port, path, key)
        yield* sql`select pg_terminate_backend(pid) from pg_stat_activity where query ~ 'from export' and pid <> pg_backend_pid()`
        assert.isFalse(yield* ListDownloads.finishDownload(response))
        assert.deepStrictEqual(response.trailers, {})
        const [usage] = yield* waitForUsage(port, key, 1)
        assert.strictEqual(valueAt(usage, "status_code"), 503)
        assert.strictEqual(valueAt(usage, "cost_microdollars"), 0)
        assert.strictEqual((yield* ListDownloads.download(port, path, key)).isComplete, true)
      }).pipe(Effect.scoped))

    it.effect("gets 429 at once if its account has two in progress, and 503 if the service has four (§7.2)", () =>
      Effect.gen(function* () {
        const [impatient, patient] = yield* Effect.all([
          // Long enough for the other requests on a busy machine, which wait for a connection, too.
          startServiceInstance({ DATABASE_POOL_TIMEOUT: "3 seconds" }),
          // On this instance, a rejection that waited in the queue would outlast the test.
          startServiceInstance({ DATABASE_POOL_TIMEOUT: "1 hour" }),
        ])
        const [one, two, three] = yield* Effect.forEach(
          ["one", "two", "three"],
          (name) => Effect.map(CustomerUsage.createCustomer(`at once ${name}`), ({ key }) => key),
        )
        assert.isDefined(one)
        assert.isDefined(two)
        assert.isDefined(three)
        const startTwo = (port: number, key: string) =>
          Effect.all([
            ListDownloads.startPausedDownload(port, path, key),
            ListDownloads.startPausedDownload(port, path, key),
          ], { concurrency: 2 })
        const readRefusal = Effect.fnUntraced(function* (port: number, key: string, requested = path) {
          const { headers, status, text } = yield* ListDownloads.download(port, requested, key)
          const { error } = JSON.parse(text)
          assert.strictEqual(headers["retry-after"], "5", text)
          return [status, error.code, error.details, error.message]
        })
        yield* Effect.scoped(Effect.gen(function* () {
          yield* startTwo(patient, one)
          for (const requested of [path, `/estimate?endpoint=/v1/news&limit=all&format=csv`]) {
            const [status, code, details, message] = yield* readRefusal(patient, one, requested)
            assert.deepStrictEqual([status, code, details], [429, "too_many_exports", { limit: 2 }])
            assert.match(message, /already has 2 exports in progress.*pages/)
          }
          assert.isTrue((yield* ListDownloads.download(patient, path, two)).isComplete)
        }))
        yield* Effect.scoped(Effect.gen(function* () {
          const port = impatient
          yield* startTwo(port, one)
          yield* startTwo(port, two)
          const [status, code, , message] = yield* readRefusal(port, three)
          assert.deepStrictEqual([status, code], [503, "database_pool_timeout"])
          assert.match(message, /already has 4 exports in progress/)
          const pages = yield* Effect.forEach(
            Array.from({ length: 20 }, (_, at) => `/v1/screener?page=${at + 1}`),
            (page) => requestOverWire(port, page, one),
            { concurrency: 20 },
          )
          assert.isTrue(pages.every(({ status }) => status === 200))
        }))
        yield* until(countExportSessions, (count) => count === 0)
        assert.isTrue((yield* ListDownloads.download(impatient, path, three)).isComplete)
      }).pipe(Effect.scoped))

    it.effect("loses its place while others wait if its client reads too slowly, and is charged for the bytes sent (D27, §8)", () =>
      Effect.gen(function* () {
        const metricsPort = yield* chooseFreePort
        const port = yield* Effect.provideService(
          startServiceInstance({ DATABASE_POOL_TIMEOUT: "1 hour", METRICS_PORT: String(metricsPort) }),
          MaxExportPause,
          Duration.millis(100),
        )
        const [slow, other, waiting] = yield* Effect.all([
          CustomerUsage.createCustomer("slow reader"),
          CustomerUsage.createCustomer("other slow reader"),
          CustomerUsage.createCustomer("behind slow readers"),
        ])
        const startPaused = ({ key }: { readonly key: string }) => ListDownloads.startPausedDownload(port, path, key)
        const paused = yield* Effect.forEach([slow, slow, other, other], startPaused)
        // All four exports are too slow, but only one other export waits for a slot at a time, so only one of the four
        // is ended.
        const first = yield* ListDownloads.download(port, path, waiting.key)
        assert.isTrue(first.isComplete)
        assert.isTrue((yield* ListDownloads.download(port, path, waiting.key)).isComplete)
        const completions = yield* Effect.forEach(paused, ListDownloads.finishDownload, { concurrency: 4 })
        assert.lengthOf(completions.filter((isComplete) => !isComplete), 1)
        const usage = yield* Effect.forEach([slow, other], ({ key }) => waitForUsage(port, key, 2))
        const ended = usage.flat().find((row) => valueAt(row, "status_code") === 408)
        assert.isDefined(ended)
        const bytes = Number(valueAt(ended, "bytes"))
        assert.isAbove(bytes, 0)
        assert.isBelow(bytes, first.bytes.length)
        assert.strictEqual(valueAt(ended, "cost_microdollars"), costOf(bytes))
        const { text } = yield* requestOverWire(metricsPort, "/metrics", "")
        assert.match(text, /^tickerline_whole_lists_ended_total\{reason="slow"\} 1$/m)
      }).pipe(Effect.scoped))

    it.effect("ends when it has taken the longest time that an export may take (§8)", () =>
      Effect.gen(function* () {
        const { key } = yield* CustomerUsage.createCustomer("endless reader")
        const port = yield* startServiceInstance({ WHOLE_LISTS_MAX_TIME: "100 millis" })
        const response = yield* ListDownloads.startPausedDownload(port, path, key)
        yield* until(countExportSessions, (count) => count === 0)
        assert.isFalse(yield* ListDownloads.finishDownload(response))
        const [usage] = yield* waitForUsage(port, key, 1)
        assert.strictEqual(valueAt(usage, "status_code"), 408)
      }).pipe(Effect.scoped))

    it.effect("holds no lock while it is sent, and contains the state at its beginning (D31)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { ultimate } = yield* Service.TestKeys
        const port = yield* SharedPort
        const exportPath = "/v1/news?limit=all&format=ndjson"
        yield* Effect.addFinalizer(() => Effect.orDie(Effect.andThen(sql`truncate news`, insertNews(largeText))))
        const response = yield* ListDownloads.startPausedDownload(port, exportPath, ultimate)
        const chunks: Array<Buffer> = []
        response.on("data", (chunk: Buffer) => chunks.push(chunk)).pause()
        // The test acquires an exclusive lock immediately, which proves that the export holds no lock.
        yield* sql.withTransaction(Effect.andThen(sql`set local lock_timeout = '1ms'`, sql`truncate news`))
        assert.isTrue(yield* ListDownloads.finishDownload(response))
        assert.strictEqual(ListDownloads.splitLines(Buffer.concat(chunks).toString("utf8")).length, rows)
        assert.strictEqual((yield* ListDownloads.download(port, exportPath, ultimate)).headers["x-row-count"], "0")
      }).pipe(Effect.scoped))

    it.effect("holds only one database session while it is retried (§7.2)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { ultimate } = yield* Service.TestKeys
        const port = yield* startServiceInstance({ WHOLE_LISTS: "1" })
        /** Reads the state and the last statement of each database session that an export occupies. */
        const sessions = Effect.map(
          sql<{ readonly query: string; readonly state: string }>`
          select query, state from pg_stat_activity
          where datname = current_database() and query !~ 'pg_stat_activity'
            and query ~ ' export'
        `,
          (found) => found.map(({ query, state }) => `${state}: ${query}`),
        )
        const held = yield* Deferred.make<void>()
        const locking = yield* Effect.forkScoped(sql.withTransaction(Effect.gen(function* () {
          yield* sql`lock table news in access exclusive mode`
          yield* Deferred.succeed(held, undefined)
          return yield* Effect.never
        })))
        yield* Deferred.await(held)
        const starting = yield* Effect.forkScoped(ListDownloads.startPausedDownload(port, path, ultimate))
        yield* until(sessions, (found) => found.length > 0)
        // Waits until the first attempt has failed and the second attempt has begun.
        yield* until(sessions, (found) => found.every((one) => !one.startsWith("active")))
        yield* until(sessions, (found) => found.some((one) => one.startsWith("active")))
        assert.strictEqual((yield* sessions).length, 1)
        yield* Fiber.interrupt(locking)
        const response = yield* Fiber.join(starting)
        assert.strictEqual((yield* sessions).length, 1)
        assert.isTrue(yield* ListDownloads.finishDownload(response))
        yield* until(sessions, (found) => found.length === 0)
      }).pipe(Effect.scoped))
  },
)

it("no code creates the error data_refreshing with a message other than the specified one (§7.2)", () => {
  const creators = globSync("src/**/*.ts", { cwd: projectRoot }).filter((file) =>
    readFileSync(join(projectRoot, file), "utf8").includes("new DataRefreshing(")
  )
  assert.deepStrictEqual(creators, ["src/contract/rules/ApiErrors.ts"])
  assert.match(makeDataRefreshingError().error.message, /being refreshed\. Retry in a few seconds\.$/)
})

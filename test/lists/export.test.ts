/** `limit=all`: what is promised of a list that is sent while it is read. */
import { assert, layer } from "@effect/vitest"
import { Deferred, Duration, Effect, Fiber, Layer, Predicate, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { connect } from "node:net"
import { datasets } from "../../src/load/Datasets.ts"
import { valueAt } from "../support/DocumentedEndpoints.ts"
import { ExportReadTimeout } from "../../src/lists/ExportCursors.ts"
import * as Files from "../support/Downloads.ts"
import * as Instances from "../support/ServiceInstances.ts"
import * as Ledger from "../support/CustomerUsage.ts"
import * as Plenty from "../support/GeneratedRows.ts"
import * as Service from "../support/Service.ts"

// @module-tag slow

const { startInstance, requestOverWire } = Instances

const rows = 1_000

/** Some 20 MB of news, more than any buffer between the service and a client takes up. */
const filled = Layer.effectDiscard(Effect.flatMap(SqlClient.SqlClient, (sql) =>
  sql`
    insert into news (id, ticker, form_type, title, body, filed_at, created_at, last_updated)
    select 'long ' || g, 'LONG', 'news', 'Long', repeat('long ', 4000), '2026-01-02', '2026-01-02', '2026-01-02'
    from generate_series(1, ${rows}::int) as g
  `)).pipe(Layer.provideMerge(Instances.databaseWithKeys))

const path = "/v1/news?limit=all&format=csv"

const until = <A, E, R>(look: Effect.Effect<A, E, R>, holds: (found: A) => boolean) =>
  Effect.repeat(look, { until: holds, schedule: Schedule.spaced("20 millis") }).pipe(Effect.timeout("30 seconds"))

/** What PostgreSQL is doing for lists that are sent in whole, beside the pool of ten and what watches the versions. */
const cursors = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.map(
    sql<{ readonly pid: number }>`
      select pid from pg_stat_activity where datname = current_database() and query ~ 'whole' and pid <> pg_backend_pid()
    `,
    (found) => found.length,
  ))

/** The usage of the endpoint so far, latest first. */
const usageOf = Effect.fnUntraced(function* (port: number, key: string) {
  const { text } = yield* requestOverWire(port, "/v1/usage?endpoint=/v1/news", key)
  const found = valueAt(JSON.parse(text), "results")
  return Array.isArray(found) ? found.filter(Predicate.isObject) : []
})

const recorded = Effect.fnUntraced(function* (port: number, key: string, count: number) {
  return yield* until(usageOf(port, key), (found) => found.length >= count)
})

layer(filled, { excludeTestServices: true, timeout: "120 seconds" })("A whole list", (it) => {
  it.effect("D27 D29, README, Formats: its cost is that of its bytes before compression, recorded once with its rows", () =>
    Effect.gen(function* () {
      const { key } = yield* Ledger.createCustomer("whole")
      const port = yield* startInstance()
      const plain = yield* Files.download(port, path, key)
      assert.isTrue(plain.isComplete)
      assert.strictEqual((yield* Files.parseCsv(plain.text)).records.length, rows)
      const cost = String(Math.ceil(plain.bytes.length / 100))
      assert.strictEqual(plain.trailers["x-cost-microdollars"], cost)
      assert.isUndefined(plain.headers["x-cost-microdollars"])
      for (const encoding of ["gzip", "br", "zstd"]) {
        const packed = yield* Files.download(port, path, key, { "Accept-Encoding": encoding })
        assert.strictEqual(packed.headers["content-encoding"], encoding)
        assert.isTrue(packed.bytes.equals(plain.bytes))
        assert.deepStrictEqual(packed.trailers, plain.trailers)
      }
      const usage = yield* recorded(port, key, 4)
      assert.strictEqual(usage.length, 4)
      for (const row of usage) {
        assert.strictEqual(valueAt(row, "status_code"), 200)
        assert.strictEqual(valueAt(row, "records_returned"), rows)
        assert.strictEqual(valueAt(row, "bytes"), plain.bytes.length)
        assert.strictEqual(String(valueAt(row, "cost_microdollars")), cost)
      }
    }).pipe(Effect.scoped))

  it.effect("§8, README, Formats: one that takes too long to read is 503 in time, and nobody goes on reading it", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { key } = yield* Ledger.createCustomer("long")
      const port = yield* Effect.provideService(startInstance(), ExportReadTimeout, Duration.millis(500))
      yield* sql`alter table news rename to those`
      yield* sql`create view news as select those.* from pg_sleep(60) as slept, those`
      yield* Effect.addFinalizer(() =>
        Effect.orDie(
          Effect.andThen(sql`drop view news`, sql`alter table those rename to news`),
        )
      )
      const began = performance.now()
      const { status, text } = yield* requestOverWire(port, path, key)
      assert.strictEqual(status, 503)
      assert.strictEqual(valueAt(JSON.parse(text), "error", "code"), "data_refreshing")
      assert.include(text, "Ask for less of it at once")
      assert.isBelow(performance.now() - began, 30_000)
      yield* until(cursors, (count) => count === 0)
    }).pipe(Effect.scoped))

  it.effect("D28 its estimate is what it then costs, and charges nothing", () =>
    Effect.gen(function* () {
      const { key } = yield* Ledger.createCustomer("estimated")
      const port = yield* startInstance()
      for (const format of ["csv", "ndjson"]) {
        const query = `limit=all&format=${format}`
        const estimate = yield* requestOverWire(port, `/estimate?endpoint=/v1/news&${query}`, key)
        const taken = yield* Files.download(port, `/v1/news?${query}`, key)
        const [said] = [valueAt(JSON.parse(estimate.text), "results", 0)]
        assert.strictEqual(valueAt(said, "estimated_bytes"), taken.bytes.length)
        assert.strictEqual(valueAt(said, "records_returned"), rows)
        assert.strictEqual(valueAt(said, "records_total"), rows)
        assert.strictEqual(String(valueAt(said, "estimated_cost_microdollars")), taken.trailers["x-cost-microdollars"])
      }
      assert.strictEqual((yield* recorded(port, key, 2)).length, 2)
    }).pipe(Effect.scoped))

  it.effect("D13 D27, README, Formats: a balance that does not pay for it is 402 before the first byte", () =>
    Effect.gen(function* () {
      const { key } = yield* Ledger.createCustomer("poor", { balance: 1_000 })
      const port = yield* startInstance()
      const { headers, status, text } = yield* Files.download(port, path, key)
      assert.strictEqual(status, 402)
      assert.strictEqual(headers["content-type"], "application/json")
      const [, said] = /whole list costs (\d+) microdollars.*ask for less/.exec(
        String(valueAt(JSON.parse(text), "error", "message")),
      ) ?? []
      assert.isDefined(said, text)
      yield* until(cursors, (count) => count === 0)
      const [usage] = yield* recorded(port, key, 1)
      assert.strictEqual(valueAt(usage, "status_code"), 402)
      assert.strictEqual(valueAt(usage, "cost_microdollars"), 0)
    }).pipe(Effect.scoped))

  it.effect.each(["csv", "ndjson"])(
    "D27 D28 the price in a 402 is that of the estimate, and of the list: %s",
    (format) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        // Lists that begin with shorter rows than they end, or with longer ones.
        for (const [name, length, day] of [["short", 15_000, "2026-03-03"], ["long", 90_000, "2026-04-04"]] as const) {
          yield* sql`
          insert into news (id, ticker, form_type, title, body, filed_at, created_at, last_updated)
          select ${name}::text || g, 'EXACT', 'news', 'Exact', repeat('x', ${length}::int), ${day}::text::date,
            ${day}::text::timestamp, '2026-01-02'
          from generate_series(1, 30) as g
        `
          const query = `limit=all&format=${format}`
          const { key } = yield* Ledger.createCustomer(`exact ${name} ${format}`)
          const port = yield* startInstance()
          const taken = yield* Files.download(port, `/v1/news?${query}`, key)
          const cost = Number(taken.trailers["x-cost-microdollars"])
          const poor = yield* Ledger.createCustomer(`poor ${name} ${format}`, { balance: cost - 1 })
          const guessed = yield* Ledger.createCustomer(`exactly ${name} ${format}`, { balance: cost })
          const estimate = yield* requestOverWire(port, `/estimate?endpoint=/v1/news&${query}`, poor.key)
          assert.strictEqual(valueAt(JSON.parse(estimate.text), "results", 0, "estimated_cost_microdollars"), cost)
          const refused = yield* Files.download(port, `/v1/news?${query}`, poor.key)
          if (name === "long") {
            assert.strictEqual(refused.status, 402)
            assert.include(refused.text, `The whole list costs ${cost} microdollars`)
          }
          // What is affordable to the microdollar is sent, whatever its beginning tells.
          assert.isTrue((yield* Files.download(port, `/v1/news?${query}`, guessed.key)).isComplete)
        }
        yield* sql`delete from news where ticker = 'EXACT'`
      }).pipe(Effect.scoped),
  )

  it.effect("D13 D27, README, Formats: one that turns out longer than its beginning told is cut off where the balance ends", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        insert into news (id, ticker, form_type, title, filed_at, created_at, last_updated)
        select 'short ' || g, 'SHRT', 'news', 'Short', '2026-02-02', '2026-02-02', '2026-02-02'
        from generate_series(1, 100) as g
      `
      const balance = 150_000
      const { key } = yield* Ledger.createCustomer("surprised", { balance })
      const port = yield* startInstance()
      const { isComplete: isWhole, status, trailers } = yield* Files.download(port, path, key)
      yield* sql`delete from news where ticker = 'SHRT'`
      assert.strictEqual(status, 200)
      assert.isFalse(isWhole)
      assert.deepStrictEqual(trailers, {})
      const [usage] = yield* recorded(port, key, 1)
      assert.strictEqual(valueAt(usage, "status_code"), 402)
      assert.isAtMost(Number(valueAt(usage, "cost_microdollars")), balance)
      assert.isAbove(Number(valueAt(usage, "cost_microdollars")), balance / 2)
    }).pipe(Effect.scoped))

  it.effect("RELIABILITY, README, Formats: whose client goes away is charged for what was sent, and its cursor is closed", () =>
    Effect.gen(function* () {
      const { key } = yield* Ledger.createCustomer("gone")
      const port = yield* startInstance()
      yield* Effect.scoped(Effect.andThen(Files.beginDownload(port, path, key), until(cursors, (count) => count > 0)))
      yield* until(cursors, (count) => count === 0)
      const [usage, ...more] = yield* recorded(port, key, 1)
      assert.deepStrictEqual(more, [])
      assert.strictEqual(valueAt(usage, "status_code"), 499)
      const bytes = Number(valueAt(usage, "bytes"))
      assert.isAbove(bytes, 0)
      assert.isBelow(bytes, 15_000_000)
      assert.strictEqual(valueAt(usage, "cost_microdollars"), Math.ceil(bytes / 100))
      assert.isBelow(Number(valueAt(usage, "records_returned")), rows)
    }).pipe(Effect.scoped))

  it.effect("RELIABILITY: one whose connection to the database ends is cut off, so that the client sees it, and is free", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { key } = yield* Ledger.createCustomer("cut")
      const port = yield* startInstance()
      const response = yield* Files.beginDownload(port, path, key)
      yield* sql`select pg_terminate_backend(pid) from pg_stat_activity where query ~ 'from whole' and pid <> pg_backend_pid()`
      assert.isFalse(yield* Files.finishDownload(response))
      assert.deepStrictEqual(response.trailers, {})
      const [usage] = yield* recorded(port, key, 1)
      assert.strictEqual(valueAt(usage, "status_code"), 503)
      assert.strictEqual(valueAt(usage, "cost_microdollars"), 0)
      assert.strictEqual((yield* Files.download(port, path, key)).isComplete, true)
    }).pipe(Effect.scoped))

  it.effect("RELIABILITY §7.2: two at once of an account, four in all; more are 503 with what to do, and pages go on", () =>
    Effect.gen(function* () {
      const port = yield* startInstance({ DATABASE_POOL_TIMEOUT: "300 millis" })
      const [one, two, three] = yield* Effect.forEach(
        ["one", "two", "three"],
        (name) => Effect.map(Ledger.createCustomer(`at once ${name}`), ({ key }) => key),
      )
      assert.isDefined(one)
      assert.isDefined(two)
      assert.isDefined(three)
      const refusal = Effect.fnUntraced(function* (key: string, words: RegExp) {
        const { headers, status, text } = yield* Files.download(port, path, key)
        assert.strictEqual(status, 503)
        assert.strictEqual(valueAt(JSON.parse(text), "error", "code"), "database_pool_timeout")
        assert.match(String(valueAt(JSON.parse(text), "error", "message")), words)
        assert.strictEqual(headers["retry-after"], "5")
      })
      yield* Effect.scoped(Effect.gen(function* () {
        yield* Effect.all([Files.beginDownload(port, path, one), Files.beginDownload(port, path, one)])
        yield* refusal(one, /This account is sending 2 whole lists already.*pages/)
        yield* Effect.all([Files.beginDownload(port, path, two), Files.beginDownload(port, path, two)])
        yield* refusal(three, /The service is sending 4 whole lists already/)
        const pages = yield* Effect.forEach(
          Array.from({ length: 20 }, (_, at) => `/v1/screener?page=${at + 1}`),
          (page) => requestOverWire(port, page, one),
          { concurrency: 20 },
        )
        assert.isTrue(pages.every(({ status }) => status === 200))
      }))
      yield* until(cursors, (count) => count === 0)
      assert.isTrue((yield* Files.download(port, path, three)).isComplete)
    }).pipe(Effect.scoped))

  it.effect("RELIABILITY D31: it holds no lock while it is sent; what it shows is what was there when it began", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { ultimate } = yield* Service.TestKeys
      const port = yield* startInstance()
      const whole = "/v1/screener?limit=all&format=ndjson"
      yield* sql`truncate screener`
      yield* Effect.forEach(
        datasets.filter(({ table }) => table === "screener"),
        (one) => Plenty.fillTable(one, 20_000),
      )
      const response = yield* Files.beginDownload(port, whole, ultimate)
      const chunks: Array<Buffer> = []
      response.on("data", (chunk: Buffer) => chunks.push(chunk)).pause()
      // An exclusive lock, without a wait.
      yield* sql.withTransaction(Effect.andThen(sql`set local lock_timeout = '1ms'`, sql`truncate screener`))
      assert.isTrue(yield* Files.finishDownload(response))
      assert.strictEqual(Files.splitLines(Buffer.concat(chunks).toString("utf8")).length, 20_000)
      assert.strictEqual((yield* Files.download(port, whole, ultimate)).headers["x-row-count"], "0")
    }).pipe(Effect.scoped))

  it.effect("RELIABILITY D31 §7.2: while a load takes the table's place a new one waits, then is 503 data_refreshing", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { ultimate } = yield* Service.TestKeys
      const port = yield* startInstance()
      const swapping = yield* Effect.forkScoped(sql.withTransaction(Effect.gen(function* () {
        yield* sql`select pg_advisory_xact_lock(hashtext('swap news'))`
        return yield* Effect.never
      })))
      yield* until(
        Effect.map(
          sql`select from pg_locks where locktype = 'advisory' and mode = 'ExclusiveLock'`,
          ({ length }) => length,
        ),
        (count) => count > 0,
      )
      const { status, text } = yield* Files.download(port, path, ultimate)
      assert.strictEqual(status, 503)
      assert.strictEqual(valueAt(JSON.parse(text), "error", "code"), "data_refreshing")
      assert.strictEqual((yield* requestOverWire(port, "/v1/news", ultimate)).status, 200)
      yield* Fiber.interrupt(swapping)
      assert.isTrue((yield* Files.download(port, path, ultimate)).isComplete)
    }).pipe(Effect.scoped))

  it.effect("RELIABILITY §7.2: a list that is tried again has one session, which the failed attempt has left", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { ultimate } = yield* Service.TestKeys
      const port = yield* startInstance({ WHOLE_LISTS: "1" })
      /** What each session that reads whole lists did last. */
      const sessions = Effect.map(
        sql<{ readonly query: string; readonly state: string }>`
          select query, state from pg_stat_activity
          where datname = current_database() and query !~ 'pg_stat_activity'
            and (query ~ ' whole' or query ~ 'advisory_xact_lock_shared')
        `,
        (found) => found.map(({ query, state }) => `${state}: ${query}`),
      )
      const held = yield* Deferred.make<void>()
      const swapping = yield* Effect.forkScoped(sql.withTransaction(Effect.gen(function* () {
        yield* sql`select pg_advisory_xact_lock(hashtext('swap news'))`
        yield* Deferred.succeed(held, undefined)
        return yield* Effect.never
      })))
      yield* Deferred.await(held)
      const taking = yield* Effect.forkScoped(Files.beginDownload(port, path, ultimate))
      yield* until(sessions, (found) => found.length > 0)
      // The first attempt fails, and the second begins.
      yield* until(sessions, (found) => found.every((one) => !one.startsWith("active")))
      yield* until(sessions, (found) => found.some((one) => one.startsWith("active")))
      assert.strictEqual((yield* sessions).length, 1)
      yield* Fiber.interrupt(swapping)
      const response = yield* Fiber.join(taking)
      assert.strictEqual((yield* sessions).length, 1)
      assert.isTrue(yield* Files.finishDownload(response))
      yield* until(sessions, (found) => found.length === 0)
    }).pipe(Effect.scoped))

  it.effect("RFC 9110, README, Formats: HTTP/1.0 has no trailers, and gets the list and its count without", () =>
    Effect.gen(function* () {
      const { ultimate } = yield* Service.TestKeys
      const port = yield* startInstance()
      const said = yield* Effect.callback<string>((resume) => {
        const chunks: Array<Buffer> = []
        const socket = connect({ port, host: "127.0.0.1" })
        socket.on("data", (chunk) => chunks.push(chunk))
        socket.on("close", () => resume(Effect.succeed(Buffer.concat(chunks).toString("utf8"))))
        socket.write(`GET ${path} HTTP/1.0\r\nX-API-Key: ${ultimate}\r\n\r\n`)
      })
      const [head = "", ...body] = said.split("\r\n\r\n")
      assert.match(head, /x-row-count: 1000/i)
      assert.notMatch(head, /^trailer|^transfer-encoding/im)
      assert.strictEqual((yield* Files.parseCsv(body.join("\r\n\r\n"))).records.length, rows)
    }).pipe(Effect.scoped))
})

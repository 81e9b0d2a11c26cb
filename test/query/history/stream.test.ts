/**
 * Tests that `/v1/changes/stream` sends the changes of `/v1/changes` as events, and always states a reason before it
 * ends.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Layer, Metric, Schedule, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { computeDataCost } from "../../../src/accounts/billing/Pricing.ts"
import { ChangeStreamLimits } from "../../../src/query/history/ChangeStream.ts"
import { createCustomer, waitForRecordedRequests } from "../../support/CustomerUsage.ts"
import { type EventStream, openEventStream, type StreamOptions, waitForCondition } from "../../support/EventStreams.ts"
import { getResultRows } from "../../support/ListClients.ts"
import { makeRandomChooser } from "../../support/RandomChoices.ts"
import { formatReportedSharesInsert } from "../../support/ReportedShares.ts"
import { range, writeRandomTransaction } from "../../support/RandomTransactions.ts"
import * as Service from "../../support/Service.ts"
import * as StatementRecorder from "../../support/StatementRecorder.ts"
import { getInputCount, skipUnlessThorough } from "../../support/Thoroughness.ts"

// @module-tag waiting

const { valueAt } = Service

const open = Effect.fnUntraced(function* (query: string, options: Partial<StreamOptions> = {}) {
  const { ultimate } = yield* Service.TestKeys
  return yield* openEventStream(yield* Service.servicePort, query, { key: ultimate, ...options })
})

const list = Effect.fnUntraced(function* (query: string) {
  const { ultimate } = yield* Service.TestKeys
  const { body, status, text } = yield* Service.requestJson(`/v1/changes?${query}`, { key: ultimate })
  assert.strictEqual(status, 200, text)
  return body
})

const Page = Schema.Struct({
  results: Schema.Array(Schema.Record(Schema.String, Schema.Json)),
  cursor: Schema.String,
  has_more: Schema.Boolean,
})

/** Reads all pages of `/v1/changes`. */
const listAll = Effect.fnUntraced(function* (query: string, after: string) {
  const changes: Array<unknown> = []
  for (let cursor = after;;) {
    const page = Schema.decodeUnknownSync(Page)(yield* list(`limit=1000&${query}&after=${encodeURIComponent(cursor)}`))
    changes.push(...page.results)
    cursor = page.cursor
    if (!page.has_more) return changes
  }
})

const readCurrentCursor = Effect.map(list("after=now"), (body) => String(valueAt(body, "cursor")))

const dataOf = ({ changes }: EventStream): ReadonlyArray<unknown> => changes.map(({ data }) => JSON.parse(data))

const tickersOf = (stream: EventStream) => dataOf(stream).map((change) => valueAt(change, "key", "ticker"))

const endOf = (stream: EventStream): unknown => stream.end === undefined ? undefined : JSON.parse(stream.end.data)

/** Waits until the stream ends with an `end` event, and checks the reason in the event. */
const waitForEnd = Effect.fnUntraced(function* (stream: EventStream, reason: string) {
  yield* waitForCondition(`end ${reason}`, () => stream.end !== undefined)
  assert.strictEqual(valueAt(endOf(stream), "reason"), reason)
  yield* waitForCondition("close", () => stream.isClosed)
  assert.strictEqual(stream.events.at(-1)?.event, "end", "the end is the last event")
})

/** Inserts rows in one transaction. */
const insertShares = Effect.fnUntraced(function* (...tickers: ReadonlyArray<string>) {
  const sql = yield* SqlClient.SqlClient
  const rows = tickers.map((ticker) => `('${ticker}', '2026-01-01', 1)`).join(", ")
  yield* sql.unsafe(formatReportedSharesInsert(`values ${rows}`))
})

/** Inserts reports in one transaction, each with `bytes` bytes of text. Reports are numbered from `first`. */
const insertLongReports = Effect.fnUntraced(function* (first: number, count: number, bytes: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    insert into research_reports (report_id, ticker, gain_percentage, report_text, tldr_text, created_at, last_updated)
    select 'long ' || number, 'LONG', 20, repeat('x', ${bytes}), 'Summary', '2026-01-01', '2026-01-01'
    from generate_series(${first}::int, ${first + count - 1}::int) as number
  `
})

const service = (limits: Partial<Effect.Success<typeof ChangeStreamLimits>> = {}) =>
  Layer.fresh(Layer.provideMerge(Service.layer, StatementRecorder.layer)).pipe(
    Layer.provide(Layer.succeed(ChangeStreamLimits, { ...ChangeStreamLimits.defaultValue(), ...limits })),
  )

layer(service(), { excludeTestServices: true, timeout: "120 seconds" })("/v1/changes/stream", (it) => {
  it.effect("sends the changes of /v1/changes as events whose ids are the cursors (decision 0117)", () =>
    Effect.gen(function* () {
      const start = yield* readCurrentCursor
      yield* insertShares("ONE", "TWO")
      const stream = yield* open(`after=${start}`)
      assert.strictEqual(stream.status, 200)
      const { headers } = stream
      assert.strictEqual(headers["content-type"], "text/event-stream")
      assert.strictEqual(headers["cache-control"], "no-store")
      assert.strictEqual(headers["x-accel-buffering"], "no")
      assert.isUndefined(headers["content-encoding"])
      assert.isUndefined(headers["etag"])
      assert.isUndefined(headers["x-cost-microdollars"])
      yield* waitForCondition("two changes", () => stream.changes.length === 2)
      yield* insertShares("THREE")
      yield* waitForCondition("three changes", () => stream.changes.length === 3)
      const expected = yield* listAll("", start)
      assert.deepStrictEqual(dataOf(stream), expected)
      assert.deepStrictEqual(stream.changes.map(({ id }) => id), expected.map((change) => valueAt(change, "cursor")))
      assert.isTrue(stream.text.startsWith("retry: 1000\n\n"), stream.text.slice(0, 30))
      assert.isFalse(stream.text.includes("\r"))
      const [first] = stream.changes
      assert.include(stream.text, `id: ${first?.id}\nevent: change\ndata: ${first?.data}\n\n`)
    }).pipe(Effect.scoped))

  it.effect("continues after the cursor in the header Last-Event-ID, or else in the parameter after (decision 0117)", () =>
    Effect.gen(function* () {
      const start = yield* readCurrentCursor
      yield* insertShares("AFTER1", "AFTER2", "AFTER3")
      const changes = yield* listAll("", start)
      const cursors = changes.map((change) => String(valueAt(change, "cursor")))
      const [first = "", second = ""] = cursors
      const read = Effect.fnUntraced(function* (query: string, lastEventId?: string) {
        const stream = yield* open(
          query,
          lastEventId === undefined ? {} : { headers: { "Last-Event-ID": lastEventId } },
        )
        yield* waitForCondition(`changes after ${query} ${lastEventId}`, () => stream.lastId === cursors[2])
        return tickersOf(stream)
      })
      assert.deepStrictEqual(yield* read(`after=${first}`), ["AFTER2", "AFTER3"])
      assert.deepStrictEqual(yield* read(`after=${start}`, second), ["AFTER3"])
      assert.deepStrictEqual(yield* read(`after=${second}`, first), ["AFTER2", "AFTER3"])
      assert.deepStrictEqual(yield* read(`after=${second}`, ""), ["AFTER3"])
      yield* insertShares("LATER")
      const time = encodeURIComponent(String(valueAt(changes, 0, "recorded_at")))
      const fromNow = yield* open("after=now")
      const fromTime = yield* open(`after=${time}`)
      yield* insertShares("AFTER4")
      yield* waitForCondition("now", () => fromNow.changes.length === 1)
      yield* waitForCondition("time", () => fromTime.changes.length === 2)
      assert.deepStrictEqual([tickersOf(fromNow), tickersOf(fromTime)], [["AFTER4"], ["LATER", "AFTER4"]])
    }).pipe(Effect.scoped))

  it.effect("responds to HEAD without a stream, and refuses what /v1/changes refuses (decision 0117)", () =>
    Effect.gen(function* () {
      const { basic, ultimate } = yield* Service.TestKeys
      const send = (query: string, options: Service.TestRequestOptions = {}) =>
        Service.requestJson(`/v1/changes/stream?${query}`, { key: ultimate, ...options })
      const head = yield* send("", { method: "HEAD" })
      assert.deepStrictEqual([head.status, head.headers["content-type"], head.text], [200, "text/event-stream", ""])
      const estimate = yield* Service.requestJson("/estimate?endpoint=/v1/changes/stream", { key: ultimate })
      assert.strictEqual(estimate.status, 422)
      assert.strictEqual(valueAt(estimate.body, "error", "details", "fields", 0, "field"), "endpoint")
      const statuses = yield* Effect.forEach([
        send("", { key: null }),
        send("dataset=research_reports", { key: basic }),
        send("after=1"),
        send("limit=1"),
        send("after=2999-01-01T00:00:00Z"),
        send("", { headers: { "Last-Event-ID": "x" } }),
        send(`after=1..${"0".repeat(32)}`),
      ], Effect.map(({ body, status }) => [status, valueAt(body, "error", "details", "fields", 0, "field")]))
      assert.deepStrictEqual(statuses, [
        [401, undefined],
        [403, undefined],
        [422, "after"],
        [422, "limit"],
        [422, "after"],
        [422, "Last-Event-ID"],
        [410, undefined],
      ])
    }))

  it.effect("misses, repeats and reorders no change, for any filter and however often the connection breaks (decision 0117)", () =>
    Effect.gen(function* () {
      const choose = makeRandomChooser(5)
      const start = yield* readCurrentCursor
      const writers = yield* Effect.forkChild(Effect.forEach(
        range(3),
        (writer) => {
          const chooseNext = makeRandomChooser(writer + 21)
          return Effect.forEach(range(Math.max(15, getInputCount(75))), () => writeRandomTransaction(chooseNext), {
            discard: true,
          })
        },
        { concurrency: 3, discard: true },
      ))
      const follow = Effect.fnUntraced(function* (filter: string) {
        const received: Array<unknown> = []
        let cursor = start
        const connect = Effect.fnUntraced(function* (isLast: boolean) {
          const stream = yield* open(
            `${filter}&after=${choose([start, cursor])}`,
            { headers: { "Last-Event-ID": cursor } },
          )
          assert.strictEqual(stream.status, 200)
          if (isLast) {
            const expected = yield* listAll(filter, start)
            yield* waitForCondition(filter, () => received.length + stream.changes.length >= expected.length)
          } else {
            const count = choose([0, 1, 3, 20])
            yield* waitForCondition("some", () => stream.changes.length >= count || writers.pollUnsafe() !== undefined)
          }
          stream.close()
          received.push(...dataOf(stream))
          if (stream.lastId !== "") cursor = stream.lastId
        }, Effect.scoped)
        while (writers.pollUnsafe() === undefined) yield* connect(false)
        yield* connect(true)
        assert.deepStrictEqual(received, yield* listAll(filter, start), filter)
        return received.length
      })
      const filters = [
        "",
        "ticker=AAA",
        "ticker=OLD1,BBB",
        "kind=removed,corrected",
        "dataset=ticker_changes",
        "dataset=historical_float_pro&kind=added&ticker=CCC",
        "dataset=historical_tickers,historical_float_pro&ticker=AAA,OLD2",
      ]
      const counts = yield* Effect.forEach(filters, follow, { concurrency: "unbounded" })
      counts.forEach((count, index) => assert.isAbove(count, 5, filters[index]))
      yield* Fiber.join(writers)
    }).pipe(Effect.scoped))

  it.effect("reads each change once for all streams (decision 0117)", () =>
    Effect.gen(function* () {
      const { ultimate } = yield* Service.TestKeys
      yield* Service.ensureAccountWithKey("many", "ultimate")
      const keys = yield* Effect.forEach(range(4), (index) => Service.ensureAccountWithKey(`many ${index}`, "ultimate"))
      const streams = yield* Effect.forEach(
        [ultimate, ...keys].flatMap((key) => range(8).map(() => key)),
        (key, index) => open(`after=now${index % 2 === 0 ? "" : "&dataset=historical_float_pro"}`, { key }),
      )
      const { sent } = yield* StatementRecorder.recordStatements(Effect.andThen(
        insertShares("ONCE1", "ONCE2"),
        waitForCondition("all", () => streams.every(({ changes }) => changes.length === 2)),
      ))
      const reads = sent.filter(({ text }) => text.includes("with ordinality as requested"))
      assert.strictEqual(reads.length, 1)
      const [first] = streams
      streams.forEach((stream) => assert.deepStrictEqual(stream.changes, first?.changes))
    }).pipe(Effect.scoped))

  it.effect("refuses an account more streams than the setting allows, until one ends (decision 0117)", () =>
    Effect.gen(function* () {
      const key = yield* Service.ensureAccountWithKey("limited", "basic")
      const limit = 10
      const streams = yield* Effect.forEach(range(limit), () => open("after=now", { key }))
      assert.deepStrictEqual(streams.map(({ status }) => status), range(limit).map(() => 200))
      const refused = yield* Service.requestJson("/v1/changes/stream", { key })
      assert.strictEqual(refused.status, 429)
      assert.strictEqual(valueAt(refused.body, "error", "code"), "too_many_streams")
      assert.deepStrictEqual(valueAt(refused.body, "error", "details"), { limit })
      assert.strictEqual(refused.headers["retry-after"], "30")
      assert.strictEqual((yield* open("after=now")).status, 200, "another account")
      assert.strictEqual((yield* Service.requestJson("/v1/changes?limit=1", { key })).status, 200)
      streams[3]?.close()
      const again = yield* Effect.repeat(open("after=now", { key }), { until: ({ status }) => status === 200 })
      assert.strictEqual(again.status, 200)
    }).pipe(Effect.scoped))
})

/** Short intervals and low byte limits, so the tests do not wait long. */
const brief = { heartbeatMillis: 100, usageIntervalMillis: 300, usageIntervalBytes: 1_000, closingMillis: 200 }

layer(service(brief), { excludeTestServices: true, timeout: "120 seconds" })("A stream", (it) => {
  it.effect("sends heartbeats, with an id after changes that the client's filter excludes (decision 0117)", () =>
    Effect.gen(function* () {
      yield* insertShares("FIRST")
      const start = yield* readCurrentCursor
      const stream = yield* open(`ticker=WANTED&after=${start}`)
      yield* waitForCondition("heartbeats", () => stream.comments >= 3)
      assert.strictEqual(stream.text.replaceAll(": heartbeat\n\n", ""), "retry: 1000\n\n")
      yield* insertShares("OTHER")
      yield* waitForCondition("id", () => stream.lastId !== "")
      assert.strictEqual(stream.lastId, yield* readCurrentCursor)
      assert.include(stream.text, `: heartbeat\nid: ${stream.lastId}\n\n`)
      const heartbeats = stream.comments
      yield* waitForCondition("more", () => stream.comments > heartbeats + 1)
      assert.strictEqual(stream.text.split(`id: ${stream.lastId}`).length, 2, "an id is sent once")
      assert.deepStrictEqual(stream.events, [])
    }).pipe(Effect.scoped))

  it.effect("ends after its key or account loses access or credit, even if nothing changes (decision 0117)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const end = Effect.fnUntraced(function* (
        name: string,
        change: (stream: EventStream) => Effect.Effect<unknown, unknown, SqlClient.SqlClient>,
        reason: string,
      ) {
        const key = yield* Service.ensureAccountWithKey(name, "ultimate")
        const stream = yield* open("after=now", { key })
        yield* change(stream)
        yield* waitForEnd(stream, reason)
        return endOf(stream)
      })
      const accountId = (name: string) => sql`(select account_id from accounts where name = ${name})`
      const ended = yield* end(
        "revoked",
        () => sql`update api_keys set revoked_at = now() where account_id = ${accountId("revoked")}`,
        "key_revoked",
      )
      assert.strictEqual(valueAt(ended, "cursor"), yield* readCurrentCursor)
      assert.isString(valueAt(ended, "message"))
      yield* end(
        "expired",
        () => sql`update api_keys set expires_at = now() where account_id = ${accountId("expired")}`,
        "key_revoked",
      )
      yield* end(
        "downgraded",
        () => sql`update accounts set tier = 'basic' where name = 'downgraded'`,
        "access_changed",
      )
      yield* end(
        "narrowed",
        () =>
          sql`update api_keys set endpoints = array['/v1/changes/stream', '/v1/news']
            where account_id = ${accountId("narrowed")}`,
        "access_changed",
      )
      yield* end(
        "moved",
        () => sql`update api_keys set networks = '{192.0.2.0/24}' where account_id = ${accountId("moved")}`,
        "access_changed",
      )
      yield* end(
        "spent",
        () => sql`update accounts set balance_microdollars = 0 where name = 'spent'`,
        "out_of_credit",
      )
    }).pipe(Effect.scoped))

  it.effect("continues if the account changes in a way that does not concern it (decision 0117)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const key = yield* Service.ensureAccountWithKey("same", "pro")
      const stream = yield* open("after=now&dataset=historical_float_pro", { key })
      const other = yield* open("after=now", { key })
      yield* sql`update accounts set tier = 'ultimate' where name = 'same'`
      yield* waitForEnd(other, "access_changed")
      const heartbeats = stream.comments
      yield* waitForCondition("heartbeats", () => stream.comments > heartbeats + 5)
      assert.isUndefined(stream.end)
    }).pipe(Effect.scoped))

  it.effect("is recorded when it ends, and is free if it sent no change (decision 0117)", () =>
    Effect.gen(function* () {
      const { account_id, key } = yield* createCustomer("idle", { tier: "ultimate" })
      const stream = yield* open("after=now&dataset=split_status", { key })
      yield* waitForCondition("heartbeats", () => stream.comments > 5)
      stream.close()
      yield* waitForRecordedRequests(account_id, 1)
      const { body } = yield* Service.requestJson("/v1/usage", { key })
      const [usage, ...others] = getResultRows(body)
      assert.strictEqual(others.length, 0)
      assert.strictEqual(valueAt(usage, "endpoint"), "/v1/changes/stream")
      assert.deepStrictEqual(
        ["status_code", "records_returned", "bytes", "cost_microdollars"].map((name) => valueAt(usage, name)),
        [200, 0, 0, 0],
      )
    }).pipe(Effect.scoped))

  it.effect("is charged in installments for exactly the bytes of its changes (decision 0117)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const key = yield* Service.ensureAccountWithKey("metered", "ultimate")
      const stream = yield* open("after=now", { key })
      const usage = sql<
        { readonly bytes: number; readonly cost: number; readonly rows: number; readonly installments: number }
      >`
        select coalesce(sum(bytes), 0)::int as bytes, coalesce(sum(cost_microdollars), 0)::int as cost,
          coalesce(sum(records_returned), 0)::int as rows, count(*)::int as installments
        from usage_requests join accounts using (account_id)
        where name = 'metered' and endpoint = '/v1/changes/stream' and status_code = 200
      `
      const total = Effect.map(usage, ([row]) => row ?? { bytes: 0, cost: 0, rows: 0, installments: 0 })
      yield* insertShares("METER1", "METER2")
      const shares = 2
      const reports = 5
      yield* waitForCondition("changes", () => stream.changes.length === shares)
      yield* Effect.repeat(total, { until: ({ rows }) => rows === shares })
      yield* insertLongReports(1, reports, 2_000)
      yield* waitForCondition("reports", () => stream.changes.length === shares + reports)
      const charged = yield* Effect.repeat(total, { until: ({ rows }) => rows === shares + reports })
      assert.isAtLeast(charged.installments, 2)
      yield* sql`update api_keys set revoked_at = now() where account_id = (
        select account_id from accounts where name = 'metered')`
      yield* waitForEnd(stream, "key_revoked")
      const bytes = stream.changeBytes
      const all = yield* Effect.repeat(total, { until: (found) => found.bytes >= bytes })
      assert.strictEqual(all.bytes, bytes)
      assert.strictEqual(all.cost, computeDataCost(bytes, 10_000_000))
      const [daily] = yield* sql<{ readonly bytes: number }>`
        select bytes::int from usage_totals join accounts using (account_id) where name = 'metered'
      `
      assert.strictEqual(daily?.bytes, bytes)
    }).pipe(Effect.scoped))

  it.effect("of a prepaid account ends when the balance is used up (decision 0117)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const key = yield* Service.ensureAccountWithKey("prepaid", "ultimate")
      yield* sql`update accounts set balance_microdollars = 100 where name = 'prepaid'`
      const stream = yield* open("after=now", { key })
      yield* insertLongReports(100, 5, 3_000)
      yield* waitForEnd(stream, "out_of_credit")
      // The service may use an outdated balance for up to a second.
      yield* Effect.repeat(Service.requestJson("/v1/changes/stream", { key }), {
        until: ({ status }) => status === 402,
      })
    }).pipe(Effect.scoped))

  it.effect("reports a gap if the history is replaced, and then ends (decision 0117)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* insertShares("LOST")
      const cursor = yield* readCurrentCursor
      const streams = [yield* open(`after=${cursor}`), yield* open("after=now&dataset=news")]
      yield* waitForCondition("live", () => streams.every(({ comments }) => comments > 2))
      yield* sql`update history.transactions set mark = gen_random_uuid()`
      for (const stream of streams) {
        yield* waitForEnd(stream, "gap")
        const [gap, ...others] = stream.events
        assert.deepStrictEqual([gap?.event, others.length], ["gap", 1])
        const refused = yield* Service.requestJson(`/v1/changes/stream?after=${cursor}`)
        assert.strictEqual(refused.status, 410)
        const body: unknown = JSON.parse(gap?.data ?? "")
        assert.deepStrictEqual(valueAt(body, "error"), valueAt(refused.body, "error"))
        assert.strictEqual(valueAt(body, "request_id"), stream.headers["x-request-id"])
        assert.strictEqual(valueAt(endOf(stream), "cursor"), cursor)
      }
      const again = yield* open("after=now")
      yield* insertShares("AGAIN")
      yield* waitForCondition("new history", () => again.changes.length === 1)
    }).pipe(Effect.scoped))
})

/** The buffer for recent changes, in bytes. It is small, so a slow client falls behind quickly. */
const recentBytes = 2_000_000

/** Writes 24 MB of changes, far more than the sockets and the buffer for recent changes can hold. */
const writeMuch = Effect.fnUntraced(function* (first: number, fast: EventStream) {
  const before = fast.changes.length
  const reportsPerTransaction = 20
  for (const transaction of range(24)) {
    yield* insertLongReports(first + transaction * reportsPerTransaction, reportsPerTransaction, 50_000)
    const written = (transaction + 1) * reportsPerTransaction
    yield* waitForCondition("the fast client", () => fast.changes.length >= before + written)
  }
})

const readMetric = (name: string, reason?: string) =>
  Effect.map(
    Metric.snapshot,
    (metrics) =>
      metrics.flatMap(({ attributes, id, state }) =>
        id === name && (reason === undefined || attributes?.["reason"] === reason)
          ? [Number(valueAt(state, "count") ?? valueAt(state, "value"))]
          : []
      )[0],
  )

const untilMetric = (expected: number, name: string, reason?: string) =>
  Effect.repeat(readMetric(name, reason), {
    until: (value) => value === expected,
    schedule: Schedule.spaced("10 millis"),
  })

layer(service({ recentBytes, closingMillis: 60_000 }), { excludeTestServices: true, timeout: "180 seconds" })(
  "A slow client",
  (it) => {
    it.effect("receives a cursor to continue with when it reads again, while other clients receive everything (decision 0117)", () =>
      Effect.gen(function* () {
        yield* skipUnlessThorough
        const start = yield* readCurrentCursor
        const fast = yield* open(`after=${start}`)
        const slow = yield* open(`after=${start}`)
        yield* insertShares("READ")
        yield* waitForCondition("both", () => fast.changes.length === 1 && slow.changes.length === 1)
        slow.pause()
        yield* writeMuch(1, fast)
        slow.read()
        yield* waitForEnd(slow, "slow_client")
        assert.isBelow(slow.changes.length, fast.changes.length)
        const after = String(valueAt(endOf(slow), "cursor"))
        const resumed = yield* open(`after=${after}`)
        yield* waitForCondition("all", () => slow.changes.length + resumed.changes.length === fast.changes.length)
        assert.deepStrictEqual(
          [...slow.changes, ...resumed.changes].map(({ id }) => id),
          fast.changes.map(({ id }) => id),
        )
        assert.isUndefined(fast.end)
        assert.strictEqual(yield* readMetric("tickerline_change_streams_ended_total", "slow_client"), 1)
        yield* untilMetric(2, "tickerline_change_streams")
      }).pipe(Effect.scoped))
  },
)

layer(service({ recentBytes, closingMillis: 300 }), { excludeTestServices: true, timeout: "180 seconds" })(
  "A client that does not read",
  (it) => {
    it.effect("is disconnected, and can resume after the last change that it received (decision 0117)", () =>
      Effect.gen(function* () {
        yield* skipUnlessThorough
        const fast = yield* open("after=now")
        const stalled = yield* open("after=now")
        const never = yield* open("after=now", { isReading: false })
        yield* insertShares("READ")
        yield* waitForCondition("both", () => fast.changes.length === 1 && stalled.changes.length === 1)
        stalled.pause()
        yield* writeMuch(1_001, fast)
        yield* untilMetric(1, "tickerline_change_streams")
        never.read()
        stalled.read()
        yield* waitForCondition("closed", () => stalled.isClosed && never.isClosed)
        assert.isUndefined(stalled.end, "a broken connection does not look like an end")
        const resumed = yield* open("", { headers: { "Last-Event-ID": stalled.lastId } })
        yield* waitForCondition("all", () => stalled.changes.length + resumed.changes.length === fast.changes.length)
        assert.deepStrictEqual(
          [...stalled.changes, ...resumed.changes].map(({ id }) => id),
          fast.changes.map(({ id }) => id),
        )
      }).pipe(Effect.scoped))
  },
)

/**
 * Tests that usage rows wait in memory until PostgreSQL has stored them, and that each row is stored exactly once (D29,
 * usage).
 */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import {
  Clock,
  ConfigProvider,
  Context,
  Effect,
  Exit,
  Fiber,
  Layer,
  Logger,
  Metric,
  Redacted,
  Schedule,
  Scope,
} from "effect"
import { FetchHttpClient, HttpClient } from "effect/http"
import { SqlClient, Statement } from "effect/sql"
import { TestClock } from "effect/testing"
import { spawn } from "node:child_process"
import { PrepaidBalances } from "../../../src/accounts/billing/PrepaidBalances.ts"
import {
  usageBufferRefusalsTotal,
  UsageMetering,
  usageRecordsLostTotal,
} from "../../../src/accounts/billing/UsageMetering.ts"
import type { UsageRecord } from "../../../src/accounts/billing/UsageRecord.ts"
import { dropUsagePartitionsBefore } from "../../../src/accounts/billing/UsagePartitions.ts"
import { settleUsage } from "../../../src/accounts/billing/UsageSettlement.ts"
import {
  makeThrottledRequestCountWriter,
  type ThrottledRequestCount,
} from "../../../src/accounts/billing/UsageWriter.ts"
import { makeRequestId } from "../../../src/contract/rules/RequestIds.ts"
import { DatabaseReader } from "../../../src/postgres/DatabaseReader.ts"
import { makeRecordWriter, makeUsageRecord } from "../../support/CustomerUsage.ts"
import { beginTransaction, waitUntilBlocked } from "../../support/HeldTransactions.ts"
import * as Service from "../../support/Service.ts"
import { makePoolableClientLayer } from "../../support/PoolerMode.ts"
import { makeRandomChooser } from "../../support/RandomChoices.ts"
import { getInputCount, skipUnlessThorough } from "../../support/Thoroughness.ts"

/** Overrides the given settings. */
const settings = (values: Record<string, string>) =>
  ConfigProvider.layerAdd(ConfigProvider.fromUnknown(values), { asPrimary: true })

/** The URL of the test's database. */
class Url extends Context.Service<Url, Redacted.Redacted>()("test/accounts/Url") {}

const base = Layer.unwrap(Effect.map(
  Service.copyMigratedDatabase,
  (url) => Layer.merge(makePoolableClientLayer({ url, applicationName: "tickerline-test" }), Layer.succeed(Url, url)),
)).pipe(Layer.provideMerge(Layer.mergeAll(NodeServices.layer, NodeCrypto.layer)))

/**
 * Starts usage metering as a service process would. `stop` shuts it down. Logging is off, because failures are
 * expected.
 */
const startMetering = Effect.fnUntraced(function* (values: Record<string, string> = {}) {
  const scope = yield* Scope.make()
  const context = yield* Layer.buildWithScope(
    Layer.fresh(UsageMetering.layer).pipe(
      Layer.provide(Layer.fresh(PrepaidBalances.layer)),
      Layer.provide(Layer.fresh(DatabaseReader.layer)),
      Layer.provide(settings(values)),
      Layer.provide(Logger.layer([])),
    ),
    scope,
  )
  const meter = yield* Effect.provide(UsageMetering, context)
  return { meter, stop: Scope.close(scope, Exit.void) }
})

/** Reads the number of recorded requests, the number of requests in the daily sums, and the balance of account 1. */
const readSums = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly rows: number; readonly requests: number; readonly balance: number }>`
    select (select count(*)::int from usage_requests) as rows,
      (select coalesce(sum(requests), 0)::int from usage_totals) as requests,
      (select current_balance(accounts)::int from accounts where account_id = 1) as balance
  `
  return row
})

/** Repeats an effect until its value satisfies the predicate, up to 1,000 times, 20 milliseconds apart. */
const until = <A, E, R>(effect: Effect.Effect<A, E, R>, holds: (value: A) => boolean) =>
  Effect.repeat(effect, { until: holds, schedule: Schedule.spaced("20 millis"), times: 1_000 })

/** The cost in microdollars of a request created by `makeUsageRecord`. */
const recordCost = 7

layer(base, { excludeTestServices: true, timeout: "60 seconds" })("Usage metering", (it) => {
  it.effect("counts a batch once even if all or part of it is sent again (D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`insert into accounts (name, tier, balance_microdollars) values ('metered', 'basic', 1000)`
      const { makeBatch, write } = yield* makeRecordWriter
      const first = makeBatch([makeUsageRecord(), makeUsageRecord({ status_code: 500, cost_microdollars: 0 })])
      const second = makeBatch([makeUsageRecord()])
      yield* write(first)
      yield* write(first)
      yield* settleUsage
      yield* write(first)
      yield* write(second)
      yield* write(first)
      yield* write(second)
      assert.deepStrictEqual(yield* readSums, { rows: 3, requests: 3, balance: 1000 - 2 * recordCost })
      yield* Effect.all([settleUsage, settleUsage, write(second)], { concurrency: "unbounded" })
      assert.deepStrictEqual(yield* readSums, { rows: 3, requests: 3, balance: 1000 - 2 * recordCost })
      const daily = yield* sql`
        select usage_date::text, endpoint, requests::int, errors::int, bytes::int, cost_microdollars::int
        from usage_totals
      `
      assert.deepStrictEqual(daily.map((row) => ({ ...row })), [{
        usage_date: "2026-06-01",
        endpoint: "/v1/screener",
        requests: 3,
        errors: 1,
        bytes: 300,
        cost_microdollars: 2 * recordCost,
      }])
    }))

  it.effect("settles accounts that are changed at the same time (D27, D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const before = yield* readSums
      const { makeBatch, write } = yield* makeRecordWriter
      // With table statistics, PostgreSQL chooses the plans that it would use for production tables. Some of these
      // plans crashed PostgreSQL 18.
      for (const _ of [1, 2]) {
        yield* write(
          makeBatch(Array.from({ length: 50 }, (_, index) => makeUsageRecord({ account_id: 1 + index % 3 }))),
        )
        yield* settleUsage
        yield* sql`analyze`
      }
      yield* write(makeBatch([makeUsageRecord()]))
      const { commit } = yield* beginTransaction(
        sql`update accounts set balance_microdollars = balance_microdollars + 5 where account_id = 1`,
      )
      const settling = yield* Effect.forkChild(settleUsage)
      yield* waitUntilBlocked
      yield* commit
      yield* Fiber.join(settling)
      // In each batch of 50 requests, 17 come from account 1.
      const requestsOfFirst = 2 * 17 + 1
      assert.deepStrictEqual(yield* readSums, {
        rows: (before?.rows ?? 0) + 101,
        requests: (before?.requests ?? 0) + 101,
        balance: (before?.balance ?? 0) - requestsOfFirst * recordCost + 5,
      })
      assert.lengthOf(yield* sql`select from unsettled_usage`, 0)
    }))

  it.effect("records the right endpoint even if the database has lost it and reused its number (D29, decision 0160)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { makeBatch, write } = yield* makeRecordWriter
      const record = { account_id: 77, endpoint: "/v1/lost" }
      yield* write(makeBatch([makeUsageRecord(record)]))
      yield* sql`delete from usage_batches where account_id = 77`
      yield* sql`delete from unsettled_usage where account_ids = '{77}'`
      yield* sql`update usage_request_kinds set endpoint = '/v1/other', status_code = 500 where endpoint = '/v1/lost'`
      yield* write(makeBatch([makeUsageRecord(record), makeUsageRecord(record)]))
      const rows = yield* sql`select endpoint, status_code::int as status from usage_requests where account_id = 77`
      const lost = { endpoint: "/v1/lost", status: 200 }
      assert.deepStrictEqual(rows, [lost, lost])
      yield* sql`delete from usage_batches where account_id = 77`
      yield* sql`delete from unsettled_usage where account_ids = '{77}'`
    }))

  it.effect("keeps the balance exact even if concurrent writers repeat each batch (D29)", () =>
    Effect.gen(function* () {
      const before = yield* readSums
      const [writers, batches, batchSize] = [8, 5, 25]
      const writeTwice = Effect.gen(function* () {
        const { makeBatch, write } = yield* makeRecordWriter
        for (let at = 0; at < batches; at++) {
          const batch = makeBatch(Array.from({ length: batchSize }, () => makeUsageRecord()))
          // Sends the same batch twice concurrently, as if the connection had been lost during the first attempt.
          yield* Effect.all([write(batch), write(batch)], { concurrency: "unbounded" })
          if (at % 2 === 0) yield* settleUsage
        }
      })
      yield* Effect.forEach(Array.from({ length: writers }), () => writeTwice, {
        concurrency: "unbounded",
        discard: true,
      })
      const written = writers * batches * batchSize
      assert.deepStrictEqual(yield* readSums, {
        rows: (before?.rows ?? 0) + written,
        requests: (before?.requests ?? 0) + written,
        balance: (before?.balance ?? 0) - written * recordCost,
      })
    }))

  it.effect("keeps rows while the table cannot be written, and refuses requests once too many rows wait (D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const before = yield* readSums
      const { meter, stop } = yield* startMetering({ USAGE_BUFFER: "3" })
      yield* sql`alter table usage_batches rename to usage_away`
      meter.record(makeUsageRecord())
      meter.record(makeUsageRecord())
      yield* meter.requireCapacity
      meter.record(makeUsageRecord())
      const refused = Metric.value(usageBufferRefusalsTotal)
      const { count } = yield* refused
      const error = yield* Effect.flip(meter.requireCapacity)
      assert.strictEqual(error._tag, "DatabasePoolTimeout")
      assert.strictEqual((yield* refused).count, count + 1, "the refusal is counted")
      // Requests that are already in progress are recorded even while the buffer is full.
      meter.record(makeUsageRecord())
      yield* sql`alter table usage_away rename to usage_batches`
      yield* until(Effect.exit(meter.requireCapacity), Exit.isSuccess)
      yield* until(readSums, (now) => now?.rows === (before?.rows ?? 0) + 4)
      assert.strictEqual((yield* readSums)?.balance, (before?.balance ?? 0) - 4 * recordCost)
      yield* stop
    }))

  it.effect("records a flood of 429 responses in one row per minute, outside the usage buffer (D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const before = yield* readSums
      const { meter, stop } = yield* startMetering({ USAGE_BUFFER: "3" })
      const start = Date.parse("2026-06-02T12:00:00.000Z")
      const flood = 100_000
      for (let sent = 0; sent < flood; sent++) {
        meter.record(makeUsageRecord({
          requested_at: start + sent,
          request_id: `refused ${sent}`,
          status_code: 429,
          bytes: 10,
          cost_microdollars: 0,
          endpoint: sent % 2 === 0 ? "/v1/news" : "/v1/screener",
        }))
        if (sent % 1_000 === 0) assert.isTrue(meter.hasCapacity())
      }
      yield* stop
      const rows = yield* sql`
        select requested_at::text as first, endpoint, request_id, request_count::int as count, bytes::int,
          status_code::int as status
        from usage_requests where status_code = 429 order by requested_at, endpoint
      `
      const row = (first: string, endpoint: string, sent: number, count: number) => ({
        first,
        endpoint,
        request_id: `refused ${sent}`,
        count,
        bytes: 10 * count,
        status: 429,
      })
      assert.deepStrictEqual(rows.map((found) => ({ ...found })), [
        row("2026-06-02 12:00:00+00", "/v1/news", 0, 30_000),
        row("2026-06-02 12:00:00.001+00", "/v1/screener", 1, 30_000),
        row("2026-06-02 12:01:00+00", "/v1/news", 60_000, 20_000),
        row("2026-06-02 12:01:00.001+00", "/v1/screener", 60_001, 20_000),
      ])
      assert.deepStrictEqual(yield* readSums, {
        rows: (before?.rows ?? 0) + 4,
        requests: (before?.requests ?? 0) + flood,
        balance: before?.balance ?? 0,
      })
      const daily = yield* sql`
        select endpoint, requests::int, errors::int, bytes::int, cost_microdollars::int as cost
        from usage_totals where usage_date = '2026-06-02' order by endpoint
      `
      assert.deepStrictEqual(daily.map((found) => ({ ...found })), [
        { endpoint: "/v1/news", requests: 50_000, errors: 50_000, bytes: 500_000, cost: 0 },
        { endpoint: "/v1/screener", requests: 50_000, errors: 50_000, bytes: 500_000, cost: 0 },
      ])
    }))

  it.effect("counts refused requests once even if their counts are sent again in any order (D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const write = yield* makeThrottledRequestCountWriter
      const row = makeUsageRecord({
        requested_at: Date.parse("2026-06-03T12:00:00.000Z"),
        status_code: 429,
        endpoint: "/v1/again",
      })
      const grow = (id: string, from: number, to: number): ThrottledRequestCount => ({
        id,
        row,
        countsBefore: { requests: from, bytes: 5 * from },
        countsAfter: { requests: to, bytes: 5 * to },
      })
      const [one, other] = ["01a00000-0000-7000-8000-000000000001", "01a00000-0000-7000-8000-000000000002"]
      /** Reads the count and bytes of each row, and the requests, errors and bytes of each day. */
      const readCounts = Effect.gen(function* () {
        const rows = yield* sql<{ readonly count: number; readonly bytes: number }>`
          select request_count::int as count, bytes::int from usage where endpoint = '/v1/again' order by usage_id
        `
        const days = yield* sql<{ readonly requests: number; readonly errors: number; readonly bytes: number }>`
          select requests::int, errors::int, bytes::int from usage_totals where endpoint = '/v1/again'
        `
        return [...rows.map(({ bytes, count }) => [count, bytes]), ...days.map((day) => Object.values(day))]
      })
      yield* write([grow(one, 0, 3)])
      yield* write([grow(one, 0, 3)])
      assert.deepStrictEqual(yield* readCounts, [[3, 15], [3, 3, 15]])
      yield* write([grow(one, 3, 10), grow(other, 0, 4)])
      yield* write([grow(one, 0, 3)])
      yield* write([grow(one, 3, 10), grow(other, 0, 4)])
      assert.deepStrictEqual(yield* readCounts, [[10, 50], [4, 20], [14, 14, 70]])
      yield* Effect.forEach(
        Array.from({ length: 20 }, () => [grow(one, 10, 11), grow(other, 4, 9)]),
        (batch) => write(batch),
        { concurrency: 8, discard: true },
      )
      assert.deepStrictEqual(yield* readCounts, [[11, 55], [9, 45], [20, 20, 100]])
    }))

  it.effect("records other requests while the counts of refused requests cannot be written (D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const before = yield* readSums
      const { meter, stop } = yield* startMetering({ USAGE_BUFFER: "3" })
      yield* sql`alter table usage add constraint no_counts check (request_count = 1) not valid`
      const refusal = makeUsageRecord({
        requested_at: Date.parse("2026-06-04T12:00:00.000Z"),
        status_code: 429,
        cost_microdollars: 0,
      })
      for (let sent = 0; sent < 50; sent++) meter.record(refusal)
      for (let sent = 1; sent <= 10; sent++) {
        meter.record(makeUsageRecord())
        yield* until(readSums, (now) => now?.rows === (before?.rows ?? 0) + sent)
        yield* meter.requireCapacity
      }
      yield* sql`alter table usage drop constraint no_counts`
      yield* until(readSums, (now) => now?.requests === (before?.requests ?? 0) + 60)
      yield* stop
      assert.strictEqual((yield* readSums)?.rows, (before?.rows ?? 0) + 11)
    }))

  it.effect("writes the waiting rows during an orderly shutdown (D29)", () =>
    Effect.gen(function* () {
      const before = yield* readSums
      const { meter, stop } = yield* startMetering()
      const waiting = 12_000
      for (let row = 0; row < waiting; row++) meter.record(makeUsageRecord())
      yield* stop
      assert.strictEqual((yield* readSums)?.rows, (before?.rows ?? 0) + waiting)
    }))

  it.effect("writes exactly what was recorded, in order, and counts it once, whatever was being written (D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      for (let seed = 1; seed <= getInputCount(15); seed++) {
        const choose = makeRandomChooser(seed)
        const { meter, stop } = yield* startMetering()
        const accounts = [10 * seed, 10 * seed + 1, 10 * seed + 2].map((number) => 1_000 + number)
        const recorded: Array<UsageRecord> = []
        const record = (count: number) => {
          const own = choose([true, false])
          for (let made = 0; made < count; made++) {
            const requested_at = Date.parse("2026-06-05T12:00:04Z") + choose([0, 1, 900, 1_000, 7_000])
            const row = makeUsageRecord({
              requested_at,
              account_id: choose([accounts[0] ?? 0, ...accounts]),
              request_id: own ? `${seed}-${recorded.length}` : makeRequestId(requested_at),
              endpoint: choose(["/v1/news", "/v1/screener"]),
              bytes: recorded.length,
              cost_microdollars: choose([0, 5, 70_000]),
            })
            meter.record(row)
            recorded.push(row)
          }
        }
        /** Compares the requests and costs in the database and in memory with everything that was recorded. */
        const assertSums = Effect.forEach(accounts, (account_id) =>
          Effect.gen(function* () {
            const { isCurrent, query } = meter.makeUnwrittenSql(account_id, "2026-06-05")
            const [found] = yield* sql`
              select (unwritten.requests_today + written.requests)::int as requests,
                (unwritten.cost + written.cost)::float8 as cost
              from (${query}) as unwritten cross join (
                select count(*) as requests, coalesce(sum(cost_microdollars), 0) as cost
                from usage_requests where account_id = ${account_id}::int
              ) as written
            `
            if (!isCurrent()) return false
            const rows = recorded.filter((row) => row.account_id === account_id)
            const cost = rows.reduce((sum, { cost_microdollars }) => sum + cost_microdollars, 0)
            assert.deepStrictEqual({ ...found }, { requests: rows.length, cost }, `seed ${seed}`)
            return true
          }).pipe(Effect.repeat({ until: (isCompared) => isCompared })))
        for (let step = 0; step < choose([2, 4]); step++) {
          record(choose([1, 30, 700]))
          const isBlocked = choose([true, false])
          const lock = isBlocked
            ? yield* beginTransaction(sql`lock table usage_writers in exclusive mode`)
            : { commit: Effect.void }
          record(choose([1, 2_500]))
          if (isBlocked) yield* waitUntilBlocked
          record(choose([1, 30, 700, 2_500]))
          yield* assertSums
          yield* lock.commit
          yield* assertSums
        }
        yield* stop
        const written = yield* sql<object>`
          select account_id::float8, (extract(epoch from usage_window(moment)) / 5)::float8 as five_seconds,
            (extract(epoch from requested_at) * 1000)::float8 as requested_at, request_id, endpoint, bytes::float8,
            cost_microdollars::float8
          from usage_requests where account_id between ${accounts[0] ?? 0}::int and ${accounts[2] ?? 0}::int
          order by account_id, five_seconds, writer, sequence, part, place
        `
        const expected = recorded.map(
          ({ account_id, bytes, cost_microdollars, endpoint, request_id, requested_at }) => ({
            account_id,
            five_seconds: Math.floor(requested_at / 5_000),
            requested_at,
            request_id,
            endpoint,
            bytes,
            cost_microdollars,
          }),
        ).toSorted((a, b) => a.account_id - b.account_id || a.five_seconds - b.five_seconds)
        assert.deepStrictEqual(written.map((row) => ({ ...row })), expected, `seed ${seed}`)
      }
    }))

  it.effect("retries a write after any failure (D29)", () =>
    Effect.gen(function* () {
      const before = yield* readSums
      let attempts = 0
      const failOnce: Statement.Transformer = (statement) =>
        Effect.sync(() => {
          if (statement.compile()[0].includes("insert into usage_batches")) {
            attempts += 1
            if (attempts === 1) throw new Error("a mistake of ours")
          }
          return statement
        })
      const { meter, stop } = yield* Effect.provideService(startMetering(), Statement.CurrentTransformer, failOnce)
      meter.record(makeUsageRecord())
      yield* until(readSums, (now) => now?.rows === (before?.rows ?? 0) + 1)
      assert.isAbove(attempts, 1)
      yield* stop
    }))

  it.effect("drops the months before the retention period, but never the daily sums (D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { makeBatch, write } = yield* makeRecordWriter
      const months = ["2024-01-31T23:59:59.999Z", "2024-02-01T00:00:00.000Z", "2024-02-29T12:00:00.000Z"]
      yield* write(
        makeBatch(months.map((requested_at) => makeUsageRecord({ requested_at: Date.parse(requested_at) }))),
      )
      const countRemaining = sql<
        { readonly rows: number }
      >`select count(*)::int as rows from usage_requests where requested_at < '2025-01-01'`
      assert.deepStrictEqual(yield* dropUsagePartitionsBefore(sql`timestamptz '2024-02-29T23:59:59Z'`), [
        "usage_2024_01",
      ])
      assert.strictEqual((yield* countRemaining)[0]?.rows, 2)
      assert.deepStrictEqual(yield* dropUsagePartitionsBefore(sql`timestamptz '2024-03-01T00:00:00Z'`), [
        "usage_2024_02",
      ])
      assert.strictEqual((yield* countRemaining)[0]?.rows, 0)
      const [daily] = yield* sql<{ readonly requests: number }>`
        select sum(requests)::int as requests from usage_totals where usage_date < '2025-01-01'
      `
      assert.strictEqual(daily?.requests, 3)
    }))
})

layer(base, { timeout: "60 seconds" })("A shutdown without the database", (it) => {
  it.effect("ends after 20 seconds and counts the lost requests (D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { meter, stop } = yield* startMetering()
      yield* sql`alter table usage_batches rename to usage_away`
      meter.record(makeUsageRecord())
      meter.record(makeUsageRecord())
      for (let sent = 0; sent < 5; sent++) meter.record(makeUsageRecord({ status_code: 429, cost_microdollars: 0 }))
      const { count } = yield* Metric.value(usageRecordsLostTotal)
      const ended = yield* Effect.forkChild(stop)
      let seconds = 0
      while (ended.pollUnsafe() === undefined && seconds < 60) {
        seconds += 1
        yield* TestClock.adjust("1 second")
        // The test clock does not control PostgreSQL. This query gives pending statements time to finish.
        yield* sql`select 1`
      }
      yield* Fiber.join(ended)
      assert.strictEqual((yield* Metric.value(usageRecordsLostTotal)).count, count + 7)
      assert.isAtLeast(seconds, 20)
    }))
})

/** Starts the service in a separate process. */
const serve = Effect.gen(function* () {
  const url = yield* Url
  const port = 20_000 + (process.pid % 10_000)
  const base = `http://127.0.0.1:${port}`
  const child = yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn("node", ["src/main.ts", "serve"], {
        cwd: new URL("../../..", import.meta.url),
        env: { ...process.env, DATABASE_URL: Redacted.value(url), PORT: String(port), BASE_URL: base },
        stdio: ["ignore", "inherit", "inherit"],
      })
    ),
    (child) => Effect.sync(() => child.kill("SIGKILL")),
  )
  yield* until(Effect.exit(HttpClient.get(`${base}/health/ready`)), Exit.isSuccess)
  return { base, child }
})

layer(Layer.merge(base, FetchHttpClient.layer), { excludeTestServices: true, timeout: "60 seconds" })(
  "kill -9",
  (it) => {
    it.effect("loses at most the last second of usage (D29)", () =>
      Effect.gen(function* () {
        yield* skipUnlessThorough
        const sql = yield* SqlClient.SqlClient
        const key = yield* Service.ensureAccountWithKey("killed", "ultimate")
        const { base, child } = yield* serve
        const received: Array<{ readonly id: string; readonly at: number }> = []
        const sendRequest = HttpClient.get(`${base}/v1/ticker-changes?ticker=KILL`, { headers: { "X-API-Key": key } })
          .pipe(
            Effect.timeout("30 seconds"),
            Effect.flatMap(({ headers }) =>
              Effect.map(Clock.currentTimeMillis, (at) => {
                received.push({ id: headers["x-request-id"] ?? "", at })
              })
            ),
          )
        const start = yield* Clock.currentTimeMillis
        yield* Effect.repeat(sendRequest, {
          until: () => received.length > 100 && (received.at(-1)?.at ?? 0) > start + 2_500,
        })
        child.kill("SIGKILL")
        const killed = yield* Clock.currentTimeMillis
        const rows = yield* sql<{ readonly request_id: string }>`select request_id from usage_requests`
        const recorded = new Set(rows.map(({ request_id }) => request_id))
        const unrecorded = received.filter(({ id }) => !recorded.has(id))
        assert.isBelow(unrecorded.length, received.length)
        for (const { at } of unrecorded) assert.isAbove(at, killed - 1_000)
      }))
  },
)

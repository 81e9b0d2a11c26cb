/**
 * Fills each structure in the "Memory" table of SECURITY.md far beyond its bounds, and measures how much memory it
 * retains.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Clock, ConfigProvider, Context, Duration, Effect, Layer, Metric, Result } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { PrepaidBalances } from "../../src/accounts/billing/PrepaidBalances.ts"
import { UsageMetering } from "../../src/accounts/billing/UsageMetering.ts"
import { makeThrottledRequestCounter } from "../../src/accounts/billing/ThrottledRequestCounter.ts"
import { makeNetworkCompiler } from "../../src/accounts/keys/AllowedNetworks.ts"
import { makeRecentKeyCache } from "../../src/accounts/keys/Authenticator.ts"
import { makeBruteForceGuard } from "../../src/accounts/keys/BruteForceGuard.ts"
import { makeSharedTokenBuckets } from "../../src/accounts/limits/SharedTokenBuckets.ts"
import { catalogueEndpoints } from "../../src/api/catalogue/Endpoints.ts"
import { DatabaseReader } from "../../src/postgres/DatabaseReader.ts"
import { makeBulkhead, makePermits } from "../../src/postgres/pool/Bulkhead.ts"
import { makeTimestampCache } from "../../src/query/history/AsOfTimestamps.ts"
import { makeTableShapeStore } from "../../src/query/history/PastTables.ts"
import { makeChangeMatcher, makeRecentChangeBuffer } from "../../src/query/history/RecentChanges.ts"
import { makeResponseCache } from "../../src/api/ResponseCache.ts"
import { makeTickerChangeReader } from "../../src/query/lineage/LineageIndex.ts"
import { makeLineageStore } from "../../src/query/lineage/LineageResolver.ts"
import { makeListCompiler } from "../../src/query/lists/ListCompiler.ts"
import { HalfCacheBytesConfig } from "../../src/postgres/versions/DatasetVersions.ts"
import { CacheMemory, makeCacheMemory } from "../../src/query/lists/CacheMemory.ts"
import { CachedPage, hashQuery, makeRecentKeySet, makeStorablePage } from "../../src/query/lists/QueryCache.ts"
import { getMonotonicMillis } from "../../src/postgres/metrics/MonotonicTime.ts"
import { RequestMetrics } from "../../src/postgres/metrics/RequestMetrics.ts"
import { cachePerDay } from "../../src/query/rows/FieldEncoders.ts"
import { makePage } from "../../src/contract/rules/EndpointResult.ts"
import { ScreenerQuery, ScreenerRow } from "../../src/contract/endpoints/screener.ts"
import { makeApiRequest, makeFinishedResponse, makeRequestInProgress } from "../support/ApiRequests.ts"
import { makeUsageRecord, serviceWithSettings } from "../support/CustomerUsage.ts"
import * as GeneratedRows from "../support/GeneratedRows.ts"
import { projectRoot } from "../support/Processes.ts"
import { requestJson, TestKeys } from "../support/Service.ts"
import * as ServiceInstances from "../support/ServiceInstances.ts"
import { findTableRows } from "./TestCitations.ts"

// @module-tag slow

const mebibyte = 1_048_576

setFlagsFromString("--expose-gc")
const collectGarbage: () => void = runInNewContext("gc")

/**
 * Returns the size of all live objects in bytes. Runs several garbage collections, because V8 frees the buffers of
 * collected objects on another thread.
 */
const measureMemory = () => {
  let previous = Infinity
  for (let round = 0;; round++) {
    collectGarbage()
    const { external, heapUsed } = process.memoryUsage()
    const memory = heapUsed + external
    if (round > 20 || Math.abs(previous - memory) < 10_000) return memory
    previous = memory
  }
}

/** A filled structure. `entries` is its number of entries, if SECURITY.md limits that number. */
interface Filled {
  readonly structure: unknown
  readonly entries?: number
}

/** Generates random text of the given length. */
const makeText = (length: number) => randomBytes(length / 2).toString("hex")

const defaultSettings = Effect.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({})))

const fillRepetitions = Effect.sync(() => {
  const wasRequested = makeRecentKeySet()
  const query = makeText(15_000)
  const request = (number: number) => wasRequested(hashQuery(`${query} ${number}`))
  for (let number = 1; number <= 60_000; number++) request(number)
  assert.isFalse(request(40_000))
  assert.isTrue(request(59_999))
  return { structure: wasRequested }
})

const fillResults = Effect.gen(function* () {
  const memory = yield* CacheMemory
  for (let number = 0; number < 60_000; number++) {
    const headers = { "X-Lineage": makeText(200) }
    const body = new Uint8Array(number % 10 === 0 ? 10_000 : 100)
    const content = { body, headers, records: 1, nextPage: { page: 2 } }
    const page = makeStorablePage(content, { past: undefined, route: "/v1/news" })
    memory.set(hashQuery(String(number)), new CachedPage(page, "version"))
  }
})

const fillResponses = Effect.gen(function* () {
  const { store } = yield* makeResponseCache
  const empty = new Uint8Array(0)
  const rules = { access: { path: "/v1/news", required_tier: "basic" as const }, price: 0 }
  for (let number = 0; number < 40_000; number++) {
    const target = `/v1/news?tag=${"x".repeat(1_000)}${number}`
    const etag = `"${number}"`
    const body = number % 10 === 0 ? new Uint8Array(10_000) : empty
    const page = makePage({ body, contentType: "application/json", records: 1, etag, dependencies: [] })
    const headers = { etag, link: `<${target}&page=2>; rel="next"` }
    store(makeRequestInProgress({ id: "one", target }), rules, page, makeFinishedResponse({ headers, body }))
  }
})

/**
 * Fills the memory with responses, then with results, then with responses again. Each step alone would exceed the
 * limit.
 */
const fillCacheMemory = Effect.gen(function* () {
  yield* fillResponses
  yield* fillResults
  yield* fillResponses
  return { structure: yield* CacheMemory }
}).pipe(Effect.provide(CacheMemory.layer))

const fillLineages = Effect.gen(function* () {
  const lineages = makeLineageStore(Math.ceil((yield* HalfCacheBytesConfig) / 8))
  for (let number = 0; number < 30_000; number++) {
    const link = { old_ticker: `A${number}`, new_ticker: `B${number}`, effective_date: "2020-01-02" }
    const chain = {
      history: [link, { ...link }] as const,
      current_ticker: `B${number}`,
      cik: String(number).padStart(10, "0"),
      company_name: `Company ${number}`,
    }
    const event = { ...link, cik: null, company_name: null, reasons: [] }
    const conflict = {
      reasons: ["same_date_events"] as const,
      tickers: Array.from({ length: 50 }, (_, at) => `${number} ${at}`),
      candidates: [chain, { ...chain }],
      events: Array.from({ length: 50 }, () => ({ ...event })),
      event_count: 50,
    }
    const lineage = number % 10 === 0 ? Result.fail(conflict) : Result.succeed(chain)
    lineages.set(`2026-01-01T00:00:00.000000Z ${number}`, { lineage, version: "1", today: "2026-01-01" })
  }
  return { structure: lineages }
})

const fillTickerChanges = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const readChanges = yield* makeTickerChangeReader(yield* HalfCacheBytesConfig)
  const addChanges = (first: number, last: number, nameParts: number) =>
    GeneratedRows.skipHistory(
      "ticker_changes",
      sql`
        insert into ticker_changes (old_ticker, new_ticker, effective_date, cik, company_name, status)
        select 'S' || n, 'S' || n + 1, date '1900-01-01' + n % 40000, lpad(n::text, 10, '0'),
          repeat(md5(n::text), ${nameParts}::int), 'confirmed'
        from generate_series(${first}::int, ${last}::int) as n
      `,
    )
  yield* addChanges(1, 100_000, 1)
  const structure = yield* readChanges
  assert.isDefined(structure)
  // With long company names, fewer rows exceed the limit.
  yield* addChanges(100_001, 130_000, 20)
  assert.isUndefined(yield* readChanges)
  yield* sql`truncate ticker_changes`
  return { structure, entries: structure.size }
}).pipe(Effect.provide(DatabaseReader.layer), Effect.scoped)

const fillTimestamps = Effect.sync(() => {
  const timestamps = makeTimestampCache()
  for (let number = 0; number < 30_000; number++) {
    const timestamp = `timeline 1 ${new Date(number).toISOString()}`
    const running = Array.from({ length: number % 100 === 0 ? 200 : 0 }, (_, at) => `${number}${at}`)
    const found = { timestamp, bound: String(number), month: "2026-01-01", running, isPopular: false }
    timestamps.set(timestamp, { found, requests: 1 })
  }
  return { structure: timestamps, entries: timestamps.size }
})

const fillTableShapes = Effect.sync(() => {
  const shapes = makeTableShapeStore()
  for (let number = 0; number < 30_000; number++) {
    const shape = { table: "screener", columns: makeText(1_200), has_few_rows: true, has_few_versions: true }
    shapes.set(`2026-01-01T00:00:00.000000Z ${number} screener`, shape)
  }
  return { structure: shapes, entries: shapes.size }
})

const fillCompiledStatements = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const compileList = yield* Effect.provide(makeListCompiler, DatabaseReader.layer)
  const list = compileList<typeof ScreenerQuery.Type, "sort">({
    Query: ScreenerQuery,
    Row: ScreenerRow,
    shapedBy: ["sort"],
    select: ({ sort }, { columns, orderAndLimit, where }) =>
      sql`select ${columns} from screener where ${where} ${orderAndLimit(sql`${sql(sort)}, ticker`)}`,
  })
  const names = Object.keys(ScreenerQuery.fields).filter((name) => name.startsWith("min_"))
  for (let shape = 1; shape < 8_000; shape++) {
    const sent = names.filter((_, at) => (shape >> at % 13) % 2 === (at < 13 ? 1 : 0))
    const filters = Object.fromEntries(sent.map((name) => [name, "1"]))
    const sector = Array.from({ length: 1 + shape % 16 }, () => makeText(250))
    list.compile({ page: 1, limit: 10, sort: "price", sector, ...filters }, "page")
  }
  return { structure: list }
}).pipe(Effect.scoped)

const account = {
  account_id: 1,
  tier: "basic" as const,
  spendable_microdollars: null,
  is_limited_by_budget: false,
  key_id: 1,
}

const fillApiKeys = Effect.gen(function* () {
  const keys = yield* makeRecentKeyCache
  const asOf = getMonotonicMillis(yield* Clock.Clock)
  const paths = catalogueEndpoints.map(({ row }) => row.path)
  for (let number = 0; number < 20_000; number++) {
    const endpoints = paths.map((path) => Buffer.from(path).toString("latin1"))
    const networks = number % 2 === 0 ? null : { size: 4, includes: () => true }
    keys.add(hashQuery(String(number)), { account: { ...account, endpoints, networks }, isUseDue: false, asOf })
  }
  return { structure: keys, entries: keys.getSize() }
}).pipe(Effect.scoped)

const fillNetworks = Effect.sync(() => {
  const compile = makeNetworkCompiler()
  const makeList = (list: number) => Array.from({ length: 100 }, (_, at) => `2001:db8:${list.toString(16)}:${at}::/64`)
  const first = compile(makeList(0))
  for (let list = 1; list <= 1_000; list++) compile(makeList(list))
  assert.notStrictEqual(compile(makeList(0)), first)
  assert.strictEqual(compile(makeList(1_000)), compile(makeList(1_000)))
  return { structure: compile }
})

const fillWrongKeys = Effect.gen(function* () {
  const guard = yield* makeBruteForceGuard()
  for (let number = 0; number < 130_000; number++) {
    const address = `2001:db8:${(number >> 16).toString(16)}:${(number & 0xffff).toString(16)}::1`
    yield* Effect.flatMap(guard.findSender(makeApiRequest({ address })), guard.countWrongKey)
  }
  return { structure: guard }
})

const fillRateLimits = Effect.gen(function* () {
  const buckets = yield* makeSharedTokenBuckets
  for (let number = 1; number <= 10_000; number++) buckets.consumeHeld(number, 60)
  return { structure: buckets }
}).pipe(Effect.scoped)

const fillUsage = Effect.gen(function* () {
  const metering = Context.get(
    yield* Layer.build(
      UsageMetering.layer.pipe(Layer.provide(PrepaidBalances.layer), Layer.provide(DatabaseReader.layer)),
    ),
    UsageMetering,
  )
  let entries = 0
  // The loop blocks the event loop, so no fiber can write records to the database until it ends.
  while (metering.hasCapacity()) {
    metering.record(makeUsageRecord({ request_id: makeText(128), requested_at: Date.now() + Math.floor(entries / 3) }))
    entries += 1
  }
  return { structure: metering, entries }
})

const fillBalances = Effect.gen(function* () {
  const layer = PrepaidBalances.layer.pipe(Layer.provide(DatabaseReader.layer))
  const balances = Context.get(yield* Layer.build(layer), PrepaidBalances)
  for (let number = 1; number <= 50_000; number++) balances.update(number, { balance: number, reserved: 0 }, number)
  return { structure: balances }
})

const fillRefusedUsage = Effect.sync(() => {
  const counter = makeThrottledRequestCounter()
  for (let minute = 0; minute < 20_000; minute++) {
    counter.add(makeUsageRecord({ requested_at: minute * 60_000, request_id: makeText(128), status_code: 429 }))
  }
  return { structure: counter, entries: counter.countRows() - 1 }
})

const fillMetrics = Effect.gen(function* () {
  const metrics = Context.get(yield* Layer.build(RequestMetrics.layer), RequestMetrics)
  for (let number = 0; number < 100_000; number++) {
    metrics.record({
      request_id: String(number),
      method: "GET",
      target: `/v1/${number}`,
      endpoint: catalogueEndpoints[number % 100]?.row.path,
      account_id: number,
      status: 400 + number % 30,
      bytes: number,
      cached: number % 2 === 0,
      milliseconds: number / 100,
    })
  }
  return { structure: yield* Metric.snapshot }
}).pipe(Effect.scoped)

const fillChanges = Effect.sync(() => {
  const bytes = 16 * mebibyte
  const buffer = makeRecentChangeBuffer({ cursor: "0.", end: { recordedAt: 0, position: Infinity } }, bytes)
  for (let time = 1; time <= 1_500; time++) {
    const changes = Array.from({ length: 50 }, (_, position) => ({
      recordedAt: time,
      position,
      dataset: "news",
      kind: "added" as const,
      tickers: ["A"],
      cursor: `${time}.${position}`,
      json: new Uint8Array(500),
    }))
    const end = { recordedAt: time, position: 50 }
    buffer.append({ changes, cursor: `${time}.`, end, hasMore: false })
  }
  for (let number = 0; number < 1_000; number++) {
    const place = { next: 0, cursor: "1499.", end: { recordedAt: 1_499, position: 50 } }
    place.next = buffer.find(place.end) ?? 0
    buffer.take(place, makeChangeMatcher({ datasets: ["news"], kinds: undefined, tickers: ["A", `B${number}`] }))
  }
  return { structure: buffer }
})

const fillWaitingReads = Effect.gen(function* () {
  const queue = yield* makeBulkhead({
    permits: makePermits(1),
    timeout: Duration.hours(1),
    onTimeout: () => "late" as const,
  })
  for (let number = 0; number < 10_000; number++) {
    yield* Effect.forkScoped(queue.withPermit("")(Effect.never), { startImmediately: true })
  }
  return { structure: queue, entries: queue.waiterCount() + 1 }
})

const fillDays = Effect.sync(() => {
  const getShift = cachePerDay((day) => day)
  for (let day = 0; day < 140_000; day++) getShift(day)
  return { structure: getShift }
})

/** Functions that fill each structure, by the structure's name in the table. */
const fillers = {
  "Results and responses": fillCacheMemory,
  "Recent queries": fillRepetitions,
  "Lineages": fillLineages,
  "Ticker changes": fillTickerChanges,
  "Timestamps of as_of": fillTimestamps,
  "Tables at timestamps": fillTableShapes,
  "Compiled statements": fillCompiledStatements,
  "Valid keys": fillApiKeys,
  "Networks of keys": fillNetworks,
  "Wrong keys": fillWrongKeys,
  "Rate limits": fillRateLimits,
  "Prepaid balances": fillBalances,
  "Waiting usage": fillUsage,
  "Waiting usage of refused requests": fillRefusedUsage,
  "Request metrics": fillMetrics,
  "Newest changes": fillChanges,
  "Waiting reads": fillWaitingReads,
  "Clock shifts": fillDays,
}

const [, section = ""] = readFileSync(join(projectRoot, "docs/SECURITY.md"), "utf8").split("\n## Memory\n")

const toNumber = (text: string | undefined) => text === undefined ? undefined : Number(text.replaceAll(",", ""))

/** The table rows, with the number at the start of the cells "Entries" and "Memory". */
const listed = findTableRows(section.split("\n## ")[0] ?? "").map((row) => {
  const [, name = "", , entries = "", memory = "", test = ""] = row.split("|").map((cell) => cell.trim())
  return {
    name,
    maxEntries: toNumber(/^[\d,]+/.exec(entries)?.[0]),
    maxMebibytes: toNumber(/^([\d,]+) MiB/.exec(memory)?.[1]) ?? 0,
    isFilledHere: test.includes("memory-bounds.test.ts"),
  }
})

const connectionRow = "Prepared statements of a connection"

/**
 * The maximum memory that a PostgreSQL process may use for a connection with the maximum number of prepared statements.
 */
const maxBackendMebibytes = 64

describe("The table of SECURITY.md", () => {
  it("names exactly the structures that this file fills, and those with a test of their own (SECURITY.md)", () => {
    const filled = listed.filter(({ isFilledHere }) => isFilledHere).map(({ name }) => name)
    assert.sameMembers(filled, [...Object.keys(fillers), connectionRow])
    assert.isAtLeast(listed.length, filled.length + 3)
  })
})

const database = Layer.merge(ServiceInstances.databaseWithKeysLayer, Reactivity.layer)

layer(database, { excludeTestServices: true, timeout: "60 seconds" })("The service", (it) => {
  const filledHere = listed.flatMap((row) =>
    Object.entries(fillers).flatMap(([name, fill]) => name === row.name ? [{ ...row, fill }] : [])
  )

  it.effect.each(filledHere)(
    "keeps $name within its bounds (SECURITY.md)",
    ({ fill, maxEntries, maxMebibytes }) =>
      Effect.gen(function* () {
        const before = measureMemory()
        const { entries, structure }: Filled = yield* fill
        const grown = (measureMemory() - before) / mebibyte
        assert.isDefined(structure)
        assert.isAtMost(grown, maxMebibytes)
        if (entries !== undefined && maxEntries !== undefined) assert.isAtMost(entries, maxEntries)
      }).pipe(defaultSettings, Effect.scoped),
  )
})

const cacheShapes = [
  { body: 100, link: 0 },
  { body: 300, link: 0 },
  { body: 2_000, link: 200 },
  { body: 6_000, link: 0 },
]

/** The number of entries. With any of the shapes, they fit into the cache. */
const cachedEntries = 4_000

describe("A cache counts all bytes that it holds", () => {
  it.each(cacheShapes)(
    "if it has results of $body bytes, and $link bytes in a header (SECURITY.md)",
    ({ body, link }) => {
      const before = measureMemory()
      const { bytes, entries } = makeCacheMemory(1_000_000_000)
      for (let number = 0; number < cachedEntries; number++) {
        const headers = link === 0 ? {} : { "x-lineage": makeText(link) }
        const content = { body: new Uint8Array(body), headers, records: 1, nextPage: undefined }
        const page = makeStorablePage(content, { past: undefined, route: "/v1/news" })
        entries.set(hashQuery(String(number)), new CachedPage(page, "version"))
      }
      const held = measureMemory() - before
      assert.closeTo(entries.calculatedSize / held, 1, 0.2)
      assert.deepStrictEqual(bytes, { results: entries.calculatedSize, responses: 0 })
      entries.clear()
      assert.deepStrictEqual(bytes, { results: 0, responses: 0 })
    },
  )

  it.effect.each(cacheShapes)(
    "if it has responses of $body bytes, and $link bytes in a header (SECURITY.md)",
    ({ body, link }) =>
      Effect.gen(function* () {
        const { store } = yield* makeResponseCache
        const rules = { access: { path: "/v1/news", required_tier: "basic" as const }, price: 0 }
        const before = measureMemory()
        for (let number = 0; number < cachedEntries; number++) {
          const target = `/v1/news?tag=${makeText(20)}`
          const etag = `"${makeText(26)}"`
          const bytes = new Uint8Array(body)
          const page = makePage({ body: bytes, contentType: "application/json", records: 1, etag, dependencies: [] })
          const headers = {
            "content-type": "application/json",
            "content-length": String(body),
            etag,
            "cache-control": "private, no-cache",
            "x-content-type-options": "nosniff",
            "x-api-version": "v1",
            vary: "Accept, Accept-Encoding",
            "x-ratelimit-remaining": "1",
            "x-request-id": makeText(36),
            ...(link === 0 ? {} : { link: makeText(link) }),
          }
          store(
            makeRequestInProgress({ id: "one", target }),
            rules,
            page,
            makeFinishedResponse({ headers, body: bytes }),
          )
        }
        const held = measureMemory() - before
        const counted = (yield* Metric.snapshot).flatMap((metric) =>
          metric.id === "tickerline_cache_bytes" && metric.type === "Gauge" &&
            metric.attributes?.["part"] === "responses"
            ? [Number(metric.state.value)]
            : []
        )
        assert.lengthOf(counted, 1)
        assert.closeTo((counted[0] ?? 0) / held, 1, 0.2, `${counted[0]} of ${held}`)
      }).pipe(
        Effect.provide(CacheMemory.layer),
        defaultSettings,
        Effect.provideServiceEffect(Metric.MetricRegistry, Effect.sync(() => new Map())),
      ),
  )
})

layer(serviceWithSettings({ DATABASE_POOL_SIZE: "1" }), { excludeTestServices: true, timeout: "120 seconds" })(
  "The service",
  (it) => {
    it.effect(`keeps ${connectionRow} within its bounds (SECURITY.md)`, () =>
      Effect.gen(function* () {
        const { basic } = yield* TestKeys
        const sql = yield* SqlClient.SqlClient
        const names = Object.keys(ScreenerQuery.fields).filter((name) => name.startsWith("min_"))
        const values = Array.from({ length: 128 }, (_, at) => `v${at}`).join(",")
        for (let shape = 1; shape <= 110; shape++) {
          const sent = names.filter((_, at) => at < 7 ? (shape >> at) % 2 === 1 : at % 2 === 0)
          // If a statement has no symbol, PostgreSQL plans it for its actual values.
          const symbol = shape % 2 === 0 ? [] : [["ticker", "A"]]
          const query = [...symbol, ["sector", values], ...sent.map((name) => [name, "1"])]
          const search = query.map((one) => one.join("=")).join("&")
          // PostgreSQL caches a generic plan from the sixth execution on.
          for (let execution = 0; execution < 7; execution++) {
            const { status, text } = yield* requestJson(`/v1/screener?${search}`, { key: basic })
            assert.strictEqual(status, 200, text)
          }
        }
        const [found] = yield* sql<{ readonly count: number; readonly text: number; readonly memory: number }>`
          select count(*)::int as count, sum(octet_length(statement))::float8 as text,
            (select sum(total_bytes)::float8 from pg_backend_memory_contexts) as memory
          from pg_prepared_statements
        `
        const row = listed.find(({ name }) => name === connectionRow)
        assert.isAbove(found?.count ?? 0, 90)
        assert.isAtMost(found?.count ?? Infinity, row?.maxEntries ?? 0)
        assert.isAtMost(found?.text ?? Infinity, (row?.maxMebibytes ?? 0) * mebibyte)
        assert.isAtMost(found?.memory ?? Infinity, maxBackendMebibytes * mebibyte)
      }))
  },
)

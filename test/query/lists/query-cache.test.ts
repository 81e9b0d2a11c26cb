/** Tests cached list results (D17): when they are reused, when they are discarded, and what they must not reveal. */
import { assert, it, layer } from "@effect/vitest"
import { Clock, DateTime, Effect, Fiber, Layer, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import * as Endpoints from "../../../src/api/catalogue/Endpoints.ts"
import { makeCacheMemory } from "../../../src/query/lists/CacheMemory.ts"
import { buildUrl, documentedDatasetEndpoints, makeRequiredQuery, valueAt } from "../../support/DocumentedEndpoints.ts"
import * as ServiceInstances from "../../support/ServiceInstances.ts"
import * as CustomerUsage from "../../support/CustomerUsage.ts"
import * as GeneratedRows from "../../support/GeneratedRows.ts"
import * as RawSockets from "../../support/RawSockets.ts"
import * as Service from "../../support/Service.ts"
import * as StatementRecorder from "../../support/StatementRecorder.ts"
import { waitUntilOldDataExpires } from "../../support/Pauses.ts"

const { startServiceInstance, requestOverWire } = ServiceInstances
const { TestKeys } = Service

const filled = Layer.effectDiscard(GeneratedRows.fillAllTables(300)).pipe(
  Layer.provideMerge(ServiceInstances.databaseWithKeysLayer),
)

const runners = "/v1/intraday-runners?ticker=T7"

/** Headers that may differ between otherwise equal responses. */
const changingHeaders = new Set(["x-request-id", "date", "x-ratelimit-remaining", "x-ratelimit-reset"])

const omitChangingHeaders = (headers: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !changingHeaders.has(name)))

/**
 * Sends a request five times. The database serves the first two, the query cache serves the third, and the response
 * cache serves the last two.
 */
const requestFiveTimes = Effect.fnUntraced(
  function* (port: number, path: string, key: string, options?: ServiceInstances.WireRequestOptions) {
    const request = requestOverWire(port, path, key, options)
    return [yield* request, yield* request, yield* request, yield* request, yield* request] as const
  },
)

const setVolume = Effect.fnUntraced(function* (volume: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`update intraday_runners set volume = ${String(volume)}::text::bigint where ticker = 'T7'`
})

it("The cache memory does not make room for an entry of more than an eighth of it (operations/caching)", () => {
  const maxBytes = 1_000_000
  const { bytes, entries } = makeCacheMemory(maxBytes)
  const small = { part: "responses", size: 10_000 } as const
  const names = ["one", "two", "three"]
  for (const name of names) entries.set(name, small)
  entries.set("large", { part: "results", size: maxBytes / 8 })
  assert.deepStrictEqual([...entries.keys()].toSorted(), names.toSorted())
  // A response that has become too large leaves the cache.
  entries.set("one", { part: "results", size: maxBytes / 8 })
  assert.deepStrictEqual([...entries.keys()].toSorted(), ["three", "two"])
  assert.deepStrictEqual(bytes, { results: 0, responses: 2 * small.size + "three".length + "two".length })
  entries.set("fits", { part: "results", size: maxBytes / 10 })
  assert.isTrue(entries.has("fits"))
})

layer(filled, { excludeTestServices: true, timeout: "120 seconds" })("The query cache", (it) => {
  it.effect("returns cached results with the body and headers of fresh ones, for every dataset (D14, D17, D27)", () =>
    Effect.gen(function* () {
      const { ultimate } = yield* TestKeys
      const port = yield* startServiceInstance()
      for (const endpoint of documentedDatasetEndpoints.filter(({ path }) => path.startsWith("/v1/"))) {
        const { path } = endpoint
        const url = path === "/v1/historical-tickers"
          ? `${path}?ticker=O7`
          : buildUrl(path, makeRequiredQuery(endpoint))
        const responses = yield* requestFiveTimes(port, url, ultimate)
        const [fresh] = responses
        assert.strictEqual(fresh.status, 200, `${path} ${fresh.text}`)
        assert.match(fresh.headers["etag"] ?? "", /^"[0-9a-f]{32}"$/)
        assert.strictEqual(fresh.headers["cache-control"], "private, no-cache")
        for (const later of responses.slice(1)) {
          assert.strictEqual(later.text, fresh.text)
          assert.deepStrictEqual(omitChangingHeaders(later.headers), omitChangingHeaders(fresh.headers), path)
          assert.notStrictEqual(later.headers["x-request-id"], fresh.headers["x-request-id"])
        }
      }
    }).pipe(Effect.scoped))

  it.effect("does not reveal to an account whether another one has sent the request before, in headers or usage (SECURITY.md)", () =>
    Effect.gen(function* () {
      const [first, second] = [
        yield* CustomerUsage.createCustomer("first to ask"),
        yield* CustomerUsage.createCustomer("second to ask"),
      ]
      const port = yield* startServiceInstance()
      for (const [limit, encoding] of ["identity", "zstd", "br"].entries()) {
        const path = `/v1/intraday-runners?limit=${90 + limit}`
        const options = { headers: { "Accept-Encoding": encoding } }
        const [fresh] = yield* requestFiveTimes(port, path, first.key, options)
        const { etag = "" } = fresh.headers
        const cached = yield* requestOverWire(port, path, second.key, options)
        assert.deepStrictEqual(cached.headerNames, fresh.headerNames)
        assert.deepStrictEqual(cached.bytes, fresh.bytes)
        const conditional = { headers: { ...options.headers, "If-None-Match": etag } }
        const notModified = yield* requestFiveTimes(port, `${path}&page=1`, first.key, conditional)
        const notModifiedForSecond = yield* requestOverWire(port, path, second.key, conditional)
        assert.strictEqual(notModifiedForSecond.status, 304)
        for (const { headerNames } of notModified) {
          assert.deepStrictEqual(headerNames, notModifiedForSecond.headerNames)
        }
      }
      yield* CustomerUsage.waitForRecordedRequests(second.account_id, 6)
      const { text } = yield* requestOverWire(port, "/v1/usage?format=csv&endpoint=/v1/intraday-runners", second.key)
      const [names = [], ...rows] = text.trim().split("\r\n").map((line) => line.split(","))
      const cells = rows.map((row) => [row[names.indexOf("status_code")], row[names.indexOf("cached")]].join(" "))
      assert.deepStrictEqual(cells.toSorted(), [...Array(3).fill("200 false"), ...Array(3).fill("304 true")])
    }).pipe(Effect.scoped))

  it.effect("records cached responses with the same bytes and cost, and marks only a 304 as cached (D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, key } = yield* CustomerUsage.createCustomer("memory")
      const port = yield* startServiceInstance()
      const [{ headers: { etag = "" } }] = yield* requestFiveTimes(port, runners, key)
      yield* requestFiveTimes(port, runners, key, { headers: { "If-None-Match": etag } })
      yield* CustomerUsage.waitForRecordedRequests(account_id, 10)
      const rows = yield* sql<{ readonly line: string }>`
        select concat_ws(' ', status_code, cached, records_returned, bytes > 0, cost_microdollars > 0) as line
        from usage_requests where account_id = ${account_id} order by requested_at, writer, sequence, part, place
      `
      const records = (yield* requestOverWire(port, runners, key)).text.match(/"date"/g)?.length
      assert.deepStrictEqual(rows.map(({ line }) => line), [
        `200 f ${records} t t`,
        `200 f ${records} t t`,
        `200 f ${records} t t`,
        `200 f ${records} t t`,
        `200 f ${records} t t`,
        ...Array.from({ length: 5 }, () => "304 t 0 f f"),
      ])
      const sizes = yield* sql`
        select distinct bytes, cost_microdollars from usage_requests where account_id = ${account_id} and status_code = 200
      `
      assert.strictEqual(sizes.length, 1)
    }).pipe(Effect.scoped))

  it.effect("ignores the order of parameters, but not their values (D17)", () =>
    Effect.gen(function* () {
      const { basic } = yield* TestKeys
      const port = yield* startServiceInstance()
      const { sent } = yield* StatementRecorder.recordStatements(Effect.gen(function* () {
        yield* requestOverWire(port, "/v1/intraday-runners?ticker=T7&limit=3", basic)
        yield* requestOverWire(port, "/v1/intraday-runners?limit=3&ticker=T7", basic)
        yield* requestOverWire(port, "/v1/intraday-runners?limit=3&ticker=t7,@@", basic)
        yield* requestOverWire(port, "/v1/intraday-runners?ticker=T7&limit=4", basic)
      }))
      // The first three requests have the same result. The second request caches it, so only the third one needs no
      // query.
      assert.strictEqual(sent.filter(({ text }) => text.includes("from intraday_runners")).length, 3)
    }).pipe(Effect.scoped, Effect.provide(StatementRecorder.layer)))

  it.effect("runs one query for concurrent requests for the same result (D17)", () =>
    Effect.gen(function* () {
      const { basic } = yield* TestKeys
      const sql = yield* SqlClient.SqlClient
      const port = yield* startServiceInstance()
      yield* requestOverWire(port, "/v1/account", basic)
      const requests = Effect.all(
        Array.from({ length: 50 }, () => requestOverWire(port, "/v1/screener?limit=100", basic)),
        { concurrency: "unbounded" },
      )
      // The lock delays the first query until all requests are waiting for its result. The API key is already cached,
      // so no request waits for the key lookup instead.
      const begin = sql.withTransaction(Effect.gen(function* () {
        yield* sql`lock table screener`
        const fiber = yield* Effect.forkScoped(requests)
        yield* requestOverWire(port, "/v1/datasets", basic)
        yield* requestOverWire(port, "/v1/account", basic)
        return fiber
      }))
      const { result, sent } = yield* StatementRecorder.recordStatements(Effect.flatMap(begin, Fiber.join))
      assert.strictEqual(new Set(result.map(({ text }) => text)).size, 1)
      assert.isTrue(result.every(({ status }) => status === 200))
      assert.strictEqual(sent.filter(({ text }) => text.includes("from screener")).length, 1)
    }).pipe(Effect.scoped, Effect.provide(StatementRecorder.layer)))

  it.effect("caches nothing with CACHE_MEGABYTES=0 (D17)", () =>
    Effect.gen(function* () {
      const { basic } = yield* TestKeys
      const port = yield* startServiceInstance({ CACHE_MEGABYTES: "0" })
      const { sent } = yield* StatementRecorder.recordStatements(requestFiveTimes(port, runners, basic))
      assert.strictEqual(sent.filter(({ text }) => text.includes("from intraday_runners")).length, 5)
    }).pipe(Effect.scoped, Effect.provide(StatementRecorder.layer)))

  it.effect("stays within its limit, and still returns a result that is too large to cache (D17)", () =>
    Effect.gen(function* () {
      const { basic } = yield* TestKeys
      const port = yield* startServiceInstance({ CACHE_MEGABYTES: "1" })
      for (let page = 1; page <= 30; page++) {
        const [fresh, , , , cached] = yield* requestFiveTimes(port, `/v1/intraday-runners?limit=10&page=${page}`, basic)
        assert.strictEqual(fresh.status, 200)
        assert.strictEqual(cached.text, fresh.text)
      }
    }).pipe(Effect.scoped))
})

layer(filled, { excludeTestServices: true, timeout: "120 seconds" })("The service with cached results", (it) => {
  it.effect("refuses a cached result to requests without a valid key for the endpoint (D2, D3)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { basic } = yield* TestKeys
      const listed = yield* CustomerUsage.createCustomer("listed", { endpoints: ["/v1/screener"] })
      const revoked = yield* CustomerUsage.createCustomer("revoked")
      const port = yield* startServiceInstance()
      for (const key of [basic, revoked.key]) {
        assert.deepStrictEqual((yield* requestFiveTimes(port, runners, key)).map(({ status }) => status), [
          200,
          200,
          200,
          200,
          200,
        ])
      }
      assert.strictEqual((yield* requestOverWire(port, runners, listed.key)).status, 403)
      assert.strictEqual((yield* requestOverWire(port, runners, "")).status, 401)
      assert.strictEqual((yield* requestOverWire(port, runners, `${basic}x`)).status, 401)
      yield* sql`update api_keys set revoked_at = now() where key_id = ${revoked.key_id}`
      yield* waitUntilOldDataExpires
      assert.strictEqual((yield* requestOverWire(port, runners, revoked.key)).status, 401)
      assert.strictEqual((yield* requestOverWire(port, runners, basic)).status, 200)
    }).pipe(Effect.scoped))

  it.effect("refuses a cached result to a request with two different credentials (D2)", () =>
    Effect.gen(function* () {
      const { basic, pro } = yield* TestKeys
      const port = yield* startServiceInstance()
      yield* requestFiveTimes(port, runners, basic)
      yield* requestFiveTimes(port, runners, pro)
      const lines = {
        bearer: (key: string) => `Authorization: Bearer ${key}\r\n`,
        apiKey: (key: string) => `X-API-Key: ${key}\r\n`,
      }
      const status = Effect.fnUntraced(function* (...headers: ReadonlyArray<string>) {
        const [response] = yield* RawSockets.exchangeBytes(
          port,
          `GET ${runners} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${headers.join("")}\r\n`,
        )
        return [response?.status, valueAt(JSON.parse(response?.text ?? "null"), "error", "code")]
      })
      const { apiKey, bearer } = lines
      for (const one of [apiKey, bearer]) {
        for (const other of [apiKey, bearer]) {
          assert.deepStrictEqual(yield* status(one(basic), other(basic)), [200, undefined])
          assert.deepStrictEqual(yield* status(one(basic), other(pro)), [401, "invalid_api_key"])
          assert.deepStrictEqual(yield* status(one(basic), other("nonsense")), [401, "invalid_api_key"])
        }
        assert.deepStrictEqual(yield* status(one(basic), "Authorization: Basic eDp5\r\n"), [401, "invalid_api_key"])
        assert.deepStrictEqual(yield* status("Authorization: Basic eDp5\r\n", one(basic)), [401, "invalid_api_key"])
      }
    }).pipe(Effect.scoped))

  it.effect("refuses a cached result to an account of a lower tier, for every endpoint that requires a tier (D3)", () =>
    Effect.gen(function* () {
      const { basic, ultimate } = yield* TestKeys
      const port = yield* startServiceInstance()
      const higher = Endpoints.catalogueEndpoints.filter(({ isPriced: charged, row }) =>
        charged && row.tier !== "basic"
      )
      for (const { row } of higher) {
        const documented = documentedDatasetEndpoints.find(({ path }) => path === row.path)
        const path = buildUrl(row.path, documented === undefined ? [] : makeRequiredQuery(documented))
        yield* requestFiveTimes(port, path, ultimate)
        assert.strictEqual((yield* requestOverWire(port, path, basic)).status, 403, path)
      }
    }).pipe(Effect.scoped))

  it.effect("charges for a cached result, and refuses it without a balance or above the rate limit (D13, D18)", () =>
    Effect.gen(function* () {
      const limited = yield* CustomerUsage.createCustomer("limited")
      const prepaid = yield* CustomerUsage.createCustomer("prepaid", { balance: 150, tier: "pro" })
      const port = yield* startServiceInstance({ RATE_LIMIT_BASIC: "5" })
      const statuses: Array<number> = []
      for (let i = 0; i < 8; i++) statuses.push((yield* requestOverWire(port, runners, limited.key)).status)
      assert.deepStrictEqual(statuses, [200, 200, 200, 200, 200, 429, 429, 429])
      const last = yield* Effect.repeat(requestOverWire(port, runners, prepaid.key), {
        until: ({ status }) => status !== 200,
        schedule: Schedule.spaced("50 millis"),
        times: 1_000,
      })
      assert.strictEqual(last.status, 402)
    }).pipe(Effect.scoped))

  it.effect("serves requests that wait for the same query, even if one of them is cancelled (D17)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { basic } = yield* TestKeys
      const port = yield* startServiceInstance()
      const [early, late] = yield* sql.withTransaction(Effect.gen(function* () {
        yield* sql`lock table split_status in access exclusive mode`
        const request = requestOverWire(port, "/v1/split-status?ticker=T7", basic)
        const cancelled = yield* Effect.forkChild(request)
        const beforeCancellation = yield* Effect.forkChild(request)
        const waiting = sql`
          select from pg_locks where not granted and database = (select oid from pg_database where datname = current_database())
        `
        yield* Effect.repeat(waiting, { until: (rows) => rows.length > 0, schedule: Schedule.spaced("20 millis") })
        yield* Fiber.interrupt(cancelled)
        return [beforeCancellation, yield* Effect.forkChild(request)] as const
      }))
      assert.strictEqual((yield* Fiber.join(early)).status, 200)
      assert.strictEqual((yield* Fiber.join(late)).status, 200)
      assert.isAbove(Number(valueAt(JSON.parse((yield* Fiber.join(late)).text), "count")), 0)
    }).pipe(Effect.scoped))

  it.effect("returns a cached result while another session locks the table (D17)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { basic } = yield* TestKeys
      const port = yield* startServiceInstance()
      yield* requestFiveTimes(port, runners, basic)
      yield* sql.withTransaction(Effect.gen(function* () {
        yield* sql`lock table intraday_runners in access exclusive mode`
        assert.strictEqual((yield* requestOverWire(port, runners, basic)).status, 200)
      }))
    }).pipe(Effect.scoped))

  it.effect("does not return a result that was read before a change (D17)", () =>
    Effect.gen(function* () {
      const { basic } = yield* TestKeys
      const port = yield* startServiceInstance()
      const [before] = yield* requestFiveTimes(port, runners, basic)
      yield* setVolume(4711)
      yield* waitUntilOldDataExpires
      const after = yield* requestFiveTimes(port, runners, basic)
      for (const { headers, text } of after) {
        assert.include(text, `"volume":4711,`)
        assert.notStrictEqual(headers["etag"], before.headers["etag"])
      }
    }).pipe(Effect.scoped))

  it.effect("refuses a request without Host, even if its result is cached (RFC 9112)", () =>
    Effect.gen(function* () {
      const { basic } = yield* TestKeys
      const port = yield* startServiceInstance()
      yield* requestFiveTimes(port, runners, basic)
      assert.strictEqual((yield* requestOverWire(port, runners, basic, { setHost: false })).status, 400)
      assert.strictEqual((yield* requestOverWire(port, runners, basic)).status, 200)
    }).pipe(Effect.scoped))

  it.effect("discards results that depend on the date at midnight in Chicago (D17, D19)", () =>
    Effect.gen(function* () {
      const { basic } = yield* TestKeys
      const live = yield* Clock.Clock
      const today = DateTime.setZone(yield* DateTime.now, DateTime.zoneMakeNamedUnsafe("America/Chicago"))
      const midnight = DateTime.add(DateTime.startOf(today, "day"), { days: 1 })
      yield* Service.insertRows("ticker_changes", {
        old_ticker: "EVE",
        new_ticker: "MORN",
        effective_date: DateTime.formatIsoDate(midnight),
        status: "confirmed",
      })
      // The clock stays at one second before midnight until the test advances it.
      let now = DateTime.toEpochMillis(midnight) - 1000
      const clock: Clock.Clock = Object.assign(Object.create(live), {
        currentTimeMillisUnsafe: () => now,
        currentTimeMillis: Effect.sync(() => now),
      })
      const port = yield* Effect.provideService(startServiceInstance(), Clock.Clock, clock)
      for (const { status, text } of yield* requestFiveTimes(port, "/v1/ticker-changes?ticker=EVE", basic)) {
        assert.strictEqual(status, 200)
        assert.include(text, `"has_changes":false`)
      }
      now += 1000
      for (const { text } of yield* requestFiveTimes(port, "/v1/ticker-changes?ticker=EVE", basic)) {
        assert.include(text, `"current_ticker":"MORN"`)
      }
    }).pipe(Effect.scoped))
})

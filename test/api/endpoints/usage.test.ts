/** Tests GET /v1/usage and /v1/usage/daily over HTTP: D27 (prices), D29 (usage). Each test creates its own accounts. */
import { PgConnection } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Clock, Context, DateTime, Effect, Fiber, Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import type { UsageRecord } from "../../../src/accounts/billing/UsageRecord.ts"
import * as FilterAssertions from "../../support/FilterAssertions.ts"
import * as CustomerUsage from "../../support/CustomerUsage.ts"
import * as ListClients from "../../support/ListClients.ts"
import * as Service from "../../support/Service.ts"
import { makePoolableClientLayer } from "../../support/PoolerMode.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

const { requestJson, valueAt, insertRows } = Service
const { createCustomer, retryUntil, readAllPages, waitForRecordedRequests } = CustomerUsage

const prices = { general: 123_456_789, news: 1, screener: 0, reports: 1_000_000_000_000 }

const settings = {
  PRICE_PER_GB_MICRODOLLARS: String(prices.general),
  ENDPOINT_PRICES: `/v1/news=${prices.news},/v1/screener=${prices.screener},/v1/research-reports=${prices.reports}`,
  RATE_LIMIT_PRO: "3",
  // Keeps the partitions that the tests create regardless of the current date.
  USAGE_RETENTION: "100000 days",
}

/** A separate database connection, outside the service's pool. */
class OtherConnection
  extends Context.Service<OtherConnection, PgConnection.PgConnection>()("test/api/endpoints/OtherConnection") {}

const service = Service.serviceLayerOver(Layer.unwrap(Effect.gen(function* () {
  const url = yield* Service.copyMigratedDatabase
  return Layer.merge(
    makePoolableClientLayer({ url, applicationName: "tickerline-test" }),
    Layer.effect(OtherConnection, PgConnection.make({ url, applicationName: "other" })),
  )
}))).pipe(Layer.provide(CustomerUsage.settingsLayer(settings)))

type ReceivedResponse = Effect.Success<ReturnType<typeof requestJson>>

const readRows = Effect.fnUntraced(function* (path: string, key: string) {
  const { body, status, text } = yield* requestJson(path, { key })
  assert.strictEqual(status, 200, `${path}: ${text}`)
  return ListClients.getResultRows(body)
})

const getColumn = (rows: ReadonlyArray<unknown>, name: string) => rows.map((row) => valueAt(row, name))

/** Returns the usage row fields that can be derived from a response. */
const makeExpectedUsage = ({ headers, status, text }: ReceivedResponse) => ({
  request_id: headers["x-request-id"],
  status_code: status,
  bytes: Buffer.byteLength(text),
  cost_microdollars: Number(headers["x-cost-microdollars"]),
})

const pickUsageFields = (row: unknown) => ({
  request_id: valueAt(row, "request_id"),
  status_code: valueAt(row, "status_code"),
  bytes: valueAt(row, "bytes"),
  cost_microdollars: valueAt(row, "cost_microdollars"),
})

const computeCost = (bytes: number, price: number) => Math.ceil((bytes * price) / 1_000_000_000)

/** A row of the `usage` table. */
interface StoredUsage extends Omit<UsageRecord, "requested_at" | "reservation_id" | "price_per_gb_microdollars"> {
  readonly usage_id: string
  readonly requested_at: string
}

/** Builds a usage row, with fixed defaults for the columns that the test does not set. */
const makeUsageRow = (
  row: Pick<StoredUsage, "account_id" | "key_id" | "requested_at"> & Partial<StoredUsage>,
): StoredUsage => ({
  usage_id: SecureRandom.uuidV7Unsafe(),
  request_id: "request",
  endpoint: "/v1/news",
  status_code: 200,
  records_returned: 1,
  bytes: 100,
  cost_microdollars: 1,
  duration_ms: 1,
  cached: false,
  deprecated: false,
  via: null,
  ...row,
})

/** Inserts rows for past days, and creates the partitions for them. */
const insertUsage = Effect.fnUntraced(function* (rows: ReadonlyArray<StoredUsage>) {
  const sql = yield* SqlClient.SqlClient
  const months = Map.groupBy(rows, ({ requested_at }) => requested_at.slice(0, 7))
  for (const [month] of months) yield* sql`select create_usage_partition(${`${month}-15T00:00:00Z`}::text::timestamptz)`
  yield* insertRows("usage", ...rows.map((row) => ({ ...row })))
})

const competing = [
  { old_ticker: "USGA", new_ticker: "USGB", effective_date: "2020-01-01", status: "confirmed" },
  { old_ticker: "USGA", new_ticker: "USGC", effective_date: "2021-01-01", status: "confirmed" },
]

/** Builds a report whose text has more bytes than characters. */
const report = (number: number) => ({
  report_id: `usage${number}`,
  ticker: "USGE",
  gain_percentage: "25.5",
  report_text: "Ünïcødé – 漢字 😀",
  tldr_text: "kürzer 😀",
  created_at: "2025-07-01T12:00:00Z",
  last_updated: "2025-07-01T12:00:00Z",
})

const recordedRequests = [
  ["a lineage", "/v1/ticker-changes?ticker=META", 200, 1, prices.general],
  ["a list", "/v1/research-reports?ticker=USGE", 200, 2, prices.reports],
  ["a page of a list", "/v1/research-reports?ticker=USGE&limit=1", 200, 1, prices.reports],
  ["a list of the same table with another price", "/v1/research-reports-tldr?ticker=USGE", 200, 2, prices.general],
  ["a list without results", "/v1/research-reports-tldr?ticker=NONE", 200, 0, prices.general],
  ["a list with a price of its own", "/v1/news", 200, 0, prices.news],
  ["a list with a price of 0", "/v1/screener", 200, 0, prices.screener],
  ["an account", "/v1/account", 200, 1, 0],
  ["a list of API keys", "/v1/account/api-keys", 200, 1, 0],
  ["an overview", "/v1/overview", 200, 1, 0],
  ["a list of daily usage", "/v1/usage/daily?endpoint=/none", 200, 0, 0],
  ["an estimate", "/estimate?endpoint=/v1/research-reports&ticker=USGE", 200, 1, 0],
  ["404 for an unknown former ticker", "/v1/historical-tickers?ticker=NONE", 404, 0, 0],
  ["409 for an ambiguous lineage", "/v1/ticker-changes?ticker=USGA", 409, 0, 0],
  ["422 for an invalid ticker", "/v1/ticker-changes?ticker=Ünï", 422, 0, 0],
  ["422 for an invalid limit", "/v1/news?limit=0", 422, 0, 0],
  ["422 for an unknown parameter", "/v1/usage?nonsense=1", 422, 0, 0],
  ["422 for an estimate of an unknown endpoint", "/estimate?endpoint=/nowhere", 422, 0, 0],
].map(([name, path, status, records_returned, price]) => ({
  name: String(name),
  path: String(path),
  status,
  records_returned,
  price: Number(price),
}))

const rows = Layer.effectDiscard(Effect.gen(function* () {
  yield* insertRows("ticker_changes", ...competing)
  yield* insertRows("research_reports", report(1), report(2))
}))

layer(Layer.provideMerge(rows, service), { excludeTestServices: true })("GET /v1/usage", (it) => {
  // -------------------------------------------------------------------------------------------------------------------
  // Requests over HTTP
  // -------------------------------------------------------------------------------------------------------------------

  it.effect.each(recordedRequests)(
    "$name is recorded in one row: its id, status, bytes, cost and number of results (D29, D12)",
    ({ path, price, records_returned, status }) =>
      Effect.gen(function* () {
        const { account_id, key } = yield* createCustomer(`recorded ${path}`, { tier: "ultimate" })
        const sent = yield* Clock.currentTimeMillis
        const response = yield* requestJson(path, { key })
        const received = yield* Clock.currentTimeMillis
        assert.strictEqual(response.status, status, response.text)
        const expected = makeExpectedUsage(response)
        assert.strictEqual(expected.cost_microdollars, computeCost(expected.bytes, price))
        yield* waitForRecordedRequests(account_id, 1)
        const [row, ...others] = yield* readRows("/v1/usage", key)
        assert.deepStrictEqual(others, [])
        const { duration_ms, requested_at, ...rest } = Object(row)
        assert.deepStrictEqual(rest, {
          ...expected,
          endpoint: path.split("?")[0],
          records_returned,
          cached: false,
          deprecated: path.startsWith("/v1/historical-tickers"),
          key_hint: key.slice(0, 12),
          request_count: 1,
          via: null,
        })
        assert.isTrue(Number.isInteger(duration_ms) && duration_ms >= 0 && duration_ms <= received - sent)
        assert.match(requested_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?-05:00$/)
        assert.isTrue(Date.parse(requested_at) >= sent && Date.parse(requested_at) <= received)
      }),
  )

  it.effect("counts the bytes of a response, not its characters (D29)", () =>
    Effect.gen(function* () {
      const { account_id, key } = yield* createCustomer("bytes", { tier: "ultimate" })
      const { text } = yield* requestJson("/v1/research-reports?ticker=USGE", { key })
      assert.isAbove(Buffer.byteLength(text), text.length)
      yield* waitForRecordedRequests(account_id, 1)
      assert.deepStrictEqual(getColumn(yield* readRows("/v1/usage", key), "bytes"), [Buffer.byteLength(text)])
    }))

  it.effect("lists requests newest first, each with its own id (D29, D12)", () =>
    Effect.gen(function* () {
      const { account_id, key } = yield* createCustomer("newest first", { tier: "ultimate" })
      const responses: Array<ReceivedResponse> = []
      for (const { path } of recordedRequests.slice(0, 5)) responses.unshift(yield* requestJson(path, { key }))
      yield* waitForRecordedRequests(account_id, responses.length)
      const rows = yield* readRows("/v1/usage", key)
      assert.deepStrictEqual(rows.map(pickUsageFields), responses.map(makeExpectedUsage))
      const times = rows.map((row) => Date.parse(String(valueAt(row, "requested_at"))))
      assert.deepStrictEqual(times, times.toSorted((a, b) => b - a))
    }))

  it.effect("a row has every field, in order (resources: usage)", () =>
    Effect.gen(function* () {
      const { account_id, key, key_id } = yield* createCustomer("printed")
      const requested_at = "2025-07-15T12:30:45.250Z"
      const row = makeUsageRow({
        account_id,
        key_id,
        requested_at,
        request_id: "my.own-id_1",
        bytes: 9_007_199_254_740_991,
      })
      yield* insertUsage([
        { ...row, status_code: 304, records_returned: 7, duration_ms: 12, cached: true, deprecated: true },
      ])
      const { text } = yield* requestJson("/v1/usage", { key })
      assert.strictEqual(
        text,
        `{"count":1,"results":[{"request_id":"my.own-id_1","requested_at":"2025-07-15T07:30:45.250-05:00",` +
          `"endpoint":"/v1/news","status_code":304,"records_returned":7,"bytes":9007199254740991,` +
          `"cost_microdollars":1,"duration_ms":12,"cached":true,"deprecated":true,` +
          `"key_hint":"${key.slice(0, 12)}","request_count":1,"via":null}],"page":1,"limit":10,"has_more":false}`,
      )
    }))

  it.effect("records the request id that a client sends, in two rows if it is sent twice (D12, D29)", () =>
    Effect.gen(function* () {
      const { account_id, key } = yield* createCustomer("own ids")
      for (const id of ["same", "same", "Order.7_of-9", "same"]) {
        const { headers } = yield* requestJson("/v1/news", { key, headers: { "X-Request-Id": id } })
        assert.strictEqual(headers["x-request-id"], id)
      }
      const replaced = yield* requestJson("/v1/news", { key, headers: { "X-Request-Id": "not an id" } })
      yield* waitForRecordedRequests(account_id, 5)
      const ids = getColumn(yield* readRows("/v1/usage", key), "request_id")
      assert.deepStrictEqual(ids, [replaced.headers["x-request-id"], "same", "Order.7_of-9", "same", "same"])
    }))

  it.effect("a HEAD request is recorded with 0 bytes and is free (D10, D27)", () =>
    Effect.gen(function* () {
      const { account_id, key } = yield* createCustomer("heads", { balance: 1_000_000 })
      const paths = ["/v1/ticker-changes?ticker=META", "/v1/research-reports-tldr", "/v1/account", "/v1/news?limit=0"]
      const responses: Array<ReceivedResponse> = []
      for (const path of paths) {
        const response = yield* requestJson(path, { key, method: "HEAD" })
        assert.strictEqual(response.headers["x-cost-microdollars"], "0")
        responses.unshift(response)
      }
      yield* waitForRecordedRequests(account_id, paths.length)
      const rows = yield* readRows("/v1/usage", key)
      assert.deepStrictEqual(rows.map(pickUsageFields), responses.map(makeExpectedUsage))
      assert.deepStrictEqual(getColumn(rows, "bytes"), [0, 0, 0, 0])
      assert.strictEqual(valueAt((yield* readRows("/v1/overview", key))[0], "balance_microdollars"), 1_000_000)
    }))

  it.effect("with a used-up balance, requests for data are refused with 402 at no charge, and free endpoints still answer (D13, D27)", () =>
    Effect.gen(function* () {
      for (const balance of [0, -1]) {
        const { account_id, key } = yield* createCustomer(`makeUsageRow up ${balance}`, { balance })
        const responses: Array<ReceivedResponse> = []
        for (const path of ["/v1/news", "/v1/news?limit=0", "/v1/screener", "/v1/account", "/v1/overview"]) {
          responses.unshift(yield* requestJson(path, { key }))
        }
        // The balance is checked before the query, even for data with a price of 0.
        assert.deepStrictEqual(responses.map(({ status }) => status), [200, 200, 402, 402, 402])
        const refused = responses.at(-1)
        assert.strictEqual(valueAt(refused?.body, "error", "code"), "insufficient_credits")
        assert.deepStrictEqual(valueAt(refused?.body, "error", "details"), {
          reason: "balance_exhausted",
          balance_microdollars: balance,
        })
        assert.strictEqual(refused?.headers["x-cost-microdollars"], "0")
        yield* waitForRecordedRequests(account_id, responses.length)
        assert.deepStrictEqual(
          (yield* readRows("/v1/usage", key)).map(pickUsageFields),
          responses.map(makeExpectedUsage),
        )
      }
    }))

  it.effect("a 403 for a low tier or a restricted key is recorded in one row (D3, D29)", () =>
    Effect.gen(function* () {
      const { account_id, key } = yield* createCustomer("too low")
      const limited = yield* createCustomer("too low", { endpoints: ["/v1/news"] })
      const responses = [
        yield* requestJson("/v1/news", { key: limited.key }),
        yield* requestJson("/v1/screener", { key: limited.key }),
        yield* requestJson("/v1/research-reports", { key }),
      ].toReversed()
      assert.deepStrictEqual(responses.map(({ status }) => status), [403, 403, 200])
      yield* waitForRecordedRequests(account_id, 3)
      const rows = yield* readRows("/v1/usage", key)
      assert.deepStrictEqual(rows.map(pickUsageFields), responses.map(makeExpectedUsage))
      assert.deepStrictEqual(
        getColumn(rows, "key_hint"),
        [key, limited.key, limited.key].map((makeUsageRow) => makeUsageRow.slice(0, 12)),
      )
    }))

  it.effect("requests refused with 429 share one row that counts them, and all are in the daily sums (D18, D29)", () =>
    Effect.gen(function* () {
      const { account_id, key } = yield* createCustomer("too many", { tier: "pro" })
      const sql = yield* SqlClient.SqlClient
      const recorded = sql<{ readonly requests: number }>`
        select coalesce(sum(request_count), 0)::int as requests from usage_requests where account_id = ${account_id}
      `
      const responses: Array<ReceivedResponse> = []
      for (let sent = 0; sent < 43; sent++) responses.push(yield* requestJson("/v1/news", { key }))
      yield* retryUntil(recorded, ([row]) => row?.requests === 43)
      responses.push(yield* requestJson("/v1/news", { key }))
      responses.push(yield* requestJson("/v1/screener", { key }))
      yield* retryUntil(recorded, ([row]) => row?.requests === 45)
      const refused = responses.slice(3)
      assert.deepStrictEqual(responses.slice(0, 3).map(({ status }) => status), [200, 200, 200])
      assert.isTrue(refused.every(({ status }) => status === 429))
      const rows = yield* sql<{ readonly minute: string; readonly endpoint: string; readonly count: number }>`
        select date_trunc('minute', requested_at)::text as minute, endpoint, request_count::int as count, request_id,
          bytes::int, cost_microdollars::int, cached
        from usage_requests where account_id = ${account_id} and status_code = 429 order by requested_at
      `
      // There is one row per endpoint and minute. A new minute may begin between the requests.
      assert.strictEqual(new Set(rows.map(({ endpoint, minute }) => `${minute} ${endpoint}`)).size, rows.length)
      assert.isAtMost(rows.length, 3)
      assert.strictEqual(valueAt(rows[0], "request_id"), refused[0]?.headers["x-request-id"])
      const sum = (values: ReadonlyArray<number>) => values.reduce((total, value) => total + value, 0)
      assert.strictEqual(
        sum(rows.map((row) => Number(valueAt(row, "bytes")))),
        sum(refused.map(({ text }) => Buffer.byteLength(text))),
      )
      const days = yield* sql`
        select sum(requests)::int as requests, sum(errors)::int as errors from usage_totals where account_id = ${account_id}
      `
      assert.deepStrictEqual(days, [{ requests: 45, errors: 42 }])
      // The account has reached its rate limit. The higher tier lets it read its rows.
      yield* sql`update accounts set tier = 'ultimate' where account_id = ${account_id}`
      const shownCounts = yield* retryUntil(
        Effect.map(
          requestJson("/v1/usage?status_code=429&endpoint=/v1/news", { key }),
          ({ body, status }) =>
            status === 200 ? ListClients.getResultRows(body).map((row) => Number(valueAt(row, "request_count"))) : [],
        ),
        (counts) => counts.length > 0,
      )
      assert.isAtLeast(sum(shownCounts), 41)
    }))

  it.effect("a request that fails unexpectedly is recorded and costs nothing (D11, D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, key } = yield* createCustomer("unexpected")
      yield* sql`alter table afterhours_stats rename to gone`
      const response = yield* requestJson("/v1/afterhours-stats", { key })
      yield* sql`alter table gone rename to afterhours_stats`
      assert.strictEqual(response.status, 500)
      assert.strictEqual(response.headers["x-cost-microdollars"], "0")
      yield* waitForRecordedRequests(account_id, 1)
      assert.deepStrictEqual((yield* readRows("/v1/usage", key)).map(pickUsageFields), [makeExpectedUsage(response)])
    }))

  it.effect("a request whose client disconnects before the response is recorded with status 499 (resources: usage)", () =>
    Effect.gen(function* () {
      const other = yield* OtherConnection
      const { account_id, key } = yield* createCustomer("impatient")
      yield* other.query("begin")
      yield* other.query("lock table float_outstanding in access exclusive mode")
      const asking = yield* Effect.forkChild(requestJson("/v1/float-outstanding?ticker=META", { key }))
      const waiting = other.query(
        "select from pg_locks join pg_database on pg_database.oid = database " +
          "where not granted and datname = current_database()",
      )
      yield* retryUntil(waiting, ({ rowCount }) => rowCount === 1)
      yield* Fiber.interrupt(asking)
      yield* waitForRecordedRequests(account_id, 1)
      yield* other.query("rollback")
      const [row] = yield* readRows("/v1/usage", key)
      assert.strictEqual(valueAt(row, "status_code"), 499)
      assert.deepStrictEqual([
        valueAt(row, "bytes"),
        valueAt(row, "cost_microdollars"),
        valueAt(row, "records_returned"),
      ], [0, 0, 0])
    }))

  it.effect("a request without a valid key, endpoint or method is not recorded (D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, key } = yield* createCustomer("not asked")
      const ended = yield* createCustomer("not asked")
      yield* sql`update api_keys set disabled_at = now() where key_id = ${ended.key_id}`
      for (const path of ["/v1/news", "/v1/account"]) {
        for (const wrong of [null, "nonsense", ended.key]) {
          assert.strictEqual((yield* requestJson(path, { key: wrong })).status, 401)
        }
        assert.strictEqual((yield* requestJson(path, { key, method: "POST" })).status, 405)
        assert.strictEqual((yield* requestJson(path, { key, method: "OPTIONS" })).status, 204)
      }
      for (const path of ["/v1/nowhere", "/endpoints", "/health/live", "/v1/openapi.json", "/v1/news?%ZZ"]) {
        const { headers } = yield* requestJson(path, { key })
        assert.isUndefined(headers["x-cost-microdollars"], path)
      }
      yield* requestJson("/v1/news?limit=7", { key })
      yield* waitForRecordedRequests(account_id, 1)
      const found = yield* readRows("/v1/usage", key)
      assert.deepStrictEqual(getColumn(found, "endpoint"), ["/v1/news"])
    }))

  it.effect("the cost is exact and rounded up, for any price and any spelling of the path (D27)", () =>
    Effect.gen(function* () {
      const { account_id, key } = yield* createCustomer("prices", { tier: "ultimate" })
      const priced = [
        ["/v1/news", prices.news],
        ["/v1/%6eews", prices.news],
        ["/v1/screener", prices.screener],
        ["/v1/research-reports?limit=1", prices.reports],
        ["/v1/gap-stats", prices.general],
      ] as const
      let sum = 0
      for (const [path, price] of priced) {
        const { headers, status, text } = yield* requestJson(path, { key })
        assert.strictEqual(status, 200, path)
        const cost = computeCost(Buffer.byteLength(text), price)
        assert.strictEqual(headers["x-cost-microdollars"], String(cost), path)
        assert.strictEqual(Number(headers["content-length"]), Buffer.byteLength(text))
        sum += cost
      }
      yield* waitForRecordedRequests(account_id, priced.length)
      const rows = yield* readRows("/v1/usage", key)
      assert.strictEqual(getColumn(rows, "cost_microdollars").reduce<number>((a, b) => a + Number(b), 0), sum)
      assert.deepStrictEqual(getColumn(rows, "endpoint").toReversed(), [
        "/v1/news",
        "/v1/news",
        "/v1/screener",
        "/v1/research-reports",
        "/v1/gap-stats",
      ])
    }))

  it.effect("concurrent requests are recorded in one row each, and in the sums (D29)", () =>
    Effect.gen(function* () {
      const { account_id, key } = yield* createCustomer("crowd")
      const paths = ["/v1/news", "/v1/ticker-changes?ticker=META", "/v1/news?limit=0"]
      const responses = yield* Effect.forEach(
        Array.from({ length: 90 }, (_, number) => paths[number % 3] ?? ""),
        (path) => requestJson(path, { key }),
        { concurrency: 30 },
      )
      yield* waitForRecordedRequests(account_id, responses.length)
      const rows = yield* readRows("/v1/usage?limit=100", key)
      const byId = (a: { readonly request_id: unknown }, b: { readonly request_id: unknown }) =>
        String(a.request_id) < String(b.request_id) ? -1 : 1
      assert.deepStrictEqual(rows.map(pickUsageFields).toSorted(byId), responses.map(makeExpectedUsage).toSorted(byId))
      yield* assertSums(account_id, key)
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Filters and pages
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("the parameters `endpoint` and `status_code` take several values, combined with AND (resources: usage)", () =>
    Effect.gen(function* () {
      const { account_id, key, key_id } = yield* createCustomer("filters")
      const rows = [
        ["a", "/v1/news", 200],
        ["b", "/v1/news", 404],
        ["c", "/v1/screener", 200],
        ["d", "/v1/screener", 429],
        ["e", "/v1/usage/daily", 200],
      ] as const
      yield* insertUsage(rows.map(([request_id, endpoint, status_code], number) =>
        makeUsageRow({
          account_id,
          key_id,
          request_id,
          endpoint,
          status_code,
          requested_at: `2025-03-0${number + 1}T12:00:00Z`,
        })
      ))
      // The default end date excludes the test's own queries, which are recorded under the current date.
      const find = (query: string) =>
        Effect.map(
          readRows(
            query.includes("_to=") ? `/v1/usage?${query}` : `/v1/usage?requested_at_to=2025-12-31&${query}`,
            key,
          ),
          (found) => getColumn(found, "request_id").toReversed().join(""),
        )
      const cases = {
        "page=1": "abcde",
        "endpoint=/v1/news": "ab",
        "endpoint=%2Fv1%2Fnews,/v1/usage/daily": "abe",
        "endpoint=/v1/usage": "",
        "endpoint=/v1/NEWS": "ab",
        "endpoint=/v1/news'--": "",
        "status_code=200": "ace",
        "status_code=404,429": "bd",
        "status_code=429,%20404,404": "bd",
        "status_code=500": "",
        "status_code=599": "",
        "endpoint=/v1/news&status_code=200": "a",
        "endpoint=/v1/news,/v1/screener&status_code=200,429": "acd",
        "status_code=200&requested_at_from=2025-03-02": "ce",
        "endpoint=/v1/news&requested_at_from=2025-03-02&requested_at_to=2025-03-02": "b",
      }
      for (const [query, expected] of Object.entries(cases)) {
        assert.strictEqual(yield* find(query), expected, query)
      }
    }))

  const list = ListClients.makeListClient("/v1/usage")
  const daily = ListClients.makeListClient("/v1/usage/daily")

  it.effect("refuses an invalid status_code and an empty endpoint (resources: usage)", () =>
    Effect.gen(function* () {
      const wrong = ["", "2xx", "099", "99", "600", "0200", "1000", "-200", "200,", ",200", "200,abc", "2e2", "200.0"]
      for (const sent of wrong) {
        const { field, message } = yield* list.requestInvalid(`status_code=${sent}`)
        assert.strictEqual(field, "status_code", sent)
        assert.include(message, "must be an HTTP status code", sent)
      }
      for (const { requestInvalid } of [list, daily]) {
        for (const sent of ["", ",", "/v1/news,", "%00"]) {
          assert.strictEqual((yield* requestInvalid(`endpoint=${sent}`)).field, "endpoint")
        }
      }
    }))

  it.effect("unknown parameters are refused; days must be real, in order and not in the future (D4, D7, D8)", () =>
    Effect.gen(function* () {
      const both = ["account_id", "key_id", "key_hint", "date", "date_from", "min_bytes", "deprecated", "ticker"]
      yield* FilterAssertions.assertUnknownParametersRefused(list.requestInvalid, [
        ...both,
        "request_id",
        "requested_at",
        "usage_date_from",
      ])
      yield* FilterAssertions.assertUnknownParametersRefused(daily.requestInvalid, [
        ...both,
        "usage_date",
        "status_code",
        "requested_at_from",
        "errors",
      ])
      for (const [{ requestRows, requestInvalid }, name] of [[list, "requested_at"], [daily, "usage_date"]] as const) {
        yield* FilterAssertions.assertFutureDaysRefused({ requestRows, requestInvalid }, [`${name}_from`, `${name}_to`])
        for (const parameter of [`${name}_from`, `${name}_to`]) {
          for (const wrong of ["", "2025-02-30", "2025-01-01T00:00:00Z", "yesterday"]) {
            assert.strictEqual((yield* requestInvalid(`${parameter}=${wrong}`)).field, parameter)
          }
        }
        const { field } = yield* requestInvalid(`${name}_from=2025-07-02&${name}_to=2025-07-01`)
        assert.strictEqual(field, `${name}_from`)
        for (const paging of ["page=0", "limit=0", "limit=101", "page=x"]) {
          assert.strictEqual((yield* requestInvalid(paging)).field, paging.split("=")[0])
        }
      }
    }))

  it.effect("requested_at_from and requested_at_to are whole days at -05:00, even in summer (§2.1)", () =>
    Effect.gen(function* () {
      const { account_id, key, key_id } = yield* createCustomer("days")
      // Instants at the beginning and end of days. Each row's id is the local time at -05:00.
      const instants = {
        "06-30_23.59.59.999": "2025-07-01T04:59:59.999Z",
        "07-01_00.00.00": "2025-07-01T05:00:00.000Z",
        "07-01_23.59.59.999": "2025-07-02T04:59:59.999Z",
        "07-02_00.00.00": "2025-07-02T05:00:00.000Z",
        "12-31_23.59.59": "2026-01-01T04:59:59.000Z",
        "01-01_00.00.00": "2026-01-01T05:00:00.000Z",
      }
      yield* insertUsage(
        Object.entries(instants).map(([request_id, requested_at]) =>
          makeUsageRow({ account_id, key_id, request_id, requested_at })
        ),
      )
      const latestFirst = Object.keys(instants).toReversed()
      const find = (query: string) =>
        Effect.map(
          readRows(`/v1/usage?endpoint=/v1/news&limit=100&${query}`, key),
          (rows) => getColumn(rows, "request_id"),
        )
      assert.deepStrictEqual(yield* find("requested_at_from=2025-07-01"), latestFirst.slice(0, 5))
      assert.deepStrictEqual(yield* find("requested_at_to=2025-07-01"), latestFirst.slice(3))
      assert.deepStrictEqual(yield* find("requested_at_from=2025-07-01&requested_at_to=2025-07-01"), [
        "07-01_23.59.59.999",
        "07-01_00.00.00",
      ])
      assert.deepStrictEqual(yield* find("requested_at_from=2025-12-31&requested_at_to=2025-12-31"), [
        "12-31_23.59.59",
      ])
      assert.deepStrictEqual(yield* find("requested_at_from=2026-01-01"), ["01-01_00.00.00"])
      assert.deepStrictEqual(yield* find("requested_at_to=2025-06-29"), [])
      assert.deepStrictEqual(yield* find("requested_at_to=0001-01-01"), [])
      assert.deepStrictEqual(yield* find("requested_at_from=0001-01-01"), latestFirst)
    }))

  it.effect("following the pages across monthly partitions shows each row once, with any filter (D8)", () =>
    Effect.gen(function* () {
      const { account_id, key, key_id } = yield* createCustomer("walker")
      const { account_id: other } = yield* createCustomer("another walker")
      // Many rows have the same time, such as the start of a month in UTC, so only the key determines their order.
      const instants = [
        "2025-01-31T23:59:59.999Z",
        "2025-02-01T00:00:00.000Z",
        "2025-02-01T00:00:00.001Z",
        "2025-04-15T12:00:00.000Z",
      ]
      const rows = Array.from({ length: 27 }, (_, number) =>
        makeUsageRow({
          account_id,
          key_id,
          usage_id: `00000000-0000-7000-8000-0000000000${String((number * 10) % 27).padStart(2, "0")}`,
          request_id: String(number),
          requested_at: instants[number % instants.length] ?? "",
          endpoint: number % 2 === 0 ? "/v1/news" : "/v1/screener",
        }))
      yield* insertUsage([
        ...rows,
        ...rows.map((row) => ({ ...row, account_id: other, usage_id: row.usage_id.replace("8", "9") })),
      ])
      // With statistics, PostgreSQL knows that there are few rows, and sorts them instead of reading an index.
      const sql = yield* SqlClient.SqlClient
      yield* sql`analyze usage`
      const latestFirst = rows.toSorted((a, b) =>
        b.requested_at.localeCompare(a.requested_at) || b.usage_id.localeCompare(a.usage_id)
      )
      for (const limit of [1, 4, 27, 100]) {
        const seen = yield* readAllPages("/v1/usage?requested_at_to=2025-12-31", key, limit)
        assert.deepStrictEqual(getColumn(seen, "request_id"), latestFirst.map(({ request_id }) => request_id))
      }
      const news = latestFirst.filter(({ endpoint }) => endpoint === "/v1/news").map(({ request_id }) => request_id)
      for (const limit of [1, 3, 5, 100]) {
        const filtered = "/v1/usage?requested_at_to=2025-12-31&endpoint=/v1/news&status_code=200"
        assert.deepStrictEqual(getColumn(yield* readAllPages(filtered, key, limit), "request_id"), news)
      }
    }))

  it.effect("reading today's pages shows each row once, although reading adds rows and other processes add older ones (D8, D29)", () =>
    Effect.gen(function* () {
      const today = DateTime.formatIsoDate(DateTime.makeUnsafe((yield* Clock.currentTimeMillis) - 6 * 3_600_000))
      const filters = ["", "&endpoint=/v1/news,/v1/usage", "&status_code=200", `&requested_at_from=${today}`]
      const pages = getInputCount(43)
      yield* Effect.forEach(filters, (filter, number) =>
        Effect.gen(function* () {
          const { account_id, key, key_id } = yield* createCustomer(`today ${number}`, { tier: "ultimate" })
          for (let sent = 0; sent < pages; sent++) yield* requestJson("/v1/news", { key })
          yield* waitForRecordedRequests(account_id, pages)
          const existing = yield* readRows(`/v1/usage?limit=100${filter}`, key)
          const times = existing.map((row) => Date.parse(String(valueAt(row, "requested_at"))))
          const { makeBatch, write } = yield* CustomerUsage.makeRecordWriter
          let read = 0
          const record = Effect.gen(function* () {
            const place = times[read++ % times.length] ?? 0
            yield* write(makeBatch([place, place - 1, place + 1].map((requested_at, late) =>
              CustomerUsage.makeUsageRecord({
                requested_at,
                account_id,
                key_id,
                request_id: `late.${read}.${late}`,
                endpoint: "/v1/news",
              })
            )))
            // The row for the page request itself is stored before the next page is read. While the next page is read,
            // another request is in flight.
            yield* waitForRecordedRequests(account_id, times.length + 4 * read)
            yield* Effect.forkChild(requestJson("/v1/news", { key }))
          })
          const seen = getColumn(yield* readAllPages(`/v1/usage?page=1${filter}`, key, 1, record), "request_id")
          assert.isAtLeast(seen.length, pages)
          const known = new Set(getColumn(existing, "request_id"))
          assert.deepStrictEqual(
            seen.filter((id) =>
              known.has(id)
            ),
            getColumn(existing, "request_id"),
          )
          assert.strictEqual(new Set(seen).size, seen.length)
        }), { concurrency: "unbounded" })
    }))

  it.effect("daily: reading today's pages shows each row once, although endpoints get their first request meanwhile (D8, D29)", () =>
    Effect.gen(function* () {
      const { account_id, key } = yield* createCustomer("daily today", { tier: "ultimate" })
      const early = ["/v1/account", "/v1/gap-stats", "/v1/news", "/v1/screener"]
      for (const path of early) yield* requestJson(path, { key })
      yield* waitForRecordedRequests(account_id, early.length)
      const meanwhile = ["/estimate?endpoint=/v1/news", "/v1/account/invoices", "/v1/account/api-keys"]
      let sent = 0
      const requestMore = Effect.gen(function* () {
        yield* requestJson(meanwhile[sent++ % meanwhile.length] ?? "", { key })
        yield* waitForRecordedRequests(account_id, early.length + 2 * sent)
      })
      const seen = yield* readAllPages("/v1/usage/daily?page=1", key, 1, requestMore)
      const endpoints = getColumn(seen, "endpoint")
      assert.deepStrictEqual(endpoints.filter((endpoint) => early.includes(String(endpoint))), early)
      assert.strictEqual(new Set(endpoints).size, endpoints.length)
    }))

  it.effect("refuses a place that no link to a next page has (D4, D8)", () =>
    Effect.gen(function* () {
      const id = "01980000-0000-7000-8000-000000000001"
      const wrong = [
        [
          list,
          "",
          "0",
          "-1.1.1.1.1",
          "1.1.1.1",
          "1.1.1.1.1.1",
          "1.2.01980000",
          `1.2.${id}`,
          "1.-1.1.1.1",
          "1e3.1.1.1.1",
        ],
        [list, "12345678901234.1.1.1.1", "1.12345678901.1.1.1", "2026-11-28/v1/news", "1.1.1.1.1%20", "1.1.1.1.%00"],
        [daily, "", "2026-11-28", "2026-02-30/v1/news", "2026-11-28v1/news", "2026-11-28/%00", "2026-11-28/a%20b"],
        [daily, "1.1.1.1.1", `2026-11-28/${"x".repeat(256)}`, "0000-01-01/v1/news"],
      ] as const
      for (const [{ requestInvalid }, ...places] of wrong) {
        for (const place of places) {
          assert.strictEqual((yield* requestInvalid(`after=${place}`)).field, "after", place)
        }
      }
      for (const [{ requestInvalid, requestRows }, place] of [[list, `0.${id}`], [daily, "0001-01-01/"]] as const) {
        assert.deepStrictEqual(yield* requestRows(`after=${place}&page=7`), [])
        const { field } = yield* requestInvalid(`after=${place}&limit=all&format=csv`)
        assert.strictEqual(field, "after")
      }
      // The lowest and highest positions that the cursor format allows.
      for (
        const place of [
          "0.0.9999999999.0.0",
          "9999999999999.9999999999.9999999999.99999.99999",
          `9999999999999.${id}`,
        ]
      ) {
        assert.strictEqual((yield* list.request(`after=${place}`)).status, 200, place)
      }
    }))

  it.effect("says that a place is beyond the end, and estimates the rows of all pages (D8, D28, D40)", () =>
    Effect.gen(function* () {
      const { account_id, key, key_id } = yield* createCustomer("beyond the end")
      const days = ["2025-07-01", "2025-07-02", "2025-07-03"]
      yield* insertUsage(
        days.map((day) => makeUsageRow({ account_id, key_id, requested_at: `${day}T12:00:00.000Z` })),
      )
      const query = `requested_at_to=2025-12-31&after=${Date.parse("2025-07-01")}.01980000-0000-7000-8000-000000000001`
      const { headers, text } = yield* requestJson(`/v1/usage?${query}&explain=true`, { key })
      assert.strictEqual(headers["x-empty-reason"], "page_beyond_end", text)
      const { body } = yield* requestJson(`/estimate?endpoint=/v1/usage&${query}`, { key })
      assert.deepInclude(valueAt(body, "results", 0), { records_returned: 0, records_total: days.length })
    }))

  it.effect("an account sees only its own requests, with any filter (resources: usage)", () =>
    Effect.gen(function* () {
      const customers = yield* Effect.forEach([1, 2, 3, 4], (number) => createCustomer(`neighbour ${number}`))
      const keysOf = yield* Effect.forEach(customers, ({ key }, number) =>
        number % 2 === 0
          ? Effect.succeed([key])
          : Effect.map(createCustomer(`neighbour ${number + 1}`), (second) => [key, second.key]))
      const own = customers.map((): Array<string> => [])
      for (let round = 0; round < 6; round++) {
        yield* Effect.forEach(keysOf, (keys, number) =>
          Effect.gen(function* () {
            const id = `n${number}.${round}`
            const path = round % 3 === 0 ? "/v1/historical-tickers?ticker=NONE" : "/v1/news"
            yield* requestJson(path, { key: keys[round % keys.length] ?? "", headers: { "X-Request-Id": id } })
            own[number]?.unshift(id)
          }), { concurrency: "unbounded" })
      }
      for (const [number, { account_id, key }] of customers.entries()) {
        yield* waitForRecordedRequests(account_id, 6)
        const rows = yield* readRows("/v1/usage?limit=100", key)
        assert.deepStrictEqual(getColumn(rows, "request_id"), own[number])
        for (
          const query of [
            "endpoint=/v1/news,/v1/historical-tickers",
            "status_code=200,404",
            "requested_at_from=0001-01-01",
          ]
        ) {
          const found = yield* readRows(`/v1/usage?limit=100&${query}`, key)
          const otherRequests = getColumn(found, "request_id").filter((id) =>
            /^n\d\./.test(String(id)) && !own[number]?.includes(String(id))
          )
          assert.deepStrictEqual(otherRequests, [])
        }
      }
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Daily totals
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("daily: a request belongs to its day in New York, and statuses of 400 and above count as errors (D29)", () =>
    Effect.gen(function* () {
      const { account_id, key, key_id } = yield* createCustomer("sums")
      const { makeBatch, write } = yield* CustomerUsage.makeRecordWriter
      const at03 = makeUsageRow({
        account_id,
        key_id,
        requested_at: "2025-07-02T03:00:00.000Z",
        bytes: 10,
        cost_microdollars: 3,
      })
      const rows = [
        at03,
        { ...at03, requested_at: "2025-07-02T03:59:59.999Z", status_code: 404 },
        { ...at03, requested_at: "2025-07-02T04:00:00.000Z", status_code: 399 },
        { ...at03, requested_at: "2025-01-15T04:59:59.999Z", status_code: 500 },
        { ...at03, requested_at: "2025-01-15T05:00:00.000Z" },
        { ...at03, requested_at: "2025-07-02T04:00:00.000Z", endpoint: "/v1/a" },
      ]
      const batch = makeBatch(
        rows.map((row) => ({
          ...row,
          requested_at: Date.parse(row.requested_at),
          price_per_gb_microdollars: 1,
          reservation_id: null,
        })),
      )
      yield* write(batch)
      const { text } = yield* requestJson("/v1/usage/daily", { key })
      const printed = [
        ["2025-07-02", "/v1/a", 1, 0, 10, 3],
        ["2025-07-02", "/v1/news", 1, 0, 10, 3],
        ["2025-07-01", "/v1/news", 2, 1, 20, 6],
        ["2025-01-15", "/v1/news", 1, 0, 10, 3],
        ["2025-01-14", "/v1/news", 1, 1, 10, 3],
      ].map(([usage_date, endpoint, requests, errors, bytes, cost]) =>
        `{"usage_date":"${usage_date}","endpoint":"${endpoint}","requests":${requests},"errors":${errors},` +
        `"bytes":${bytes},"cost_microdollars":${cost}}`
      )
      assert.strictEqual(text, `{"count":5,"results":[${printed.join(",")}],"page":1,"limit":10,"has_more":false}`)
      // Writes the same batch again, as if the acknowledgment had been lost. The totals must not change.
      yield* write(batch)
      assert.strictEqual(
        (yield* requestJson("/v1/usage/daily?usage_date_to=2025-12-31", { key })).text.replace(/,"page".*/, ""),
        text.replace(/,"page".*/, ""),
      )
      yield* assertSums(account_id, key)
    }))

  it.effect("daily: includes both bounds, accepts several values of `endpoint`, and returns complete pages (D7, D8)", () =>
    Effect.gen(function* () {
      const { account_id, key } = yield* createCustomer("daily filters")
      const other = yield* createCustomer("other daily filters")
      const days = ["2025-02-28", "2025-03-01", "2025-03-02", "2024-12-31"]
      const endpoints = ["/v1/news", "/v1/a", "/v1/screener"]
      const sums = days.flatMap((usage_date) =>
        endpoints.map((endpoint, number) => ({
          account_id,
          usage_date,
          endpoint,
          requests: number + 1,
          errors: 0,
          bytes: 1,
          cost_microdollars: 1,
        }))
      )
      yield* insertRows(
        "usage_daily",
        ...sums,
        ...sums.map((sum) => ({ ...sum, account_id: other.account_id, requests: 99 })),
      )
      const latestFirst = days.toSorted().toReversed()
      const named = (rows: ReadonlyArray<unknown>) =>
        rows.map((row) => `${String(valueAt(row, "usage_date"))} ${String(valueAt(row, "endpoint"))}`)
      const find = (query: string) =>
        Effect.map(
          readRows(`/v1/usage/daily?limit=100&endpoint=/v1/news&${query}`, key),
          (rows) => getColumn(rows, "usage_date"),
        )
      assert.deepStrictEqual(yield* find("usage_date_to=2025-12-31"), latestFirst)
      assert.deepStrictEqual(
        yield* find("usage_date_from=2025-03-01&usage_date_to=2025-03-02"),
        latestFirst.slice(0, 2),
      )
      assert.deepStrictEqual(yield* find("usage_date_from=2025-03-01&usage_date_to=2025-03-01"), ["2025-03-01"])
      assert.deepStrictEqual(yield* find("usage_date_to=2025-02-28"), latestFirst.slice(2))
      assert.deepStrictEqual(yield* find("usage_date_to=2024-12-30"), [])
      const two = yield* readRows("/v1/usage/daily?endpoint=/v1/screener,/v1/news&usage_date_to=2024-12-31", key)
      assert.deepStrictEqual(named(two), ["2024-12-31 /v1/news", "2024-12-31 /v1/screener"])
      assert.deepStrictEqual(getColumn(two, "requests"), [1, 3])
      const expected = latestFirst.flatMap((day) => endpoints.toSorted().map((endpoint) => `${day} ${endpoint}`))
      for (const limit of [1, 5, 12, 100]) {
        const seen = yield* readAllPages("/v1/usage/daily?usage_date_to=2025-12-31", key, limit)
        assert.deepStrictEqual(named(seen), expected)
      }
    }))

  it.effect("daily: sums equal the sums of the rows after concurrent requests (D29)", () =>
    Effect.gen(function* () {
      const customers = yield* Effect.forEach(
        [1, 2, 3],
        (number) => createCustomer(`sum ${number}`, { tier: "ultimate" }),
      )
      const paths = [
        "/v1/news",
        "/v1/research-reports",
        "/v1/news?limit=0",
        "/v1/account",
        "/v1/historical-tickers?ticker=NO",
      ]
      yield* Effect.forEach(
        Array.from({ length: 60 }, (_, number) => [paths[number % 5] ?? "", customers[number % 3]?.key ?? ""] as const),
        ([path, key]) => requestJson(path, { key }),
        { concurrency: 20 },
      )
      for (const { account_id, key } of customers) {
        yield* waitForRecordedRequests(account_id, 20)
        yield* assertSums(account_id, key)
      }
    }))
})

/** Checks that the stored totals, the sums over the rows, and the totals in the response are equal. */
const assertSums = Effect.fnUntraced(function* (account_id: number, key: string) {
  const sql = yield* SqlClient.SqlClient
  // Excludes the test's own requests to /v1/usage, which may be recorded between these queries.
  const kept = (ofRows: boolean) =>
    ofRows
      ? sql`
        select (requested_at at time zone 'America/New_York')::date as usage_date, endpoint,
          sum(request_count)::int as requests,
          coalesce(sum(request_count) filter (where status_code >= 400), 0)::int as errors, sum(bytes)::int as bytes,
          sum(cost_microdollars)::int as cost_microdollars
        from usage_requests where account_id = ${account_id} and endpoint <> '/v1/usage/daily' and endpoint <> '/v1/usage'
        group by 1, 2 order by 1 desc, 2
      `
      : sql`
        select usage_date, endpoint, requests::int, errors::int, bytes::int, cost_microdollars::int
        from usage_totals where account_id = ${account_id} and endpoint <> '/v1/usage/daily' and endpoint <> '/v1/usage'
        order by usage_date desc, endpoint
      `
  const [ofRows, ofDays] = [yield* kept(true), yield* kept(false)]
  assert.isAbove(ofDays.length, 0)
  assert.deepStrictEqual(ofDays, ofRows)
  const returnedRows = (yield* readRows("/v1/usage/daily?limit=100", key)).filter((row) =>
    !String(valueAt(row, "endpoint")).startsWith("/v1/usage")
  )
  assert.deepStrictEqual(returnedRows, ofDays.map((row) => ({ ...row })))
})

layer(service, { excludeTestServices: true })("GET /v1/usage of a deleted key", (it) => {
  it.effect("returns its requests, without a key_hint (D29)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { account_id, key, key_id } = yield* createCustomer("loses a key")
      const other = yield* Service.ensureAccountWithKey("loses a key", "basic")
      assert.strictEqual((yield* requestJson("/v1/overview", { key })).status, 200)
      yield* waitForRecordedRequests(account_id, 1)
      yield* sql`delete from api_keys where key_id = ${key_id}`
      assert.deepStrictEqual(getColumn(yield* readRows("/v1/usage?endpoint=/v1/overview", other), "key_hint"), [null])
    }))
})

/** In New York, this is still the evening of the previous day. */
const lateEvening = Date.parse("2026-07-02T03:00:00Z")

layer(Service.layerAt(lateEvening).pipe(Layer.provide(CustomerUsage.settingsLayer(settings))))(
  "GET /v1/usage/daily at 03:00 UTC",
  (it) => {
    it.effect("a request at 03:00 UTC is formatted as 22:00 of the previous day, and counted on that day (D29, §2.1)", () =>
      Effect.gen(function* () {
        const { account_id, key } = yield* createCustomer("at night")
        const response = yield* requestJson("/v1/ticker-changes?ticker=META", { key })
        // The request was recorded before its response was sent. The writer may begin to wait for the next batch only
        // later, so the clock moves again with each attempt.
        const seen = Effect.repeat(
          Effect.andThen(TestClock.adjust("1 second"), CustomerUsage.countRecordedRequests(account_id)),
          { until: (rows) => rows >= 1, times: 2000 },
        )
        assert.strictEqual(yield* seen, 1)
        const [row] = yield* readRows("/v1/usage", key)
        assert.deepStrictEqual(pickUsageFields(row), makeExpectedUsage(response))
        assert.strictEqual(valueAt(row, "requested_at"), "2026-07-01T22:00:00-05:00")
        assert.strictEqual(valueAt(row, "duration_ms"), 0)
        const [sum] = yield* readRows("/v1/usage/daily", key)
        assert.deepStrictEqual([valueAt(sum, "usage_date"), valueAt(sum, "requests")], ["2026-07-01", 1])
        assert.strictEqual((yield* readRows("/v1/usage?requested_at_to=2026-06-30", key)).length, 0)
        assert.strictEqual((yield* requestJson("/v1/usage?requested_at_from=2026-07-02", { key })).status, 422)
      }))
  },
)

/**
 * Tests `tickerline usage explain`, which shows what is recorded about a request and how to repeat it (D12, D17, D27,
 * D29).
 */
import { assert, layer } from "@effect/vitest"
import { Clock, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { settleUsage } from "../../../src/accounts/billing/UsageSettlement.ts"
import { declaredEndpoints } from "../../../src/api/catalogue/Endpoints.ts"
import { getParameterNames } from "../../../src/contract/rules/QueryValidation.ts"
import { listRecentChanges } from "../../../src/ingest/load/UndoLoad.ts"
import { makeRequestId } from "../../../src/contract/rules/RequestIds.ts"
import {
  createCustomer,
  insertUsageRow,
  makeRecordWriter,
  makeUsageRecord,
  retryUntil,
  settingsLayer,
  waitForRecordedRequests,
} from "../../support/CustomerUsage.ts"
import * as Documented from "../../support/DocumentedEndpoints.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import { waitUntilOldDataExpires } from "../../support/Pauses.ts"
import { assertFoundMoreThan } from "../../support/ScanAssertions.ts"
import * as Service from "../../support/Service.ts"

const { insertRows, requestJson, valueAt } = Service

/** The price per gigabyte, in microdollars. */
const price = 12_345_678

const TestLayer = Service.sampleServiceLayer.pipe(
  Layer.provide(settingsLayer({ PRICE_PER_GB_MICRODOLLARS: String(price) })),
)

/** Runs `usage explain`. */
const run = Effect.fnUntraced(function* (...args: ReadonlyArray<string>) {
  const environment = { DATABASE_URL: yield* Service.databaseUrl, BASE_URL: "https://api.example.com" }
  return yield* runCommandInProcess(["usage", "explain", ...args], environment)
})

/** Runs `usage explain`, which must succeed. Returns its output. */
const explain = Effect.fnUntraced(function* (...args: ReadonlyArray<string>) {
  const { code, err, out } = yield* run(...args)
  assert.deepStrictEqual([code, err], [0, ""], out)
  return out
})

/** Runs `usage explain --json`, which must succeed. Returns the printed requests, one per line. */
const explainAsJson = Effect.fnUntraced(function* (...args: ReadonlyArray<string>) {
  const lines = (yield* explain(...args, "--json")).trim().split("\n")
  return lines.map((line): unknown => JSON.parse(line))
})

/** Returns the `as_of` times at which a request can be repeated. */
const getMoments = (explained: unknown) => {
  const moments = valueAt(explained, "as_of")
  return Array.isArray(moments) ? moments.map(String) : assert.fail(JSON.stringify(explained))
}

/** Sends a request, then waits until the given number of requests is recorded for the customer. */
const send = Effect.fnUntraced(function* (
  customer: { readonly account_id: number; readonly key: string },
  path: string,
  recorded: number,
  headers: Readonly<Record<string, string>> = {},
) {
  const response = yield* requestJson(path, { key: customer.key, headers })
  yield* waitForRecordedRequests(customer.account_id, recorded)
  return { ...response, id: response.headers["x-request-id"] ?? "" }
})

const path = "/v1/research-reports?ticker=USGE&limit=3"

/** Returns a `research_reports` row. */
const makeReport = (number: number, gain_percentage = "25.5") => ({
  report_id: `explain${number}`,
  ticker: "USGE",
  gain_percentage,
  report_text: "Ünïcødé",
  tldr_text: "short",
  created_at: `2025-07-0${number}T12:00:00Z`,
  last_updated: "2025-07-01T12:00:00Z",
})

/** Updates all reports, so the response to `path` changes. */
const changeReports = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`update research_reports set gain_percentage = gain_percentage + 1 where ticker = 'USGE'`,
)

layer(TestLayer, { excludeTestServices: true, timeout: "120 seconds" })("usage explain", (it) => {
  it.effect("prints the moment with which a response can be requested again, byte for byte (D17, D29)", () =>
    Effect.gen(function* () {
      const customer = yield* createCustomer("explain", { tier: "ultimate" })
      yield* insertRows("research_reports", makeReport(1), makeReport(2))
      yield* waitUntilOldDataExpires
      const now = yield* send(customer, `${path}&as_of=now`, 1)
      const plain = yield* send(customer, path, 2)
      yield* changeReports
      yield* settleUsage
      for (const { headers, id, text } of [now, plain]) {
        const out = yield* explain(id)
        const [, address = ""] = /^ +curl -H "Authorization: Bearer \$TICKERLINE_KEY" "([^"]+)"$/m.exec(out) ?? []
        const url = new URL(address)
        assert.strictEqual(url.origin, "https://api.example.com")
        url.searchParams.set("ticker", "USGE")
        url.searchParams.set("limit", "3")
        const repeated = yield* requestJson(url.pathname + url.search, { key: customer.key })
        assert.strictEqual(repeated.text, text)
        assert.strictEqual(repeated.headers["etag"], headers["etag"])
        assert.include(out, `as_of=${repeated.headers["x-as-of"]}`)
      }
      // A change becomes visible within a second.
      yield* retryUntil(
        requestJson(`${path}&as_of=now`, { key: customer.key }),
        ({ text }) => text !== now.text,
      )
    }))

  it.effect("prints the address at which the service listens without BASE_URL (D29)", () =>
    Effect.gen(function* () {
      const customer = yield* createCustomer("address", { tier: "ultimate" })
      const { id } = yield* send(customer, path, 1)
      const environment = { DATABASE_URL: yield* Service.databaseUrl, HOST: "0.0.0.0", PORT: "21043" }
      const { out } = yield* runCommandInProcess(["usage", "explain", id], environment)
      assert.match(out, /"http:\/\/localhost:21043\/v1\/research-reports\?as_of=/)
    }))

  it.effect("prints a moment for each state of the data that a response may have been based on (D17)", () =>
    Effect.gen(function* () {
      const customer = yield* createCustomer("unsure", { tier: "ultimate" })
      const read = (more = "") => Effect.map(requestJson(`${path}${more}`, { key: customer.key }), ({ text }) => text)
      yield* waitUntilOldDataExpires
      const states = [yield* read()]
      for (let change = 0; change < 2; change++) {
        yield* changeReports
        // A change becomes visible within a second (D17).
        states.push(yield* retryUntil(read(), (text) => text !== states.at(-1)))
      }
      const [newest, oldest] = yield* listRecentChanges("research-reports", 2)
      // Records a request that was in progress while both changes were made.
      const requested_at = Date.parse(oldest?.recorded_at ?? "")
      const request_id = makeRequestId(requested_at)
      const { makeBatch, write } = yield* makeRecordWriter
      yield* write(makeBatch([makeUsageRecord({
        account_id: customer.account_id,
        key_id: customer.key_id,
        endpoint: "/v1/research-reports",
        requested_at,
        request_id,
        duration_ms: Date.parse(newest?.recorded_at ?? "") - requested_at,
      })]))
      const [explained] = yield* explainAsJson(request_id)
      assert.match(String(valueAt(explained, "as_of_explanation")), /the data of one of these moments\./)
      const repeated = yield* Effect.forEach(getMoments(explained), (moment) => read(`&as_of=${moment}`))
      assert.deepStrictEqual(repeated, states)
      // The data before, between and after the two changes.
      assert.lengthOf(new Set(states), 3)
      assert.strictEqual((yield* explain(request_id)).match(/^(?:repeat)? +as_of=/gm)?.length, 3)
    }))

  it.effect("explains the cost, the key and the day (D27, D29)", () =>
    Effect.gen(function* () {
      const customer = yield* createCustomer("costs", { tier: "ultimate", name: "night \u001b[31mjob" })
      const { headers, id, text } = yield* send(customer, path, 1)
      const bytes = Buffer.byteLength(text)
      const out = yield* explain(id)
      const cost = Number(headers["x-cost-microdollars"])
      assert.match(out, /^account +costs \(\d+\)$/m)
      assert.match(out, /^key +\d+ night \\u001b\[31mjob \(tl_live_…?.+\), active$/m)
      assert.match(out, /^price +12\.345678 USD per GB$/m)
      assert.include(
        out,
        `${bytes} bytes at ${price} microdollars per 1,000,000,000 bytes are ${
          (bytes * price / 1e9).toFixed(9).replace(/0+$/, "")
        } microdollars, rounded up to ${cost}.`,
      )
      assert.match(out, /^counts for +\d{4}-\d\d-\d\d, budget of \d{4}-\d\d \(New York\), /m)
      const unchanged = yield* send(customer, path, 2, { "if-none-match": headers["etag"] ?? "" })
      const outOf304 = yield* explain(unchanged.id)
      assert.match(outOf304, /^status +304\n +The data were the same/m)
      assert.match(outOf304, /^cost +0\.000000 USD\n +Free: errors and 304 cost nothing\.$/m)
      assert.match(outOf304, /^cached +yes/m)
    }))

  it.effect("explains errors, refused requests and endpoints without as_of (D13, D29)", () =>
    Effect.gen(function* () {
      const customer = yield* createCustomer("refused")
      const account = yield* send(customer, "/v1/account", 1)
      const invalid = yield* send(customer, "/v1/news?nonsense=1", 2)
      const forbidden = yield* send(customer, "/v1/research-reports?ticker=A", 3)
      assert.match(yield* explain(account.id), /^repeat +\/v1\/account has no parameter as_of/m)
      const outOf422 = yield* explain(invalid.id)
      assert.match(outOf422, /^status +422\n +.*validation_error: /m)
      assert.match(outOf422, /^repeat +No data were read/m)
      const outOf403 = yield* explain(forbidden.id)
      assert.match(outOf403, /^status +403\n +One of these, which is not recorded: .*insufficient_tier: /m)
      assert.match(outOf403, /^repeat +No data were read/m)
      const { account_id, key_id } = customer
      const requested_at = Date.parse("2026-06-01T12:00:00.123Z")
      const refused = makeRequestId(requested_at)
      yield* insertUsageRow(
        makeUsageRecord({
          account_id,
          key_id,
          requested_at,
          request_id: refused,
          status_code: 429,
          cost_microdollars: 0,
        }),
        5,
      )
      assert.match(yield* explain(refused), /rate_limit_exceeded: .*counts 5 requests to this endpoint/)
      const installment = makeUsageRecord({
        account_id,
        key_id,
        requested_at: requested_at + 1,
        request_id: makeRequestId(requested_at + 1),
        endpoint: "/v1/changes/stream",
        bytes: 1_000,
        price_per_gb_microdollars: price,
        cost_microdollars: 12,
      })
      const { makeBatch, write } = yield* makeRecordWriter
      yield* write(makeBatch([installment]))
      const outOfStream = yield* explain(installment.request_id)
      assert.match(outOfStream, /1000 bytes at 12345678 .* are 12\.345678 microdollars\. The row is an installment/)
      assert.match(outOfStream, /^status +200\n +A stream is recorded in installments/m)
      // An export that was aborted because its key was revoked.
      const now = yield* Clock.currentTimeMillis
      const exported = makeUsageRecord({
        account_id,
        key_id,
        requested_at: now,
        request_id: makeRequestId(now),
        endpoint: "/v1/news",
        status_code: 401,
        cost_microdollars: 7,
      })
      yield* write(makeBatch([exported]))
      assert.match(yield* explain(exported.request_id), /^repeat +as_of=/m)
      // A request made before the recorded history begins.
      const earlier = { account_id, key_id, requested_at: requested_at + 2 }
      const old = makeRequestId(requested_at + 2)
      yield* write(makeBatch([makeUsageRecord({ ...earlier, request_id: old })]))
      assert.match(yield* explain(old), /^repeat +The history begins at /m)
    }))

  it.effect("finds the ids that clients chose, in an account, and refuses ids that no request can have (D12)", () =>
    Effect.gen(function* () {
      const customer = yield* createCustomer("client ids", { tier: "ultimate" })
      yield* send(customer, path, 1, { "x-request-id": "order-42" })
      yield* send(customer, path, 2, { "x-request-id": "order-42" })
      assert.lengthOf(yield* explainAsJson("order-42", "--account", "client ids"), 2)
      assert.strictEqual((yield* explain("order-42", "--account", "client ids")).match(/^request /gm)?.length, 2)
      const unsearchable = yield* run("order-42")
      assert.strictEqual(unsearchable.code, 1)
      assert.match(unsearchable.err, /^tickerline: The id order-42 does not contain the time.*--account NAME/)
      const invalid = yield* run("order 42")
      assert.strictEqual(invalid.code, 2)
      assert.match(invalid.err, /It must have 1 to 128 letters/)
    }))

  it("knows which endpoints have as_of (D17)", () => {
    const found = declaredEndpoints.filter(({ query }) =>
      query !== undefined && getParameterNames(query).includes("as_of")
    ).map(({ row }) => row.path)
    const documented = declaredEndpoints.map(({ row }) => row.path).filter((path) =>
      Documented.getParameterNames(path).includes("as_of")
    )
    assertFoundMoreThan(20, "endpoints with as_of", found)
    assert.deepStrictEqual(found, documented)
  })
})

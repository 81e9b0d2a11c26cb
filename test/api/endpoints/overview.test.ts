/** Tests GET /v1/overview over HTTP (resources). Each test creates its own accounts. */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import * as Accounts from "../../../src/accounts/Accounts.ts"
import { tiers } from "../../../src/contract/rules/EndpointAnnotations.ts"
import { todayInNewYork } from "../../../src/contract/rules/Dates.ts"
import { setBudget } from "../../../src/accounts/billing/Budgets.ts"
import * as CustomerUsage from "../../support/CustomerUsage.ts"
import * as ListClients from "../../support/ListClients.ts"
import * as Service from "../../support/Service.ts"

const { requestJson, valueAt, insertRows } = Service
const { createCustomer, retryUntil, waitForRecordedRequests } = CustomerUsage

const overview = (key: string) =>
  Effect.map(requestJson("/v1/overview", { key }), ({ body, status, text }) => {
    assert.strictEqual(status, 200, text)
    assert.deepStrictEqual([valueAt(body, "count"), valueAt(body, "results", "length")], [1, 1])
    return valueAt(body, "results", 0)
  })

/** Builds a row with an account's totals for one day and endpoint. */
const day = (account_id: number, usage_date: string, requests: number, cost_microdollars: string | number) => ({
  account_id,
  usage_date,
  endpoint: `/v1/${requests}`,
  requests,
  errors: 1,
  bytes: 1000,
  cost_microdollars,
})

const set = Effect.fnUntraced(function* (account_id: number, columns: Readonly<Record<string, string | null>>) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`update accounts set ${sql.update(columns)} where account_id = ${account_id}`
})

const limits = { RATE_LIMIT_BASIC: "1234", RATE_LIMIT_PRO: "200000", RATE_LIMIT_ULTIMATE: "1000000000" }

layer(CustomerUsage.serviceWithSettings(limits), { excludeTestServices: true })("GET /v1/overview", (it) => {
  it.effect("returns every field, exactly as stored (resources: overview)", () =>
    Effect.gen(function* () {
      const { account_id, key } = yield* createCustomer(`Ünï "quoted"`, { tier: "pro", balance: 25_000_000 })
      yield* set(account_id, { created_at: "2025-01-15T02:00:00Z", last_charged_at: "2025-07-15T12:30:45.250Z" })
      yield* insertRows("usage_daily", day(account_id, yield* todayInNewYork, 3, 700))
      yield* setBudget(`Ünï "quoted"`, { microdollars: 945n, stops: true })
      const { text } = yield* requestJson("/v1/overview", { key })
      assert.strictEqual(
        text,
        `{"count":1,"results":[{"account_id":${account_id},"name":"Ünï \\"quoted\\"","tier":"pro",` +
          `"rate_limit_per_minute":200000,"requests_today":3,"cost_today_microdollars":700,` +
          `"balance_microdollars":25000000,"budget_microdollars":945,"budget_spent_microdollars":700,` +
          `"budget_spent_percent":74,"budget_stops":true,"last_charged_at":"2025-07-15T07:30:45.250-05:00",` +
          `"created_at":"2025-01-14T21:00:00-05:00"}]}`,
      )
      const head = yield* requestJson("/v1/overview", { key, method: "HEAD" })
      assert.deepStrictEqual([head.status, head.text], [200, ""])
    }))

  it.effect("a new account has no requests, no charge and no prepaid balance (D16)", () =>
    Effect.gen(function* () {
      const { account_id, key } = yield* createCustomer("new")
      const found = yield* overview(key)
      assert.strictEqual(valueAt(found, "account_id"), account_id)
      assert.deepStrictEqual(ListClients.getNullFieldNames(found), [
        "balance_microdollars",
        "budget_microdollars",
        "budget_spent_microdollars",
        "budget_spent_percent",
        "last_charged_at",
      ])
      assert.deepStrictEqual([valueAt(found, "requests_today"), valueAt(found, "cost_today_microdollars")], [0, 0])
    }))

  it.effect("rate_limit_per_minute is the configured limit of the tier, and changes with it (D18)", () =>
    Effect.gen(function* () {
      const { key } = yield* createCustomer("climber")
      const expected = { basic: 1234, pro: 200_000, ultimate: 1_000_000_000 }
      for (const tier of [...tiers, "basic"] as const) {
        yield* Accounts.updateAccount("climber", { tier })
        const found = yield* overview(key)
        assert.deepStrictEqual([valueAt(found, "tier"), valueAt(found, "rate_limit_per_minute")], [
          tier,
          expected[tier],
        ])
        const counted = yield* retryUntil(
          Effect.map(requestJson("/v1/overview", { key }), ({ headers }) => headers["x-ratelimit-limit"]),
          (limit) => limit === String(expected[tier]),
        )
        assert.strictEqual(counted, String(expected[tier]), "the limit that it is counted by")
      }
    }))

  it.effect("created_at and last_charged_at are instants, formatted at -05:00 all year (§2.1.2, §2.1.4)", () =>
    Effect.gen(function* () {
      const { account_id, key } = yield* createCustomer("clock")
      const instants = [
        ["2025-01-15T02:00:00Z", "2025-01-14T21:00:00-05:00"],
        ["2025-07-15T02:00:00Z", "2025-07-14T21:00:00-05:00"],
        ["2025-11-02T05:30:00Z", "2025-11-02T00:30:00-05:00"],
        ["2025-11-02T06:30:00.001Z", "2025-11-02T01:30:00.001-05:00"],
      ] as const
      for (const [instant, printed] of instants) {
        yield* set(account_id, { created_at: instant, last_charged_at: instant })
        const found = yield* overview(key)
        assert.deepStrictEqual([valueAt(found, "created_at"), valueAt(found, "last_charged_at")], [printed, printed])
      }
    }))

  it.effect("the balance is null or a number, may be negative, and is exact to 2^53-1 (resources: overview)", () =>
    Effect.gen(function* () {
      const { account_id, key } = yield* createCustomer("purse")
      for (const balance of ["0", "1", "-1", "-25000000", "9007199254740991", null, "-9007199254740991"]) {
        const sql = yield* SqlClient.SqlClient
        yield* sql`
          update accounts set balance_microdollars = ${balance}::text::bigint where account_id = ${account_id}
        `
        const { text } = yield* requestJson("/v1/overview", { key })
        assert.include(text, `"balance_microdollars":${balance},`)
      }
    }))

  it.effect("sums all endpoints, for today and this account only (resources: overview)", () =>
    Effect.gen(function* () {
      const { account_id, key } = yield* createCustomer("sums")
      const other = yield* createCustomer("other sums")
      const today = yield* todayInNewYork
      const [before, after] = [-1, 1].map((days) =>
        new Date(Date.parse(`${today}T00:00:00Z`) + days * 86_400_000).toISOString().slice(0, 10)
      )
      yield* insertRows(
        "usage_daily",
        day(account_id, today, 3, 700),
        day(account_id, today, 40, 0),
        day(account_id, today, 500, "9007199254740000"),
        day(account_id, before ?? "", 6000, 1),
        day(account_id, after ?? "", 70_000, 1),
        day(account_id, "2025-01-01", 800_000, 1),
        day(other.account_id, today, 9_000_000, 1),
      )
      const found = yield* overview(key)
      assert.deepStrictEqual([valueAt(found, "requests_today"), valueAt(found, "cost_today_microdollars")], [
        543,
        9_007_199_254_740_700,
      ])
    }))

  it.effect("shows requests within a second: count, cost, charge and remaining balance (D27, D29)", () =>
    Effect.gen(function* () {
      const balance = 1_000_000
      const { account_id, key } = yield* createCustomer("spender", { balance })
      assert.strictEqual(valueAt(yield* overview(key), "last_charged_at"), null)
      // Free requests and refused requests are counted but cost nothing.
      const free = ["/v1/account", "/v1/usage", "/v1/historical-tickers?ticker=NONE", "/v1/ticker-changes"]
      for (const path of free) yield* requestJson(path, { key })
      yield* waitForRecordedRequests(account_id, 1 + free.length)
      const uncharged = yield* overview(key)
      assert.strictEqual(valueAt(uncharged, "requests_today"), 1 + free.length)
      assert.strictEqual(valueAt(uncharged, "cost_today_microdollars"), 0)
      assert.deepStrictEqual([valueAt(uncharged, "balance_microdollars"), valueAt(uncharged, "last_charged_at")], [
        balance,
        null,
      ])

      const began = Date.now()
      let cost = 0
      for (const path of ["/v1/ticker-changes?ticker=OVER", "/v1/news", "/v1/screener?ticker=OVER"]) {
        const { headers, status } = yield* requestJson(path, { key })
        assert.strictEqual(status, 200)
        assert.isAbove(Number(headers["x-cost-microdollars"]), 0)
        cost += Number(headers["x-cost-microdollars"])
      }
      const requests = 2 + free.length + 3
      yield* waitForRecordedRequests(account_id, requests)
      const charged = yield* overview(key)
      assert.strictEqual(valueAt(charged, "requests_today"), requests)
      assert.strictEqual(valueAt(charged, "cost_today_microdollars"), cost)
      assert.strictEqual(valueAt(charged, "balance_microdollars"), balance - cost)
      const last = String(valueAt(charged, "last_charged_at"))
      assert.match(last, /-05:00$/)
      assert.isAtLeast(Date.parse(last), began - 1000)
      assert.isAtMost(Date.parse(last), Date.now() + 1000)
    }))

  it.effect("takes no parameters, requires a key, and stays free without a balance (D4, D27)", () =>
    Effect.gen(function* () {
      const { key } = yield* createCustomer("broke", { balance: 0 })
      for (const name of ["account_id", "date", "page", "limit"]) {
        const { body, status } = yield* requestJson(`/v1/overview?${name}=1`, { key })
        assert.deepStrictEqual([status, valueAt(body, "error", "details", "fields", 0, "field")], [422, name])
      }
      assert.strictEqual((yield* requestJson("/v1/overview", { key: null })).status, 401)
      const { headers, status } = yield* requestJson("/v1/overview", { key })
      assert.deepStrictEqual([status, headers["x-cost-microdollars"]], [200, "0"])
    }))
})

/** Ten seconds before midnight in New York, in summer and in winter. In UTC, it is already the next day. */
const dayEnds = [["2026-07-02T03:59:50Z", "2026-07-01", "2026-07-02"], [
  "2027-01-01T04:59:50Z",
  "2026-12-31",
  "2027-01-01",
]] as const

for (const [lastSeconds, old, nextDay] of dayEnds) {
  layer(Service.layerAt(Date.parse(lastSeconds)).pipe(Layer.provide(CustomerUsage.settingsLayer(limits))))(
    `GET /v1/overview at ${lastSeconds}`,
    (it) => {
      it.effect("today ends at midnight in New York (resources: overview)", () =>
        Effect.gen(function* () {
          // Uses different accounts before and after midnight, because the test's own requests count toward the totals.
          const [before, after] = [yield* createCustomer("before midnight"), yield* createCustomer("after midnight")]
          for (const { account_id } of [before, after]) {
            yield* insertRows("usage_daily", day(account_id, old, 5, 50), day(account_id, nextDay, 7, 70))
          }
          const today = (key: string) =>
            Effect.map(
              overview(key),
              (found) => [valueAt(found, "requests_today"), valueAt(found, "cost_today_microdollars")],
            )
          yield* TestClock.setTime(Date.parse(lastSeconds) + 9_999)
          assert.deepStrictEqual(yield* today(before.key), [5, 50])
          yield* TestClock.setTime(Date.parse(lastSeconds) + 10_000)
          assert.deepStrictEqual(yield* today(after.key), [7, 70])
        }))
    },
  )
}

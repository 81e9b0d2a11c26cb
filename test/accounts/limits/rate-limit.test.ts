/** Tests the responses of a single process below and above an account's rate limit (D18, rate limits). */
import { assert, it, layer } from "@effect/vitest"
import { Array, ConfigProvider, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import * as Accounts from "../../../src/accounts/Accounts.ts"
import { RateLimitsByTierConfig } from "../../../src/accounts/limits/AccountRateLimiter.ts"
import { catalogueEndpoints } from "../../../src/api/catalogue/Endpoints.ts"
import { getDefaultOpenApiDocument } from "../../../src/api/catalogue/OpenApiDocument.ts"
import { type Tier, tiers } from "../../../src/contract/rules/EndpointAnnotations.ts"
import * as CustomerUsage from "../../support/CustomerUsage.ts"
import { assertFoundMoreThan } from "../../support/ScanAssertions.ts"
import * as Service from "../../support/Service.ts"

const { requestJson, valueAt, insertRows } = Service

type Response = Effect.Success<ReturnType<typeof requestJson>>

/**
 * Creates a customer whose bucket is refilled only by `passTime`, so that the headers are the same on a slow machine.
 */
const createCustomer = Effect.fnUntraced(function* (...options: Parameters<typeof CustomerUsage.createCustomer>) {
  const sql = yield* SqlClient.SqlClient
  const customer = yield* CustomerUsage.createCustomer(...options)
  yield* sql`
    insert into rate_limit_buckets (account_id, used, refilled_at, granted)
    values (${customer.account_id}::float8, 0, now() + interval '1 day', 0) on conflict do nothing
  `
  return customer
})

/** Advances the clock and refills all buckets according to the limit. */
const passTime = Effect.fnUntraced(function* (seconds: number, limit = 3) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`update rate_limit_buckets set used = greatest(0, used - ${seconds * limit / 60}::float8)`
  yield* TestClock.adjust(Duration.seconds(seconds))
})

/** Returns the values of the three rate limit headers. */
const getLimitHeaders = ({ headers }: Response) =>
  ["limit", "remaining", "reset"].map((name) => headers[`x-ratelimit-${name}`] ?? null)

const freePath = "/v1/account"

/** Sends requests one after another. */
const sendRequests = (key: string, times: number, path = freePath) =>
  Effect.forEach(Array.range(1, times), () => requestJson(path, { key }))

const getStatuses = (responses: ReadonlyArray<Response>) => responses.map(({ status }) => status)

/** Asserts that a request was refused because its account had reached the rate limit. */
const assertExceeded = (response: Response, limit: number) => {
  const { body, headers, status, text } = response
  assert.strictEqual(status, 429, text)
  assert.strictEqual(valueAt(body, "error", "code"), "rate_limit_exceeded")
  assert.include(String(valueAt(body, "error", "message")), `${limit} requests per minute`)
  assert.deepStrictEqual(Object.keys(Object(valueAt(body, "error"))), ["code", "message"])
  assert.strictEqual(valueAt(body, "request_id"), headers["x-request-id"])
  assert.match(String(headers["retry-after"]), /^[1-9]\d?$/)
  assert.isAtMost(Number(headers["retry-after"]), Math.ceil(60 / limit))
  assert.deepStrictEqual(getLimitHeaders(response).slice(0, 2), [String(limit), "0"])
  assert.isAtLeast(Number(getLimitHeaders(response)[2]), Number(headers["retry-after"]))
  assert.strictEqual(headers["x-cost-microdollars"], "0")
}

const noon = Date.parse("2026-07-01T16:00:00Z")

const smallLimits = { RATE_LIMIT_BASIC: "3", RATE_LIMIT_PRO: "5", RATE_LIMIT_ULTIMATE: "7" }

/** The service with a test clock that starts at noon and moves only when a test advances it. */
const serviceAtNoon = (values: Readonly<Record<string, string>>) =>
  Service.layerAt(noon).pipe(Layer.provide(CustomerUsage.settingsLayer(values)))

layer(serviceAtNoon(smallLimits))("With small limits,", (it) => {
  it.effect("every response reports the remaining requests and when the bucket is full again (D18)", () =>
    Effect.gen(function* () {
      const { key } = yield* createCustomer("counted")
      const responses = yield* sendRequests(key, 4)
      assert.deepStrictEqual(responses.map(getLimitHeaders), [
        ["3", "2", "20"],
        ["3", "1", "40"],
        ["3", "0", "60"],
        ["3", "0", "60"],
      ])
      assert.deepStrictEqual(getStatuses(responses), [200, 200, 200, 429])
      responses.slice(0, 3).forEach(({ headers }) => assert.isUndefined(headers["retry-after"]))
    }))

  it.effect("requests get 429 while the bucket is empty, until the time in Retry-After has passed (D18)", () =>
    Effect.gen(function* () {
      const { key } = yield* createCustomer("impatient")
      yield* sendRequests(key, 3)
      for (const [seconds, retryAfter, reset] of [[0, "20", "60"], [12, "8", "48"], [7.5, "1", "41"]] as const) {
        yield* passTime(seconds)
        const refused = yield* requestJson(freePath, { key })
        assertExceeded(refused, 3)
        assert.strictEqual(refused.headers["retry-after"], retryAfter)
        assert.strictEqual(getLimitHeaders(refused)[2], reset)
      }
      yield* passTime(1)
      assert.deepStrictEqual(getLimitHeaders(yield* requestJson(freePath, { key })), ["3", "0", "60"])
      assertExceeded(yield* requestJson(freePath, { key }), 3)
    }))

  it.effect("after a burst the bucket refills gradually, up to its size (D18)", () =>
    Effect.gen(function* () {
      const { key } = yield* createCustomer("bursting")
      yield* sendRequests(key, 3)
      yield* passTime(40)
      assert.deepStrictEqual(getStatuses(yield* sendRequests(key, 3)), [200, 200, 429])
      yield* passTime(120)
      assert.deepStrictEqual(getStatuses(yield* sendRequests(key, 4)), [200, 200, 200, 429])
    }))

  it.effect("requests at a steady rate below the limit are never refused (D18)", () =>
    Effect.gen(function* () {
      const { key } = yield* createCustomer("steady")
      for (let sent = 0; sent < 12; sent++) {
        assert.deepStrictEqual(getLimitHeaders(yield* requestJson(freePath, { key })), ["3", "2", "20"])
        yield* passTime(20)
      }
    }))

  it.effect("the tier sets the limit, and a new tier applies within a second without resetting used requests (D18)", () =>
    Effect.gen(function* () {
      const limits = { basic: 3, pro: 5, ultimate: 7 }
      for (const tier of tiers) {
        const { key } = yield* createCustomer(`of ${tier}`, { tier })
        const responses = yield* sendRequests(key, limits[tier] + 1)
        assert.deepStrictEqual(getStatuses(responses), [...Array.replicate(200, limits[tier]), 429])
        assertExceeded(Array.lastNonEmpty(responses), limits[tier])
      }
      const { key } = yield* createCustomer("rising")
      yield* sendRequests(key, 4)
      yield* Accounts.updateAccount("rising", { tier: "pro" })
      yield* TestClock.adjust("1 second")
      const responses = yield* sendRequests(key, 3)
      assert.deepStrictEqual(getStatuses(responses), [200, 200, 429])
      assert.deepStrictEqual(responses.map((response) => getLimitHeaders(response)[1]), ["1", "0", "0"])
    }))

  it.effect("the keys of an account share one limit, but accounts do not (D18)", () =>
    Effect.gen(function* () {
      const [first, second] = [yield* createCustomer("shared"), yield* createCustomer("shared")]
      const other = yield* createCustomer("not shared")
      const responses = [
        yield* requestJson(freePath, { key: first.key }),
        yield* requestJson(freePath, { key: null, headers: { Authorization: `Bearer ${second.key}` } }),
        yield* requestJson(freePath, { key: first.key }),
      ]
      assert.deepStrictEqual(responses.map((response) => getLimitHeaders(response)[1]), ["2", "1", "0"])
      for (const { key } of [first, second]) assertExceeded(yield* requestJson(freePath, { key }), 3)
      assert.deepStrictEqual(getLimitHeaders(yield* requestJson(freePath, { key: other.key })), ["3", "2", "20"])
    }))

  it.effect("requests to free endpoints count toward the limit, each once (D18, D27)", () =>
    Effect.gen(function* () {
      const { key } = yield* createCustomer("freely", { tier: "ultimate" })
      const paths = [
        "/v1/account",
        "/v1/account/api-keys",
        "/v1/overview",
        "/v1/usage",
        "/v1/usage/daily",
        "/estimate?endpoint=/v1/news",
        "/estimate?endpoint=/v1/news&limit=0",
      ]
      const remaining: Array<string | null | undefined> = []
      for (const path of paths) remaining.push(getLimitHeaders(yield* requestJson(path, { key }))[1])
      assert.deepStrictEqual(remaining, ["6", "5", "4", "3", "2", "1", "0"])
      for (const path of paths) assertExceeded(yield* requestJson(path, { key }), 7)
    }))

  it.effect("401 takes precedence over 429, and 429 over 402, 403, 404 and 422, and refused requests do not count (D18)", () =>
    Effect.gen(function* () {
      const { key } = yield* createCustomer("spent", { balance: 0 })
      yield* sendRequests(key, 3)
      for (
        const path of [
          "/v1/news",
          "/v1/research-reports",
          "/v1/historical-tickers?ticker=NONE",
          "/v1/news?limit=0",
          "/v1/account?nonsense=1",
        ]
      ) {
        assertExceeded(yield* requestJson(path, { key }), 3)
        assert.strictEqual((yield* requestJson(path, { key: "nonsense" })).status, 401)
      }
      assert.strictEqual((yield* requestJson("/v1/nowhere", { key })).status, 404)
      yield* passTime(60)
      assert.deepStrictEqual(getLimitHeaders(yield* requestJson(freePath, { key })), ["3", "2", "20"])
    }))

  it.effect("concurrent requests are allowed exactly up to the limit (D18)", () =>
    Effect.gen(function* () {
      const { key } = yield* createCustomer("at once", { tier: "ultimate" })
      const [limit, sent] = [7, 40]
      const responses = yield* Effect.forEach(Array.range(1, sent), () => requestJson(freePath, { key }), {
        concurrency: "unbounded",
      })
      assert.deepStrictEqual(getStatuses(responses).toSorted((a, b) => a - b), [
        ...Array.replicate(200, limit),
        ...Array.replicate(429, sent - limit),
      ])
      assert.deepStrictEqual(
        responses.filter(({ status }) => status === 200).map((response) => getLimitHeaders(response)[1]).toSorted(),
        ["0", "1", "2", "3", "4", "5", "6"],
      )
    }))
})

/** LIMA is renamed to two different symbols, so its lineage is ambiguous. */
const ambiguousChanges = [
  { old_ticker: "LIMA", new_ticker: "LIMB", effective_date: "2020-01-01", status: "confirmed" },
  { old_ticker: "LIMA", new_ticker: "LIMC", effective_date: "2021-01-01", status: "confirmed" },
]

/** Prepares requests that fail: stores an ambiguous lineage (409), and removes a table (500). */
const makeFailures = Layer.effectDiscard(Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* insertRows("ticker_changes", ...ambiguousChanges)
  yield* sql`alter table afterhours_stats rename to gone`
}))

layer(Layer.provideMerge(makeFailures, serviceAtNoon({ RATE_LIMIT_BASIC: "100" })))("With a limit of 100,", (it) => {
  it.effect.each(
    [
      { status: 200, method: "GET", path: "/v1/news" },
      { status: 200, method: "HEAD", path: "/v1/news" },
      { status: 402, method: "GET", path: "/v1/news", balance: 0 },
      { status: 403, method: "GET", path: "/v1/research-reports" },
      { status: 403, method: "GET", path: "/v1/news", endpoints: ["/v1/screener"] },
      { status: 404, method: "GET", path: "/v1/historical-tickers?ticker=NONE" },
      { status: 409, method: "GET", path: "/v1/ticker-changes?ticker=LIMA" },
      { status: 422, method: "GET", path: "/v1/ticker-changes" },
      { status: 422, method: "HEAD", path: "/v1/news?limit=0" },
      { status: 422, method: "GET", path: "/estimate?endpoint=/nowhere" },
      { status: 500, method: "GET", path: "/v1/afterhours-stats" },
    ] as const,
  )(
    "$status for $method $path has the three rate limit headers (D14, D18)",
    ({ method, path, status, ...options }) =>
      Effect.gen(function* () {
        const { key } = yield* createCustomer(`${status} ${method} ${path}`, options)
        const response = yield* requestJson(path, { key, method })
        assert.strictEqual(response.status, status, response.text)
        assert.deepStrictEqual(getLimitHeaders(response), ["100", "99", "1"])
        assert.isUndefined(response.headers["retry-after"])
      }),
  )

  it.effect("responses count down the remaining requests, whatever their status and the header of the key (D14, D18)", () =>
    Effect.gen(function* () {
      const { key } = yield* createCustomer("every status")
      const requests = [
        ["/v1/news", { key }],
        ["/v1/ticker-changes?ticker=META", { key: null, headers: { Authorization: `Bearer ${key}` } }],
        ["/v1/research-reports", { key }],
        ["/v1/news?limit=0", { key, method: "HEAD" }],
        ["/v1/afterhours-stats", { key }],
      ] as const
      const secondsPerToken = 60 / 100
      for (const [index, [path, options]] of requests.entries()) {
        const [, remaining, reset] = getLimitHeaders(yield* requestJson(path, options))
        assert.deepStrictEqual([remaining, reset], [
          String(99 - index),
          // The subtraction compensates for rounding: in floating point, three times 0.6 is slightly more than 1.8.
          String(Math.ceil((index + 1) * secondsPerToken - 1e-9)),
        ], path)
      }
    }))

  it.effect("responses to requests without a valid key, or before the key is checked, have no rate limit headers (D18)", () =>
    Effect.gen(function* () {
      const { key } = yield* createCustomer("unknown")
      const cases = [
        ["/v1/news", { key: null }],
        ["/v1/news", { key: "nonsense" }],
        ["/v1/nowhere", { key }],
        ["/v1/news", { key, method: "POST" }],
        ["/endpoints", { key }],
        ["/v1/docs", { key }],
        ["/health/live", { key }],
      ] as const
      for (const [path, options] of cases) {
        assert.deepStrictEqual(getLimitHeaders(yield* requestJson(path, options)), [null, null, null])
      }
      assert.deepStrictEqual(
        getLimitHeaders(yield* requestJson(freePath, { key })),
        ["100", "99", "1"],
        "none of them counted",
      )
    }))
})

it("OpenAPI documents 429 only for endpoints that require a key, and 402 only for priced endpoints (D13, D18)", () => {
  assertFoundMoreThan(15, "priced endpoints", catalogueEndpoints.filter(({ isPriced }) => isPriced))
  for (const { isPriced, row } of catalogueEndpoints) {
    const responses = valueAt(getDefaultOpenApiDocument(), "paths", row.path, "get", "responses")
    if (responses === undefined) continue
    assert.strictEqual(valueAt(responses, "429") !== undefined, row.tier !== null, row.path)
    assert.strictEqual(valueAt(responses, "402") !== undefined, isPriced, row.path)
    for (const [status, code] of [["429", "rate_limit_exceeded"], ["402", "insufficient_credits"]] as const) {
      if (valueAt(responses, status) === undefined) continue
      assert.include(
        JSON.stringify([valueAt(responses, status), valueAt(getDefaultOpenApiDocument(), "components")]),
        code,
      )
    }
  }
})

const settingsLayer = (values: Readonly<Record<string, string>>) =>
  ConfigProvider.layer(ConfigProvider.fromUnknown(values))

it.effect("the limits are 200, 1,000 and 5,000 requests per minute by default (D18)", () =>
  Effect.gen(function* () {
    const readLimits = (values: Readonly<Record<string, string>>) =>
      Effect.map(Effect.provide(RateLimitsByTierConfig, settingsLayer(values)), (found) =>
        tiers.map((tier: Tier) => found[tier]))
    assert.deepStrictEqual(yield* readLimits({}), [200, 1_000, 5_000])
    assert.deepStrictEqual(yield* readLimits({ RATE_LIMIT_PRO: "1" }), [200, 1, 5_000])
    assert.deepStrictEqual(yield* readLimits(smallLimits), [3, 5, 7])
    assert.deepStrictEqual(yield* readLimits({ RATE_LIMIT_ULTIMATE: "1000000000" }), [200, 1_000, 1_000_000_000])
  }))

it.effect("the service does not start with an invalid limit, and the error names the setting (D18)", () =>
  Effect.gen(function* () {
    for (const name of ["RATE_LIMIT_BASIC", "RATE_LIMIT_PRO", "RATE_LIMIT_ULTIMATE"]) {
      for (const wrong of ["0", "-1", "1.5", "x", "1e10", "200 a minute", "NaN", "Infinity"]) {
        const error = yield* Effect.flip(Effect.provide(RateLimitsByTierConfig, settingsLayer({ [name]: wrong })))
        assert.strictEqual(error._tag, "ConfigError", `${name}=${wrong}`)
        assert.include(error.message, name)
      }
    }
  }))

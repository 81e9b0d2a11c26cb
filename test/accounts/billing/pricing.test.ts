/** Tests for the cost of data, the price settings, and free endpoints (D27, prices). */
import { assert, describe, it, layer } from "@effect/vitest"
import { ConfigProvider, Effect, Exit, Layer, Schema } from "effect"
import * as Accounts from "../../../src/accounts/Accounts.ts"
import { computeDataCost, PriceLookup } from "../../../src/accounts/billing/Pricing.ts"
import * as Endpoints from "../../../src/api/catalogue/Endpoints.ts"
import * as PriceList from "../../../src/api/catalogue/PriceList.ts"
import * as DocumentedEndpoints from "../../support/DocumentedEndpoints.ts"
import * as GeneratedRows from "../../support/GeneratedRows.ts"
import * as Service from "../../support/Service.ts"

const { valueAt, insertRows, TestKeys } = Service

/** Endpoints whose data has a price, except endless streams. */
const priced = Endpoints.catalogueEndpoints.filter(({ isEndless, isPriced }) => isPriced && !isEndless)
  .map(({ row }) => row.path)
const free = Endpoints.catalogueEndpoints.filter(({ isPriced }) => !isPriced).map(({ row }) => row.path)

const gigabyte = 1_000_000_000n
const maxPrice = 1_000_000_000_000

/** Response body sizes up to 100 MB. */
const Bytes = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 100_000_000 }))
const Price = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: maxPrice }))

/** Returns the exact cost in billionths of a microdollar. */
const computeExactCost = (bytes: number, price: number) => BigInt(bytes) * BigInt(price)

describe("computeDataCost", () => {
  it.prop("rounds the exact cost up to a microdollar (D27)", [Bytes, Price], ([bytes, price]) => {
    const cost = computeDataCost(bytes, price)
    assert.isTrue(Number.isSafeInteger(cost))
    const charged = BigInt(cost) * gigabyte
    assert.isTrue(charged >= computeExactCost(bytes, price), `${cost} is too little`)
    assert.isTrue(charged - computeExactCost(bytes, price) < gigabyte, `${cost} is too much`)
  }, { arbitrary: { runs: 1000 } })

  it.prop("charges nothing for no bytes, and the price for a gigabyte (D27)", [Price], ([price]) => {
    assert.strictEqual(computeDataCost(0, price), 0)
    assert.strictEqual(computeDataCost(1_000_000_000, price), price)
    assert.strictEqual(computeDataCost(1, price), price === 0 ? 0 : Math.ceil(price / 1_000_000_000))
  })

  it.prop("charges nothing at a price of 0 (D27)", [Bytes], ([bytes]) => {
    assert.strictEqual(computeDataCost(bytes, 0), 0)
  })

  it.prop(
    "never charges less for more bytes or a higher price (D27)",
    [Bytes, Bytes, Price, Price],
    ([bytes, more, price, dearer]) => {
      assert.isAtLeast(computeDataCost(bytes + more, price), computeDataCost(bytes, price))
      assert.isAtLeast(computeDataCost(bytes, price + dearer), computeDataCost(bytes, price))
    },
    { arbitrary: { runs: 500 } },
  )

  it.prop(
    "charges at most a microdollar more for two responses than for one of their total size (D27)",
    [Bytes, Bytes, Price],
    ([one, other, price]) => {
      const apart = computeDataCost(one, price) + computeDataCost(other, price)
      const together = computeDataCost(one + other, price)
      assert.isAtLeast(apart, together)
      assert.isAtMost(apart, together + 1)
    },
    { arbitrary: { runs: 500 } },
  )

  it("charges a full microdollar for a fraction of one (D27)", () => {
    const cases = [
      [1, 1, 1],
      [1, 10_000_000, 1],
      [99, 10_000_000, 1],
      [100, 10_000_000, 1],
      [101, 10_000_000, 2],
      [200, 10_000_000, 2],
      [999_999_999, 1, 1],
      [1_000_000_000, 1, 1],
      [1_000_000_001, 1, 2],
      [3, 333_333_333_333, 1000],
      [3, 333_333_333_334, 1001],
      // These products exceed 2^53, so floating-point arithmetic would be off by one.
      [86_426_934, 157_277_910_923, 13_593_047_628],
      [99_930_314, 675_111_880_435, 67_464_142_198],
    ] as const
    for (const [bytes, price, cost] of cases) {
      assert.strictEqual(computeDataCost(bytes, price), cost, `${bytes} at ${price}`)
    }
  })
})

type Settings = Readonly<Record<string, string>>

/** Returns the price lookup function for the given settings. Fails if the service would refuse to start with them. */
const loadPrices = (settings: Settings) =>
  PriceLookup.pipe(
    Effect.map(({ getPricePerGigabyte }) => getPricePerGigabyte),
    Effect.provide(
      PriceList.priceListLayer.pipe(Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(settings)))),
    ),
  )

/**
 * Asserts that the service does not start with these settings, and that the error message contains `name`. Returns the
 * message.
 */
const assertRefused = Effect.fnUntraced(function* (settings: Settings, name: string) {
  const exit = yield* Effect.exit(loadPrices(settings))
  assert.isTrue(Exit.isFailure(exit), `${JSON.stringify(settings)} was accepted`)
  const message = String(Exit.isFailure(exit) ? exit.cause : "")
  assert.include(message, name, JSON.stringify(settings))
  return message
})

describe("The service", () => {
  it.effect("charges the default price for all data if PRICE_PER_GB_MICRODOLLARS and ENDPOINT_PRICES are missing or empty (D27)", () =>
    Effect.gen(function* () {
      for (const settings of [{}, { PRICE_PER_GB_MICRODOLLARS: "", ENDPOINT_PRICES: "" }]) {
        const getPrice = yield* loadPrices(settings)
        for (const path of priced) assert.strictEqual(getPrice(path), 10_000_000)
      }
    }))

  it.effect("gives the endpoints in ENDPOINT_PRICES their own price (D27)", () =>
    Effect.gen(function* () {
      const getPrice = yield* loadPrices({
        PRICE_PER_GB_MICRODOLLARS: "3",
        ENDPOINT_PRICES: " /v1/news=20000000 , /v1/research-reports=0,/v1/screener=1000000000000",
      })
      assert.strictEqual(getPrice("/v1/news"), 20_000_000)
      assert.strictEqual(getPrice("/v1/research-reports"), 0)
      assert.strictEqual(getPrice("/v1/screener"), 1_000_000_000_000)
      assert.strictEqual(getPrice("/v1/news-basic"), 3)
      assert.strictEqual(getPrice("/v1/research-reports-tldr"), 3)
    }))

  it.effect("accepts the lowest and the highest price (D27)", () =>
    Effect.gen(function* () {
      for (const price of ["0", "1", String(maxPrice)]) {
        assert.strictEqual((yield* loadPrices({ PRICE_PER_GB_MICRODOLLARS: price }))("/v1/news"), Number(price))
        const getPrice = yield* loadPrices({ ENDPOINT_PRICES: `/v1/news=${price}` })
        assert.strictEqual(getPrice("/v1/news"), Number(price))
      }
    }))

  it.effect("accepts a price for every priced endpoint (D27)", () =>
    Effect.gen(function* () {
      const getPrice = yield* loadPrices({ ENDPOINT_PRICES: priced.map((path, at) => `${path}=${at + 1}`).join(",") })
      assert.deepStrictEqual(priced.map(getPrice), priced.map((_, at) => at + 1))
    }))

  it.effect.each(["-1", "1.5", "x", "1e400", "NaN", "Infinity", "10 dollars", " ", "1,000", String(maxPrice + 1)])(
    "refuses to start with PRICE_PER_GB_MICRODOLLARS=%s (D27)",
    (price) => assertRefused({ PRICE_PER_GB_MICRODOLLARS: price }, "PRICE_PER_GB_MICRODOLLARS"),
  )

  it.effect.each([
    " ",
    "/v1/news",
    "/v1/news=",
    "=5",
    "/v1/news=-1",
    "/v1/news=1.5",
    "/v1/news=5e3",
    "/v1/news=x",
    "/v1/news=5=6",
    "/v1/news=5,",
    ",/v1/news=5",
    "/v1/news=5;/v1/screener=6",
    "/v1/news = 5",
    `/v1/news=${maxPrice}0`,
    `/v1/news=${maxPrice + 1}`,
    "/v1/news=5,/v1/news=6",
  ])(
    "refuses to start with ENDPOINT_PRICES=%s (D27)",
    (listed) => assertRefused({ ENDPOINT_PRICES: listed }, "ENDPOINT_PRICES"),
  )

  it.effect.each(["/v1/nothing", "/v1/NEWS", "v1/news", "/v1/news/", "news", "*", ...free])(
    "refuses to start with a price for %s, and names the priced endpoints (D27)",
    (path) =>
      Effect.gen(function* () {
        const message = yield* assertRefused({ ENDPOINT_PRICES: `/v1/news=5,${path}=5` }, "ENDPOINT_PRICES")
        for (const known of priced) assert.include(message, known)
      }),
  )
})

const generalPrice = 5_000_000_000
const endpointPrice = 333_333_333_333

/** The service with generated rows and three different prices, one of which is 0. */
const service = Layer.effectDiscard(GeneratedRows.fillAllTables(120)).pipe(
  Layer.provideMerge(Service.layer),
  Layer.provide(ConfigProvider.layerAdd(
    ConfigProvider.fromUnknown({
      PRICE_PER_GB_MICRODOLLARS: String(generalPrice),
      ENDPOINT_PRICES: `/v1/news=${endpointPrice},/v1/gap-stats=0`,
    }),
    { asPrimary: true },
  )),
)

/** Sends a request with a key that may use every endpoint. */
const sendRequest = Effect.fnUntraced(function* (path: string, options: Service.TestRequestOptions = {}) {
  const { ultimate } = yield* TestKeys
  return yield* Service.requestJson(path, { key: ultimate, ...options })
})

/** Adds query parameters to an endpoint path so that the response contains rows. */
const addParameters = (path: string) => {
  const endpoint = DocumentedEndpoints.documentedDatasetEndpoints.find((known) => known.path === path)
  const takesTickers = endpoint?.parameters.some(({ kind }) => kind === "tickers") === true
  return takesTickers
    ? `${path}?ticker=T1,T2,T3,T4,T5,T6`
    : path === "/v1/ticker-changes"
    ? `${path}?ticker=O1`
    : `${path}?ticker=T1`
}

layer(service, { excludeTestServices: true })("Billing", (it) => {
  it.effect.each(priced)(
    "%s: X-Cost-Microdollars is the body's bytes times the endpoint's price (D27, D28)",
    (path) =>
      Effect.gen(function* () {
        const price = path === "/v1/news" ? endpointPrice : path === "/v1/gap-stats" ? 0 : generalPrice
        const request = addParameters(path)
        const { headers, status, text } = yield* sendRequest(request)
        assert.strictEqual(status, 200)
        const bytes = Buffer.byteLength(text)
        assert.isAbove(bytes, 60)
        const cost = String((computeExactCost(bytes, price) + gigabyte - 1n) / gigabyte)
        assert.strictEqual(headers["x-cost-microdollars"], cost)
        if (price > 0) assert.isAbove(Number(cost), bytes)

        const estimate = yield* sendRequest(`/estimate?endpoint=${request.replace("?", "&")}`)
        assert.strictEqual(valueAt(estimate.body, "results", 0, "price_per_gb_microdollars"), price)
        assert.strictEqual(valueAt(estimate.body, "results", 0, "estimated_bytes"), bytes)
        assert.strictEqual(String(valueAt(estimate.body, "results", 0, "estimated_cost_microdollars")), cost)
      }),
  )

  it.effect.each(priced)(
    "%s: HEAD costs nothing, because no body is sent (D10, D27)",
    (path) =>
      Effect.gen(function* () {
        const { headers, status, text } = yield* sendRequest(addParameters(path), { method: "HEAD" })
        assert.strictEqual(status, 200)
        assert.strictEqual(text, "")
        assert.strictEqual(headers["x-cost-microdollars"], "0")
      }),
  )

  it.effect("charges for bytes, not characters (D27)", () =>
    Effect.gen(function* () {
      const { headers, text } = yield* sendRequest("/v1/screener?ticker=T1")
      yield* insertRows("news", {
        id: "wide",
        ticker: "WIDE",
        form_type: "news",
        tags: [],
        tickers: [],
        title: "Müller 北京 😀",
        filed_at: "2025-01-02",
        created_at: "2025-01-02",
        last_updated: "2025-01-02",
      })
      const wide = yield* sendRequest("/v1/news?ticker=WIDE")
      assert.isAbove(Buffer.byteLength(wide.text), wide.text.length)
      assert.strictEqual(
        Number(wide.headers["x-cost-microdollars"]),
        computeDataCost(Buffer.byteLength(wide.text), endpointPrice),
      )
      assert.strictEqual(Number(headers["x-cost-microdollars"]), computeDataCost(Buffer.byteLength(text), generalPrice))
    }))

  it.effect("charges for the few bytes of an empty list (D27)", () =>
    Effect.gen(function* () {
      const { body, headers, text } = yield* sendRequest("/v1/screener?ticker=NOBODY")
      assert.strictEqual(valueAt(body, "count"), 0)
      assert.strictEqual(Number(headers["x-cost-microdollars"]), text.length * generalPrice / 1_000_000_000)
    }))

  it.effect("charges nothing for errors (D13, D27)", () =>
    Effect.gen(function* () {
      const { basic } = yield* TestKeys
      yield* Accounts.ensureAccount({ name: "empty", tier: "basic", email: null, prepaid: true })
      const empty = yield* Service.ensureAccountWithKey("empty", "basic")
      const limited = yield* Service.ensureAccountWithKey("limited", "ultimate", { endpoints: ["/v1/news"] })
      const event = { old_ticker: "AMB1", effective_date: "2024-01-02", status: "confirmed" }
      yield* insertRows("ticker_changes", { ...event, new_ticker: "AMB2" }, { ...event, new_ticker: "AMB3" })
      const cases: ReadonlyArray<readonly [number, string, Service.TestRequestOptions]> = [
        [402, "/v1/news", { key: empty }],
        [403, "/v1/research-reports", { key: basic }],
        [403, "/v1/screener", { key: limited }],
        [404, "/v1/historical-tickers?ticker=NOBODY", {}],
        [409, "/v1/ticker-changes?ticker=AMB1", {}],
        [422, "/v1/news?limit=0", {}],
        [422, "/v1/news?limt=1", {}],
        [422, "/v1/ownership", {}],
      ]
      for (const [status, path, options] of cases) {
        const response = yield* sendRequest(path, options)
        assert.strictEqual(response.status, status, path)
        assert.strictEqual(response.headers["x-cost-microdollars"], "0", path)
      }
      for (const path of ["/v1/news", "/v1/nothing", "/estimate?endpoint=/v1/news"]) {
        const { headers, status } = yield* sendRequest(path, { key: null })
        assert.strictEqual(status, path === "/v1/nothing" ? 404 : 401)
        assert.isUndefined(headers["x-cost-microdollars"])
      }
    }))

  it.effect("does not apply to endpoints without data, even if the balance is 0 (D27)", () =>
    Effect.gen(function* () {
      yield* Accounts.ensureAccount({ name: "spent", tier: "basic", email: null, prepaid: true })
      const key = yield* Service.ensureAccountWithKey("spent", "basic")
      for (const path of free) {
        const request = path === "/estimate" ? "/estimate?endpoint=/v1/news" : path
        const { headers, status } = yield* sendRequest(request, { key })
        assert.strictEqual(status, 200, path)
        assert.include([undefined, "0"], headers["x-cost-microdollars"], path)
      }
      for (const path of ["/v1/account", "/v1/account/api-keys", "/v1/usage", "/v1/usage/daily", "/v1/overview"]) {
        assert.strictEqual((yield* sendRequest(path, { key })).headers["x-cost-microdollars"], "0", path)
      }
    }))
})

/** Tests GET /v1/screener over HTTP: §2.5 (fields). Each test has its own tickers or sector. */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import * as FilterAssertions from "../../support/FilterAssertions.ts"
import * as ListClients from "../../support/ListClients.ts"
import * as Service from "../../support/Service.ts"
import * as StatementRecorder from "../../support/StatementRecorder.ts"
import { skipUnlessThorough } from "../../support/Thoroughness.ts"

const { valueAt: at, insertRows } = Service

const row = (ticker: string, fields: Readonly<Record<string, unknown>> = {}) => ({
  ticker,
  is_adr: false,
  num_gaps: "0",
  num_runners: "0",
  pending_s1: false,
  last_updated: "2025-01-02 09:30:00",
  ...fields,
})

/** Columns grouped by type, as in the specification. */
const decimals = (
  "price market_cap volume_change_percentage short_float days_to_cover fee_rate avg_gap gain_1_day gain_2_day " +
  "gain_3_day gain_7_day gain_14_day gain_30_day gain_60_day gain_90_day gain_180_day gain_365_day ratio_debt_to_equity"
).split(" ")
const wholes = (
  "outstanding float tradable_float average_volume median_volume_60 today_volume short_interest shares_available " +
  "num_gaps num_runners"
).split(" ")
/** Number columns that have no filter. `website` and `ownership_source_url` have no filter, either (§2.5). */
const readOnlyNumbers = ["insider_percent", "affiliate_percent", "institutions_percent", "high_365", "low_365"]
const numbers = [...decimals, ...wholes]
/**
 * Returns the lowest value that these tests use for a column. It is negative only where the contract allows negative
 * values (D42).
 */
const least = (name: string) => /^gain_|^avg_gap$|_change_|^fee_rate$|^ratio_/.test(name) ? "-5" : "1"
const words = ["exchange", "sector", "industry", "country", "state"]

const { requestColumn, requestRows, requestText, requestInvalid, readAllPages } = ListClients.makeListClient(
  "/v1/screener",
)

const tickersOf = (query: string) => requestColumn("ticker", query)

/** Returns a `find` that always filters by these tickers, and the unmodified `requestInvalid`. */
const makeTickerQueries = (tickers: ReadonlyArray<string>) => ({
  find: (query: string) => tickersOf(`ticker=${tickers.join(",")}&${query}`),
  requestInvalid,
})

const loaded = (csv: string) => ListClients.loadCsv("screener", csv, "append")

layer(Service.layer, { excludeTestServices: true })("GET /v1/screener", (it) => {
  it.effect("returns every field exactly as stored, with the right type (§2.5, §2.1, D15, D16)", () =>
    Effect.gen(function* () {
      const gains = [1, 2, 3, 7, 14, 30, 60, 90, 180, 365]
      yield* insertRows("screener", {
        ticker: "SFULL",
        company: 'The "Full" Company',
        cik: "0000012345",
        exchange: "NASDAQ",
        sector: "Technology",
        industry: "Software",
        country: "US",
        state: "CA",
        city: "San José",
        website: "https://example.com",
        ipo_date: "2020-02-29",
        is_adr: true,
        price: "9999998.9999",
        market_cap: "999999999999999999.99",
        high_365: "0.3000",
        low_365: "0.0001",
        outstanding: "9007199254740991",
        float: "9007199254740990",
        tradable_float: "0",
        insider_percent: "0.125",
        affiliate_percent: "0",
        institutions_percent: "0.9999",
        ownership_source_url: "https://example.com/13g",
        average_volume: "1",
        median_volume_60: "2",
        today_volume: "3",
        volume_change_percentage: "-12.5",
        short_interest: "4",
        short_float: "0.1000",
        days_to_cover: "1.1",
        shares_available: "5",
        fee_rate: "250.75",
        ...Object.fromEntries(gains.map((days) => [`gain_${days}_day`, String(-days / 10)])),
        num_gaps: "6",
        num_runners: "7",
        avg_gap: "33.3333",
        ratio_debt_to_equity: "-0.07",
        pending_s1: true,
        last_updated: "2025-07-02 09:30:00",
      })
      assert.strictEqual(
        yield* requestText("ticker=SFULL"),
        `{"count":1,"results":[{"ticker":"SFULL","company":"The \\"Full\\" Company","cik":"0000012345",` +
          `"exchange":"NASDAQ","sector":"Technology","industry":"Software","country":"US","state":"CA",` +
          `"city":"San José","website":"https://example.com","ipo_date":"2020-02-29","is_adr":true,` +
          `"price":9999998.9999,"market_cap":999999999999999999.99,"high_365":0.3,"low_365":0.0001,` +
          `"outstanding":9007199254740991,"float":9007199254740990,"tradable_float":0,"insider_percent":0.125,` +
          `"affiliate_percent":0,"institutions_percent":0.9999,"ownership_source_url":"https://example.com/13g",` +
          `"average_volume":1,"median_volume_60":2,"today_volume":3,"volume_change_percentage":-12.5,` +
          `"short_interest":4,"short_float":0.1,"days_to_cover":1.1,"shares_available":5,"fee_rate":250.75,` +
          gains.map((days) => `"gain_${days}_day":${-days / 10},`).join("") +
          `"num_gaps":6,"num_runners":7,"avg_gap":33.3333,"ratio_debt_to_equity":-0.07,"pending_s1":true,` +
          `"last_updated":"2025-07-02T08:30:00-05:00"}],"page":1,"limit":10,"has_more":false}`,
      )
    }))

  it.effect("missing values are null, a reported 0 stays 0, and a time in winter is unchanged (§2.5, D15, D16)", () =>
    Effect.gen(function* () {
      yield* insertRows("screener", row("SNULL"))
      const present = ["ticker", "is_adr", "num_gaps", "num_runners", "pending_s1", "last_updated"]
      const [shown] = yield* requestRows("ticker=SNULL")
      for (const name of present) assert.isNotNull(at(shown, name), name)
      const columns = [...numbers, ...readOnlyNumbers, ...words, "company", "cik", "city", "website", "ipo_date"]
      for (const name of [...columns, "ownership_source_url"].filter((name) => !present.includes(name))) {
        assert.isNull(at(shown, name), name)
      }
      assert.strictEqual(at(shown, "num_gaps"), 0)
      assert.strictEqual(at(shown, "last_updated"), "2025-01-02T09:30:00-05:00")
      assert.strictEqual(new Set([...columns, ...present]).size + 1, Object.keys(Object(shown)).length)
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Filters
  // -------------------------------------------------------------------------------------------------------------------

  it.effect.each(numbers)(
    "bounds on %s are inclusive and exact, and null never matches (D9, D16)",
    (name) =>
      Effect.gen(function* () {
        const values = [least(name), "2", "10"]
        const keys = values.map((_, number) => `SB${numbers.indexOf(name)}X${number}`)
        const missing = name.startsWith("num_") ? [] : [`SB${numbers.indexOf(name)}NULL`]
        yield* insertRows(
          "screener",
          ...keys.map((ticker, number) => row(ticker, { [name]: values[number] })),
          ...missing.map((ticker) => row(ticker)),
        )
        yield* FilterAssertions.assertRangeFilter(makeTickerQueries([...keys, ...missing]), name, { values, keys })
        const { find } = makeTickerQueries([...keys, ...missing])
        assert.deepStrictEqual(yield* find(`min_${name}=1.01&max_${name}=9.99`), keys.slice(1, 2))
        assert.deepStrictEqual(yield* find(`min_${name}=10.0001`), [])
      }),
  )

  it.effect.each(words)(
    "the parameter %s takes one or several values in any case, and null never matches (§2.5, D33)",
    (name) =>
      Effect.gen(function* () {
        const tickers = [1, 2, 3, 4].map((number) => `SE${name.slice(0, 3).toUpperCase()}${number}`)
        const values = ["Plain", "O'Neil 50%_\\", "plain", null]
        yield* insertRows("screener", ...tickers.map((ticker, number) => row(ticker, { [name]: values[number] })))
        const find = (value: string) => tickersOf(`ticker=${tickers.join(",")}&${name}=${encodeURIComponent(value)}`)
        assert.deepStrictEqual(yield* find("PLAIN"), [tickers[0], tickers[2]])
        assert.deepStrictEqual(yield* find("O'Neil 50%_\\"), tickers.slice(1, 2))
        assert.deepStrictEqual(yield* find("plain, o'neil 50%_\\"), tickers.slice(0, 3))
        for (const none of ["%", `"null"`, "' or true --"]) assert.deepStrictEqual(yield* find(none), [])
        assert.strictEqual((yield* requestInvalid(`${name}=`)).field, name)
      }),
  )

  it.effect.each(["is_adr", "pending_s1"])(
    "the parameter %s takes true or false (§2.5)",
    (name) =>
      Effect.gen(function* () {
        const [yes, no] = [`SFLAG${name.length}Y`, `SFLAG${name.length}N`]
        yield* insertRows("screener", row(yes, { [name]: true }), row(no))
        yield* FilterAssertions.assertBooleanFilter(makeTickerQueries([yes, no]), name, { yes: [yes], no: [no] })
      }),
  )

  it.effect("bounds on ipo_date are inclusive, must be in order and not in the future, and null never matches (D7)", () =>
    Effect.gen(function* () {
      const days = [...FilterAssertions.sampleDays, null]
      yield* insertRows(
        "screener",
        ...days.map((ipo_date, number) => row(`SIPO${number}`, { ipo_date, sector: "IPOs" })),
      )
      yield* FilterAssertions.assertDayRangeFilter(
        { find: (query) => requestColumn("ipo_date", `sector=IPOs&${query}`), requestInvalid },
        "ipo_date",
      )
      yield* FilterAssertions.assertFutureDaysRefused({ requestRows, requestInvalid }, ["ipo_date_from", "ipo_date_to"])
    }))

  it.effect("all filters are combined with AND (§2.5)", () =>
    Effect.gen(function* () {
      const all = {
        ...Object.fromEntries(numbers.map((name) => [name, "5"])),
        ...Object.fromEntries(words.map((name) => [name, "Allworld"])),
        ipo_date: "2020-01-01",
        is_adr: true,
        pending_s1: true,
      }
      const misses = [
        ...numbers.map((name) => ({ [name]: "6" })),
        ...words.map((name) => ({ [name]: "Elsewhere" })),
        { is_adr: false },
        { pending_s1: false },
        { ipo_date: "2020-01-02" },
      ]
      yield* insertRows(
        "screener",
        row("SALL", all),
        ...misses.map((miss, at) => row(`SALL${at}`, { ...all, ...miss })),
      )
      const query = [
        ...numbers.flatMap((name) => [`min_${name}=5`, `max_${name}=5`]),
        ...words.map((name) => `${name}=Allworld`),
        "is_adr=true&pending_s1=true&ipo_date_from=2020-01-01&ipo_date_to=2020-01-01&sort=-price",
      ]
      assert.deepStrictEqual(yield* tickersOf(query.join("&")), ["SALL"])
    }))

  it.effect.each([...readOnlyNumbers, "ownership_source_url", "website"])(
    "the column %s is returned but is not a filter (§2.5, D4)",
    (name) =>
      Effect.gen(function* () {
        yield* FilterAssertions.assertUnknownParametersRefused(requestInvalid, [name, `min_${name}`, `max_${name}`])
      }),
  )

  it.effect("the parameter `ticker` is optional, but is refused without a valid symbol, as are unknown parameters (§7.3, D4)", () =>
    Effect.gen(function* () {
      yield* requestRows("")
      yield* FilterAssertions.assertInvalidSymbolsRefused(requestInvalid)
      const names = ["company", "city", "website", "order", "price", "min_ipo_date", "date", "min_ticker", "sort_by"]
      yield* FilterAssertions.assertUnknownParametersRefused(requestInvalid, names)
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Order
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("rows are ordered by ticker by default (§2.5)", () =>
    Effect.gen(function* () {
      yield* insertRows("screener", ...["SOC", "SOA", "SOB"].map((ticker) => row(ticker, { sector: "Order" })))
      assert.deepStrictEqual(yield* tickersOf("sector=Order"), ["SOA", "SOB", "SOC"])
      assert.deepStrictEqual(yield* tickersOf("sector=Order&sort=ticker"), ["SOA", "SOB", "SOC"])
      assert.deepStrictEqual(yield* tickersOf("sector=Order&sort=-ticker"), ["SOC", "SOB", "SOA"])
    }))

  it.effect.each([...numbers, ...readOnlyNumbers])(
    "sort=%s and its reverse put null last and break ties by ticker, across pages (§2.5, D8)",
    (name) =>
      Effect.gen(function* () {
        const missing = name.startsWith("num_") ? "0" : null
        const values = [missing, "7", least(name), "7", "9999999", "10", missing, "7"]
        const sector = `Sort ${name}`
        yield* insertRows(
          "screener",
          ...values.map((value, number) =>
            row(`SS${[...numbers, ...readOnlyNumbers].indexOf(name)}X${number}`, { sector, [name]: value })
          ),
        )
        const find = (sort: string) =>
          Effect.map(
            readAllPages(`sector=${encodeURIComponent(sector)}&sort=${sort}`, 3),
            (rows) => rows.map((row) => String(at(row, "ticker")).split("X")[1]).join(""),
          )
        assert.strictEqual(yield* find(name), missing === null ? "21375406" : "06213754")
        assert.strictEqual(yield* find(`-${name}`), "45137206")
      }),
  )

  it.effect.each([
    "",
    "-",
    "--price",
    "+price",
    "price desc",
    "price,ticker",
    "PRICE",
    "company",
    "last_updated",
    "is_adr",
    "website",
    "1",
    "price; drop table screener",
    `price" desc --`,
    "constructor",
    "__proto__",
    "-toString",
  ])("refuses sort=%j (§2.5)", (sort) =>
    Effect.gen(function* () {
      const { field, reason } = yield* requestInvalid(`sort=${encodeURIComponent(sort)}`)
      assert.strictEqual(field, "sort")
      assert.match(reason, /^must be ticker or a numeric field/)
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Loading
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("a file is loaded; a wrong cell is reported by line and column (D31)", () =>
    Effect.gen(function* () {
      const header = "ticker,sector,price,float,num_gaps,num_runners,is_adr,pending_s1,last_updated"
      const cells = ["SLOAD", "Software", "1.0001", "10", "0", "1", "true", "false", "2025-07-02 09:30:00"]
      assert.deepStrictEqual(
        yield* loaded(`${header}\n${cells.join(",")}\n`),
        { table: "screener", rows: 1, dropped: 0 },
      )
      assert.deepStrictEqual(yield* tickersOf("ticker=SLOAD&min_price=1.0001&max_price=1.0001"), ["SLOAD"])
      const wrong = [[0, "sload"], [2, "1.00001"], [3, "1.5"], [4, ""], [6, "yes"], [8, "2025-07-02"]]
      for (const [column, cell] of wrong) {
        const bad = cells.with(Number(column), String(cell))
        const { message } = yield* Effect.flip(loaded(`${header}\n${bad.join(",")}\n`))
        assert.match(message, new RegExp(`line 2: ${header.split(",")[Number(column)]} `))
      }
    }))
})

layer(Service.layerAt(Date.parse("2027-01-01T04:59:00Z")))(
  "GET /v1/screener on the last evening of 2026 in New York",
  (it) => {
    it.effect("today is accepted; tomorrow is refused (D7, §7.2)", () =>
      Effect.gen(function* () {
        yield* TestClock.setTime(Date.parse("2027-01-01T04:59:30Z"))
        for (const name of ["ipo_date_from", "ipo_date_to"]) {
          yield* requestRows(`${name}=2026-12-31`)
          assert.strictEqual((yield* requestInvalid(`${name}=2027-01-01`)).field, name)
        }
      }))
  },
)

// ---------------------------------------------------------------------------------------------------------------------
// Query plans
// ---------------------------------------------------------------------------------------------------------------------

const recorded = Layer.provideMerge(Service.layer, StatementRecorder.layer)

layer(recorded, { excludeTestServices: true })("A large screener table", (it) => {
  it.effect("needs no full scan for any filter or sort order (§2.5)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const sql = yield* SqlClient.SqlClient
      const columns = [...numbers, ...readOnlyNumbers]
      yield* sql`
        insert into screener ${
        sql.literal(
          `(ticker, ${[...words, ...columns].map((name) => `"${name}"`).join(", ")}, ipo_date, is_adr, pending_s1,
            last_updated)
          select 'T' || n, ${words.map(() => "'w' || n % 300").join(", ")}, ${columns.map(() => "n").join(", ")},
            date '2000-01-01' + n, n % 300 = 0, n % 300 = 0, '2025-01-02' from generate_series(1, 6000) as n`,
        )
      }
      `
      yield* sql`analyze screener`
      const queries = [
        "",
        "ticker=T1,T2",
        "is_adr=true",
        "pending_s1=true",
        "ipo_date_to=2000-01-09",
        "ipo_date_from=2016-06-01",
        "sector=w1&min_price=100&sort=-gain_1_day",
        "min_float=5990&max_price=5995&is_adr=false&sort=ticker",
        ...words.map((name) => `${name}=w1,w2`),
        ...numbers.flatMap((name) => [`min_${name}=5995`, `min_${name}=5994.5`, `max_${name}=5`, `max_${name}=5.5`]),
        ...["ticker", ...columns].flatMap((name) => [`sort=${name}`, `sort=-${name}`]),
      ]
      for (const query of queries) {
        const plan = JSON.stringify(yield* StatementRecorder.explainRequest(requestRows(query), "from screener"))
        assert.notInclude(plan, "Seq Scan", query)
        if (query.startsWith("sort")) assert.notInclude(plan, `"Sort"`, query)
      }
    }))
})

/** §2.5, §2.6 through the wire. Each test has tickers of its own. */
import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Layer, Ref } from "effect"
import { SqlClient, Statement } from "effect/sql"
import { TestClock } from "effect/testing"
import { load } from "../../src/load/Load.ts"
import * as Service from "../support/Service.ts"

const { ask, at, insert } = Service

const filing = (ticker: string, fields: Readonly<Record<string, unknown>> = {}) => ({
  ticker,
  filed_at: "2025-07-03",
  is_adr: false,
  last_updated: "2025-07-03 20:05:00",
  ...fields,
})

const price = (ticker: string, date: string, close: string) => ({ ticker, date, close })

const rowsOf = (body: unknown): ReadonlyArray<unknown> => {
  const results = at(body, "results")
  return Array.isArray(results) ? results : []
}

const list = (query: string) => ask(`/v1/historical-float-pro?${query}`)

const fieldOf = (name: string, query: string) =>
  Effect.map(list(query), ({ body }) => rowsOf(body).map((row) => at(row, name)))

const detailsOf = (query: string) => fieldOf("details", query)

const refused = Effect.fnUntraced(function* (query: string) {
  const { body, status, text } = yield* list(query)
  assert.strictEqual(status, 422, `${query}: ${text}`)
  assert.strictEqual(at(body, "error", "code"), "validation_error")
  return {
    field: at(body, "error", "details", "fields", 0, "field"),
    reason: String(at(body, "error", "details", "fields", 0, "reason")),
  }
})

const loaded = Effect.fnUntraced(function* (dataset: string, csv: string) {
  const fs = yield* FileSystem.FileSystem
  const file = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-historical-" })}/rows.csv`
  yield* fs.writeFileString(file, csv)
  return yield* load({ dataset, file, append: true }, yield* Ref.make(0))
})

layer(Service.layer, { excludeTestServices: true })("GET /v1/historical-float-pro", (it) => {
  it.effect("§2.5 §2.1 D15 D16 prints every field, exactly as stored, and no price among them", () =>
    Effect.gen(function* () {
      yield* insert("daily_prices", price("HFULL", "2025-06-30", "1.1"))
      yield* insert("historical_float_pro", {
        ticker: "HFULL",
        filed_at: "2025-07-03",
        form_type: "10-Q",
        document_url: "https://example.com/10-q",
        reported_date: "2025-06-30",
        outstanding_shares: "3",
        float: "9007199254740991",
        restricted_shares: "1",
        affiliate_shares: "12",
        insider_shares: "0",
        affiliate_percent: "0.1000",
        institutions_percent: "99999999999999.9999",
        insider_percent: "0",
        cik: "0000012345",
        is_adr: true,
        ads_ratio: "0.3000",
        details: 'As "reported"',
        last_updated: "2025-07-03 09:30:00",
      })
      const { status, text } = yield* list("ticker=HFULL")
      assert.strictEqual(status, 200)
      assert.strictEqual(
        text,
        `{"count":1,"results":[{"ticker":"HFULL","filed_at":"2025-07-03","form_type":"10-Q",` +
          `"document_url":"https://example.com/10-q","reported_date":"2025-06-30","outstanding_shares":3,` +
          `"float":9007199254740991,"restricted_shares":1,"tradable_float":9007199254740990,"affiliate_shares":12,` +
          `"insider_shares":0,"affiliate_percent":0.1,"institutions_percent":99999999999999.9999,` +
          `"insider_percent":0,"market_cap":3.3,"cik":"0000012345","is_adr":true,"ads_ratio":0.3,` +
          `"details":"As \\"reported\\"","last_updated":"2025-07-03T08:30:00-05:00"}],"page":1,"limit":10,` +
          `"has_more":false}`,
      )
    }))

  it.effect("§2.5 D15 D16 what is missing is null, and a winter's time keeps its digits", () =>
    Effect.gen(function* () {
      yield* insert("historical_float_pro", filing("HNULL", { last_updated: "2025-01-02 09:30:00" }))
      const columns = ["form_type", "document_url", "reported_date", "outstanding_shares", "float", "restricted_shares"]
      const more = ["tradable_float", "affiliate_shares", "insider_shares", "affiliate_percent", "market_cap", "cik"]
      const missing = [...columns, ...more, "institutions_percent", "insider_percent", "ads_ratio", "details"]
      assert.deepStrictEqual(rowsOf((yield* list("ticker=HNULL")).body), [{
        ticker: "HNULL",
        filed_at: "2025-07-03",
        is_adr: false,
        last_updated: "2025-01-02T09:30:00-05:00",
        ...Object.fromEntries(missing.map((name) => [name, null])),
      }])
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Computed fields
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("§2.6.1 §2.6.2 the close of reported_date, or else the last one before it, however long ago", () =>
    Effect.gen(function* () {
      yield* insert(
        "daily_prices",
        price("HDAY", "2025-06-26", "1"),
        price("HDAY", "2025-06-27", "2.5"),
        price("HDAY", "2025-06-30", "7"),
        price("HDAZ", "2025-06-28", "1000"),
        price("HDA", "2025-06-28", "1000"),
      )
      const days = [
        ["2025-06-26", 100],
        ["2025-06-27", 250],
        // A weekend.
        ["2025-06-28", 250],
        ["2025-06-29", 250],
        ["2025-06-30", 700],
        ["2035-06-30", 700],
      ] as const
      yield* insert(
        "historical_float_pro",
        ...days.map(([reported_date]) => filing("HDAY", { reported_date, outstanding_shares: "100" })),
      )
      assert.deepStrictEqual(
        yield* fieldOf("market_cap", "ticker=HDAY"),
        days.map(([, cap]) => cap).toReversed(),
      )
    }))

  it.effect("§2.6.3 null without a close on or before, without shares, without a date; there is no fallback", () =>
    Effect.gen(function* () {
      yield* insert("daily_prices", price("HGAP", "2025-06-27", "2"))
      yield* insert(
        "historical_float_pro",
        filing("HGAP", { details: "too early", reported_date: "2025-06-26", outstanding_shares: "5" }),
        filing("HGAP", { details: "no shares", reported_date: "2025-06-27" }),
        filing("HGAP", { details: "no date", outstanding_shares: "5" }),
        filing("HGAP", { details: "all there", reported_date: "2025-06-28", outstanding_shares: "5" }),
        filing("HGAP", { details: "no such shares", reported_date: "2025-06-29", outstanding_shares: "0" }),
        filing("HGAQ", { details: "no price", reported_date: "2025-06-30", outstanding_shares: "5" }),
      )
      const { body } = yield* list("ticker=HGAP,HGAQ")
      assert.deepStrictEqual(
        rowsOf(body).map((row) => [at(row, "details"), at(row, "market_cap")]),
        [
          ["no price", null],
          ["no such shares", 0],
          ["all there", 10],
          ["no shares", null],
          ["too early", null],
          ["no date", null],
        ],
      )
    }))

  it.effect("§2.6.1 D16 rounded to two decimals, exactly, up to the greatest factors", () =>
    Effect.gen(function* () {
      const cases = [
        ["0.07", "100", "7"],
        ["1.1", "3", "3.3"],
        ["0.0050", "1", "0.01"],
        ["0.0049", "1", "0"],
        ["1.0050", "1", "1.01"],
        ["1.0350", "1", "1.04"],
        ["2.6750", "1", "2.68"],
        ["0.1", "3", "0.3"],
        ["19.99", "1234567", "24678994.33"],
        ["99999999999999.9999", "9007199254740991", "900719925474099099099280074525.9"],
        ["99999999999999.9999", "1", "100000000000000"],
        ["0.0001", "9007199254740991", "900719925474.1"],
        ["123456.7891", "9007199254740991", "1111999898774235701012"],
      ] as const
      for (const [number, [close, shares, expected]] of cases.entries()) {
        const ticker = `HEXA${number}`
        yield* insert("daily_prices", price(ticker, "2025-06-30", close))
        yield* insert(
          "historical_float_pro",
          filing(ticker, { reported_date: "2025-06-30", outstanding_shares: shares }),
        )
        const { text } = yield* list(`ticker=${ticker}`)
        assert.strictEqual(/"market_cap":([^,]*),/.exec(text)?.[1], expected, `${close} * ${shares}`)
      }
    }))

  it.effect("§2.6.3 never stored: a corrected price is seen at once", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* insert("historical_float_pro", filing("HNEW", { reported_date: "2025-06-30", outstanding_shares: "10" }))
      assert.deepStrictEqual(yield* fieldOf("market_cap", "ticker=HNEW"), [null])
      yield* insert("daily_prices", price("HNEW", "2025-06-27", "1.5"))
      assert.deepStrictEqual(yield* fieldOf("market_cap", "ticker=HNEW"), [15])
      yield* sql`update daily_prices set close = 2 where ticker = 'HNEW'`
      assert.deepStrictEqual(yield* fieldOf("market_cap", "ticker=HNEW"), [20])
      yield* sql`delete from daily_prices where ticker = 'HNEW'`
      assert.deepStrictEqual(yield* fieldOf("market_cap", "ticker=HNEW"), [null])
    }))

  it.effect("§2.5 tradable_float is float less restricted_shares, null when either is; 0 is a value", () =>
    Effect.gen(function* () {
      const cases = [["100", "40", 60], ["100", null, null], [null, "40", null], [null, null, null], ["7", "0", 7]]
      const more = [["0", "0", 0], ["40", "100", -60], ["0", "9007199254740991", -9007199254740991]]
      for (const [number, [float, restricted_shares, expected]] of [...cases, ...more].entries()) {
        yield* insert("historical_float_pro", filing(`HTRA${number}`, { float, restricted_shares }))
        assert.deepStrictEqual(yield* fieldOf("tradable_float", `ticker=HTRA${number}`), [expected])
      }
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Order and pages
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("§2.6 D8 by reported_date, then filed_at, both newest first, undated last; then ticker, form, document", () =>
    Effect.gen(function* () {
      const rows = [
        filing("HOB", { reported_date: "2025-06-30", filed_at: "2025-07-02" }),
        filing("HOA", { reported_date: "2025-06-30", filed_at: "2025-07-01", form_type: "10-K" }),
        filing("HOA", { reported_date: "2025-06-30", filed_at: "2025-07-01", form_type: "10-Q", document_url: "a" }),
        filing("HOA", { reported_date: "2025-06-30", filed_at: "2025-07-01", form_type: "10-Q", document_url: "b" }),
        filing("HOA", { reported_date: "2025-06-30", filed_at: "2025-07-01", form_type: "10-Q" }),
        filing("HOA", { reported_date: "2025-06-30", filed_at: "2025-07-01" }),
        filing("HOB", { reported_date: "2025-06-30", filed_at: "2025-07-01", form_type: "10-K" }),
        filing("HOA", { reported_date: "2025-06-29", filed_at: "2025-07-09" }),
        filing("HOB", { filed_at: "2025-07-10" }),
        filing("HOA", { filed_at: "2025-07-09" }),
      ].map((row, number) => ({ ...row, details: String(number) }))
      yield* insert("historical_float_pro", ...rows.toReversed())
      const expected = rows.map(({ details }) => details)
      assert.deepStrictEqual(yield* detailsOf("ticker=HOA,HOB"), expected)
      for (const limit of [1, 3, 4]) {
        const seen: Array<unknown> = []
        for (let page = 1; seen.length < 10; page++) {
          const { body } = yield* list(`ticker=HOA,HOB&limit=${limit}&page=${page}`)
          seen.push(...rowsOf(body).map((row) => at(row, "details")))
          assert.strictEqual(at(body, "has_more"), seen.length < 10)
        }
        assert.deepStrictEqual(seen, expected)
      }
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Filters
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("D9 D16 bounds are inclusive, on computed values too; null never matches", () =>
    Effect.gen(function* () {
      yield* insert("daily_prices", price("HBOUND", "2025-06-01", "1.01"))
      const shares = [["1", "10"], ["2", "20"], ["3", "30"], ["4", null]] as const
      yield* insert(
        "historical_float_pro",
        ...shares.map(([details, count]) =>
          filing("HBOUND", {
            details,
            reported_date: `2025-06-0${details}`,
            outstanding_shares: count,
            float: count,
            restricted_shares: "1",
          })
        ),
      )
      const asked = (query: string) => Effect.map(detailsOf(`ticker=HBOUND&${query}`), (all) => all.toReversed())
      const values = [["outstanding_shares", "20"], ["float", "20"], ["tradable_float", "19"], ["market_cap", "20.2"]]
      for (const [name, value] of values) {
        assert.deepStrictEqual(yield* asked(`min_${name}=${value}`), ["2", "3"])
        assert.deepStrictEqual(yield* asked(`max_${name}=${value}`), ["1", "2"])
        assert.deepStrictEqual(yield* asked(`min_${name}=${value}&max_${name}=${value}`), ["2"])
        assert.deepStrictEqual(yield* asked(`min_${name}=${Number(value) + 0.001}`), ["3"])
        assert.deepStrictEqual(yield* asked(`max_${name}=${Number(value) - 0.001}`), ["1"])
        assert.deepStrictEqual(yield* asked(`min_${name}=-1e300`), ["1", "2", "3"])
        assert.deepStrictEqual(yield* asked(`min_${name}=1e300`), [])
        assert.strictEqual((yield* refused(`min_${name}=2&max_${name}=1`)).field, `min_${name}`)
        assert.strictEqual((yield* refused(`max_${name}=1,5`)).field, `max_${name}`)
      }
    }))

  it.effect("§2.6 D16 a bound on market_cap holds for the greatest values too", () =>
    Effect.gen(function* () {
      yield* insert("daily_prices", price("HGREAT", "2025-06-30", "99999999999999.9999"))
      const most = { reported_date: "2025-06-30", outstanding_shares: "9007199254740991" }
      yield* insert("historical_float_pro", filing("HGREAT", most))
      assert.lengthOf(yield* detailsOf("ticker=HGREAT&min_market_cap=9e29"), 1)
      assert.lengthOf(yield* detailsOf("ticker=HGREAT&min_market_cap=9.01e29"), 0)
      assert.lengthOf(yield* detailsOf("ticker=HGREAT&max_market_cap=9e29"), 0)
      assert.lengthOf(yield* detailsOf("ticker=HGREAT&max_market_cap=9.01e29"), 1)
    }))

  it.effect("§2.5 is_adr is true or false", () =>
    Effect.gen(function* () {
      yield* insert("historical_float_pro", filing("HADR1", { is_adr: true }), filing("HADR2"))
      assert.deepStrictEqual(yield* fieldOf("ticker", "ticker=HADR1,HADR2&is_adr=true"), ["HADR1"])
      assert.deepStrictEqual(yield* fieldOf("ticker", "ticker=HADR1,HADR2&is_adr=false"), ["HADR2"])
      for (const name of ["is_adr", "latest"]) assert.strictEqual((yield* refused(`${name}=1`)).field, name)
    }))

  it.effect("D7 ranges of dates are inclusive, null never matches, and the wrong way round they are refused", () =>
    Effect.gen(function* () {
      const days = ["2025-06-01", "2025-06-02", "2025-06-03"]
      yield* insert(
        "historical_float_pro",
        ...days.map((day) => filing("HDATES", { details: day, reported_date: day, filed_at: day })),
        filing("HDATES", { details: "undated", filed_at: "2025-05-31" }),
      )
      const asked = (query: string) => Effect.map(detailsOf(`ticker=HDATES&${query}`), (all) => all.toReversed())
      for (const name of ["reported_date", "filed_at"]) {
        assert.deepStrictEqual(yield* asked(`${name}_from=2025-06-02`), days.slice(1))
        assert.deepStrictEqual(yield* asked(`${name}_from=2025-06-01&${name}_to=2025-06-02`), days.slice(0, 2))
        assert.deepStrictEqual(yield* asked(`${name}_from=2025-06-02&${name}_to=2025-06-02`), days.slice(1, 2))
        assert.strictEqual((yield* refused(`${name}_from=2025-06-02&${name}_to=2025-06-01`)).field, `${name}_from`)
        assert.strictEqual((yield* refused(`${name}_from=2025-02-29`)).field, `${name}_from`)
      }
      assert.deepStrictEqual(yield* asked("reported_date_to=2025-06-02"), days.slice(0, 2))
      assert.deepStrictEqual(yield* asked("filed_at_to=2025-06-01"), ["undated", "2025-06-01"])
    }))

  it.effect("§2.6 latest shows of each ticker its newest row", () =>
    Effect.gen(function* () {
      yield* insert("daily_prices", price("HLA", "2025-01-01", "2"))
      yield* insert(
        "historical_float_pro",
        filing("HLA", { details: "A newest", reported_date: "2025-03-31", filed_at: "2025-04-10", float: "10" }),
        filing("HLA", { details: "A earlier filed", reported_date: "2025-03-31", filed_at: "2025-04-09", float: "20" }),
        filing("HLA", { details: "A undated", filed_at: "2025-07-01", float: "30" }),
        filing("HLB", { details: "B older", reported_date: "2024-12-31", is_adr: true }),
        filing("HLB", {
          details: "B newest",
          reported_date: "2025-06-30",
          float: "40",
          restricted_shares: "5",
          outstanding_shares: "9",
        }),
        filing("HLC", { details: "C undated", filed_at: "2025-01-01", is_adr: true }),
        filing("HLC", { details: "C undated, newest", filed_at: "2025-02-01" }),
        filing("HLD", { details: "D first of equals", form_type: "10-K" }),
        filing("HLD", { details: "D second of equals", form_type: "10-Q" }),
      )
      const asked = (query: string) => detailsOf(`ticker=HLA,HLB,HLC,HLD&latest=true${query}`)
      const newest = ["B newest", "A newest", "D first of equals", "C undated, newest"]
      assert.deepStrictEqual(yield* asked(""), newest)
      assert.deepStrictEqual(yield* asked("&limit=3"), newest.slice(0, 3))
      assert.deepStrictEqual(yield* asked("&limit=3&page=2"), newest.slice(3))
      assert.deepStrictEqual(yield* detailsOf("ticker=HLB&latest=true"), ["B newest"])
      assert.lengthOf(yield* detailsOf("ticker=HLA,HLB,HLC,HLD&latest=false"), 9)
      assert.deepStrictEqual(yield* detailsOf("ticker=HLNONE&latest=true"), [])
    }))

  it.effect("§2.6 latest first chooses the newest rows, then the other filters apply to these", () =>
    Effect.gen(function* () {
      yield* insert("daily_prices", price("HKA", "2025-01-01", "2"), price("HKB", "2025-01-01", "3"))
      const shared = { outstanding_shares: "10", restricted_shares: "1" }
      yield* insert(
        "historical_float_pro",
        filing("HKA", { ...shared, details: "A new", reported_date: "2025-03-31", float: "10" }),
        filing("HKA", { ...shared, details: "A old", reported_date: "2024-12-31", float: "20", is_adr: true }),
        filing("HKB", { ...shared, details: "B new", reported_date: "2025-06-30", float: "40", is_adr: true }),
        filing("HKB", {
          ...shared,
          details: "B old",
          reported_date: "2024-12-31",
          float: "15",
          filed_at: "2025-01-02",
        }),
      )
      const asked = (query: string) => detailsOf(`ticker=HKA,HKB&latest=true&${query}`)
      assert.deepStrictEqual(yield* asked("min_float=15"), ["B new"])
      assert.deepStrictEqual(yield* asked("max_float=30"), ["A new"])
      assert.deepStrictEqual(yield* asked("is_adr=true"), ["B new"])
      assert.deepStrictEqual(yield* asked("is_adr=false"), ["A new"])
      assert.deepStrictEqual(yield* asked("min_tradable_float=39"), ["B new"])
      assert.deepStrictEqual(yield* asked("min_market_cap=30&max_market_cap=30"), ["B new"])
      assert.deepStrictEqual(yield* asked("max_market_cap=20"), ["A new"])
      assert.deepStrictEqual(yield* asked("reported_date_to=2025-03-31"), ["A new"])
      assert.deepStrictEqual(yield* asked("reported_date_to=2024-12-31"), [])
      assert.deepStrictEqual(yield* asked("filed_at_to=2025-01-02"), [])
      assert.deepStrictEqual(yield* asked("min_outstanding_shares=10"), ["B new", "A new"])
      // Every ticker of the table, without naming any.
      assert.deepStrictEqual(yield* detailsOf("latest=true&min_market_cap=30&max_market_cap=30"), ["B new"])
    }))

  it.effect("§7.3 D4 the ticker is optional, an invalid one is no wildcard, and other names are unknown", () =>
    Effect.gen(function* () {
      for (const latest of ["", "&latest=true"]) {
        assert.strictEqual((yield* list(`limit=1${latest}`)).status, 200)
        assert.strictEqual((yield* refused(`ticker=@@${latest}`)).field, "ticker")
      }
      for (const name of ["close", "min_close", "price", "form_type", "cik", "min_restricted_shares", "date", "sort"]) {
        const { field, reason } = yield* refused(`${name}=1`)
        assert.strictEqual(field, name)
        assert.include(reason, "is not a parameter of this endpoint")
      }
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Loading
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("D31 filings and prices are loaded; a wrong cell refuses the file by line and column", () =>
    Effect.gen(function* () {
      const prices = "ticker,date,close\nHLOAD,2025-06-27,1.2345\n"
      assert.deepStrictEqual(yield* loaded("daily-prices", prices), { table: "daily_prices", rows: 1, dropped: 0 })
      const header = "ticker,filed_at,reported_date,outstanding_shares,float,restricted_shares,is_adr,last_updated"
      const good = "HLOAD,2025-07-03,2025-06-29,1000,900,100,false,2025-07-03 09:30:00"
      assert.deepStrictEqual(
        yield* loaded("historical-float-pro", `${header}\n${good}\n`),
        { table: "historical_float_pro", rows: 1, dropped: 0 },
      )
      assert.deepStrictEqual(yield* fieldOf("market_cap", "ticker=HLOAD"), [1234.5])
      assert.deepStrictEqual(yield* fieldOf("tradable_float", "ticker=HLOAD"), [800])
      const wrong = [
        ["daily-prices", "ticker,date,close\nHLOAD,2025-06-28,1.23456\n", "close"],
        ["daily-prices", "ticker,date,close\nHLOAD,2025-06-28,\n", "close"],
        ["daily-prices", "ticker,date,close\nHLOAD,2025-06-31,1\n", "date"],
        ["daily-prices", prices, "ticker, date"],
        ["historical-float-pro", `${header}\n${good.replace("false", "no")}\n`, "is_adr"],
        ["historical-float-pro", `${header}\n${good.replace(",900", ", 900")}\n`, "float"],
        ["historical-float-pro", `${header},form_type\n${good},10-Q \n`, "form_type"],
      ] as const
      for (const [dataset, csv, column] of wrong) {
        const { message } = yield* Effect.flip(loaded(dataset, csv))
        assert.match(message, new RegExp(`line 2: ${column} `))
      }
    }))

  it.effect.each(["tradable_float", "market_cap"])(
    "§2.6 D31 %s is computed: a file that brings it is refused",
    (column) =>
      Effect.gen(function* () {
        const csv = `ticker,filed_at,is_adr,last_updated,${column}\nHCOMP,2025-07-03,true,2025-07-03 09:30:00,5\n`
        const { message } = yield* Effect.flip(loaded("historical-float-pro", csv))
        assert.include(message, `${column} is not a column of this table`)
      }),
  )
})

layer(Layer.provide(Service.layer, Layer.effectDiscard(TestClock.setTime(Date.parse("2026-07-01T03:59:00Z")))))(
  "GET /v1/historical-float-pro on the evening of 30 June 2026 in New York",
  (it) => {
    it.effect("D7 §7.2 today is accepted, tomorrow is 422 and the message says: in the past", () =>
      Effect.gen(function* () {
        yield* TestClock.setTime(Date.parse("2026-07-01T03:59:30Z"))
        for (const name of ["filed_at_from", "filed_at_to", "reported_date_from", "reported_date_to"]) {
          assert.strictEqual((yield* list(`${name}=2026-06-30`)).status, 200)
          const { field, reason } = yield* refused(`${name}=2026-07-01`)
          assert.strictEqual(field, name)
          assert.include(reason, "must be in the past")
        }
      }))
  },
)

// ---------------------------------------------------------------------------------------------------------------------
// Plans
// ---------------------------------------------------------------------------------------------------------------------

const statements: Array<readonly [text: string, parameters: ReadonlyArray<unknown>]> = []

const recording = Layer.succeed(Statement.CurrentTransformer, (statement) =>
  Effect.sync(() => {
    statements.push(statement.compile())
    return statement
  }))

interface Plan {
  readonly "Node Type": string
  readonly "Relation Name"?: string
  readonly "Actual Loops"?: number
  readonly Plans?: ReadonlyArray<Plan>
}

const nodes = (plan: Plan): ReadonlyArray<Plan> => [plan, ...(plan.Plans ?? []).flatMap(nodes)]

layer(Layer.provide(Service.layer, recording), { excludeTestServices: true })("historical_float_pro, large", (it) => {
  /** The plan of the query that a request made, with what its execution did. */
  const plan = Effect.fnUntraced(function* (query: string) {
    const sql = yield* SqlClient.SqlClient
    statements.length = 0
    assert.strictEqual((yield* list(query)).status, 200, query)
    const [text, parameters] = statements.find(([text]) => text.includes("historical_float_pro")) ?? ["", []]
    const [row] = yield* sql.unsafe<{ readonly "QUERY PLAN": ReadonlyArray<{ readonly Plan: Plan }> }>(
      `explain (analyze, timing off, format json) ${text}`,
      parameters,
    )
    return row?.["QUERY PLAN"].flatMap(({ Plan }) => nodes(Plan)) ?? []
  })

  const lookups = (plan: ReadonlyArray<Plan>) =>
    plan.filter((node) => node["Relation Name"] === "daily_prices").map((node) => node["Actual Loops"] ?? 0)

  it.effect("§2.6 half a million prices: one index lookup for each row of the page, and no table is read whole", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        insert into daily_prices
        select 'T' || ticker, date '2018-01-01' + day, ticker + day / 10000.0
        from generate_series(1, 200) as ticker, generate_series(0, 2499) as day
      `
      yield* sql`
        insert into historical_float_pro (ticker, filed_at, reported_date, outstanding_shares, "float",
          restricted_shares, is_adr, last_updated)
        select 'T' || n % 200 + 1, date '2018-02-01' + n / 200 * 10, date '2018-01-20' + n / 200 * 10, n, n, 0,
          n % 500 = 0, '2025-01-02'
        from generate_series(1, 20000) as n
      `
      yield* sql`analyze daily_prices, historical_float_pro`

      const queries = [
        ["", 11],
        ["limit=100", 101],
        ["page=150&limit=100", 101],
        ["ticker=T7,T8,T9", 11],
        ["is_adr=true", 11],
        ["min_float=19990&limit=5", 6],
        ["max_outstanding_shares=9.5&limit=5", 6],
        ["min_tradable_float=19990&limit=5", 6],
        ["filed_at_from=2020-02-01&filed_at_to=2020-02-02", 11],
        ["reported_date_from=2020-01-01&reported_date_to=2020-01-20", 11],
        ["latest=true", 11],
        ["latest=true&ticker=T7,T8", 2],
      ] as const
      for (const [query, rows] of queries) {
        const found = yield* plan(query)
        assert.notInclude(found.map((node) => node["Node Type"]), "Seq Scan", query)
        const prices = lookups(found).filter((loops) => loops > 0)
        assert.deepStrictEqual(prices, [rows], query)
      }
      for (const query of ["min_market_cap=1e15", "max_market_cap=0&limit=5", "latest=true&min_market_cap=1e15"]) {
        const found = yield* plan(query)
        assert.notInclude(found.map((node) => node["Node Type"]), "Seq Scan", query)
        assert.isAbove(Math.max(...lookups(found)), query.startsWith("latest") ? 199 : 1000, query)
      }
    }))
})

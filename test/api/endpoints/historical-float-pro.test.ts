/** Tests GET /v1/historical-float-pro over HTTP: §2.5 (fields), §2.6 (market_cap). Each test has its own tickers. */
import { assert, layer } from "@effect/vitest"
import { Arbitrary, Effect, FileSystem, Layer, Predicate, Ref, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { loadDatasetFile } from "../../../src/ingest/load/DatasetLoad.ts"
import * as FilterAssertions from "../../support/FilterAssertions.ts"
import { skipHistory } from "../../support/GeneratedRows.ts"
import * as ListClients from "../../support/ListClients.ts"
import * as Service from "../../support/Service.ts"
import * as StatementRecorder from "../../support/StatementRecorder.ts"
import { getInputCount, skipUnlessThorough } from "../../support/Thoroughness.ts"

const { valueAt, insertRows } = Service

const filing = (ticker: string, fields: Readonly<Record<string, unknown>> = {}) => ({
  ticker,
  filed_at: "2025-07-03",
  is_adr: false,
  last_updated: "2025-07-03 20:05:00",
  ...fields,
})

const price = (ticker: string, date: string, close: string) => ({ ticker, date, close })

const change = (old_ticker: string, new_ticker: string, effective_date: string, cik: string | null) => ({
  old_ticker,
  new_ticker,
  effective_date,
  cik,
  status: "confirmed",
})

const { request, requestColumn, requestRows, requestText, requestInvalid, readAllPages } = ListClients.makeListClient(
  "/v1/historical-float-pro",
)

const requestDetails = (query: string) => requestColumn("details", query)

layer(Service.layer, { excludeTestServices: true })("GET /v1/historical-float-pro", (it) => {
  it.effect("returns every field exactly as stored, and no price (§2.5, §2.1, D15, D16)", () =>
    Effect.gen(function* () {
      yield* insertRows("daily_prices", price("HFULL", "2025-06-30", "1.1"))
      yield* insertRows("historical_float_pro", {
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
      assert.strictEqual(
        yield* requestText("ticker=HFULL"),
        `{"count":1,"results":[{"ticker":"HFULL","filed_at":"2025-07-03","form_type":"10-Q",` +
          `"document_url":"https://example.com/10-q","reported_date":"2025-06-30","outstanding_shares":3,` +
          `"float":9007199254740991,"restricted_shares":1,"tradable_float":9007199254740990,"affiliate_shares":12,` +
          `"insider_shares":0,"affiliate_percent":0.1,"institutions_percent":99999999999999.9999,` +
          `"insider_percent":0,"market_cap":3.3,"cik":"0000012345","is_adr":true,"ads_ratio":0.3,` +
          `"details":"As \\"reported\\"","last_updated":"2025-07-03T08:30:00-05:00"}],"page":1,"limit":10,` +
          `"has_more":false}`,
      )
    }))

  it.effect("missing values are null, and a time in winter is unchanged (§2.5, D15, D16)", () =>
    Effect.gen(function* () {
      yield* insertRows("historical_float_pro", filing("HNULL", { last_updated: "2025-01-02 09:30:00" }))
      const columns = ["form_type", "document_url", "reported_date", "outstanding_shares", "float", "restricted_shares"]
      const more = ["tradable_float", "affiliate_shares", "insider_shares", "affiliate_percent", "market_cap", "cik"]
      const missing = [...columns, ...more, "institutions_percent", "insider_percent", "ads_ratio", "details"]
      assert.deepStrictEqual(yield* requestRows("ticker=HNULL"), [{
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

  it.effect("market_cap uses the close on reported_date, or the last one before it, however old (§2.6.1, §2.6.2)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "daily_prices",
        price("HDAY", "2025-06-26", "1"),
        price("HDAY", "2025-06-27", "2.5"),
        price("HDAY", "2025-06-30", "7"),
        price("HDAZ", "2025-06-27", "1000"),
        price("HDA", "2025-06-27", "1000"),
      )
      const days = [
        ["2025-06-26", 100],
        ["2025-06-27", 250],
        // Saturday and Sunday use Friday's close.
        ["2025-06-28", 250],
        ["2025-06-29", 250],
        ["2025-06-30", 700],
        ["2035-06-30", 700],
      ] as const
      yield* insertRows(
        "historical_float_pro",
        ...days.map(([reported_date]) => filing("HDAY", { reported_date, outstanding_shares: "100" })),
      )
      assert.deepStrictEqual(
        yield* requestColumn("market_cap", "ticker=HDAY"),
        days.map(([, cap]) => cap).toReversed(),
      )
    }))

  it.effect("market_cap is null without an earlier close, without shares or without a date (§2.6.3)", () =>
    Effect.gen(function* () {
      yield* insertRows("daily_prices", price("HGAP", "2025-06-27", "2"))
      yield* insertRows(
        "historical_float_pro",
        filing("HGAP", { details: "too early", reported_date: "2025-06-26", outstanding_shares: "5" }),
        filing("HGAP", { details: "no shares", reported_date: "2025-06-27" }),
        filing("HGAP", { details: "no date", outstanding_shares: "5" }),
        filing("HGAP", { details: "all there", reported_date: "2025-06-28", outstanding_shares: "5" }),
        filing("HGAP", { details: "no such shares", reported_date: "2025-06-29", outstanding_shares: "0" }),
        filing("HGAQ", { details: "no price", reported_date: "2025-06-30", outstanding_shares: "5" }),
      )
      assert.deepStrictEqual(
        (yield* requestRows("ticker=HGAP,HGAQ")).map((row) => [valueAt(row, "details"), valueAt(row, "market_cap")]),
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

  it.effect("market_cap is null on a trading day without a close of the symbol (D32)", () =>
    Effect.gen(function* () {
      // No other test inserts closes for April 2024.
      yield* insertRows("daily_prices", price("HTDA", "2024-04-01", "2"), price("HTDB", "2024-04-03", "9"))
      const filings = ["2024-03-31", "2024-04-01", "2024-04-02", "2024-04-03", "2024-04-04"]
      yield* insertRows(
        "historical_float_pro",
        ...filings.map((reported_date) => filing("HTDA", { reported_date, outstanding_shares: "10" })),
      )
      const caps = () => requestColumn("market_cap", "ticker=HTDA")
      assert.deepStrictEqual(yield* caps(), [20, null, 20, 20, null])
      assert.lengthOf(yield* requestRows("ticker=HTDA&min_market_cap=20&max_market_cap=20"), 3)
      // Makes this day a trading day for every ticker.
      yield* insertRows("daily_prices", price("HTDC", "2024-04-02", "1"))
      assert.deepStrictEqual(yield* caps(), [20, null, null, 20, null])
      assert.lengthOf(yield* requestRows("ticker=HTDA&min_market_cap=0"), 2)
      yield* insertRows("daily_prices", price("HTDA", "2024-04-02", "3"))
      assert.deepStrictEqual(yield* caps(), [30, null, 30, 20, null])
    }))

  it.effect("market_cap uses the close of the symbol that the company had on the day (D32)", () =>
    Effect.gen(function* () {
      const [cik, otherCik] = ["0000000071", "0000000072"]
      yield* insertRows("ticker_changes", change("HTOLD", "HTNEW", "2024-05-15", cik))
      yield* insertRows(
        "daily_prices",
        price("HTOLD", "2024-05-14", "2"),
        price("HTNEW", "2024-05-14", "90"),
        price("HTNEW", "2024-05-16", "3"),
        price("HTOLD", "2024-05-16", "80"),
      )
      const rows = (ticker: string, cik: string | null) =>
        ["2024-05-14", "2024-05-15", "2024-05-16"].map((reported_date) =>
          filing(ticker, { reported_date, outstanding_shares: "10", cik, document_url: String(cik) })
        )
      for (const ticker of ["HTNEW", "HTOLD"]) {
        yield* insertRows(
          "historical_float_pro",
          ...[null, "71", otherCik].flatMap((company) => rows(ticker, company)),
        )
      }
      const caps = (ticker: string, cik: string | null) =>
        Effect.map(
          requestRows(`ticker=${ticker}&limit=100`),
          (found) => found.filter((row) => valueAt(row, "cik") === cik).map((row) => valueAt(row, "market_cap")),
        )
      // The new symbol's first day is not a trading day, so the last close is still under the old symbol.
      assert.deepStrictEqual(yield* caps("HTNEW", "71"), [30, 20, 20])
      // Without a CIK, a row dated before the change may belong to whichever company used the symbol at that time.
      assert.deepStrictEqual(yield* caps("HTNEW", null), [30, 20, null])
      // Without a CIK, a row dated after the company gave up the symbol belongs to the company that used the symbol
      // next.
      assert.deepStrictEqual(yield* caps("HTOLD", null), [800, null, 20])
      assert.deepStrictEqual(yield* caps("HTOLD", "71"), [30, 20, 20])
      // Rows of the other company, which used one symbol before the change and the other symbol after it.
      assert.deepStrictEqual(yield* caps("HTNEW", otherCik), [null, null, 900])
      assert.deepStrictEqual(yield* caps("HTOLD", otherCik), [800, null, null])
    }))

  it.effect("market_cap is null if the row may be about a company that used the symbol before (D32)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "ticker_changes",
        change("HTPRE", "HTTOOK", "2024-11-01", "0000000081"),
        change("HTPREN", "HTTOOKN", "2024-11-01", null),
        // The company gave up its symbol for three months.
        change("HTHOME", "HTAWAY1", "2024-07-15", "0000000083"),
        change("HTAWAY1", "HTHOME", "2024-10-18", "0000000083"),
      )
      const symbols = ["HTPRE", "HTTOOK", "HTPREN", "HTTOOKN", "HTHOME", "HTAWAY1"]
      const [day, ...others] = ["2024-09-20", "2024-06-21", "2024-11-15"]
      yield* insertRows(
        "daily_prices",
        ...[day, ...others].flatMap((date) =>
          symbols.filter((ticker) => date !== day || !/TOOK|HOME/.test(ticker)).map((ticker, index) =>
            price(ticker, date ?? "", `${index + 1}`)
          )
        ),
      )
      const rows = (cik: string | null) =>
        ["HTTOOK", "HTTOOKN", "HTHOME"].map((ticker) =>
          filing(ticker, { reported_date: day, outstanding_shares: "10", cik, document_url: String(cik) })
        )
      yield* insertRows("historical_float_pro", ...[null, "81", "83", "99"].flatMap(rows))
      const caps = (ticker: string) =>
        Effect.map(
          requestRows(`ticker=${ticker}&limit=100`),
          (found) => Object.fromEntries(found.map((row) => [`${valueAt(row, "cik")}`, valueAt(row, "market_cap")])),
        )
      // Nobody used these symbols within 30 days of the row's date, so each symbol is taken to mean the company that
      // received it later.
      const own = { HTTOOK: 10, HTTOOKN: 20, HTHOME: 30 }
      const sql = yield* SqlClient.SqlClient
      assert.deepStrictEqual(yield* caps("HTTOOK"), { null: own.HTTOOK, 81: own.HTTOOK, 83: null, 99: null })
      // This change has no CIK, so its lineage does not identify a company.
      const anyCompany = { 81: own.HTTOOKN, 83: own.HTTOOKN, 99: own.HTTOOKN }
      assert.deepStrictEqual(yield* caps("HTTOOKN"), { null: own.HTTOOKN, ...anyCompany })
      assert.deepStrictEqual(yield* caps("HTHOME"), { null: own.HTHOME, 81: null, 83: own.HTHOME, 99: null })
      for (const traded of ["2024-09-20", "2024-08-21", "2024-10-17"]) {
        for (const ticker of ["HTTOOK", "HTTOOKN", "HTHOME"]) {
          yield* insertRows("daily_prices", price(ticker, traded, "70"))
        }
        const other = traded === day ? 700 : null
        assert.deepStrictEqual(yield* caps("HTTOOK"), { null: null, 81: own.HTTOOK, 83: other, 99: other }, traded)
        assert.deepStrictEqual(yield* caps("HTTOOKN"), { null: null, 81: null, 83: null, 99: null }, traded)
        assert.deepStrictEqual(yield* caps("HTHOME"), { null: null, 81: other, 83: own.HTHOME, 99: other }, traded)
        yield* sql`delete from daily_prices where date = ${traded} and close = 70`
      }
      // A close more than 30 days before or after the row's date is no evidence about who used the symbol on that date,
      // not even a close of the company itself.
      for (const traded of ["2024-08-20", "2024-10-21"]) {
        for (const ticker of ["HTTOOK", "HTTOOKN", "HTHOME"]) {
          yield* insertRows("daily_prices", price(ticker, traded, "70"))
        }
        assert.deepStrictEqual((yield* caps("HTTOOK"))["null"], own.HTTOOK, traded)
        assert.deepStrictEqual((yield* caps("HTTOOKN"))["null"], own.HTTOOKN, traded)
        assert.deepStrictEqual((yield* caps("HTHOME"))["null"], own.HTHOME, traded)
        yield* sql`delete from daily_prices where date = ${traded} and close = 70`
      }
    }))

  it.effect("market_cap of an ambiguous symbol needs the company, unless nobody else can have used it (D32, D35)", () =>
    Effect.gen(function* () {
      const [cik, otherCik] = ["0000000073", "0000000074"]
      yield* insertRows(
        "ticker_changes",
        change("HTUSED", "HTLATER", "2024-05-10", otherCik),
        change("HTFIRST", "HTUSED", "2024-05-20", cik),
      )
      const days = ["2024-05-09", "2024-05-14", "2024-05-22"]
      yield* insertRows(
        "daily_prices",
        ...days.flatMap((day, index) => [
          price("HTFIRST", day, `${index + 1}`),
          price("HTUSED", day, `${index + 1}0`),
          price("HTLATER", day, `${index + 1}00`),
        ]),
      )
      yield* insertRows(
        "historical_float_pro",
        ...[null, cik, otherCik, "0000000075"].flatMap((company) =>
          days.map((reported_date) =>
            filing("HTUSED", { reported_date, outstanding_shares: "1", cik: company, document_url: String(company) })
          )
        ),
      )
      const rows = yield* requestRows("ticker=HTUSED&limit=100")
      const caps = (company: string | null) =>
        rows.filter((row) => valueAt(row, "cik") === company).map((row) => valueAt(row, "market_cap"))
      assert.deepStrictEqual(caps(cik), [30, 2, 1])
      assert.deepStrictEqual(caps(otherCik), [300, 200, 10])
      assert.deepStrictEqual([caps(null), caps("0000000075")], [[30, null, null], [null, null, null]])
      // An estimated change is ignored, and the very next request reflects the correction.
      const sql = yield* SqlClient.SqlClient
      yield* sql`update ticker_changes set status = 'estimated' where cik in (${cik}, ${otherCik})`
      const all = yield* requestRows("ticker=HTUSED&limit=100")
      assert.deepStrictEqual(new Set(all.map((row) => valueAt(row, "market_cap"))), new Set([30, 20, 10]))
    }))

  it.effect("market_cap follows the changes of a symbol that the row's company no longer has (D32)", () =>
    Effect.gen(function* () {
      const row = (ticker: string, cik: string | null) =>
        filing(ticker, { reported_date: "2024-05-22", outstanding_shares: "1000", cik, document_url: String(cik) })
      yield* insertRows(
        "ticker_changes",
        change("HTFBA", "HTMTB", "2020-05-11", "0000000301"),
        change("HTFBC", "HTFBA", "2022-05-11", "0000000302"),
        change("HTMTB", "HTMTD", "2023-05-11", null),
        // Two symbols were changed to HTBOTH, so two histories claim the symbol.
        change("HTONE", "HTBOTH", "2022-05-11", "0000000303"),
        change("HTTWO", "HTBOTH", "2022-05-11", "0000000303"),
        change("HTBOTH", "HTAWAY", "2021-05-11", "0000000303"),
        // The same change, recorded once with a CIK and once without.
        change("HTONCE", "HTSAME", "2022-05-11", "0000000304"),
        change("HTONCE", "HTSAME", "2022-05-11", null),
        change("HTSAME", "HTPAST", "2021-05-11", null),
      )
      const tickers = ["HTFBA", "HTBOTH", "HTSAME"]
      yield* insertRows("daily_prices", ...tickers.map((ticker) => price(ticker, "2024-05-22", "50")))
      yield* insertRows(
        "historical_float_pro",
        ...tickers.flatMap((ticker) => [null, "301", "302", "304"].map((cik) => row(ticker, cik))),
      )
      for (const query of ["", "&min_market_cap=0"]) {
        const rows = yield* requestRows(`ticker=${tickers.join(",")}&limit=100${query}`)
        const found = rows.filter((row) => valueAt(row, "market_cap") !== null)
        assert.sameMembers(
          found.map((row) => [valueAt(row, "ticker"), valueAt(row, "cik")].join(" ")),
          ["HTFBA ", "HTFBA 302", "HTSAME ", "HTSAME 304"],
          query,
        )
      }
    }))

  it.effect("market_cap is the same on a page, behind a filter, in an export and of followed rows (D32)", () =>
    Effect.gen(function* () {
      const cik = "0000000077"
      yield* insertRows(
        "ticker_changes",
        change("HTWAS", "HTMID", "2024-05-14", cik),
        change("HTMID", "HTNOW", "2024-05-16", cik),
      )
      const days = ["2024-05-13", "2024-05-15", "2024-05-17"]
      const tickers = ["HTWAS", "HTMID", "HTNOW"]
      yield* insertRows(
        "daily_prices",
        ...days.flatMap((day, index) => tickers.map((ticker, number) => price(ticker, day, `${index + 1}${number}`))),
      )
      yield* insertRows(
        "historical_float_pro",
        ...days.flatMap((reported_date) =>
          tickers.map((ticker) => filing(ticker, { reported_date, outstanding_shares: "1", cik }))
        ),
      )
      const caps = days.toReversed().flatMap((_, index) => tickers.map(() => [32, 21, 10][index]))
      const all = `ticker=${tickers.join(",")}&limit=100`
      for (const query of [all, `${all}&min_market_cap=10&max_market_cap=32`]) {
        assert.deepStrictEqual(yield* requestColumn("market_cap", query), caps, query)
        assert.deepStrictEqual(
          yield* requestColumn("market_cap", `${query}&follow_lineage=true`.replace(tickers.join(","), "HTNOW")),
          [32, 21, 10],
          query,
        )
      }
      const { text } = yield* Service.requestJson(
        `/v1/historical-float-pro?ticker=${tickers.join(",")}&limit=all&format=ndjson`,
      )
      const lines = text.trimEnd().split("\n")
      assert.deepStrictEqual(lines.map((line) => valueAt(JSON.parse(line), "market_cap")), caps)
    }))

  it.effect.each(["73", "CIK0000000073", "CIK73"])(
    "market_cap knows the company of a row whose CIK is written %s, and any if it is empty (D32)",
    (written) =>
      Effect.gen(function* () {
        const ticker = `HTC${written.length}`
        yield* insertRows("ticker_changes", change(`${ticker}A`, ticker, "2024-05-14", "0000000073"))
        yield* insertRows("daily_prices", price(ticker, "2024-05-22", "5"))
        yield* insertRows(
          "historical_float_pro",
          ...[written, "", "unknown", "74", "CIK0000000074"].map((cik) =>
            filing(ticker, { reported_date: "2024-05-22", outstanding_shares: "1", cik, document_url: cik })
          ),
        )
        const rows = yield* requestRows(`ticker=${ticker}`)
        assert.deepStrictEqual(
          new Map(rows.map((row) => [valueAt(row, "cik"), valueAt(row, "market_cap")])),
          new Map<unknown, unknown>([[written, 5], [null, 5], ["unknown", 5], ["74", null], ["CIK0000000074", null]]),
        )
      }),
  )

  it.effect.each(([
    ["0.07", "100", "7"],
    ["1.1", "3", "3.3"],
    ["0.0050", "1", "0.01"],
    ["0.0049", "1", "0"],
    ["1.0050", "1", "1.01"],
    ["1.0350", "1", "1.04"],
    ["2.6750", "1", "2.68"],
    ["0.1", "3", "0.3"],
    ["19.99", "1234567", "24678994.33"],
    ["9999998.9999", "9007199254740991", "90071983539309935333534.9"],
    ["9999998.9999", "1", "9999999"],
    ["0.0001", "9007199254740991", "900719925474.1"],
    ["123456.7891", "9007199254740991", "1111999898774235701012"],
  ] as const).map(([close, shares, cap], index) => ({ close, shares, cap, ticker: `HEXA${index}` })))(
    "market_cap is rounded to exactly two decimals: $close for $shares shares is $cap (§2.6.1, D16)",
    ({ cap, close, shares, ticker }) =>
      Effect.gen(function* () {
        yield* insertRows("daily_prices", price(ticker, "2025-06-30", close))
        yield* insertRows(
          "historical_float_pro",
          filing(ticker, { reported_date: "2025-06-30", outstanding_shares: shares }),
        )
        const text = yield* requestText(`ticker=${ticker}`)
        assert.strictEqual(/"market_cap":([^,]*),/.exec(text)?.[1], cap)
      }),
  )

  it.effect("market_cap is never stored, so a corrected price changes it immediately (§2.6.3)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* insertRows(
        "historical_float_pro",
        filing("HNEW", { reported_date: "2025-06-15", outstanding_shares: "10" }),
      )
      assert.deepStrictEqual(yield* requestColumn("market_cap", "ticker=HNEW"), [null])
      yield* insertRows("daily_prices", price("HNEW", "2025-06-12", "1.5"))
      assert.deepStrictEqual(yield* requestColumn("market_cap", "ticker=HNEW"), [15])
      yield* sql`update daily_prices set close = 2 where ticker = 'HNEW'`
      assert.deepStrictEqual(yield* requestColumn("market_cap", "ticker=HNEW"), [20])
      yield* sql`delete from daily_prices where ticker = 'HNEW'`
      assert.deepStrictEqual(yield* requestColumn("market_cap", "ticker=HNEW"), [null])
    }))

  it.effect("tradable_float is float minus restricted_shares, and null if either is null (§2.5)", () =>
    Effect.gen(function* () {
      const cases = [["100", "40", 60], ["100", null, null], [null, "40", null], [null, null, null], ["7", "0", 7]]
      const more = [["0", "0", 0], ["40", "100", -60], ["0", "9007199254740991", -9007199254740991]]
      for (const [number, [float, restricted_shares, expected]] of [...cases, ...more].entries()) {
        yield* insertRows("historical_float_pro", filing(`HTRA${number}`, { float, restricted_shares }))
        assert.deepStrictEqual(yield* requestColumn("tradable_float", `ticker=HTRA${number}`), [expected])
      }
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Order and pages
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("rows are ordered by reported_date (null last), filed_at, ticker, form and document (§2.6, D8)", () =>
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
      yield* insertRows("historical_float_pro", ...rows.toReversed())
      const expected = rows.map(({ details }) => details)
      assert.deepStrictEqual(yield* requestDetails("ticker=HOA,HOB"), expected)
      for (const limit of [1, 3, 4]) {
        const seen = yield* readAllPages("ticker=HOA,HOB", limit)
        assert.deepStrictEqual(seen.map((row) => valueAt(row, "details")), expected)
      }
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Filters
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("bounds are inclusive, even on computed values, and null never matches (D9, D16)", () =>
    Effect.gen(function* () {
      yield* insertRows("daily_prices", price("HBOUND", "2025-06-01", "1.01"))
      const shares = [["1", "10"], ["2", "20"], ["3", "30"], ["4", null]] as const
      yield* insertRows(
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
      const find = (query: string) => Effect.map(requestDetails(`ticker=HBOUND&${query}`), (all) => all.toReversed())
      const keys = ["1", "2", "3"]
      const columns = [
        ["outstanding_shares", ["10", "20", "30"]],
        ["float", ["10", "20", "30"]],
        ["tradable_float", ["9", "19", "29"]],
        ["market_cap", ["10.1", "20.2", "30.3"]],
      ] as const
      for (const [name, values] of columns) {
        yield* FilterAssertions.assertRangeFilter({ find, requestInvalid }, name, { values, keys })
        assert.deepStrictEqual(yield* find(`min_${name}=${Number(values[1]) + 0.001}`), ["3"])
        assert.deepStrictEqual(yield* find(`max_${name}=${Number(values[1]) - 0.001}`), ["1"])
      }
    }))

  it.effect("bounds on market_cap are exact for the largest values (§2.6, D16)", () =>
    Effect.gen(function* () {
      yield* insertRows("daily_prices", price("HGREAT", "2025-06-30", "9999999"))
      const most = { reported_date: "2025-06-30", outstanding_shares: "9007199254740991" }
      yield* insertRows("historical_float_pro", filing("HGREAT", most))
      assert.lengthOf(yield* requestDetails("ticker=HGREAT&min_market_cap=9e22"), 1)
      assert.lengthOf(yield* requestDetails("ticker=HGREAT&min_market_cap=9.01e22"), 0)
      assert.lengthOf(yield* requestDetails("ticker=HGREAT&max_market_cap=9e22"), 0)
      assert.lengthOf(yield* requestDetails("ticker=HGREAT&max_market_cap=9.01e22"), 1)
    }))

  it.effect("is_adr takes true or false (§2.5)", () =>
    Effect.gen(function* () {
      yield* insertRows("historical_float_pro", filing("HADR1", { is_adr: true }), filing("HADR2"))
      const find = (query: string) => requestColumn("ticker", `ticker=HADR1,HADR2&${query}`)
      yield* FilterAssertions.assertBooleanFilter({ find, requestInvalid }, "is_adr", { yes: ["HADR1"], no: ["HADR2"] })
      assert.strictEqual((yield* requestInvalid("latest=1")).field, "latest")
    }))

  it.effect("date ranges are inclusive, null never matches, and a reversed range is refused (D7)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "historical_float_pro",
        ...FilterAssertions.sampleDays.map((day) => filing("HDATES", { reported_date: day, filed_at: day })),
        filing("HDATES", { filed_at: "2025-01-02" }),
      )
      yield* FilterAssertions.assertDayRangeFilter(
        { find: (query) => requestColumn("reported_date", `ticker=HDATES&${query}`), requestInvalid },
        "reported_date",
      )
      const find = (query: string) =>
        Effect.map(
          requestColumn("filed_at", `ticker=HDATES&${query}`),
          (all) => all.filter((day) => day !== "2025-01-02"),
        )
      yield* FilterAssertions.assertDayRangeFilter({ find, requestInvalid }, "filed_at")
      assert.deepStrictEqual(yield* requestColumn("filed_at", "ticker=HDATES&filed_at_to=2025-04-07"), [
        "2025-04-07",
        "2025-01-02",
      ])
    }))

  it.effect("the parameter `latest` selects the newest row of each ticker (§2.6)", () =>
    Effect.gen(function* () {
      yield* insertRows("daily_prices", price("HLA", "2025-01-01", "2"))
      yield* insertRows(
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
      const find = (query: string) => requestDetails(`ticker=HLA,HLB,HLC,HLD&latest=true${query}`)
      const newest = ["B newest", "A newest", "D first of equals", "C undated, newest"]
      assert.deepStrictEqual(yield* find(""), newest)
      assert.deepStrictEqual(yield* find("&limit=3"), newest.slice(0, 3))
      assert.deepStrictEqual(yield* find("&limit=3&page=2"), newest.slice(3))
      assert.deepStrictEqual(yield* requestDetails("ticker=HLB&latest=true"), ["B newest"])
      assert.lengthOf(yield* requestDetails("ticker=HLA,HLB,HLC,HLD&latest=false"), 9)
      assert.deepStrictEqual(yield* requestDetails("ticker=HLNONE&latest=true"), [])
    }))

  it.effect("the parameter `latest` selects, for each ticker, the newest row that matches the other filters (D33)", () =>
    Effect.gen(function* () {
      yield* insertRows("daily_prices", price("HKA", "2024-12-31", "2"), price("HKB", "2024-12-31", "3"))
      const shared = { outstanding_shares: "10", restricted_shares: "1" }
      yield* insertRows(
        "historical_float_pro",
        filing("HKA", { ...shared, details: "A new", reported_date: "2025-03-30", float: "10" }),
        filing("HKA", { ...shared, details: "A old", reported_date: "2024-12-31", float: "20", is_adr: true }),
        filing("HKB", { ...shared, details: "B new", reported_date: "2025-06-29", float: "40", is_adr: true }),
        filing("HKB", {
          ...shared,
          details: "B old",
          reported_date: "2024-12-31",
          float: "15",
          filed_at: "2025-01-02",
        }),
      )
      const find = (query: string) => requestDetails(`ticker=HKA,HKB&latest=true&${query}`)
      assert.deepStrictEqual(yield* find("min_float=15"), ["B new", "A old"])
      assert.deepStrictEqual(yield* find("max_float=30"), ["A new", "B old"])
      assert.deepStrictEqual(yield* find("is_adr=true"), ["B new", "A old"])
      assert.deepStrictEqual(yield* find("is_adr=false"), ["A new", "B old"])
      assert.deepStrictEqual(yield* find("min_tradable_float=39"), ["B new"])
      assert.deepStrictEqual(yield* find("min_market_cap=30&max_market_cap=30"), ["B new"])
      assert.deepStrictEqual(yield* find("max_market_cap=20"), ["A new"])
      assert.deepStrictEqual(yield* find("reported_date_to=2025-03-31"), ["A new", "B old"])
      assert.deepStrictEqual(yield* find("reported_date_to=2024-12-31"), ["A old", "B old"])
      assert.deepStrictEqual(yield* find("filed_at_to=2025-01-02"), ["B old"])
      assert.deepStrictEqual(yield* find("min_outstanding_shares=10"), ["B new", "A new"])
      // Without a ticker filter, `latest` applies to every ticker in the table.
      assert.deepStrictEqual(yield* requestDetails("latest=true&max_market_cap=30&min_float=40&max_float=40"), [
        "B new",
      ])
    }))

  it.effect("the parameter `ticker` is optional, but is refused without a valid symbol, as are unknown parameters (§7.3, D4)", () =>
    Effect.gen(function* () {
      for (const latest of ["", "&latest=true"]) {
        yield* requestRows(`limit=1${latest}`)
        yield* FilterAssertions.assertInvalidSymbolsRefused((query) => requestInvalid(`${query}${latest}`))
      }
      const names = ["close", "min_close", "price", "form_type", "details", "min_restricted_shares", "date", "sort"]
      yield* FilterAssertions.assertUnknownParametersRefused(requestInvalid, names)
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Loading
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("filings and prices are loaded; a wrong cell is reported by line and column (D31)", () =>
    Effect.gen(function* () {
      const prices = "ticker,date,close\nHLOAD,2025-06-27,1.2345\n"
      assert.deepStrictEqual(yield* ListClients.loadCsv("daily-prices", prices, "append"), {
        table: "daily_prices",
        rows: 1,
        dropped: 0,
      })
      const header = "ticker,filed_at,reported_date,outstanding_shares,float,restricted_shares,is_adr,last_updated"
      const good = "HLOAD,2025-07-03,2025-06-29,1000,900,100,false,2025-07-03 09:30:00"
      assert.deepStrictEqual(
        yield* ListClients.loadCsv("historical-float-pro", `${header}\n${good}\n`, "append"),
        { table: "historical_float_pro", rows: 1, dropped: 0 },
      )
      assert.deepStrictEqual(yield* requestColumn("market_cap", "ticker=HLOAD"), [1234.5])
      assert.deepStrictEqual(yield* requestColumn("tradable_float", "ticker=HLOAD"), [800])
      const wrong = [
        ["daily-prices", "ticker,date,close\nHLOAD,2025-06-28,1.23456\n", "close"],
        ["daily-prices", "ticker,date,close\nHLOAD,2025-06-28,\n", "close"],
        ["daily-prices", "ticker,date,close\nHLOAD,2025-06-31,1\n", "date"],
        ["historical-float-pro", `${header}\n${good.replace("false", "no")}\n`, "is_adr"],
        ["historical-float-pro", `${header}\n${good.replace(",900", ",9 00")}\n`, "float"],
      ] as const
      for (const [dataset, csv, column] of wrong) {
        const { message } = yield* Effect.flip(ListClients.loadCsv(dataset, csv, "append"))
        assert.match(message, new RegExp(`line 2: ${column} `))
      }
    }))

  it.effect.each(["tradable_float", "market_cap"])(
    "the column %s is computed, so a load ignores it, and says so (§2.6, D31)",
    (column) =>
      Effect.gen(function* () {
        const csv = `ticker,filed_at,is_adr,last_updated,${column}\nHCOMP,2025-07-03,true,2025-07-03 09:30:00,5\n`
        const fs = yield* FileSystem.FileSystem
        const file = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-computed-" })}/rows.csv`
        yield* fs.writeFileString(file, csv)
        const task = { dataset: "historical-float-pro", file, append: true }
        assert.deepStrictEqual((yield* loadDatasetFile(task, yield* Ref.make(0))).ignored, [column])
      }),
  )
})

layer(Service.layerAt(Date.parse("2026-07-01T03:59:00Z")))(
  "GET /v1/historical-float-pro on the evening of 30 June 2026 in New York",
  (it) => {
    it.effect("today is accepted; tomorrow is refused with the reason (D7, §7.2)", () =>
      Effect.gen(function* () {
        yield* TestClock.setTime(Date.parse("2026-07-01T03:59:30Z"))
        for (const name of ["filed_at_from", "filed_at_to", "reported_date_from", "reported_date_to"]) {
          yield* requestRows(`${name}=2026-06-30`)
          const { field, reason } = yield* requestInvalid(`${name}=2026-07-01`)
          assert.strictEqual(field, name)
          assert.include(reason, "must be in the past")
        }
      }))
  },
)

// ---------------------------------------------------------------------------------------------------------------------
// Random closes and filings
// ---------------------------------------------------------------------------------------------------------------------

const Symbols = Schema.Literals(["HPA", "HPB", "HPC"])
const Days = Schema.Literals([1, 2, 3, 4, 5, 6])
const Close = Schema.Struct({ ticker: Symbols, day: Days, close: Schema.Literals([1, 2, 3]) })
const Filing = Schema.Struct({
  ticker: Symbols,
  day: Schema.NullOr(Days),
  shares: Schema.NullOr(Schema.Literals([0, 10, 20])),
  is_adr: Schema.Boolean,
})

type Closes = ReadonlyArray<typeof Close.Type>

/** A literal implementation of D32 (market_cap). */
const computeMarketCap = ({ day, shares, ticker }: typeof Filing.Type, closes: Closes) => {
  if (day === null || shares === null) return null
  const [newest] = closes.filter((close) => close.ticker === ticker && close.day <= day).toSorted((a, b) =>
    b.day - a.day
  )
  const isTradingDay = closes.some((close) => close.day === day)
  return newest === undefined || (isTradingDay && newest.day !== day) ? null : newest.close * shares
}

const formatDay = (day: number) => `2024-05-0${day}`

layer(Service.layer, { excludeTestServices: true })("Random closes and filings", (it) => {
  it.effect.prop(
    "market_cap, its bounds and `latest` agree with an independent implementation of the decisions (D32, D33)",
    [
      Arbitrary.array(Arbitrary.schema(Close), { maxLength: 9 }),
      Arbitrary.array(Arbitrary.schema(Filing), { minLength: 1, maxLength: 9 }),
    ],
    ([anyCloses, anyFilings]) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const closes = Array.from(new Map(anyCloses.map((close) => [`${close.ticker} ${close.day}`, close])).values())
        yield* sql`truncate daily_prices, historical_float_pro`
        yield* insertRows(
          "daily_prices",
          ...closes.map(({ close, day, ticker }) => price(ticker, formatDay(day), String(close))),
        )
        yield* insertRows(
          "historical_float_pro",
          ...anyFilings.map(({ day, is_adr, shares, ticker }, number) =>
            filing(ticker, {
              is_adr,
              document_url: String(number),
              details: String(number),
              outstanding_shares: shares === null ? null : String(shares),
              reported_date: day === null ? null : formatDay(day),
            })
          ),
        )
        const rows = anyFilings.map((one, number) => ({ ...one, number, cap: computeMarketCap(one, closes) })).toSorted(
          (a, b) => (b.day ?? 0) - (a.day ?? 0) || a.ticker.localeCompare(b.ticker) || a.number - b.number,
        )
        const all = yield* requestRows("limit=100")
        assert.deepStrictEqual(
          all.map((row) => [valueAt(row, "details"), valueAt(row, "market_cap")]),
          rows.map(({ cap, number }) => [String(number), cap]),
        )
        const filters: ReadonlyArray<readonly [string, (row: typeof rows[number]) => boolean]> = [
          ["", () => true],
          ["&is_adr=true", ({ is_adr }) => is_adr],
          ["&min_market_cap=20", ({ cap }) => cap !== null && cap >= 20],
          ["&max_market_cap=20&is_adr=false", ({ cap, is_adr }) => cap !== null && cap <= 20 && !is_adr],
        ]
        for (const [query, matches] of filters) {
          const matching = rows.filter(matches)
          const newest = matching.filter((row, index) =>
            matching.findIndex(({ ticker }) => ticker === row.ticker) === index
          )
          const numbers = (some: typeof rows) => some.map(({ number }) => String(number))
          assert.deepStrictEqual(yield* requestDetails(`limit=100${query}`), numbers(matching), query)
          assert.deepStrictEqual(yield* requestDetails(`limit=100&latest=true${query}`), numbers(newest), query)
          const named = newest.filter(({ ticker }) => ticker !== "HPC")
          assert.deepStrictEqual(yield* requestDetails(`ticker=HPA,HPB&latest=true${query}`), numbers(named), query)
        }
      }),
    { arbitrary: { runs: getInputCount(30) } },
  )
})

// ---------------------------------------------------------------------------------------------------------------------
// Query plans
// ---------------------------------------------------------------------------------------------------------------------

/** Returns a query plan node followed by all of its descendants. */
const nodes = (plan: unknown): ReadonlyArray<unknown> => {
  const below = valueAt(plan, "Plans")
  return [plan, ...(Array.isArray(below) ? below.flatMap(nodes) : [])]
}

const recorded = Layer.provideMerge(Service.layer, StatementRecorder.layer)

layer(recorded, { excludeTestServices: true })("A large historical_float_pro table", (it) => {
  /** Returns the plan of the query that a request executed, from `explain analyze`. */
  const plan = Effect.fnUntraced(function* (query: string) {
    const row = yield* StatementRecorder.explainRequest(
      requestRows(query),
      "historical_float_pro",
      "analyze, timing off, format json",
    )
    return nodes(valueAt(row, "QUERY PLAN", 0, "Plan"))
  })

  const lookups = (plan: ReadonlyArray<unknown>) =>
    plan.filter((node) => valueAt(node, "Relation Name") === "daily_prices").map((node) =>
      Number(valueAt(node, "Actual Loops"))
    )

  it.effect("needs one price lookup per row of the page, and no table scan (§2.6)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const sql = yield* SqlClient.SqlClient
      const insertPrices = sql`
        insert into daily_prices
        select 'T' || ticker, date '2018-01-01' + day, ticker + day / 10000.0
        from generate_series(1, 200) as ticker, generate_series(0, 1249) as day
      `
      const insertFilings = sql`
        insert into historical_float_pro (ticker, filed_at, reported_date, outstanding_shares, "float",
          restricted_shares, is_adr, last_updated)
        select 'T' || n % 200 + 1, date '2018-02-01' + n / 200 * 10, date '2018-01-20' + n / 200 * 10, n, n, 0,
          n % 500 = 0, '2025-01-02'
        from generate_series(1, 20000) as n
      `
      yield* skipHistory("daily_prices", insertPrices)
      yield* skipHistory("historical_float_pro", insertFilings)
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
        ["latest=true&is_adr=true", 2],
        ["latest=true&min_float=19990&limit=5", 6],
        ["latest=true&reported_date_to=2018-01-20", 11],
      ] as const
      for (const [query, rows] of queries) {
        const executed = yield* plan(query)
        assert.notInclude(executed.map((node) => valueAt(node, "Node Type")), "Seq Scan", query)
        const prices = lookups(executed).filter((loops) => loops > 0)
        assert.deepStrictEqual(prices, [rows], query)
      }
      const closes = (yield* plan("ticker=T7")).filter((node) => Number(valueAt(node, "Actual Loops")) > 0).map((
        node,
      ) => valueAt(node, "Relation Name") === "daily_prices" ? valueAt(node, "Index Cond") : undefined).filter(
        Predicate.isNotUndefined,
      )
      // PostgreSQL 15 shows the outer row's column as a parameter.
      const isOneDay = /^[^<>]*date[^<>]* = [^<>]*(reported_date|\$\d+)[^<>]*$/
      assert.match(String(closes), isOneDay, "one row of the index, not a page")
      for (const query of ["min_market_cap=1e15", "max_market_cap=0&limit=5", "latest=true&min_market_cap=1e15"]) {
        const executed = yield* plan(query)
        assert.notInclude(executed.map((node) => valueAt(node, "Node Type")), "Seq Scan", query)
        assert.isAbove(Math.max(...lookups(executed)), query.startsWith("latest") ? 199 : 1000, query)
      }
    }))
})

// ---------------------------------------------------------------------------------------------------------------------
// Many ticker changes
// ---------------------------------------------------------------------------------------------------------------------

layer(Service.layer, { excludeTestServices: true })("Thousands of renamed companies", (it) => {
  it.effect("are exported and filtered within the time limit, at the closes of their former symbols (§2.6, D32)", () =>
    Effect.gen(function* () {
      const companies = 5_000
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        insert into ticker_changes (old_ticker, new_ticker, effective_date, cik, status)
        select 'OLD' || n, 'NEW' || n, '2025-03-03', lpad(n::text, 10, '0'), 'confirmed'
        from generate_series(1, ${companies}::int) as n
      `
      yield* sql`
        insert into daily_prices
        select word || n, date, n from generate_series(1, ${companies}::int) as n
        cross join (values ('OLD', date '2025-02-03'), ('NEW', '2025-04-01')) as symbols (word, date)
      `
      // The SEC lists both share counts under the current symbol.
      yield* sql`
        insert into historical_float_pro (ticker, filed_at, reported_date, outstanding_shares, cik, is_adr, last_updated)
        select 'NEW' || n, day + 5, day, shares, lpad(n::text, 10, '0'), false, '2025-05-05'
        from generate_series(1, ${companies}::int) as n
        cross join (values (date '2025-02-03', 10), ('2025-04-01', 20)) as counts (day, shares)
      `
      // With the second share count, companies numbered 3,000 and above reach this market cap. With the first count, no
      // company does.
      const queries = [["", 2 * companies], ["&min_market_cap=60000", companies - 2_999]] as const
      for (const [query, rows] of queries) {
        const { status, text } = yield* request(`limit=all&format=csv${query}`)
        assert.strictEqual(status, 200, text)
        const [header = "", ...lines] = text.trim().split("\n")
        const columns = header.trim().split(",")
        assert.lengthOf(lines, rows, query)
        for (const line of lines) {
          const cells = line.split(",")
          const [ticker = "", shares, cap] = ["ticker", "outstanding_shares", "market_cap"].map((name) =>
            cells[columns.indexOf(name)]
          )
          assert.strictEqual(Number(cap), Number(ticker.slice("NEW".length)) * Number(shares), line)
        }
      }
    }))
})

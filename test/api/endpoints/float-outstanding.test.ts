/** Tests GET /v1/float-outstanding over HTTP: §2.5 (fields). Each test has its own tickers or countries. */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as FilterAssertions from "../../support/FilterAssertions.ts"
import * as ListClients from "../../support/ListClients.ts"
import * as Service from "../../support/Service.ts"
import * as StatementRecorder from "../../support/StatementRecorder.ts"
import { skipUnlessThorough } from "../../support/Thoroughness.ts"

const { valueAt: at, insertRows } = Service

const fractions = ["insider_percent", "affiliate_percent", "institutions_percent"] as const

/** Builds a complete row. */
const figures = (ticker: string, fields: Readonly<Record<string, unknown>> = {}) => ({
  ticker,
  is_adr: false,
  insider_percent: "0.1",
  affiliate_percent: "0.2",
  institutions_percent: "0.3",
  last_updated: "2025-01-02 20:05:00",
  ...fields,
})

const { requestColumn, requestRows, request, requestText, requestInvalid, readAllPages } = ListClients.makeListClient(
  "/v1/float-outstanding",
)

const tickersOf = (query: string) => requestColumn("ticker", query)

/** Returns a `find` that always filters by these tickers, and the unmodified `requestInvalid`. */
const makeTickerQueries = (tickers: ReadonlyArray<string>) => ({
  find: (query: string) => tickersOf(`ticker=${tickers.join(",")}&${query}`),
  requestInvalid,
})

const loaded = (csv: string) => ListClients.loadCsv("float-outstanding", csv, "append")

layer(Service.layer, { excludeTestServices: true })("GET /v1/float-outstanding", (it) => {
  it.effect("returns every field exactly as stored, with the right type (§2.5, §2.1, D15, D16)", () =>
    Effect.gen(function* () {
      yield* insertRows("float_outstanding", {
        ticker: "FFULL",
        company: 'The "Full" Company, Inc.',
        float: "9007199254740991",
        outstanding: "9007199254740990",
        tradable_float: "1",
        market_cap: "999999999999999999.99",
        insider_percent: "0.1000",
        affiliate_percent: "99999999999999.9999",
        institutions_percent: "0.0001",
        is_adr: true,
        ads_ratio: "0.3000",
        country: "US",
        sector: "Sector",
        industry: "Industry",
        exchange: "NASDAQ",
        reported_date: "2025-06-30",
        filed_at: "2025-07-01",
        ownership_source_url: "https://example.com/a",
        document_url: "https://example.com/b",
        last_updated: "2025-07-02 09:30:00",
      })
      assert.strictEqual(
        yield* requestText("ticker=FFULL"),
        `{"count":1,"results":[{"ticker":"FFULL","company":"The \\"Full\\" Company, Inc.","float":9007199254740991,` +
          `"outstanding":9007199254740990,"tradable_float":1,"market_cap":999999999999999999.99,` +
          `"insider_percent":0.1,"affiliate_percent":99999999999999.9999,"institutions_percent":0.0001,` +
          `"is_adr":true,"ads_ratio":0.3,"country":"US","sector":"Sector","industry":"Industry",` +
          `"exchange":"NASDAQ","reported_date":"2025-06-30","filed_at":"2025-07-01",` +
          `"ownership_source_url":"https://example.com/a","document_url":"https://example.com/b",` +
          `"last_updated":"2025-07-02T08:30:00-05:00"}],"page":1,"limit":10,"has_more":false}`,
      )
    }))

  it.effect("missing values are null, and a time in winter is unchanged (§2.5, D15, D16)", () =>
    Effect.gen(function* () {
      yield* insertRows("float_outstanding", { ticker: "FNULL", is_adr: false, last_updated: "2025-01-02 09:30:00" })
      const columns = ["company", "float", "outstanding", "tradable_float", "market_cap", "ads_ratio", "country"]
      const more = ["sector", "industry", "exchange", "reported_date", "filed_at", "ownership_source_url"]
      const missing = [...columns, ...fractions, ...more, "document_url"].map((name) => [name, null])
      assert.deepStrictEqual(yield* requestRows("ticker=FNULL"), [{
        ticker: "FNULL",
        is_adr: false,
        last_updated: "2025-01-02T09:30:00-05:00",
        ...Object.fromEntries(missing),
      }])
    }))

  it.effect("a reported 0 stays 0 and does not cause the message (§2.5)", () =>
    Effect.gen(function* () {
      const zeros = Object.fromEntries(fractions.map((name) => [name, "0"]))
      yield* insertRows("float_outstanding", figures("FZERO", { ...zeros, float: "0", market_cap: "0" }))
      const { body, text } = yield* request("ticker=FZERO")
      for (const name of [...fractions, "float", "market_cap"]) assert.strictEqual(at(body, "results", 0, name), 0)
      assert.notInclude(text, "message")
    }))

  it.effect.each(fractions)(
    "the message appears if and only if %s of a returned row is null (§2.5)",
    (name) =>
      Effect.gen(function* () {
        const [gap, complete, other] = ["A", "B", "C"].map((letter) => `FM${name.slice(0, 4).toUpperCase()}${letter}`)
        yield* insertRows(
          "float_outstanding",
          figures(`${gap}`, { [name]: null }),
          figures(`${complete}`),
          figures(`${other}`, { [name]: null, float: "5" }),
        )
        const message = (query: string) => Effect.map(request(query), ({ body }) => at(body, "message"))
        assert.match(String(yield* message(`ticker=${gap}`)), /insider_percent.*null/)
        assert.isString(yield* message(`ticker=${gap},${complete}`))
        assert.isUndefined(yield* message(`ticker=${complete}`))
        // To compute `has_more`, the service reads one row more than the limit. That extra row must not trigger the
        // message.
        assert.isUndefined(yield* message(`ticker=${complete},${other}&limit=1`))
        assert.isString(yield* message(`ticker=${complete},${other}&limit=1&page=2`))
        assert.isUndefined(yield* message(`ticker=${gap},${complete}&limit=1&page=2`))
        assert.isUndefined(yield* message(`ticker=${gap}&page=2`))
      }),
  )

  it.effect("other missing figures do not cause the message (§2.5)", () =>
    Effect.gen(function* () {
      yield* insertRows("float_outstanding", figures("FOTHER"))
      const { body } = yield* request("ticker=FOTHER")
      assert.isNull(at(body, "results", 0, "float"))
      assert.notProperty(body, "message")
    }))

  it.effect("rows are ordered by ticker across pages, without repeats or gaps (§2.5, D8)", () =>
    Effect.gen(function* () {
      const tickers = Array.from({ length: 23 }, (_, number) => `FP${String(number * 7 % 23).padStart(2, "0")}`)
      yield* insertRows("float_outstanding", ...tickers.map((ticker) => figures(ticker, { country: "Pageland" })))
      const seen = yield* readAllPages("country=Pageland", 5)
      assert.deepStrictEqual(seen.map((row) => at(row, "ticker")), tickers.toSorted())
    }))

  it.effect("text filters take one or several values in any case, and null never matches (§2.5, D33)", () =>
    Effect.gen(function* () {
      for (const name of ["country", "sector", "industry", "exchange"]) {
        const prefix = `FE${name.slice(0, 2).toUpperCase()}`
        const tickers = [`${prefix}1`, `${prefix}2`, `${prefix}3`, `${prefix}4`]
        const values = ["Plain", "O'Neil 50%_\\", "plain", null]
        yield* insertRows("float_outstanding", ...tickers.map((ticker, at) => figures(ticker, { [name]: values[at] })))
        const find = (value: string) => tickersOf(`ticker=${tickers.join(",")}&${name}=${encodeURIComponent(value)}`)
        assert.deepStrictEqual(yield* find("PLAIN"), [tickers[0], tickers[2]])
        assert.deepStrictEqual(yield* find("O'Neil 50%_\\"), tickers.slice(1, 2))
        assert.deepStrictEqual(yield* find("plain, o'neil 50%_\\"), tickers.slice(0, 3))
        assert.deepStrictEqual(yield* find("%"), [])
        assert.deepStrictEqual(yield* find(`"null"`), [])
        assert.strictEqual((yield* requestInvalid(`${name}=`)).field, name)
        assert.strictEqual((yield* requestInvalid(`${name}=a,`)).field, name)
      }
    }))

  it.effect("is_adr takes true or false (§2.5)", () =>
    Effect.gen(function* () {
      yield* insertRows("float_outstanding", figures("FADR1", { is_adr: true }), figures("FADR2"))
      yield* FilterAssertions.assertBooleanFilter(makeTickerQueries(["FADR1", "FADR2"]), "is_adr", {
        yes: ["FADR1"],
        no: ["FADR2"],
      })
    }))

  it.effect("bounds are inclusive and exact, integer or not, and null never matches (D9, D16)", () =>
    Effect.gen(function* () {
      for (const name of ["float", "outstanding", "tradable_float", "market_cap"]) {
        const tickers = [1, 2, 3, 4].map((number) => `FB${name.slice(0, 2).toUpperCase()}${number}`)
        const values = ["0", "10", "9007199254740991", null]
        yield* insertRows("float_outstanding", ...tickers.map((ticker, at) => figures(ticker, { [name]: values[at] })))
        yield* FilterAssertions.assertRangeFilter(makeTickerQueries(tickers), name, {
          values: values.slice(0, 3).map(String),
          keys: tickers.slice(0, 3),
        })
        const { find } = makeTickerQueries(tickers)
        assert.deepStrictEqual(yield* find(`min_${name}=9.99`), tickers.slice(1, 3))
        assert.deepStrictEqual(yield* find(`min_${name}=10.01`), tickers.slice(2, 3))
        assert.deepStrictEqual(yield* find(`max_${name}=10.01&min_${name}=0.01`), tickers.slice(1, 2))
        assert.deepStrictEqual(yield* find(`max_${name}=9.99`), tickers.slice(0, 1))
        assert.deepStrictEqual(yield* find(`max_${name}=9007199254740990`), tickers.slice(0, 2))
      }
    }))

  it.effect("filters are combined with AND (§2.5)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "float_outstanding",
        figures("FX1", { country: "Mix", sector: "One", float: "5", is_adr: true }),
        figures("FX2", { country: "Mix", sector: "One", float: "50", is_adr: true }),
        figures("FX3", { country: "Mix", sector: "Two", float: "5", is_adr: true }),
        figures("FX4", { country: "Mix", sector: "One", float: "5" }),
      )
      assert.deepStrictEqual(yield* tickersOf("country=Mix&sector=One&max_float=10&is_adr=true"), ["FX1"])
    }))

  it.effect("the parameter `ticker` is optional, but is refused without a valid symbol, as are unknown parameters (§7.3, D4)", () =>
    Effect.gen(function* () {
      yield* requestRows("")
      yield* FilterAssertions.assertInvalidSymbolsRefused(requestInvalid)
      const names = ["min_insider_percent", "company", "sort", "latest", "reported_date_from", "message"]
      yield* FilterAssertions.assertUnknownParametersRefused(requestInvalid, names)
    }))

  it.effect("a file is loaded; a wrong cell is reported by line and column (D31)", () =>
    Effect.gen(function* () {
      const header = "ticker,country,is_adr,float,insider_percent,reported_date,last_updated\n"
      const good = `FLOAD,"Côte d'Ivoire",true,0,0,2025-01-02,2025-07-02 09:30:00\n`
      assert.deepStrictEqual(yield* loaded(header + good), { table: "float_outstanding", rows: 1, dropped: 0 })
      const [row] = yield* requestRows("ticker=FLOAD")
      for (const [name, value] of [["country", "Côte d'Ivoire"], ["float", 0], ["insider_percent", 0]] as const) {
        assert.strictEqual(at(row, name), value)
      }
      assert.isNull(at(row, "affiliate_percent"))
      const wrong = [
        ["is_adr", "FBAD,US,yes,0,0,2025-01-02,2025-07-02 09:30:00"],
        ["float", "FBAD,US,true,1.5,0,2025-01-02,2025-07-02 09:30:00"],
        ["insider_percent", "FBAD,US,true,1,12.5%,2025-01-02,2025-07-02 09:30:00"],
        ["reported_date", "FBAD,US,true,1,0,2025-02-30,2025-07-02 09:30:00"],
        ["last_updated", "FBAD,US,true,1,0,2025-02-20,2025-07-02T09:30:00Z"],
        ["ticker", "fbad,US,true,1,0,2025-02-20,2025-07-02 09:30:00"],
      ] as const
      for (const [column, line] of wrong) {
        const { message } = yield* Effect.flip(loaded(`${header}${line}\n`))
        assert.match(message, new RegExp(`line 2: ${column} `))
      }
      assert.deepStrictEqual(yield* tickersOf("ticker=FBAD"), [])
    }))
})

const recorded = Layer.provideMerge(Service.layer, StatementRecorder.layer)

layer(recorded, { excludeTestServices: true })("A large float_outstanding table", (it) => {
  it.effect("needs no full scan for any filter (§2.5)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        insert into float_outstanding (ticker, country, sector, industry, exchange, is_adr, "float", outstanding,
          tradable_float, market_cap, last_updated)
        select 'T' || n, 'c' || n % 500, 's' || n % 500, 'i' || n % 500, 'e' || n % 500, n % 500 = 0, n, n, n, n,
          '2025-01-02'
        from generate_series(1, 20000) as n
      `
      yield* sql`analyze float_outstanding`
      const numbers = ["float", "outstanding", "tradable_float", "market_cap"].flatMap((name) => [
        `min_${name}=19990`,
        `min_${name}=19990.5`,
        `max_${name}=10`,
        `max_${name}=9.5`,
        `min_${name}=1e300`,
      ])
      const words = ["country=c1,c2", "sector=s1", "industry=i1", "exchange=e1", "is_adr=true", "ticker=T1,T2", ""]
      for (const query of [...numbers, ...words]) {
        const plan = JSON.stringify(
          yield* StatementRecorder.explainRequest(requestRows(query), "from float_outstanding"),
        )
        assert.include(plan, "Index", query)
        assert.notInclude(plan, "Seq Scan", query)
      }
    }))
})

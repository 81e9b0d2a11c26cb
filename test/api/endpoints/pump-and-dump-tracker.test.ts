import { assert, layer } from "@effect/vitest"
import { Effect, Predicate } from "effect"
import { PumpAndDumpSuspect } from "../../../src/contract/endpoints/pump-and-dump-tracker.ts"
import * as FilterAssertions from "../../support/FilterAssertions.ts"
import * as ListClients from "../../support/ListClients.ts"
import * as Service from "../../support/Service.ts"

const { valueAt, insertRows } = Service

/** Builds a row with only the required columns, plus the given fields. The ticker is the row's key. */
const makeRow = (ticker: string, fields: Readonly<Record<string, unknown>> = {}) => ({
  ticker,
  known_underwriter: false,
  number_liquidations: "0",
  is_adr: false,
  num_splits: "0",
  last_updated: "2025-07-01 20:05:00",
  ...fields,
})

const { requestColumn, requestRows, request, requestText, requestInvalid, readAllPages } = ListClients.makeListClient(
  "/v1/pump-and-dump-tracker",
)

const tickersOf = (query: string) => Effect.map(requestColumn("ticker", query), (tickers) => tickers.map(String))

/** Returns a `find` that always filters by these tickers, and the unmodified `requestInvalid`. */
const makeTickerQueries = (tickers: ReadonlyArray<string>, name = "ticker") => ({
  find: (query: string) => requestColumn(name, `ticker=${tickers.join(",")}&${query}`),
  requestInvalid,
})

const loaded = (csv: string) => ListClients.loadCsv("pump-and-dump-tracker", csv, "replace")

const levels = ["high", "medium", "low"]

/** Returns tickers for one test, such as `P0A` and `P0B`. */
const symbols = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, number) => `${prefix}${String.fromCharCode(65 + number)}`)

layer(Service.layer, { excludeTestServices: true })("GET /v1/pump-and-dump-tracker", (it) => {
  it.effect("returns every field exactly as stored, with the right type (§2.1, D15, D16)", () =>
    Effect.gen(function* () {
      yield* insertRows("pump_and_dump_tracker", {
        ticker: "PFULL",
        company: 'The "Pump" Co, 100%',
        ipo_date: "2025-01-02",
        lock_up_expiration: "2199-07-02",
        lock_up_shares: "9007199254740991",
        underwriters: "A & B; Cé",
        known_underwriter: true,
        number_liquidations: "3",
        last_liquidation_date: "2025-05-06",
        liquidation_history: "medium",
        tradable_float: "0",
        outstanding_shares: "9007199254740990",
        market_cap: "999999999999999999.99",
        country: "MY",
        exchange: "Nasdaq",
        sector: "Industrials",
        industry: "Ships",
        is_adr: true,
        gain_1_day: "-0.3000",
        gain_7_day: "12345678901234.5678",
        gain_14_day: "0",
        gain_30_day: "1234.5",
        num_splits: "2",
        last_split_date: "2025-04-05",
        underwriter_risk: "high",
        country_risk: "medium",
        float_risk: "low",
        scam_risk: "high",
        scam_description: "Posts\nin groups",
        last_post_date: "2025-06-07",
        document_url: "https://example.com/a?b=c&d",
        filed_at: "2024-12-01",
        effective_date: "2024-12-31",
        last_updated: "2025-07-02 09:30:00",
      })
      assert.strictEqual(
        yield* requestText("ticker=PFULL"),
        `{"count":1,"results":[{"ticker":"PFULL","company":"The \\"Pump\\" Co, 100%","ipo_date":"2025-01-02",` +
          `"lock_up_expiration":"2199-07-02","lock_up_shares":9007199254740991,"underwriters":"A & B; Cé",` +
          `"known_underwriter":true,"number_liquidations":3,"last_liquidation_date":"2025-05-06",` +
          `"liquidation_history":"medium","tradable_float":0,"outstanding_shares":9007199254740990,` +
          `"market_cap":999999999999999999.99,"country":"MY","exchange":"Nasdaq","sector":"Industrials",` +
          `"industry":"Ships","is_adr":true,"gain_1_day":-0.3,"gain_7_day":12345678901234.5678,"gain_14_day":0,` +
          `"gain_30_day":1234.5,"num_splits":2,"last_split_date":"2025-04-05","underwriter_risk":"high",` +
          `"country_risk":"medium","float_risk":"low","scam_risk":"high","scam_description":"Posts\\nin groups",` +
          `"last_post_date":"2025-06-07","document_url":"https://example.com/a?b=c&d","filed_at":"2024-12-01",` +
          `"effective_date":"2024-12-31","last_updated":"2025-07-02T08:30:00-05:00"}],` +
          `"page":1,"limit":10,"has_more":false}`,
      )
    }))

  it.effect("missing values are null, never an empty string or 0 (D16)", () =>
    Effect.gen(function* () {
      yield* insertRows("pump_and_dump_tracker", makeRow("PNULL"))
      const [row] = yield* requestRows("ticker=PNULL")
      const there = Predicate.isObject(row) ? Object.entries(row).filter(([, value]) => value !== null) : []
      assert.deepStrictEqual(there, [
        ["ticker", "PNULL"],
        ["known_underwriter", false],
        ["number_liquidations", 0],
        ["is_adr", false],
        ["num_splits", 0],
        ["last_updated", "2025-07-01T19:05:00-05:00"],
      ])
      assert.deepStrictEqual(Object.keys(Object(row)), Object.keys(PumpAndDumpSuspect.json.fields))
    }))

  it.effect("last_updated is New York time printed at -05:00, an hour earlier in daylight saving time (§2.1.4, D15)", () =>
    Effect.gen(function* () {
      const tickers = symbols("PCLOCK", ListClients.newYorkTimestampSamples.length)
      yield* insertRows(
        "pump_and_dump_tracker",
        ...tickers.map((ticker, number) =>
          makeRow(ticker, { last_updated: ListClients.newYorkTimestampSamples[number]?.[0] })
        ),
      )
      assert.deepStrictEqual(
        yield* requestColumn("last_updated", `ticker=${tickers.join(",")}`),
        ListClients.newYorkTimestampSamples.map(([, printed]) => printed),
      )
    }))

  it.effect("the parameter `ticker` is optional, but a list without a valid symbol is refused (§7.3)", () =>
    Effect.gen(function* () {
      yield* insertRows("pump_and_dump_tracker", makeRow("P.DOT"))
      assert.isAbove((yield* requestRows("")).length, 0)
      yield* FilterAssertions.assertInvalidSymbolsRefused(requestInvalid)
      assert.deepStrictEqual(yield* tickersOf("ticker=@@,p.%20dot"), ["P.DOT"])
      assert.strictEqual((yield* request("ticker=@@,p.%20dot")).headers["x-dropped-tickers"], "%40%40")
    }))

  it.effect("rows are ordered by ipo_date descending, null last, then by ticker (§4.4)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "pump_and_dump_tracker",
        makeRow("PORDF"),
        makeRow("PORDA", { ipo_date: "2025-02-03" }),
        makeRow("PORDC", { ipo_date: "2025-02-04" }),
        makeRow("PORDB", { ipo_date: "2025-02-04" }),
        makeRow("PORDD", { ipo_date: "2024-12-31" }),
        makeRow("PORDE"),
      )
      const ordered = ["PORDB", "PORDC", "PORDA", "PORDD", "PORDE", "PORDF"]
      assert.deepStrictEqual(yield* tickersOf("ticker=PORDA,PORDB,PORDC,PORDD,PORDE,PORDF"), ordered)
      const everything = yield* tickersOf("limit=100")
      assert.deepStrictEqual(everything.filter((ticker) => ordered.includes(ticker)), ordered)
    }))

  it.effect("following Link to the end shows each row once, in order, with and without an ipo_date (D8)", () =>
    Effect.gen(function* () {
      const tickers = symbols("PPAGE", 23)
      yield* insertRows(
        "pump_and_dump_tracker",
        ...tickers.map((ticker, number) =>
          makeRow(ticker, { country: "ZZ", ipo_date: number < 12 ? "2025-03-03" : null })
        ).toReversed(),
      )
      for (const limit of [1, 7, 23, 100]) {
        const seen = yield* readAllPages("country=ZZ", limit)
        assert.deepStrictEqual(seen.map((row) => valueAt(row, "ticker")), tickers)
      }
    }))

  it.effect.each(["underwriter_risk", "country_risk", "float_risk", "scam_risk"])(
    "the parameter %s takes high, medium or low, or several of them, and null never matches (§4.4)",
    (name) =>
      Effect.gen(function* () {
        const tickers = symbols(`P${name.replaceAll("_", "").slice(0, 10).toUpperCase()}`, 4)
        yield* insertRows(
          "pump_and_dump_tracker",
          ...tickers.map((ticker, number) => makeRow(ticker, { [name]: levels[number] ?? null })),
        )
        const rows = levels.map((level, number) => [level, tickers[number]] as const)
        yield* FilterAssertions.assertEnumFilter(makeTickerQueries(tickers), name, "high, medium, low", rows)
      }),
  )

  it.effect("the parameter `country` takes one or several values, ignoring case (§4.4, D33)", () =>
    Effect.gen(function* () {
      const [first, second, third] = symbols("PLAND", 4)
      yield* insertRows(
        "pump_and_dump_tracker",
        makeRow("PLANDA", { country: "HK" }),
        makeRow("PLANDB", { country: "SG" }),
        makeRow("PLANDC", { country: "CN" }),
        makeRow("PLANDD"),
      )
      const find = (country: string) => tickersOf(`ticker=PLANDA,PLANDB,PLANDC,PLANDD&country=${country}`)
      assert.deepStrictEqual(yield* find("HK"), [first])
      assert.deepStrictEqual(yield* find("cn,%20Sg"), [second, third])
      assert.deepStrictEqual(yield* find("H%25"), [])
      assert.deepStrictEqual(yield* find("US"), [])
      for (const sent of ["", "HK,"]) assert.strictEqual((yield* requestInvalid(`country=${sent}`)).field, "country")
    }))

  it.effect("the parameter `underwriters` matches part of the text, ignoring case; %, _, quotes and \\ are literal (§4.4)", () =>
    Effect.gen(function* () {
      const tickers = symbols("PPART", 6)
      const names = [...FilterAssertions.sampleTexts, "Spartan, Revere"]
      yield* insertRows(
        "pump_and_dump_tracker",
        ...tickers.map((ticker, number) => makeRow(ticker, { underwriters: names[number] ?? null })),
      )
      const find = (part: string) =>
        requestColumn("underwriters", `ticker=${tickers.join(",")}&underwriters=${encodeURIComponent(part)}`)
      yield* FilterAssertions.assertContainsFilter({ find, requestInvalid }, "underwriters")
      for (const part of ["REVere", "n, R"]) assert.deepStrictEqual(yield* find(part), ["Spartan, Revere"])
      for (const miss of ["S%n", "n__R", "Spartans"]) assert.deepStrictEqual(yield* find(miss), [], miss)
    }))

  it.effect.each([["known_underwriter", "PKNOWN"], ["is_adr", "PADR"]] as const)(
    "the parameter %s takes true or false (§4.4)",
    ([name, prefix]) =>
      Effect.gen(function* () {
        const [no = "", yes = ""] = symbols(prefix, 2)
        yield* insertRows("pump_and_dump_tracker", makeRow(no, { [name]: false }), makeRow(yes, { [name]: true }))
        yield* FilterAssertions.assertBooleanFilter(makeTickerQueries([no, yes]), name, { yes: [yes], no: [no] })
      }),
  )

  it.effect.each(["number_liquidations", "tradable_float", "outstanding_shares"])(
    "the bounds of %s are inclusive for integers and may be any number (D9)",
    (name) =>
      Effect.gen(function* () {
        const values = ["0", "1", "75000000", "9007199254740991"]
        // The last row has no value in this column, unless the column cannot be null.
        const count = name === "number_liquidations" ? 4 : 5
        const tickers = symbols(`P${name.replaceAll("_", "").slice(0, 9).toUpperCase()}`, count)
        yield* insertRows(
          "pump_and_dump_tracker",
          ...tickers.map((ticker, number) => makeRow(ticker, { [name]: values[number] ?? null })),
        )
        const keys = tickers.slice(0, values.length)
        yield* FilterAssertions.assertRangeFilter(makeTickerQueries(tickers), name, { values, keys })
        const { find } = makeTickerQueries(tickers)
        const [, one, many, most] = keys.slice(-4)
        assert.deepStrictEqual(yield* find(`min_${name}=0.5&max_${name}=7.5e7`), [one, many])
        assert.deepStrictEqual(yield* find(`min_${name}=1.5&max_${name}=9007199254740990`), [many])
        assert.deepStrictEqual(yield* find(`min_${name}=75000000.5`), [most])
      }),
  )

  it.effect.each(
    [
      ["market_cap", "0.01", "123456789012345.67"],
      ["gain_1_day", "-0.0001", "0.3"],
      ["gain_7_day", "-99.9999", "0.3"],
      ["gain_14_day", "-0.3", "99999999999999.9999"],
      ["gain_30_day", "0.1", "0.3"],
    ] as const,
  )(
    "the bounds of %s are inclusive and compare exact decimals, and null never matches (D9)",
    ([name, small, great]) =>
      Effect.gen(function* () {
        const tickers = symbols(`P${name.replaceAll("_", "").toUpperCase()}`, 3)
        const [less, more] = tickers
        yield* insertRows(
          "pump_and_dump_tracker",
          ...tickers.map((ticker, number) => makeRow(ticker, { [name]: [small, great][number] ?? null })),
        )
        yield* FilterAssertions.assertRangeFilter(makeTickerQueries(tickers), name, {
          values: [small, great],
          keys: [less, more],
        })
        const { find } = makeTickerQueries(tickers)
        assert.deepStrictEqual(yield* find(`min_${name}=0.2&max_${name}=1e300`), [more])
        assert.deepStrictEqual(yield* find(`min_${name}=${small}00001`), [
          ...(small.startsWith("-") ? [less] : []),
          more,
        ])
      }),
  )

  it.effect.each(["filed_at", "effective_date", "ipo_date", "last_liquidation_date", "lock_up_expiration"])(
    "the range of %s is inclusive and must be in order, and null never matches (D7, §4.4)",
    (name) =>
      Effect.gen(function* () {
        const tickers = symbols(`P${name.replaceAll("_", "").slice(0, 12).toUpperCase()}`, 5)
        yield* insertRows(
          "pump_and_dump_tracker",
          ...tickers.map((ticker, number) => makeRow(ticker, { [name]: FilterAssertions.sampleDays[number] ?? null })),
        )
        yield* FilterAssertions.assertDayRangeFilter(makeTickerQueries(tickers, name), name)
      }),
  )

  it.effect("lock_up_expiration may be in the future, and a reversed range is still refused (§4.4, §7.2)", () =>
    Effect.gen(function* () {
      yield* insertRows("pump_and_dump_tracker", makeRow("PFUT", { lock_up_expiration: "2199-01-01" }))
      yield* FilterAssertions.assertFutureDaysFound(makeTickerQueries(["PFUT"]), "lock_up_expiration", "PFUT")
    }))

  it.effect.each(["filed_at", "effective_date", "ipo_date", "last_liquidation_date"])(
    "the range of %s accepts today and refuses future days with the reason (§4.4, §7.2, D7)",
    (name) =>
      Effect.gen(function* () {
        yield* FilterAssertions.assertFutureDaysRefused({ requestRows, requestInvalid }, [`${name}_from`, `${name}_to`])
      }),
  )

  it.effect("refuses the parameter `date`, and columns that are not filters (D4)", () =>
    Effect.gen(function* () {
      const names = ["date", "liquidation_history", "exchange", "min_num_splits", "min_lock_up_shares", "sort"]
      yield* FilterAssertions.assertUnknownParametersRefused(requestInvalid, names)
    }))

  it.effect("filters are combined with AND (§4.4)", () =>
    Effect.gen(function* () {
      const all = { scam_risk: "high", country: "HK", is_adr: true, underwriters: "Mixed Bank", gain_1_day: "10" }
      yield* insertRows(
        "pump_and_dump_tracker",
        makeRow("PMIXA", all),
        makeRow("PMIXB", { ...all, scam_risk: "low" }),
        makeRow("PMIXC", { ...all, country: "SG" }),
        makeRow("PMIXD", { ...all, is_adr: false }),
        makeRow("PMIXE", { ...all, underwriters: "Fixed Bank" }),
        makeRow("PMIXF", { ...all, gain_1_day: "9.9999" }),
      )
      assert.deepStrictEqual(
        yield* tickersOf("scam_risk=high&country=HK&is_adr=true&underwriters=mixed&min_gain_1_day=10"),
        ["PMIXA"],
      )
    }))

  it.effect("a file is loaded; unknown enum values are refused (D31)", () =>
    Effect.gen(function* () {
      const header = "ticker,company,ipo_date,known_underwriter,number_liquidations,is_adr,num_splits,country," +
        "scam_risk,last_updated\n"
      const line = (ticker: string, country = "HK", risk = "high", company = "Pump Co") =>
        `${ticker},${company},,true,2,false,0,${country},${risk},2025-07-01 20:05:00\n`
      assert.deepStrictEqual(yield* loaded(header + line("PLOADA") + line("PLOADB", "", "")), {
        table: "pump_and_dump_tracker",
        rows: 2,
        dropped: 0,
      })
      assert.deepStrictEqual(yield* tickersOf(""), ["PLOADA", "PLOADB"])
      const bad = [
        [line("PBAD", "HK", "severe"), /line 2: scam_risk /],
        [line("PBAD", "hk"), /line 2: country must be a two-letter country code/],
        [line("PBAD", "HKG"), /line 2: country must be a two-letter country code/],
        [line("pbad"), /line 2: ticker must be a symbol/],
      ] as const
      for (const [content, reason] of bad) {
        const { message } = yield* Effect.flip(loaded(header + content))
        assert.match(message, reason)
        assert.deepStrictEqual(yield* tickersOf(""), ["PLOADA", "PLOADB"])
      }
    }))
})

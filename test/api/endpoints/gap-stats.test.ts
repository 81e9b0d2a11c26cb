/** Tests GET /v1/gap-stats and /v1/gap-stats-advanced over HTTP (resources). Each test has its own tickers. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as FilterAssertions from "../../support/FilterAssertions.ts"
import * as ListClients from "../../support/ListClients.ts"
import * as Service from "../../support/Service.ts"

const { valueAt, insertRows } = Service

const paths = ["/v1/gap-stats", "/v1/gap-stats-advanced"] as const

/** Builds a session with only the required columns, plus the given fields. */
const session = (fields: Readonly<Record<string, unknown>>) => ({
  ticker: "ZYXA",
  date: "2025-07-01",
  previous_day_close: "1",
  market_open: "1.255",
  gap_percentage: "25.5",
  high_price: "1.8",
  low_price: "1.1",
  market_close: "1.2",
  volume: "1000",
  dollar_volume: "1300.5",
  premarket_volume: "10",
  premarket_dollar_volume: "12",
  last_updated: "2025-07-01T20:05:00Z",
  open_to_high_pct: "43.4263",
  open_to_low_pct: "-12.3506",
  percentage_gain: "80",
  rth_volume: "900",
  rth_dollar_volume: "1200",
  close_under_50pct_of_range: true,
  gap_filled: false,
  ...fields,
})

const { requestRows, requestText, requestInvalid, readAllPages } = ListClients.makePairedListClient(paths)

/** Returns the ticker and date of each row. Fails if the two endpoints returned different rows. */
const keysIn = ([base, advanced]: readonly [ReadonlyArray<unknown>, ReadonlyArray<unknown>]) => {
  const keys = base.map(ListClients.formatTickerAndDate)
  assert.deepStrictEqual(advanced.map(ListClients.formatTickerAndDate), keys)
  return keys
}

const keysOf = (query: string) => Effect.map(requestRows(query), keysIn)

const tickersOf = (query: string) => Effect.map(keysOf(query), (keys) => keys.map((key) => key.split(" ")[0]))

/** Returns a `find` that always filters by these tickers, and the unmodified `requestInvalid`. */
const makeTickerQueries = (...tickers: ReadonlyArray<string>) => ({
  find: (query: string) => tickersOf(`ticker=${tickers.join(",")}&${query}`),
  requestInvalid,
})

const loaded = (csv: string) => ListClients.loadCsv("gap-stats", csv, "append")

layer(Service.layer, { excludeTestServices: true })("GET /v1/gap-stats and /v1/gap-stats-advanced", (it) => {
  it.effect("return every field exactly as stored, with the right type (§2.1, D15, D16)", () =>
    Effect.gen(function* () {
      yield* insertRows("gap_stats", {
        ticker: "GFULL",
        date: "2025-07-02",
        previous_day_close: "9999998.5678",
        market_open: "0.0001",
        gap_percentage: "-3.1",
        high_price: "100",
        low_price: "1.10",
        high_time: "2025-07-02 09:30:00",
        low_time: "2025-01-02 09:30:00",
        market_close: "0.3000",
        closed_over_vwap: false,
        volume: "9007199254740991",
        dollar_volume: "123456789012345678.91",
        premarket_volume: "0",
        premarket_dollar_volume: "0.01",
        premarket_vwap: "0.29",
        afterhours_close: "2.05",
        market_cap: "999999999999999999.99",
        filing_types: ["8-K", "S-3"],
        all_tags: ['a "quoted" tag', "ünï,code"],
        spike_start_time: "2025-07-02 09:30:00.25",
        last_updated: "2025-07-02T20:05:00Z",
        open_to_high_pct: "0.1",
        open_to_low_pct: "-0.7",
        percentage_gain: "1000000",
        spike_start_price: "1.3333",
        spike_duration_minutes: "0",
        est_halt_minutes: "15",
        rth_volume: "1",
        rth_dollar_volume: "100000000000000000.1",
        premarket_high: "3",
        premarket_low: "0.7",
        afterhours_high: "2.5",
        afterhours_low: "2",
        afterhours_volume: "1000000",
        close_under_50pct_of_range: false,
        gap_filled: true,
        gap_fill_time: "2025-07-02 15:59:59",
        tradable_float: "9007199254740990",
      })
      const base = `"ticker":"GFULL","date":"2025-07-02","previous_day_close":9999998.5678,` +
        `"market_open":0.0001,"gap_percentage":-3.1,"high_price":100,"low_price":1.1,` +
        `"high_time":"2025-07-02T08:30:00-05:00","low_time":"2025-01-02T09:30:00-05:00","market_close":0.3,` +
        `"closed_over_vwap":false,"volume":9007199254740991,"dollar_volume":123456789012345678.91,` +
        `"premarket_volume":0,"premarket_dollar_volume":0.01,"premarket_vwap":0.29,"afterhours_close":2.05,` +
        `"market_cap":999999999999999999.99,"filing_types":["8-K","S-3"],` +
        `"all_tags":["a \\"quoted\\" tag","ünï,code"],"spike_start_time":"2025-07-02T08:30:00.250-05:00",` +
        `"last_updated":"2025-07-02T15:05:00-05:00"`
      const more = `,"open_to_high_pct":0.1,"open_to_low_pct":-0.7,"percentage_gain":1000000,` +
        `"spike_start_price":1.3333,"spike_duration_minutes":0,"est_halt_minutes":15,"rth_volume":1,` +
        `"rth_dollar_volume":100000000000000000.1,"premarket_high":3,"premarket_low":0.7,"afterhours_high":2.5,` +
        `"afterhours_low":2,"afterhours_volume":1000000,"close_under_50pct_of_range":false,"gap_filled":true,` +
        `"gap_fill_time":"2025-07-02T14:59:59-05:00","tradable_float":9007199254740990`
      const page = `],"page":1,"limit":10,"has_more":false}`
      assert.deepStrictEqual(yield* requestText("ticker=GFULL"), [
        `{"count":1,"results":[{${base}}${page}`,
        `{"count":1,"results":[{${base}${more}}${page}`,
      ])
    }))

  it.effect("missing values are null, and an empty list is [] (D16)", () =>
    Effect.gen(function* () {
      yield* insertRows("gap_stats", session({ ticker: "GNULL" }))
      const [, [row]] = yield* requestRows("ticker=GNULL")
      assert.deepStrictEqual(ListClients.getNullAndListFields(row), [
        ["high_time", null],
        ["low_time", null],
        ["closed_over_vwap", null],
        ["premarket_vwap", null],
        ["afterhours_close", null],
        ["market_cap", null],
        ["filing_types", []],
        ["all_tags", []],
        ["spike_start_time", null],
        ["spike_start_price", null],
        ["spike_duration_minutes", null],
        ["est_halt_minutes", null],
        ["premarket_high", null],
        ["premarket_low", null],
        ["afterhours_high", null],
        ["afterhours_low", null],
        ["afterhours_volume", null],
        ["gap_fill_time", null],
        ["tradable_float", null],
      ])
    }))

  it.effect("last_updated is an instant at -05:00 all year; session times are New York time (§2.1.4, D15)", () =>
    Effect.gen(function* () {
      const clocks = [
        ["2025-01-15 02:00:00", "2025-01-15T02:00:00-05:00", "2025-01-14T21:00:00-05:00"],
        ["2025-07-15 02:00:00", "2025-07-15T01:00:00-05:00", "2025-07-14T21:00:00-05:00"],
        ["2025-03-09 02:30:00", "2025-03-09T02:30:00-05:00", "2025-03-08T21:30:00-05:00"],
        ["2025-11-02 01:30:00", "2025-11-02T01:30:00-05:00", "2025-11-01T20:30:00-05:00"],
      ] as const
      for (const [stored, wallClock, instant] of clocks) {
        const date = stored.slice(0, 10)
        yield* insertRows(
          "gap_stats",
          session({
            ticker: "GCLOCK",
            date,
            high_time: stored,
            low_time: stored,
            spike_start_time: stored,
            gap_fill_time: stored,
            last_updated: `${stored}Z`,
          }),
        )
        const [[plain], [advanced]] = yield* requestRows(`ticker=GCLOCK&date=${date}`)
        for (const row of [plain, advanced]) {
          for (const name of ["high_time", "low_time", "spike_start_time"]) {
            assert.strictEqual(valueAt(row, name), wallClock)
          }
          assert.strictEqual(valueAt(row, "last_updated"), instant)
        }
        assert.isUndefined(valueAt(plain, "gap_fill_time"))
        assert.strictEqual(valueAt(advanced, "gap_fill_time"), wallClock)
      }
    }))

  it.effect("rows are ordered by date descending, then by ticker, and following the pages shows each once (D8)", () =>
    Effect.gen(function* () {
      const days = ["2024-05-06", "2024-05-08", "2024-05-07"]
      const rows = Array.from(
        { length: 24 },
        (_, number) => session({ ticker: `GW${String((number * 7) % 24).padStart(2, "0")}`, date: days[number % 3] }),
      )
      yield* insertRows("gap_stats", ...rows)
      const expected = days.toSorted().toReversed().flatMap((date) =>
        rows.filter((row) => row.date === date).map((row) => `${row.ticker} ${date}`).toSorted()
      )
      for (const limit of [1, 7, 24, 100]) {
        const pages = yield* readAllPages("date_from=2024-05-06&date_to=2024-05-08", limit)
        assert.deepStrictEqual(keysIn(pages), expected)
      }
    }))

  it.effect("all tiers can read them; the parameter `ticker` is optional, and a list without a valid symbol is refused (D3, D5)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "gap_stats",
        session({ ticker: "GTA", date: "2025-06-02" }),
        session({ ticker: "GTA", date: "2025-06-03" }),
        session({ ticker: "GTB", date: "2025-06-02" }),
      )
      yield* Effect.forEach(paths, ListClients.requestOnAllTiers)
      assert.deepStrictEqual(yield* keysOf("ticker=gtb,@@,G%20TA"), [
        "GTA 2025-06-03",
        "GTA 2025-06-02",
        "GTB 2025-06-02",
      ])
      yield* FilterAssertions.assertInvalidSymbolsRefused(requestInvalid)
    }))

  it.effect("`date` matches one day, date_from and date_to are inclusive, and none may be in the future (D7)", () =>
    Effect.gen(function* () {
      yield* insertRows("gap_stats", ...FilterAssertions.sampleDays.map((date) => session({ ticker: "GDATE", date })))
      const find = (query: string) =>
        Effect.map(keysOf(`ticker=GDATE&${query}`), (keys) => keys.map((key) => key.slice(-10)))
      yield* FilterAssertions.assertDateFilters({ find, requestInvalid })
    }))

  it.effect.each(
    [
      ["gap_percentage", "-12.5", "0.3", "99999999999999.9999"],
      ["volume", "1", "9007199254740990", "9007199254740991"],
      ["dollar_volume", "0.01", "123456789012345678.9", "123456789012345678.91"],
      ["market_cap", "0.29", "0.3", "999999999999999999.99"],
    ] as const,
  )(
    "the bounds of %s are inclusive and compare exact decimals, and null never matches (D9)",
    ([name, ...values]) =>
      Effect.gen(function* () {
        const tickers = values.map((_, number) => `GB${name.slice(0, 2).toUpperCase()}${number}`)
        yield* insertRows(
          "gap_stats",
          ...values.map((value, number) => session({ ticker: tickers[number], [name]: value })),
          ...(name === "market_cap" ? [session({ ticker: "GBNULL" })] : []),
        )
        yield* FilterAssertions.assertRangeFilter(makeTickerQueries(...tickers, "GBNULL"), name, {
          values,
          keys: tickers,
        })
      }),
  )

  it.effect("the parameters `tag` and `filing_type` match one of several complete elements, ignoring case (§4, D33)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "gap_stats",
        session({ ticker: "GTAG1", all_tags: ["offering", "a,b"], filing_types: ["8-K"] }),
        session({ ticker: "GTAG2", all_tags: ["8-K"], filing_types: ["S-3", "8-K/A"] }),
        session({ ticker: "GTAG3" }),
      )
      const find = (name: string, word: string) =>
        tickersOf(`ticker=GTAG1,GTAG2,GTAG3&${name}=${encodeURIComponent(word)}`)
      assert.deepStrictEqual(yield* find("tag", "offering"), ["GTAG1"])
      assert.deepStrictEqual(yield* find("tag", `"a,b"`), ["GTAG1"])
      assert.deepStrictEqual(yield* find("tag", "offering,8-k,other"), ["GTAG1", "GTAG2"])
      assert.deepStrictEqual(yield* find("filing_type", "s-3,8-K"), ["GTAG1", "GTAG2"])
      assert.deepStrictEqual(yield* find("tag", "8-K"), ["GTAG2"])
      assert.deepStrictEqual(yield* find("filing_type", "8-K"), ["GTAG1"])
      assert.deepStrictEqual(yield* find("filing_type", "S-3"), ["GTAG2"])
      assert.deepStrictEqual(yield* find("tag", "Offering"), ["GTAG1"])
      assert.deepStrictEqual(yield* find("filing_type", "8-k/a"), ["GTAG2"])
      for (const none of ["offer", "%", "{}", `""""`]) {
        assert.deepStrictEqual(yield* find("tag", none), [])
        assert.deepStrictEqual(yield* find("filing_type", none), [])
      }
      assert.strictEqual((yield* requestInvalid("tag=")).field, "tag")
      assert.strictEqual((yield* requestInvalid("filing_type=")).field, "filing_type")
    }))

  it.effect("closed_over_vwap takes true or false, and null matches neither (§4)", () =>
    Effect.gen(function* () {
      yield* insertRows(
        "gap_stats",
        session({ ticker: "GV1", closed_over_vwap: true }),
        session({ ticker: "GV2", closed_over_vwap: false }),
        session({ ticker: "GV3" }),
      )
      yield* FilterAssertions.assertBooleanFilter(makeTickerQueries("GV1", "GV2", "GV3"), "closed_over_vwap", {
        yes: ["GV1"],
        no: ["GV2"],
      })
    }))

  it.effect("filters are combined with AND, and unknown parameters are refused (§4)", () =>
    Effect.gen(function* () {
      const good = { closed_over_vwap: true, all_tags: ["x"], filing_types: ["8-K"], market_cap: "5" }
      yield* insertRows(
        "gap_stats",
        session({ ...good, ticker: "GM1" }),
        session({ ...good, ticker: "GM2", closed_over_vwap: false }),
        session({ ...good, ticker: "GM3", all_tags: ["y"] }),
        session({ ...good, ticker: "GM4", filing_types: [] }),
        session({ ...good, ticker: "GM5", market_cap: "4.99" }),
        session({ ...good, ticker: "GM6", volume: "1001" }),
        session({ ...good, ticker: "GM7", date: "2025-07-02" }),
      )
      assert.deepStrictEqual(
        yield* tickersOf(
          "ticker=GM1,GM2,GM3,GM4,GM5,GM6,GM7&date=2025-07-01&closed_over_vwap=true&tag=x&filing_type=8-K" +
            "&min_market_cap=5&max_volume=1000",
        ),
        ["GM1"],
      )
      const names = ["min_tradable_float", "gap_filled", "all_tags", "max_rth_volume", "sort"]
      yield* FilterAssertions.assertUnknownParametersRefused(requestInvalid, names)
    }))

  it.effect("a file with the columns of both endpoints is loaded, and wrong rows are refused (D31)", () =>
    Effect.gen(function* () {
      const cells = session({ ticker: "GLOAD", all_tags: `"[""a,b"",""c""]"`, filing_types: "" })
      const file = (...changes: ReadonlyArray<Readonly<Record<string, unknown>>>) =>
        [Object.keys(cells), ...changes.map((change) => Object.values({ ...cells, ...change }))].join("\n")
      const { rows, table } = yield* loaded(file({}, { date: "2025-07-02", last_updated: "2025-07-02T09:30:00-04:00" }))
      assert.deepStrictEqual([table, rows], ["gap_stats", 2])
      const [, [later, earlier]] = yield* requestRows("ticker=GLOAD")
      assert.deepStrictEqual(valueAt(earlier, "all_tags"), ["a,b", "c"])
      assert.deepStrictEqual(valueAt(earlier, "filing_types"), [])
      assert.strictEqual(valueAt(earlier, "open_to_low_pct"), -12.3506)
      assert.strictEqual(valueAt(later, "last_updated"), "2025-07-02T08:30:00-05:00")
      const bad = yield* Effect.flip(loaded(file(
        { date: "2025-08-01", last_updated: "2025-08-01 09:30:00" },
        { date: "2025-08-02", ticker: "GL OAD" },
        { date: "2025-08-03", all_tags: `"["" ""]"` },
        { date: "2025-08-04", volume: "1.5" },
        { date: "2025-08-05", gap_filled: "yes" },
        { date: "2025-08-06", market_open: "1.23456" },
      )))
      const problems = ["2: last_updated", "3: ticker", "4: all_tags", "5: volume", "6: gap_filled", "7: market_open"]
      for (const text of problems) assert.include(bad.message, `line ${text} must`)
      assert.strictEqual((yield* keysOf("ticker=GLOAD")).length, 2)
    }))
})

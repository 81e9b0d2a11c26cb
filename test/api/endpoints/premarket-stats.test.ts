/** Tests GET /v1/premarket-stats and /v1/afterhours-stats over HTTP (resources). Every test runs for both endpoints. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as FilterAssertions from "../../support/FilterAssertions.ts"
import * as ListClients from "../../support/ListClients.ts"
import * as Service from "../../support/Service.ts"

const { valueAt, insertRows } = Service

/** Builds a session with only the required columns, plus the given fields. */
const session = (fields: Readonly<Record<string, unknown>>) => ({
  ticker: "ZYXA",
  date: "2025-07-01",
  reference_close: "1",
  high_price: "1.8",
  low_price: "1.1",
  percentage_gain: "80",
  change_percentage: "20",
  volume: "1000",
  dollar_volume: "1300.5",
  last_updated: "2025-07-01 20:05:00",
  ...fields,
})

const segments = [["premarket-stats", "premarket_stats"], ["afterhours-stats", "afterhours_stats"]] as const

segments.forEach(([segment, table]) =>
  layer(Service.layer, { excludeTestServices: true })(`GET /v1/${segment}`, (it) => {
    const path = `/v1/${segment}`
    const { requestRows, requestText, requestInvalid, readAllPages } = ListClients.makeListClient(path)

    const keysOf = (query: string) =>
      Effect.map(requestRows(query), (rows) => rows.map(ListClients.formatTickerAndDate))

    const tickersOf = (query: string) => Effect.map(keysOf(query), (keys) => keys.map((key) => key.split(" ")[0]))

    const loaded = (csv: string) => ListClients.loadCsv(segment, csv, "append")

    it.effect("returns every field exactly as stored, with the right type (§2.1, D15, D16)", () =>
      Effect.gen(function* () {
        yield* insertRows(table, {
          ticker: "PFULL",
          date: "2025-07-02",
          reference_close: "9999998.5678",
          open_price: "0.0001",
          close_price: "0.3000",
          high_price: "100",
          low_price: "1.10",
          high_time: "2025-07-02 09:30:00",
          low_time: "2025-01-02 09:30:00",
          percentage_gain: "1000000",
          change_percentage: "-3.1",
          vwap: "0.29",
          volume: "9007199254740991",
          dollar_volume: "123456789012345678.91",
          volume_ratio: "9.0001",
          trade_count: "0",
          spike_start_time: "2025-07-02 09:30:00.25",
          spike_start_price: "1.3333",
          spike_duration_minutes: "7",
          est_halt_minutes: "15",
          market_cap: "999999999999999999.99",
          tradable_float: "9007199254740990",
          filing_types: ["8-K", "S-3"],
          all_tags: ['a "quoted" tag', "ünï,code"],
          last_updated: "2025-07-02 20:05:00.007",
        })
        assert.strictEqual(
          yield* requestText("ticker=PFULL"),
          `{"count":1,"results":[{"ticker":"PFULL","date":"2025-07-02","reference_close":9999998.5678,` +
            `"open_price":0.0001,"close_price":0.3,"high_price":100,"low_price":1.1,` +
            `"high_time":"2025-07-02T08:30:00-05:00","low_time":"2025-01-02T09:30:00-05:00",` +
            `"percentage_gain":1000000,"change_percentage":-3.1,"vwap":0.29,"volume":9007199254740991,` +
            `"dollar_volume":123456789012345678.91,"volume_ratio":9.0001,"trade_count":0,` +
            `"spike_start_time":"2025-07-02T08:30:00.250-05:00","spike_start_price":1.3333,` +
            `"spike_duration_minutes":7,"est_halt_minutes":15,"market_cap":999999999999999999.99,` +
            `"tradable_float":9007199254740990,"filing_types":["8-K","S-3"],` +
            `"all_tags":["a \\"quoted\\" tag","ünï,code"],"last_updated":"2025-07-02T20:05:00.007-05:00"}],` +
            `"page":1,"limit":10,"has_more":false}`,
        )
      }))

    it.effect("missing values are null, and an empty list is [] (D16)", () =>
      Effect.gen(function* () {
        yield* insertRows(table, session({ ticker: "PNULL" }))
        const [row] = yield* requestRows("ticker=PNULL")
        assert.deepStrictEqual(ListClients.getNullAndListFields(row), [
          ["open_price", null],
          ["close_price", null],
          ["high_time", null],
          ["low_time", null],
          ["vwap", null],
          ["volume_ratio", null],
          ["trade_count", null],
          ["spike_start_time", null],
          ["spike_start_price", null],
          ["spike_duration_minutes", null],
          ["est_halt_minutes", null],
          ["market_cap", null],
          ["tradable_float", null],
          ["filing_types", []],
          ["all_tags", []],
        ])
      }))

    it.effect("session times are an hour earlier in summer; last_updated is unchanged all year (§2.1.4, D15)", () =>
      Effect.gen(function* () {
        for (const [stored, printed] of ListClients.newYorkTimestampSamples) {
          const date = stored.slice(0, 10)
          const times = { high_time: stored, low_time: stored, spike_start_time: stored, last_updated: stored }
          yield* insertRows(table, session({ ticker: "PCLOCK", date, ...times }))
          const [row] = yield* requestRows(`ticker=PCLOCK&date=${date}`)
          for (const name of ["high_time", "low_time", "spike_start_time"]) {
            assert.strictEqual(valueAt(row, name), printed)
          }
          assert.strictEqual(valueAt(row, "last_updated"), `${stored.replace(" ", "T")}-05:00`)
        }
      }))

    it.effect("rows are ordered by date descending, then by ticker, and following the pages shows each once (D8)", () =>
      Effect.gen(function* () {
        const days = ["2024-05-06", "2024-05-08", "2024-05-07"]
        const rows = Array.from(
          { length: 24 },
          (_, number) => session({ ticker: `PW${String((number * 7) % 24).padStart(2, "0")}`, date: days[number % 3] }),
        )
        yield* insertRows(table, ...rows)
        const expected = days.toSorted().toReversed().flatMap((date) =>
          rows.filter((row) => row.date === date).map((row) => `${row.ticker} ${date}`).toSorted()
        )
        for (const limit of [1, 7, 24, 100]) {
          const seen = yield* readAllPages("date_from=2024-05-06&date_to=2024-05-08", limit)
          assert.deepStrictEqual(seen.map(ListClients.formatTickerAndDate), expected)
        }
      }))

    it.effect("all tiers can read it; the parameter `ticker` is optional, and a list without a valid symbol is refused (D3, D5)", () =>
      Effect.gen(function* () {
        yield* insertRows(
          table,
          session({ ticker: "PTA", date: "2025-06-02" }),
          session({ ticker: "PTA", date: "2025-06-03" }),
          session({ ticker: "PTB", date: "2025-06-02" }),
        )
        yield* ListClients.requestOnAllTiers(path)
        assert.deepStrictEqual(yield* keysOf("ticker=ptb,@@,P%20TA"), [
          "PTA 2025-06-03",
          "PTA 2025-06-02",
          "PTB 2025-06-02",
        ])
        yield* FilterAssertions.assertInvalidSymbolsRefused(requestInvalid)
      }))

    it.effect("`date` matches one day, date_from and date_to are inclusive, and none may be in the future (D7)", () =>
      Effect.gen(function* () {
        yield* insertRows(table, ...FilterAssertions.sampleDays.map((date) => session({ ticker: "PDATE", date })))
        const find = (query: string) =>
          Effect.map(keysOf(`ticker=PDATE&${query}`), (keys) => keys.map((key) => key.slice(-10)))
        yield* FilterAssertions.assertDateFilters({ find, requestInvalid })
      }))

    it.effect.each(
      [
        ["percentage_gain", "-12.5", "0.3", "99999999999999.9999"],
        ["change_percentage", "-0.0001", "0", "0.0001"],
        ["volume", "1", "9007199254740990", "9007199254740991"],
        ["dollar_volume", "0.01", "123456789012345678.9", "123456789012345678.91"],
        ["market_cap", "0.29", "0.3", "999999999999999999.99"],
        ["tradable_float", "0", "1", "2"],
      ] as const,
    )(
      "the bounds of %s are inclusive and compare exact decimals, and null never matches (D9)",
      ([name, ...values]) =>
        Effect.gen(function* () {
          const tickers = values.map((_, number) => `PB${name.slice(0, 2).toUpperCase()}${number}`)
          yield* insertRows(
            table,
            ...values.map((value, number) => session({ ticker: tickers[number], [name]: value })),
            ...(name === "market_cap" || name === "tradable_float" ? [session({ ticker: `PBN${name.length}` })] : []),
          )
          const find = (query: string) => tickersOf(`ticker=${tickers.join(",")},PBN${name.length}&${query}`)
          yield* FilterAssertions.assertRangeFilter({ find, requestInvalid }, name, { values, keys: tickers })
        }),
    )

    it.effect("the parameter `tag` matches one of several complete tags, ignoring case (§4, D33)", () =>
      Effect.gen(function* () {
        yield* insertRows(
          table,
          session({ ticker: "PTAG1", all_tags: ["offering", "a,b"], filing_types: ["8-K"] }),
          session({ ticker: "PTAG2", all_tags: ["offering price"] }),
          session({ ticker: "PTAG3" }),
        )
        const find = (word: string) => tickersOf(`ticker=PTAG1,PTAG2,PTAG3&tag=${encodeURIComponent(word)}`)
        assert.deepStrictEqual(yield* find("offering"), ["PTAG1"])
        assert.deepStrictEqual(yield* find(`"a,b"`), ["PTAG1"])
        assert.deepStrictEqual(yield* find("offering price,a,OFFERING"), ["PTAG1", "PTAG2"])
        assert.deepStrictEqual(yield* find("Offering"), ["PTAG1"])
        for (const none of ["offer", "8-K", "%", "{}", `""""`]) assert.deepStrictEqual(yield* find(none), [])
        assert.strictEqual((yield* requestInvalid("tag=")).field, "tag")
      }))

    it.effect("filters are combined with AND, and unknown parameters are refused (§4)", () =>
      Effect.gen(function* () {
        const good = { all_tags: ["x"], market_cap: "5", tradable_float: "7" }
        yield* insertRows(
          table,
          session({ ...good, ticker: "PM1" }),
          session({ ...good, ticker: "PM2", all_tags: ["y"] }),
          session({ ...good, ticker: "PM3", market_cap: "4.99" }),
          session({ ...good, ticker: "PM4", tradable_float: "8" }),
          session({ ...good, ticker: "PM5", date: "2025-07-02" }),
          session({ ...good, ticker: "PM6", change_percentage: "19" }),
        )
        assert.deepStrictEqual(
          yield* tickersOf(
            "ticker=PM1,PM2,PM3,PM4,PM5,PM6&date=2025-07-01&tag=x&min_market_cap=5&max_tradable_float=7" +
              "&min_change_percentage=20",
          ),
          ["PM1"],
        )
        yield* FilterAssertions.assertUnknownParametersRefused(requestInvalid, [
          "filing_type",
          "min_volume_ratio",
          "min_vwap",
          "all_tags",
          "sort",
        ])
      }))

    it.effect("a file is loaded; wrong rows are refused (D31)", () =>
      Effect.gen(function* () {
        const cells = session({ ticker: "PLOAD", all_tags: `"[""a,b"",""c""]"`, trade_count: "" })
        const file = (...changes: ReadonlyArray<Readonly<Record<string, unknown>>>) =>
          [Object.keys(cells), ...changes.map((change) => Object.values({ ...cells, ...change }))].join("\n")
        const done = yield* loaded(file({}, { date: "2025-07-02" }))
        assert.deepStrictEqual([done.table, done.rows], [table, 2])
        const [, stored] = yield* requestRows("ticker=PLOAD")
        assert.deepStrictEqual(valueAt(stored, "all_tags"), ["a,b", "c"])
        assert.deepStrictEqual(valueAt(stored, "filing_types"), [])
        assert.strictEqual(valueAt(stored, "trade_count"), null)
        assert.strictEqual(valueAt(stored, "last_updated"), "2025-07-01T20:05:00-05:00")
        const bad = yield* Effect.flip(loaded(file(
          { date: "2025-08-01", last_updated: "2025-08-01T09:30:00Z" },
          { date: "2025-08-02", ticker: "PL OAD" },
          { date: "2025-08-03", all_tags: `"["" ""]"` },
          { date: "2025-08-04", volume: "9007199254740992" },
          { date: "2025-08-05", dollar_volume: "1.234" },
        )))
        const problems = ["2: last_updated", "3: ticker", "4: all_tags", "5: volume", "6: dollar_volume"]
        for (const text of problems) assert.include(bad.message, `line ${text} must`)
        assert.strictEqual((yield* keysOf("ticker=PLOAD")).length, 2)
      }))
  })
)

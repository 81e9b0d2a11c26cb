/**
 * Tests that `ingest prices` takes into account rows that other programs store or revert after the prices were ingested
 * (D44, D45).
 */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { ingestPriceFile } from "../../../src/ingest/prices/PriceIngest.ts"
import { makeRandomChooser } from "../../support/RandomChoices.ts"
import * as Service from "../../support/Service.ts"
import * as DayBars from "./DayBars.ts"

// @module-tag slow

const { insertRows } = Service
const { ingestBars, listDays, storeChange, storeListing, storeSplit } = DayBars

const storeClose = (ticker: string, date: string, close: number) =>
  insertRows("daily_prices", { ticker, date, close: String(close) })

const listing = { outstanding: "1000", last_updated: "2026-03-01 10:00:00" }

const storeCount = (ticker: string) =>
  insertRows("float_outstanding", {
    ticker,
    outstanding: "1000",
    is_adr: false,
    reported_date: "2026-05-01",
    last_updated: "2026-05-01 10:00:00",
  })

/** Reads everything that depends on closes and share counts, formatted as text. */
const readResults = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly result: string }>`
    select concat_ws(' ', 'gap', ticker, date, previous_day_close, gap_percentage) as result from gap_stats
    union all select concat_ws(' ', 'premarket', ticker, date, reference_close) from premarket_stats
    union all select concat_ws(' ', 'runner', ticker, date, previous_day_close) from intraday_runners
    union all
    select concat_ws(' ', 'screener', ticker, 'price', price, 'cap', market_cap, 'gains', gain_1_day, gain_7_day,
      gain_30_day, 'gaps', num_gaps, avg_gap)
    from screener
    union all select concat_ws(' ', 'float', ticker, market_cap) from float_outstanding
    order by 1
  `
  return rows.map(({ result }) => result)
})

const isFound = (results: ReadonlyArray<string>, start: string) => results.some((result) => result.startsWith(start))

const TestLayer = Layer.merge(Service.migratedDatabaseLayer, NodeServices.layer)

layer(TestLayer, { excludeTestServices: true, timeout: "120 seconds" })("ingest prices", (it) => {
  it.effect.each([1, 2, 3, 4, 5, 6])(
    "gives the same values whether closes and rows come before or after the bars: seed %d (D44, D45)",
    (seed) =>
      Effect.gen(function* () {
        const choose = makeRandomChooser(seed)
        const days = listDays("2026-04-01", 50)
        const withBars = ["OLD", "NEW", "AAA"]
        // The symbol ONLY has closes in `daily_prices` but no bars.
        const bars = withBars.flatMap((ticker) =>
          days.filter((day) => (ticker === "OLD" ? day < "2026-05-15" : ticker !== "NEW" || day >= "2026-05-15"))
            .filter(() => choose([true, true, false, false, false]))
            .map((day): DayBars.DayBar => [ticker, day, choose([5, 8, 10, 20])])
        )
        const traded = new Set(bars.map(([ticker, day]) => `${ticker} ${day}`))
        const closes = [...withBars, "ONLY"].flatMap((ticker) =>
          days.filter((day) => !traded.has(`${ticker} ${day}`) && choose([true, false, false]))
            .map((day) => [ticker, day, choose([4, 9, 16])] as const)
        )
        const storeRows = Effect.gen(function* () {
          for (const ticker of ["NEW", "AAA", "ONLY"]) {
            yield* storeListing(ticker, listing)
            yield* storeCount(ticker)
          }
        })
        const storeCloses = Effect.forEach(closes, ([ticker, day, close]) => storeClose(ticker, day, close))
        const orders = [
          [storeRows, storeCloses, ingestBars(...bars)],
          [storeRows, ingestBars(...bars), storeCloses],
          [storeCloses, ingestBars(...bars), storeRows],
          [ingestBars(...bars), storeCloses, storeRows],
        ]
        const found: Array<ReadonlyArray<string>> = []
        for (const order of orders) {
          yield* DayBars.emptyTables
          yield* storeChange("OLD", "NEW", "2026-05-15")
          for (const step of order) yield* step
          yield* DayBars.ingestCorrections
          found.push(yield* readResults)
        }
        assert.isTrue(isFound(found[0] ?? [], "gap"))
        for (const results of found) assert.deepStrictEqual(results, found[0])
      }),
  )

  it.effect.each([1, 2, 3, 4, 5, 6, 7, 8])(
    "gives securities without bars the same caps in any order of closes, counts, splits and changes: seed %d (D44, D45)",
    (seed) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const choose = makeRandomChooser(seed)
        yield* DayBars.emptyTables
        // Without any bars, all symbols would be computed again.
        yield* ingestBars(["BARS", "2026-06-01", 5])
        const steps = [
          Effect.forEach(
            ["ONLY", "NOW"],
            (ticker) => Effect.andThen(storeListing(ticker, listing), storeCount(ticker)),
          ),
          Effect.forEach(["ONLY", "WAS"], (ticker) => storeClose(ticker, "2026-06-02", 6)),
          storeSplit("ONLY", "2026-05-20", 10, 1),
          storeChange("WAS", "NOW", "2026-06-10"),
        ]
        for (const step of steps.toSorted(() => choose([-1, 1]))) {
          yield* step
          yield* DayBars.ingestCorrections
        }
        const caps = ["float NOW 6000.00", "float ONLY 600.00"]
        assert.deepStrictEqual((yield* readResults).filter((result) => result.startsWith("float")), caps)
        // The screener's price is that of the newest bar.
        const listed = yield* sql`select ticker, price, market_cap::int from screener order by ticker`.values
        assert.deepStrictEqual(listed, [["NOW", null, 6000], ["ONLY", null, 600]])
        // The cap may be based on the closes of a company to which the symbol does not belong.
        yield* sql`delete from ticker_changes where new_ticker = 'NOW'`
        yield* DayBars.ingestCorrections
        assert.isTrue(isFound(yield* readResults, "float NOW"))
        assert.isFalse(isFound(yield* readResults, "float NOW 6000"))
      }),
  )

  it.effect("leaves a loaded cap without a count when a split of the symbol is loaded (D38, D44)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* DayBars.emptyTables
      yield* ingestBars(["BARS", "2026-06-01", 5])
      yield* storeListing("ONLY", { market_cap: "5000000", last_updated: "2026-03-01 10:00:00" })
      yield* storeClose("ONLY", "2026-06-02", 6)
      yield* DayBars.ingestCorrections
      yield* storeSplit("ONLY", "2019-06-25", 10, 1)
      yield* DayBars.ingestCorrections
      assert.deepStrictEqual(yield* sql`select market_cap::int from screener`.values, [[5_000_000]])
    }))

  it.effect("uses a close no more that was corrected or removed (D45)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* DayBars.emptyTables
      yield* storeClose("AAA", "2026-06-02", 5)
      yield* ingestBars(["AAA", "2026-06-03", 10])
      assert.isTrue(isFound(yield* readResults, "gap AAA 2026-06-03 5.0000"))
      yield* sql`update daily_prices set close = 8 where date = '2026-06-02'`
      assert.strictEqual((yield* DayBars.ingestCorrections).corrected, 1)
      assert.isTrue(isFound(yield* readResults, "gap AAA 2026-06-03 8.0000"))
      yield* sql`delete from daily_prices where date = '2026-06-02'`
      yield* DayBars.ingestCorrections
      assert.isFalse(isFound(yield* readResults, "gap"))
      assert.strictEqual((yield* DayBars.ingestCorrections).corrected, 0)
    }))

  it.effect("keeps a close that was corrected on a day with bars until the day is ingested again (D45)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* DayBars.emptyTables
      yield* ingestBars(["AAA", "2026-06-01", 40], ["AAA", "2026-06-02", 41], ["AAA", "2026-06-03", 42])
      yield* sql`update daily_prices set close = 20 where date = '2026-06-02'`
      for (const ingest of [DayBars.ingestCorrections, ingestBars(["ZED", "2026-06-04", 5])]) {
        yield* ingest
        assert.isTrue(isFound(yield* readResults, "gap AAA 2026-06-03 20.0000"))
        assert.lengthOf(yield* sql`select from daily_prices where close = 20`, 1)
      }
      yield* ingestBars(["AAA", "2026-06-02", 41])
      assert.isFalse(isFound(yield* readResults, "gap AAA 2026-06-03"))
    }))

  it.effect("gives the screener's price, market cap and gains from the same corrected or newer close (D44, D45)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* DayBars.emptyTables
      yield* storeListing("AAA", listing)
      yield* storeCount("AAA")
      const readRow = sql`select price::int, market_cap::int, today_volume::int, gain_1_day::int from screener`.values
      yield* ingestBars(["AAA", "2026-06-01", 5], ["AAA", "2026-06-02", 7])
      assert.deepStrictEqual(yield* readRow, [[7, 7000, 100, 40]])
      yield* sql`update daily_prices set close = 15 where date = '2026-06-02'`
      yield* DayBars.ingestCorrections
      assert.deepStrictEqual(yield* readRow, [[15, 15_000, 100, 200]])
      assert.isTrue(isFound(yield* readResults, "float AAA 15000.00"))
      // No volume is known for a day that only has a close.
      yield* storeClose("AAA", "2026-06-03", 30)
      yield* DayBars.ingestCorrections
      assert.deepStrictEqual(yield* readRow, [[30, 30_000, null, 100]])
      yield* ingestBars(["AAA", "2026-06-02", 7])
      assert.deepStrictEqual(yield* readRow, [[30, 30_000, null, 329]])
      yield* ingestBars(["AAA", "2026-06-03", 14])
      assert.deepStrictEqual(yield* readRow, [[14, 14_000, 100, 100]])
    }))

  it.effect("fills the screener's rows that were stored before bars were ingested for other datasets (D44)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* DayBars.emptyTables
      // No other test has this symbol. Otherwise, the truncation of the tables would be noted as a change to it.
      yield* storeListing("NEVER", listing)
      const file = yield* DayBars.writeBars(["NEVER", "2026-06-01", 5], ["NEVER", "2026-06-02", 7])
      yield* ingestPriceFile(file, { allowEmpty: false, check: false, datasets: ["daily_prices"] })
      yield* DayBars.ingestCorrections
      const rows = yield* sql`select price::int, market_cap::int, gain_1_day::int from screener`.values
      assert.deepStrictEqual(rows, [[7, 7000, 40]])
      assert.deepStrictEqual(yield* sql`select from price_corrections`, [])
    }))

  it.effect("no longer applies a split if closes show later that another company had its symbol (D45)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* DayBars.emptyTables
      yield* storeChange("OLD", "NEW", "2026-06-05")
      yield* storeSplit("NEW", "2026-06-03", 10, 1)
      yield* ingestBars(["OLD", "2026-06-02", 1], ["OLD", "2026-06-03", 10], ["NEW", "2026-06-05", 10])
      assert.isFalse(isFound(yield* readResults, "gap"))
      yield* storeClose("NEW", "2026-06-02", 3)
      yield* DayBars.ingestCorrections
      assert.isTrue(isFound(yield* readResults, "gap OLD 2026-06-03 1.0000 900.0000"))
      yield* sql`delete from daily_prices where close = 3`
      yield* DayBars.ingestCorrections
      assert.isFalse(isFound(yield* readResults, "gap"))
    }))

  const storeFloat = (more: Readonly<Record<string, unknown>>) =>
    insertRows("float_outstanding", {
      ticker: "AAA",
      outstanding: "1000",
      is_adr: false,
      last_updated: "2026-05-01 10:00:00",
      ...more,
    })
  const storeSplitAndFloat = Effect.andThen(storeSplit("AAA", "2026-05-20", 10, 1), storeFloat({}))
  const lateFacts: ReadonlyArray<
    readonly [string, Effect.Effect<unknown, unknown, SqlClient.SqlClient>, statement: string, cap: string | null]
  > = [
    ["the row turns out to be of receipts", storeFloat({ ads_ratio: "8" }), "is_adr = true", "1250"],
    ["the number of shares per receipt changes", storeFloat({ is_adr: true, ads_ratio: "8" }), "ads_ratio = 4", "2500"],
    ["that number becomes unknown", storeFloat({ is_adr: true, ads_ratio: "8" }), "ads_ratio = null", null],
    ["the date of the count moves before a split", storeSplitAndFloat, "reported_date = '2026-05-10'", "1000"],
    ["the count is withdrawn", storeFloat({}), "outstanding = null", null],
    ["the market cap is overwritten", storeFloat({}), "market_cap = null", "10000"],
  ]
  it.effect.each(lateFacts)(
    "computes a market cap again if %s (D44)",
    ([, store, assignment, cap]) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const readCap = sql`select market_cap from float_outstanding`.pipe(
          Effect.map(([row]) => row === undefined || row["market_cap"] === null ? null : String(row["market_cap"])),
        )
        yield* DayBars.emptyTables
        yield* store
        yield* ingestBars(["AAA", "2026-06-01", 10])
        assert.notStrictEqual(yield* readCap, cap)
        yield* sql.unsafe(`update float_outstanding set ${assignment}`)
        yield* DayBars.ingestCorrections
        assert.strictEqual((yield* readCap)?.replace(/\.0+$/, "") ?? null, cap)
      }),
  )

  it.effect("computes a market cap again if a filing dates its count (D44)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* DayBars.emptyTables
      yield* storeSplitAndFloat
      yield* ingestBars(["AAA", "2026-06-01", 10])
      assert.lengthOf(yield* sql`select from float_outstanding where market_cap = 1000`, 1)
      yield* insertRows("historical_float_pro", {
        ticker: "AAA",
        outstanding_shares: "1000",
        reported_date: "2026-05-25",
        filed_at: "2026-05-26",
        is_adr: false,
        last_updated: "2026-05-26 00:00:00",
      })
      yield* DayBars.ingestCorrections
      assert.lengthOf(yield* sql`select from float_outstanding where market_cap = 10000`, 1)
      yield* sql`delete from historical_float_pro`
      yield* DayBars.ingestCorrections
      assert.lengthOf(yield* sql`select from float_outstanding where market_cap = 1000`, 1)
    }))

  it.effect("leaves no value of another company when a change is taken back (D32, D45)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* DayBars.emptyTables
      yield* storeChange("OLD", "NEW", "2026-06-20")
      const days = listDays("2026-06-01", 14)
      yield* storeListing("NEW", { outstanding: "1000" })
      yield* storeListing("RUN", { outstanding: "1000" })
      yield* storeCount("NEW")
      yield* storeListing("OTHER", { price: "3", market_cap: "3000" })
      yield* storeChange("XCH", "RUN", "2026-06-18")
      yield* storeChange("UNKNOWN", "OTHER", "2026-06-18")
      for (const day of days) yield* ingestBars(["OLD", day, 7], [day < "2026-06-18" ? "XCH" : "RUN", day, 7])
      yield* ingestBars(["RUN", "2026-06-19", 7], ["RUN", "2026-06-22", 7, 1e6])
      const before = yield* readResults
      assert.isTrue(isFound(before, "runner RUN 2026-06-22"))
      assert.isTrue(isFound(before, "screener NEW price 7.0000 cap 7000.00"))
      assert.isTrue(isFound(before, "float NEW 7000.00"))
      yield* sql`update ticker_changes set status = 'reverted'`
      yield* DayBars.ingestCorrections
      const results = yield* readResults
      assert.isFalse(isFound(results, "runner"))
      assert.isTrue(isFound(results, "screener NEW price cap gains"))
      assert.include(results, "float NEW")
      // None of OTHER's symbols has bars, so its price comes from another source and is kept.
      assert.isTrue(isFound(results, "screener OTHER price 3.0000 cap 3000.00"))
    }))

  it.effect("clears the cap of a symbol that its company turns out to have given up, in both datasets (D44)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeListing("OLD", { outstanding: "1000" })
      yield* storeCount("OLD")
      yield* ingestBars(["OLD", "2026-06-01", 20])
      assert.isTrue(isFound(yield* readResults, "float OLD 20000.00"))
      yield* storeChange("OLD", "NEW", "2026-07-01")
      yield* DayBars.ingestCorrections
      const results = yield* readResults
      assert.include(results, "float OLD")
      assert.isTrue(isFound(results, "screener OLD price cap gains"))
    }))

  it.effect("keeps no gain or usual volume of an earlier session (resources: screener)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* DayBars.emptyTables
      // The closes do not go back a year, so the gain over a year may come from another source.
      yield* storeListing("AAA", { gain_365_day: "12" })
      for (const day of listDays("2026-06-01", 14)) yield* ingestBars(["AAA", day, 10])
      const readValues = sql`select gain_1_day, average_volume, gain_365_day from screener`.values
      assert.deepStrictEqual(yield* readValues, [["0.0000", 100n, "12.0000"]])
      yield* ingestBars(["AAA", "2026-10-12", 5])
      assert.deepStrictEqual(yield* readValues, [[null, null, "12.0000"]])
    }))

  it.effect.each(
    [
      ["two days, one with the right ratio", [["2026-06-02", 10], ["2026-06-03", 20]], 20, "2026-06-03", []],
      ["two days, both ratios wrong", [["2026-06-02", 10], ["2026-06-03", 20]], 100, "2026-06-03", null],
      ["two days, and no bar shows either", [["2026-06-02", 10], ["2026-06-03", 20]], 1, "2026-06-03", null],
      ["the day after", [["2026-06-04", 10]], 10, "2026-06-03", null],
      ["the wrong direction", [["2026-06-03", 0.1]], 10, "2026-06-03", null],
      ["the right day", [["2026-06-03", 10]], 12, "2026-06-03", ["gap AAA 2026-06-03 10.0000 20.0000"]],
    ] as const,
  )(
    "lets bars decide about a split that is recorded for %s (D45)",
    ([, records, factor, day, expected]) =>
      Effect.gen(function* () {
        yield* DayBars.emptyTables
        for (const [date, ratio] of records) {
          yield* ratio < 1 ? storeSplit("AAA", date, 1, 1 / ratio) : storeSplit("AAA", date, ratio, 1)
        }
        const bars = listDays("2026-05-28", 8).map((date): DayBars.DayBar => ["AAA", date, date < day ? 1 : factor])
        const results: Array<ReadonlyArray<string>> = []
        for (const order of [bars, bars.toReversed()]) {
          yield* DayBars.emptyPrices
          let reasons: ReadonlyArray<string> = []
          for (const bar of order) reasons = (yield* ingestBars(bar)).incompleteSymbols.map(({ reason }) => reason)
          results.push((yield* readResults).filter((result) => result.startsWith("gap")))
          if (expected === null) assert.include(reasons.join(), "whose ratio is unknown or contradicted")
          else assert.deepStrictEqual(reasons, [])
        }
        assert.deepStrictEqual(results, [expected ?? [], expected ?? []])
      }),
  )

  it.effect.each(
    [
      ["six weeks", "2026-07-20", 10],
      ["six weeks, with another ratio", "2026-07-20", 12],
      ["three weeks, with another ratio", "2026-07-01", 12],
    ] as const,
  )(
    "applies a split that was postponed by %s once bars show it (D44, D45)",
    ([, day, ratio]) =>
      Effect.gen(function* () {
        const bars = listDays("2026-06-01", 40).map((date): DayBars.DayBar => ["AAA", date, date < day ? 1 : ratio])
        const [before, since] = [bars.filter(([, date]) => date < day), bars.filter(([, date]) => date >= day)]
        const [shown, others] = [since.slice(0, 1), [...before, ...since.slice(1)]]
        const results: Array<ReadonlyArray<string>> = []
        for (const files of [[before, since], [since, before], [others, shown]]) {
          yield* DayBars.emptyTables
          yield* storeSplit("AAA", "2026-06-10", 10, 1)
          yield* storeSplit("AAA", day, ratio, 1)
          yield* storeListing("AAA", { outstanding: "1000", last_updated: "2026-06-01 10:00:00" })
          let reasons: ReadonlyArray<string> = []
          for (const file of files) {
            reasons = (yield* ingestBars(...file)).incompleteSymbols.map(({ reason }) => reason)
            if (file === before && files[0] === before) assert.include(reasons.join(), "a split on 2026-06-10")
          }
          assert.deepStrictEqual(reasons, [])
          results.push(yield* readResults)
        }
        const [found = []] = results
        assert.isFalse(isFound(found, "gap"))
        assert.isTrue(isFound(found, `screener AAA price ${ratio}.0000 cap 1000.00`), found.join())
        for (const other of results) assert.deepStrictEqual(other, found)
      }),
  )

  it.effect("does not take a split for postponed if bars show another one that is not recorded (D44, D45)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeSplit("AAA", "2026-06-10", 10, 1)
      yield* storeSplit("AAA", "2026-07-20", 10, 1)
      yield* storeListing("AAA", { outstanding: "1000", last_updated: "2026-06-01 10:00:00" })
      const price = (date: string) => (date < "2026-06-25" ? 1 : 10) * (date < "2026-07-20" ? 1 : 10)
      const { incompleteSymbols } = yield* ingestBars(
        ...listDays("2026-06-01", 40).map((date): DayBars.DayBar => ["AAA", date, price(date)]),
      )
      assert.include(incompleteSymbols.map(({ reason }) => reason).join(), "a split on 2026-06-10")
      assert.isTrue(isFound(yield* readResults, "screener AAA price 100.0000 cap gains"))
    }))

  it.effect("does not take a split for postponed if bars show one with another ratio months later (D44, D45)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeSplit("AAA", "2026-06-10", 2, 1)
      yield* storeSplit("AAA", "2026-09-10", 10, 1)
      yield* storeListing("AAA", { outstanding: "1000", last_updated: "2026-06-01 10:00:00" })
      // The price fell by half on the day of the first split, so that bars do not show it.
      const price = (date: string) => date < "2026-06-10" ? 2 : date < "2026-09-10" ? 2.1 : 21
      const { incompleteSymbols } = yield* ingestBars(
        ...listDays("2026-06-01", 90).map((date): DayBars.DayBar => ["AAA", date, price(date)]),
      )
      assert.include(incompleteSymbols.map(({ reason }) => reason).join(), "a split on 2026-06-10")
      assert.isTrue(isFound(yield* readResults, "screener AAA price 21.0000 cap gains"))
    }))

  it.effect("applies two equal splits within a month if bars show both (D45)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeSplit("AAA", "2026-06-03", 10, 1)
      yield* storeSplit("AAA", "2026-06-17", 10, 1)
      for (const day of listDays("2026-06-01", 14)) {
        yield* ingestBars(["AAA", day, day < "2026-06-03" ? 1 : day < "2026-06-17" ? 10 : 100])
      }
      assert.isFalse(isFound(yield* readResults, "gap"))
    }))
})

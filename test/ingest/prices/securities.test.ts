/** Tests `ingest prices` across symbol changes and splits, with an example for each rule (D44, D45). */
import { NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import { undoLoad } from "../../../src/ingest/load/UndoLoad.ts"
import * as Service from "../../support/Service.ts"
import * as DayBars from "./DayBars.ts"

// @module-tag slow

const { insertRows } = Service
const { ingestBars, listDays, storeChange, storeListing, storeSplit } = DayBars

/** Reads `gap_stats`, oldest row first. Each row is formatted as symbol, day, previous close and gap in percent. */
const readGaps = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<{ readonly gap: string }>`
    select concat_ws(' ', ticker, date, previous_day_close, gap_percentage) as gap from gap_stats order by date, ticker
  `.pipe(Effect.map((rows) => rows.map(({ gap }) => gap)))
})

/** Returns a symbol's market capitalization. Fails if `screener` and `float_outstanding` have different values. */
const readCap = Effect.fnUntraced(function* (ticker: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly market_cap: string | null }>`
    select distinct market_cap from (
      select ticker, market_cap from screener union all select ticker, market_cap from float_outstanding
    ) as listed where ticker = ${ticker}
  `
  return rows.length === 1 ? rows[0]?.market_cap : assert.fail(`${ticker} has ${rows.length} caps`)
})

/** Stores a row in `float_outstanding`. */
const storeCount = (ticker: string, more: Readonly<Record<string, unknown>>) =>
  insertRows("float_outstanding", { ticker, is_adr: false, last_updated: "2026-05-01 10:00:00", ...more })

/** Stores a row in `historical_float_pro` for a filing on the given day. */
const storeFiling = (ticker: string, filed_at: string, more: Readonly<Record<string, unknown>>) =>
  insertRows("historical_float_pro", { ticker, filed_at, is_adr: false, last_updated: `${filed_at} 00:00:00`, ...more })

/** Ingests bars with the `ingest prices` command. Returns its standard error output. */
const ingestByCommand = Effect.fnUntraced(function* (...bars: ReadonlyArray<DayBars.DayBar>) {
  const { err } = yield* runCommandInProcess(["ingest", "prices", yield* DayBars.writeBars(...bars)], {
    DATABASE_URL: yield* Service.databaseUrl,
  })
  return err
})

/** Reads a symbol's row in `screener`. */
const readListing = Effect.fnUntraced(function* (ticker: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql`select * from screener where ticker = ${ticker}`
  return row ?? assert.fail(`the screener has no ${ticker}`)
})

const TestLayer = Layer.merge(Service.migratedDatabaseLayer, NodeServices.layer)

layer(TestLayer, { excludeTestServices: true, timeout: "120 seconds" })("ingest prices", (it) => {
  it.effect("compares the first session under a new symbol with the close under the old one (D45)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeChange("OLD", "NEW", "2026-06-02")
      yield* ingestBars(["OLD", "2026-06-01", 10], ["NEW", "2026-06-02", 11])
      assert.deepStrictEqual(yield* readGaps, ["NEW 2026-06-02 10.0000 10.0000"])
    }))

  it.effect("compares nothing across a change that is estimated or ambiguous (D45)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeChange("OLD", "NEW", "2026-06-02", { status: "estimated" })
      yield* ingestBars(["OLD", "2026-06-01", 10], ["NEW", "2026-06-02", 11])
      yield* DayBars.emptyTables
      yield* storeChange("OLD", "NEW", "2026-06-02", { cik: "0000000001" })
      yield* storeChange("OTHER", "NEW", "2026-05-30", { cik: "0000000002" })
      yield* storeListing("NEW", { high_365: "99", gain_7_day: "5", average_volume: "7" })
      yield* ingestBars(["NEW", "2026-05-25", 50], ["NEW", "2026-06-01", 20], ["OLD", "2026-06-01", 10])
      yield* ingestBars(["NEW", "2026-06-02", 11], ["NEW", "2026-06-03", 11.5])
      assert.deepStrictEqual(yield* readGaps, ["NEW 2026-06-03 11.0000 4.5455"])
      const { average_volume, gain_1_day, gain_7_day, high_365 } = yield* readListing("NEW")
      assert.deepStrictEqual([average_volume, gain_1_day, gain_7_day, high_365], [null, "4.5455", null, null])
    }))

  it.effect("applies changes and splits that are loaded, corrected or removed after the bars (D45)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* DayBars.emptyTables
      yield* ingestBars(["TKR", "2026-06-01", 10], ["TKR", "2026-06-02", 20], ["SPL", "2026-06-01", 1])
      yield* ingestBars(["SPL", "2026-06-02", 10])
      const gaps = ["SPL 2026-06-02 1.0000 900.0000", "TKR 2026-06-02 10.0000 100.0000"]
      assert.deepStrictEqual(yield* readGaps, gaps)
      yield* storeChange("TKR", "GONE", "2026-06-02")
      yield* storeSplit("SPL", "2026-06-02", 10, 1)
      const { corrected } = yield* ingestBars(["OTHER", "2026-06-02", 5])
      assert.strictEqual(corrected, 2)
      assert.deepStrictEqual(yield* readGaps, [])
      yield* sql`update split_status set split_to = 2`
      assert.strictEqual((yield* DayBars.ingestCorrections).corrected, 1)
      assert.deepStrictEqual(yield* readGaps, ["SPL 2026-06-02 5.0000 100.0000"])
      yield* sql`truncate split_status`
      yield* sql`delete from ticker_changes`
      yield* DayBars.ingestCorrections
      assert.deepStrictEqual(yield* readGaps, gaps)
      assert.strictEqual((yield* DayBars.ingestCorrections).corrected, 0)
    }))

  it.effect("removes the gap across a change that is reverted or moved by weeks (D45)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const corrections: ReadonlyArray<readonly [string, Array<string>]> = [
        ["status = 'reverted'", []],
        // Within 30 days, the bars would show that the change is recorded for the wrong day.
        ["effective_date = '2026-07-15'", []],
      ]
      for (const [correction, gaps] of corrections) {
        yield* DayBars.emptyTables
        yield* storeChange("OLD", "NEW", "2026-06-02")
        const bars = [["OLD", "2026-06-01", 10], ["NEW", "2026-06-02", 12], ["NEW", "2026-06-03", 12]] as const
        yield* ingestBars(...bars)
        assert.deepStrictEqual(yield* readGaps, ["NEW 2026-06-02 10.0000 20.0000"])
        yield* sql.unsafe(`update ticker_changes set ${correction}`)
        yield* ingestBars(...bars)
        assert.deepStrictEqual(yield* readGaps, gaps, correction)
      }
    }))

  const misdated: ReadonlyArray<
    readonly [recorded: string, shown: string, days: ReadonlyArray<DayBars.DayBar>, gaps: ReadonlyArray<string>]
  > = [
    [
      "a session too late",
      "bars show OLD until 2026-06-08 and NEW from 2026-06-09",
      [["OLD", "2026-06-08", 10], ["NEW", "2026-06-09", 20], ["NEW", "2026-06-10", 20], ["NEW", "2026-06-11", 20]],
      ["NEW 2026-06-09 10.0000 100.0000"],
    ],
    [
      "a session too early",
      "bars show OLD until 2026-06-10 and NEW from 2026-06-11",
      [["OLD", "2026-06-08", 10], ["OLD", "2026-06-09", 20], ["OLD", "2026-06-10", 40], ["NEW", "2026-06-11", 40]],
      ["OLD 2026-06-09 10.0000 100.0000", "OLD 2026-06-10 20.0000 100.0000"],
    ],
  ]
  it.effect.each(misdated)(
    "follows the bars if a change is recorded %s, and says so (D45)",
    ([, shown, bars, gaps]) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const readNames = Effect.map(readGaps, (rows) => rows.filter((row) => !row.endsWith(" 0.0000")))
        for (const files of [[bars], bars.map((bar) => [bar]), bars.map((bar) => [bar]).toReversed()]) {
          yield* DayBars.emptyTables
          yield* storeChange("OLD", "NEW", "2026-06-10")
          const results = yield* Effect.forEach(files, (file) => ingestBars(...file))
          assert.include(results.at(-1)?.misdated.join("\n"), shown)
          assert.deepStrictEqual(yield* readNames, gaps)
        }
        // With the day corrected, nothing is in doubt and the gaps stay.
        yield* sql`update ticker_changes set effective_date = ${shown.slice(-10)}`
        assert.deepStrictEqual((yield* DayBars.ingestCorrections).misdated, [])
        assert.deepStrictEqual(yield* readNames, gaps)
      }),
  )

  it.effect.each(
    [
      ["late", "2026-06-22", "NEW", "2026-06-15"],
      ["late", "2026-07-09", "NEW", "2026-06-12"],
      ["early", "2026-05-29", "OLD", "2026-06-03"],
      ["early", "2026-05-12", "OLD", "2026-05-27"],
    ] as const,
  )(
    "follows the bars if a change is recorded weeks too %s, on %s, with a split of %s on %s, and says so (D44, D45)",
    ([, recorded, ticker, day]) =>
      Effect.gen(function* () {
        const days = listDays("2026-05-01", 60)
        const tickerOn = (date: string) => date < "2026-06-10" ? "OLD" : "NEW"
        const bars = days.map((date): DayBars.DayBar => [tickerOn(date), date, date < day ? 1 : 10])
        for (const files of [[bars], [bars.slice(30), bars.slice(0, 30)]]) {
          yield* DayBars.emptyTables
          yield* storeChange("OLD", "NEW", recorded)
          yield* storeSplit(ticker, day, 10, 1)
          yield* storeListing("NEW", { outstanding: "30000", last_updated: "2026-05-01 10:00:00" })
          const results = yield* Effect.forEach(files, (file) => ingestBars(...file))
          const messages = results.flatMap(({ misdated }) => misdated).join("\n")
          assert.include(messages, "bars show OLD until 2026-06-09 and NEW from 2026-06-10")
          assert.deepStrictEqual((yield* readGaps).filter((row) => !row.endsWith(" 0.0000")), [])
          assert.strictEqual(yield* readCap("NEW"), "30000.00")
        }
      }),
  )

  it.effect.each(
    [
      ["new symbol in the month before", "2026-07-03", ["NEW", "2026-05-20"]],
      ["old symbol in the month after", "2026-05-20", ["OLD", "2026-07-01"]],
    ] as const,
  )(
    "does not move a change by weeks if another company may have used the %s (D45)",
    ([, recorded, [ticker, day]]) =>
      Effect.gen(function* () {
        yield* DayBars.emptyTables
        yield* storeChange("OLD", "NEW", recorded)
        const bars = listDays("2026-06-05", 10).map((date) => [date < "2026-06-10" ? "OLD" : "NEW", date, 10] as const)
        assert.lengthOf((yield* ingestBars(...bars)).misdated, 1)
        assert.deepStrictEqual((yield* ingestBars(...bars, [ticker, day, 50])).misdated, [])
      }),
  )

  const splitsOfMisdated: ReadonlyArray<
    readonly [ticker: string, day: string, recorded: string, bars: ReadonlyArray<DayBars.DayBar>]
  > = [
    ["OLD", "2026-06-11", "2026-06-10", [["OLD", "2026-06-10", 1], ["OLD", "2026-06-11", 10], [
      "NEW",
      "2026-06-12",
      10,
    ]]],
    ["OLD", "2026-06-12", "2026-06-10", [["OLD", "2026-06-10", 1], ["OLD", "2026-06-11", 1], [
      "NEW",
      "2026-06-12",
      10,
    ]]],
    ["NEW", "2026-06-10", "2026-06-12", [["OLD", "2026-06-09", 1], ["NEW", "2026-06-10", 10], [
      "NEW",
      "2026-06-12",
      10,
    ]]],
  ]
  it.effect.each(splitsOfMisdated)(
    "applies a split that is listed under %s on %s if the change recorded for %s took place on another day (D45)",
    ([ticker, day, recorded, bars]) =>
      Effect.gen(function* () {
        yield* DayBars.emptyTables
        yield* storeChange("OLD", "NEW", recorded)
        yield* storeSplit(ticker, day, 10, 1)
        yield* storeListing("NEW", { outstanding: "1000" })
        yield* ingestBars(...bars)
        assert.deepStrictEqual((yield* readGaps).filter((row) => !row.endsWith(" 0.0000")), [])
      }),
  )

  it.effect("uses the close under the new symbol for the market cap if the change is recorded later (D44, D45)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeChange("OLD", "NEW", "2026-06-29")
      yield* storeListing("NEW", { outstanding: "1000", last_updated: "2026-05-01 10:00:00" })
      yield* ingestBars(["OLD", "2026-06-23", 10], ["NEW", "2026-06-24", 20], ["NEW", "2026-06-26", 20])
      const { market_cap, price } = yield* readListing("NEW")
      assert.deepStrictEqual([Number(price), Number(market_cap)], [20, 20_000])
    }))

  it.effect("moves each of two changes in a chain that are days apart (D45)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeChange("AAA", "BBB", "2026-06-10")
      yield* storeChange("BBB", "CCC", "2026-06-18")
      const { misdated } = yield* ingestBars(
        ["AAA", "2026-06-09", 10],
        ["AAA", "2026-06-10", 20],
        ["BBB", "2026-06-11", 20],
        ["BBB", "2026-06-17", 20],
        ["CCC", "2026-06-18", 20],
      )
      assert.lengthOf(misdated, 1)
      assert.deepStrictEqual(
        (yield* readGaps).filter((row) => !row.endsWith(" 0.0000")),
        ["AAA 2026-06-10 10.0000 100.0000"],
      )
    }))

  const disproved: ReadonlyArray<
    readonly [string, splits: ReadonlyArray<readonly [day: string, from: number, to: number]>, split: string]
  > = [
    ["is recorded the wrong way round on the next day", [["2026-06-10", 10, 1], ["2026-06-11", 1, 10]], "2026-06-10"],
    ["is recorded the wrong way round on the day before", [["2026-06-09", 1, 10], ["2026-06-10", 10, 1]], "2026-06-10"],
    ["did not take place", [["2026-06-10", 10, 1]], "never"],
    ["took place eight days later", [["2026-06-02", 10, 1]], "2026-06-10"],
    ["is recorded for a Saturday", [["2026-06-06", 10, 1]], "2026-06-09"],
  ]
  it.effect.each(disproved)(
    "gives no false gap and names the symbol if a split %s (D45)",
    ([, records, split]) =>
      Effect.gen(function* () {
        yield* DayBars.emptyTables
        for (const [day, from, to] of records) yield* storeSplit("AAA", day, from, to)
        const days = listDays("2026-05-25", 15)
        const { incompleteSymbols } = yield* ingestBars(
          ...days.map((day) => ["AAA", day, day < split ? 1 : 10] as const),
        )
        assert.deepStrictEqual((yield* readGaps).filter((row) => !row.endsWith(" 0.0000")), [])
        assert.include(incompleteSymbols.map(({ ticker }) => ticker), "AAA")
      }),
  )

  it.effect("gives no false gap if a split did not take place, and the security was halted for weeks (D45)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeSplit("AAA", "2026-06-03", 10, 1)
      const { incompleteSymbols } = yield* ingestBars(["AAA", "2026-06-02", 1], ["AAA", "2026-06-22", 1.1])
      assert.deepStrictEqual(yield* readGaps, [])
      assert.include(incompleteSymbols.map(({ ticker }) => ticker), "AAA")
    }))

  it.effect("applies a split that is recorded for a Saturday and for the Monday after it once (D45)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      for (const day of ["2026-06-06", "2026-06-08"]) yield* storeSplit("AAA", day, 10, 1)
      yield* ingestBars(["AAA", "2026-06-05", 1], ["AAA", "2026-06-08", 10])
      assert.deepStrictEqual(yield* readGaps, [])
    }))

  it.effect("applies a small stock dividend although ordinary moves may look like the opposite (D45)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeSplit("AAA", "2026-06-02", 20, 21)
      const { incompleteSymbols } = yield* ingestBars(["AAA", "2026-06-01", 21], ["AAA", "2026-06-02", 22])
      assert.deepStrictEqual(incompleteSymbols, [])
      assert.deepStrictEqual(yield* readGaps, ["AAA 2026-06-02 20.0000 10.0000"])
    }))

  it.effect("does not move a change if both symbols traded at the same time (D45)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeChange("OLD", "NEW", "2026-06-10")
      const { misdated } = yield* ingestBars(
        ...listDays("2026-06-01", 7).map((day) => ["NEW", day, 50] as const),
        ...listDays("2026-06-01", 7).map((day) => ["OLD", day, 10] as const),
        ...listDays("2026-06-10", 3).map((day) => ["NEW", day, 10] as const),
        ...listDays("2026-06-11", 2).map((day) => ["OLD", day, 30] as const),
      )
      assert.deepStrictEqual(misdated, [])
      assert.deepStrictEqual((yield* readGaps).filter((row) => !row.endsWith(" 0.0000")), [])
    }))

  it.effect("clears the screener's row for a symbol that its company has given up (D45)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeListing("OLD", { outstanding: "1000" })
      yield* ingestBars(["OLD", "2026-06-01", 10], ["OLD", "2026-06-02", 11], ["NEW", "2026-06-03", 12])
      yield* storeChange("OLD", "NEW", "2026-06-03")
      yield* DayBars.ingestCorrections
      const { gain_1_day, market_cap, price, today_volume } = yield* readListing("OLD")
      assert.deepStrictEqual([gain_1_day, market_cap, price, today_volume], [null, null, null, null])
    }))

  it.effect.each(
    [["ACHR.WS", "ACHR.WS"], ["ACHR-WS", "ACHR.WS"], ["ACHR.WS", "ACHR-WT"], ["ETSS.U", "ETSS.U"]] as const,
  )(
    "applies a split of %s to bars of %s, however warrants and units are spelled (D41)",
    ([stored, bars]) =>
      Effect.gen(function* () {
        yield* DayBars.emptyTables
        yield* storeSplit(stored, "2026-06-02", 10, 1)
        yield* ingestBars([bars, "2026-06-01", 1], [bars, "2026-06-02", 10])
        assert.deepStrictEqual(yield* readGaps, [])
      }),
  )

  it.effect("has no values across a split whose ratio is unknown (D44, D45)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeListing("AAA", { outstanding: "30000000" })
      yield* storeSplit("AAA", "2026-06-03", 1, 1, { split_from: null, split_to: null })
      yield* insertRows("float_outstanding", {
        ticker: "AAA",
        outstanding: "30000000",
        is_adr: false,
        reported_date: "2026-05-01",
        last_updated: "2026-05-02 10:00:00",
      })
      const { incompleteSymbols } = yield* ingestBars(["AAA", "2026-06-01", 1], ["AAA", "2026-06-02", 1], [
        "AAA",
        "2026-06-03",
        30,
      ])
      assert.deepStrictEqual(yield* readGaps, [])
      assert.isNull((yield* readListing("AAA"))["market_cap"])
      assert.deepStrictEqual(Array.from(new Set(incompleteSymbols.map(({ reason }) => reason))), [
        "a split on 2026-06-03 whose ratio is unknown or contradicted",
      ])
    }))

  it.effect("uses no closes from a file whose closes were undone (operations/ingest-prices)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* ingestBars(["UNE", "2026-06-01", 10])
      const moment = yield* Service.readDatabaseClock
      yield* ingestBars(["UNE", "2026-06-02", 100])
      yield* undoLoad({
        dataset: "daily_prices",
        to: moment,
        confirm: () => Effect.succeed(true),
        onCommit: Effect.void,
      })
      yield* undoLoad({ dataset: "gap_stats", to: moment, confirm: () => Effect.succeed(true), onCommit: Effect.void })
      yield* ingestBars(["UNE", "2026-06-03", 10])
      assert.deepStrictEqual(yield* readGaps, [])
    }))

  it.effect("uses no prices of the company that had the symbol before (D45)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeChange("TKR", "GONE", "2025-12-01")
      yield* storeListing("TKR", { low_365: "11.70", gain_180_day: "1483", gain_7_day: "3" })
      const [weekdaysBefore, weekdaysSince] = [174, 30]
      const before = listDays("2025-04-01", weekdaysBefore)
      const since = listDays("2025-12-01", weekdaysSince)
      yield* ingestBars(...before.map((day) => ["TKR", day, 0.9] as const))
      yield* ingestBars(...since.map((day, index) => ["TKR", day, 12 + index / 10] as const))
      const listed = yield* readListing("TKR")
      assert.deepStrictEqual(
        [listed["low_365"], listed["high_365"], listed["gain_180_day"], listed["gain_30_day"]],
        ["12.0000", "14.9000", null, "17.3228"],
      )
      assert.deepStrictEqual(yield* readGaps, [])
      // The company's bars have a hole now, so its high and low are unknown.
      yield* ingestBars(["TKR", "2026-03-31", 20], ["TKR", "2026-04-01", 20])
      const later = yield* readListing("TKR")
      assert.deepStrictEqual([later["low_365"], later["high_365"], later["gain_180_day"]], [null, null, null])
    }))

  it.effect.each([["NEW", "2026-06-01"], ["OLD", "2026-06-04"]] as const)(
    "applies a split that is listed under %s on %s to the symbol that the security had then (D45)",
    ([listedAs, day]) =>
      Effect.gen(function* () {
        yield* DayBars.emptyTables
        yield* storeChange("OLD", "NEW", "2026-06-03")
        yield* storeSplit(listedAs, day, 10, 1)
        const price = (date: string) => date < day ? 1 : 10
        for (const date of listDays("2026-05-28", 7)) {
          yield* ingestBars([date < "2026-06-03" ? "OLD" : "NEW", date, price(date)])
        }
        assert.deepStrictEqual(yield* readGaps, [])
      }),
  )

  it.effect("does not apply a split of the company that had the new symbol before (D45)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeChange("OLD", "NEW", "2026-06-03")
      yield* storeSplit("NEW", "2026-06-01", 10, 1)
      for (const date of listDays("2026-05-28", 5)) {
        yield* ingestBars(["OLD", date, 5], ...(date < "2026-06-02" ? [["NEW", date, 70] as const] : []))
      }
      assert.deepStrictEqual((yield* readGaps).filter((gap) => gap.startsWith("OLD")), [])
    }))

  it.effect("knows from stored closes alone that another company had the new symbol (D45)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeChange("OLD", "NEW", "2026-06-03")
      yield* storeSplit("NEW", "2026-06-01", 10, 1)
      yield* insertRows("daily_prices", { ticker: "NEW", date: "2026-05-29", close: "70" })
      for (const date of listDays("2026-05-28", 5)) yield* ingestBars(["OLD", date, 5])
      assert.deepStrictEqual(yield* readGaps, [])
    }))

  it.effect("does not apply a split that is listed for a symbol two weeks after it was given up (D45)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeChange("GUO", "GUN", "2026-06-02")
      yield* storeSplit("GUO", "2026-06-16", 10, 1)
      for (const date of listDays("2026-06-01", 14)) yield* ingestBars([date < "2026-06-02" ? "GUO" : "GUN", date, 5])
      assert.deepStrictEqual(yield* readGaps, [])
    }))

  it.effect.each([["GUO", "2026-06-04"], ["GUN", "2026-06-01"]] as const)(
    "no longer applies a split listed for %s on %s when bars show that another company had the symbol (D45)",
    ([listedAs, day]) =>
      Effect.gen(function* () {
        yield* DayBars.emptyTables
        yield* storeChange("GUO", "GUN", "2026-06-03")
        yield* storeSplit(listedAs, day, 10, 1)
        const days = listDays("2026-05-28", 8)
        // The price doubles on the day, which neither confirms nor disproves a split of 10:1.
        for (const date of days) yield* ingestBars([date < "2026-06-03" ? "GUO" : "GUN", date, date < day ? 5 : 11])
        const symbol = day < "2026-06-03" ? "GUO" : "GUN"
        assert.deepStrictEqual(yield* readGaps, [`${symbol} ${day} 50.0000 -78.0000`])
        const others = days.filter((date) => listedAs === "GUO" ? date >= "2026-06-04" : date < "2026-06-03")
        for (const date of others) yield* ingestBars([listedAs, date, date < day ? 7 : 70])
        assert.deepStrictEqual(yield* readGaps, [`${symbol} ${day} 5.0000 120.0000`])
      }),
  )

  it.effect.each([["2026-06-01"], ["2026-06-03"], ["2026-06-04"]] as const)(
    "applies a split that is recorded for three days once, on the day that bars show: %s (D45)",
    ([day]) =>
      Effect.gen(function* () {
        yield* DayBars.emptyTables
        yield* storeSplit("AAA", "2026-06-01", 10, 1)
        yield* storeSplit("AAA", "2026-06-03", 20, 2, { filed_at: "2026-06-02" })
        yield* storeSplit("AAA", "2026-06-04", 10, 1)
        const bars = listDays("2026-05-28", 8).map((date) => ["AAA", date, date < day ? 1 : 10] as const)
        for (const bar of bars) yield* ingestBars(bar)
        assert.deepStrictEqual(yield* readGaps, [])
        // The result is the same if the bars for the day that shows the split are ingested last.
        yield* DayBars.emptyPrices
        for (const bar of bars.toSorted(([, one], [, other]) => Number(one === day) - Number(other === day))) {
          yield* ingestBars(bar)
        }
        assert.deepStrictEqual(yield* readGaps, [])
      }),
  )

  it.effect("has no values across a day with contradicting splits, and names the symbol (D45)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeSplit("AAA", "2026-06-02", 10, 1)
      yield* storeSplit("AAA", "2026-06-02", 1, 10, { id: "typed the wrong way round" })
      yield* storeListing("AAA", { average_volume: "7", gain_7_day: "5", high_365: "99", outstanding: "1000" })
      const days = listDays("2026-05-04", 24)
      yield* ingestBars(...days.map((date) => ["AAA", date, date < "2026-06-02" ? 1 : 10] as const))
      assert.deepStrictEqual(yield* readGaps, [])
      const listed = yield* readListing("AAA")
      assert.deepStrictEqual(
        ["average_volume", "gain_1_day", "gain_7_day", "high_365", "market_cap"].map((name) => listed[name]),
        [null, "0.0000", null, null, null],
      )
      const note =
        "values of 1 symbol are null, because of a split on 2026-06-02 whose ratio is unknown or contradicted"
      assert.include(yield* ingestByCommand(["AAA", "2026-06-05", 10]), `${note}: AAA`)
    }))

  it.effect("gives a row without sessions the time at which a change removed its price (D45)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeListing("TKR", {})
      yield* ingestBars(["TKR", "2026-06-01", 10])
      assert.strictEqual(Number((yield* readListing("TKR"))["price"]), 10)
      // Another company traded under the symbol until it adopted GONE.
      yield* storeChange("TKR", "GONE", "2026-06-02")
      yield* DayBars.ingestCorrections
      const sql = yield* SqlClient.SqlClient
      const readRow = sql<
        { readonly price: string | null; readonly last_updated: string; readonly is_recent: boolean }
      >`
        select price, last_updated::text, last_updated > now() at time zone 'America/New_York' - interval '1 hour'
          as is_recent from screener
      `
      const [row] = yield* readRow
      assert.deepStrictEqual([row?.price, row?.is_recent], [null, true])
      // A later correction that changes nothing leaves the time of the last change as it is.
      yield* sql`update screener set last_updated = '2026-06-03 10:00:00'`
      yield* storeChange("GONE", "ELSE", "2026-06-10")
      yield* DayBars.ingestCorrections
      assert.strictEqual((yield* readRow)[0]?.last_updated, "2026-06-03 10:00:00")
    }))

  it.effect("names contradicting splits and misdated changes once for all files of a run (D45)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeSplit("AAA", "2026-06-02", 10, 1)
      yield* storeSplit("AAA", "2026-06-02", 1, 10, { id: "typed the wrong way round" })
      yield* storeChange("OLD", "NEW", "2026-06-10")
      const files = yield* Effect.forEach(
        ["2026-06-12", "2026-06-15", "2026-06-16"],
        (day) => DayBars.writeBars(["AAA", day, 10], ["OLD", "2026-06-11", 10], ["NEW", "2026-06-12", 10]),
      )
      const { err } = yield* runCommandInProcess(["ingest", "prices", ...files], {
        DATABASE_URL: yield* Service.databaseUrl,
      })
      assert.lengthOf(err.match(/a split on 2026-06-02/g) ?? [], 1, err)
      assert.lengthOf(err.match(/has the change from OLD to NEW on 2026-06-10, but bars show/g) ?? [], 1, err)
    }))

  it.effect("restates the count for splits after its date, and no others (D44)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeSplit("AAA", "2026-03-02", 2, 1)
      yield* storeSplit("AAA", "2026-06-02", 30, 1)
      yield* storeSplit("AAA", "2026-06-20", 5, 1)
      yield* storeListing("AAA", { outstanding: "30000000", last_updated: "2026-05-01 10:00:00" })
      yield* insertRows("float_outstanding", {
        ticker: "AAA",
        outstanding: "60000000",
        reported_date: "2026-01-15",
        is_adr: false,
        last_updated: "2026-05-01 10:00:00",
      })
      const readCaps = Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        return yield* sql`select market_cap from screener union all select market_cap from float_outstanding`.values
      })
      // After the first file, `last_updated` is the time of the prices and no longer determines the day of the count.
      for (const date of ["2026-06-02", "2026-06-03"]) {
        yield* ingestBars(["AAA", date, 3])
        assert.deepStrictEqual(yield* readCaps, [["3000000.00"], ["3000000.00"]], date)
      }
    }))

  it.effect("takes a count for undecided if a split is between its date and its filing, wherever these are stored (D44)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeSplit("AAA", "2026-06-10", 10, 1)
      yield* storeFiling("AAA", "2026-06-24", { reported_date: "2026-06-01", outstanding_shares: "3000" })
      yield* storeCount("AAA", { outstanding: "3000", reported_date: "2026-06-01" })
      yield* ingestBars(["AAA", "2026-06-25", 10])
      const sql = yield* SqlClient.SqlClient
      assert.deepStrictEqual(yield* sql`select market_cap from float_outstanding`, [{ market_cap: null }])
    }))

  it.effect("dates a count by a filing that says its date, not by a copy without one (D44)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeSplit("AAA", "2026-06-10", 10, 1)
      yield* storeFiling("AAA", "2026-05-15", { reported_date: "2026-05-10", outstanding_shares: "30000" })
      yield* storeFiling("AAA", "2026-06-20", { outstanding_shares: "30000" })
      yield* storeListing("AAA", { outstanding: "30000", last_updated: "2026-06-25 10:00:00" })
      yield* ingestBars(["AAA", "2026-06-25", 10])
      assert.strictEqual(yield* readCap("AAA"), "30000.00")
    }))

  it.effect.each(
    [
      ["the new symbol before the change", "NEW", "2026-05-06", "2026-05-05"],
      ["the former symbol after the change", "OLD", "2026-06-22", "2026-06-01"],
    ] as const,
  )(
    "dates a count by a filing that is listed under %s, unless another company had the symbol (D38, D44)",
    ([, ticker, filed_at, reported_date]) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* DayBars.emptyTables
        yield* storeChange("OLD", "NEW", "2026-06-20")
        yield* storeSplit("OLD", "2026-06-10", 10, 1)
        // The split may be in the count if it took place between the date and the filing.
        const isUndecided = filed_at > "2026-06-10"
        yield* storeFiling(ticker, filed_at, { reported_date, outstanding_shares: "30000" })
        yield* storeListing("NEW", { outstanding: "30000", cik: "0000000001", last_updated: "2026-06-25 10:00:00" })
        const cap = isUndecided ? null : "30000.00"
        yield* ingestBars(["NEW", "2026-06-25", 10])
        assert.strictEqual(yield* readCap("NEW"), cap)
        yield* insertRows("daily_prices", { ticker, date: ticker === "NEW" ? "2026-05-20" : "2026-06-24", close: "3" })
        yield* DayBars.ingestCorrections
        assert.strictEqual(yield* readCap("NEW"), "300000.00")
        // The CIK shows which company has filed, even if another one had the symbol around that day.
        yield* sql`update historical_float_pro set cik = '0000000001'`
        yield* DayBars.ingestCorrections
        assert.strictEqual(yield* readCap("NEW"), cap)
        yield* sql`delete from daily_prices where close = 3`
        yield* sql`update historical_float_pro set cik = '0000000002'`
        yield* DayBars.ingestCorrections
        assert.strictEqual(yield* readCap("NEW"), "300000.00")
      }),
  )

  it.effect("has no market cap if a split may be that of a company in an ambiguous history (D45)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      // Two companies give up the symbol AXA.
      yield* storeChange("AXA", "AXB", "2026-06-01")
      yield* storeChange("AXA", "AXC", "2026-07-10")
      yield* storeFiling("AXB", "2026-05-06", { reported_date: "2026-05-05", outstanding_shares: "30000" })
      yield* storeListing("AXB", { outstanding: "30000", last_updated: "2026-05-06 10:00:00" })
      yield* ingestBars(["AXB", "2026-08-25", 10])
      assert.strictEqual(yield* readCap("AXB"), "300000.00")
      yield* storeSplit("AXA", "2026-05-20", 10, 1)
      yield* ingestBars(["AXB", "2026-08-26", 10])
      assert.isNull(yield* readCap("AXB"))
    }))

  it.effect("finds the counts and ratios of filings under the company's former symbols (D38, D44)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeChange("OLDA", "NEWA", "2026-09-01")
      yield* storeChange("OLDB", "NEWB", "2026-09-01")
      yield* storeSplit("OLDA", "2026-06-01", 30, 1)
      yield* storeListing("NEWA", { outstanding: "30000000", last_updated: "2026-10-01 10:00:00" })
      yield* storeListing("NEWB", { outstanding: "800000000", is_adr: true })
      yield* storeFiling("OLDA", "2026-01-20", { reported_date: "2026-01-15", outstanding_shares: "30000000" })
      yield* storeFiling("OLDB", "2026-01-20", { reported_date: "2026-01-15", ads_ratio: "8", is_adr: true })
      // At that time, the new symbols belonged to another company.
      yield* storeFiling("NEWA", "2026-07-20", { reported_date: "2026-07-15", outstanding_shares: "30000000" })
      yield* storeFiling("NEWB", "2026-07-20", { reported_date: "2026-07-15", ads_ratio: "2", is_adr: true })
      yield* ingestBars(["NEWA", "2026-11-24", 3], ["NEWB", "2026-11-24", 3])
      assert.deepStrictEqual([yield* readCap("NEWA"), yield* readCap("NEWB")], ["3000000.00", "300000000.00"])
      // The result is the same if only `float_outstanding` has the counts and ratios, under the former symbols.
      const sql = yield* SqlClient.SqlClient
      yield* sql`truncate historical_float_pro`
      yield* storeCount("OLDA", { outstanding: "30000000", reported_date: "2026-01-15" })
      yield* storeCount("OLDB", { ads_ratio: "8", is_adr: true, reported_date: "2026-01-15" })
      yield* ingestBars(["NEWA", "2026-11-25", 3], ["NEWB", "2026-11-25", 3])
      assert.deepStrictEqual([yield* readCap("NEWA"), yield* readCap("NEWB")], ["3000000.00", "300000000.00"])
    }))

  it.effect.each(
    [
      ["screener", "moves"],
      ["screener", "is replaced"],
      ["float_outstanding", "moves"],
      ["float_outstanding", "is replaced"],
    ] as const,
  )(
    "knows since when %s has had a count, even without the history, and if the row %s (D44)",
    ([table, change]) =>
      Effect.gen(function* () {
        yield* DayBars.emptyTables
        const sql = yield* SqlClient.SqlClient
        const store = (ticker: string, outstanding: string, day: string) => {
          const row = { outstanding, last_updated: `${day} 10:00:00` }
          return table === "screener" ? storeListing(ticker, row) : storeCount(ticker, row)
        }
        const forgetHistory = sql.unsafe(`delete from history.${table}`)
        yield* storeSplit("AAA", "2026-06-01", 30, 1)
        yield* store("AAA", "30000000", "2026-01-05")
        yield* ingestBars(["AAA", "2026-06-02", 3])
        assert.strictEqual(yield* readCap("AAA"), "3000000.00")
        // Simulates a vendor that delivers the same count every day.
        yield* sql.unsafe(`update ${table} set last_updated = '2026-06-02 10:00:00'`)
        yield* forgetHistory
        yield* ingestBars(["AAA", "2026-06-03", 3])
        assert.strictEqual(yield* readCap("AAA"), "3000000.00")
        yield* storeChange("AAA", "BBB", "2026-06-04")
        if (change === "moves") {
          yield* sql.unsafe(`update ${table} set ticker = 'BBB'`)
          // Another company takes over the former symbol.
          yield* store("AAA", "5000000", "2026-06-04")
        } else {
          yield* sql.unsafe(`delete from ${table}`)
          yield* store("BBB", "30000000", "2026-06-04")
        }
        yield* forgetHistory
        yield* ingestBars(["BBB", "2026-06-04", 3], ["AAA", "2026-06-04", 3])
        assert.strictEqual(yield* readCap("BBB"), "3000000.00")
        if (change === "moves") assert.strictEqual(yield* readCap("AAA"), "15000000.00")
        // The row is deleted and later stored again.
        yield* sql.unsafe(`delete from ${table}`)
        yield* store("BBB", "30000000", "2026-06-05")
        yield* ingestBars(["BBB", "2026-06-05", 3])
        assert.strictEqual(yield* readCap("BBB"), "3000000.00")
        yield* sql.unsafe(`update ${table} set outstanding = 1000000`)
        yield* ingestBars(["BBB", "2026-06-08", 3])
        assert.strictEqual(yield* readCap("BBB"), "3000000.00")
      }),
  )

  it.effect("restates a count that is newer than the close for the splits between them (D44)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeSplit("AAA", "2026-11-25", 30, 1)
      yield* storeListing("AAA", { outstanding: "1000000" })
      yield* storeCount("AAA", { outstanding: "1000000", reported_date: "2026-11-26" })
      yield* ingestBars(["AAA", "2026-11-24", 3])
      assert.strictEqual(yield* readCap("AAA"), "90000000.00")
      yield* ingestBars(["AAA", "2026-11-25", 90])
      assert.strictEqual(yield* readCap("AAA"), "90000000.00")
    }))

  it.effect.each(
    [
      [{ reported_date: null, filed_at: "2026-01-20" }, []],
      [{ reported_date: null, filed_at: null }, [{ reported_date: "2026-01-15" }]],
      [{ reported_date: null, filed_at: null }, [{ reported_date: null }]],
      [{ reported_date: null, filed_at: null }, []],
    ] as const,
  )(
    "uses the same date for a count, whichever rows state it: %j, %j (D44)",
    ([current, filings]) =>
      Effect.gen(function* () {
        yield* DayBars.emptyTables
        yield* storeSplit("DATED", "2026-06-01", 30, 1)
        const outstanding = "30000000"
        yield* storeListing("DATED", { outstanding, last_updated: "2026-07-01 10:00:00" })
        yield* storeCount("DATED", { outstanding, ...current })
        for (const filing of filings) {
          yield* storeFiling("DATED", "2026-01-20", { outstanding_shares: outstanding, ...filing })
        }
        yield* ingestBars(["DATED", "2026-11-24", 3])
        assert.strictEqual(yield* readCap("DATED"), "3000000.00")
      }),
  )

  it.effect.each(
    [
      ["2026-01-15", "2026-01-15", null],
      ["2026-11-25", "2026-01-15", null],
      ["2026-01-15", "2026-11-25", null],
      ["2026-11-26", "2026-11-26", "800000000.00"],
    ] as const,
  )(
    "does not restate receipts for a split on 2026-11-25: count from %s, ratio from %s (D44)",
    ([counted, ratio, cap]) =>
      Effect.gen(function* () {
        yield* DayBars.emptyTables
        yield* storeSplit("RCP", "2026-11-25", 8, 1)
        yield* storeListing("RCP", { outstanding: "800000000", is_adr: true })
        yield* storeFiling("RCP", "2026-11-27", { outstanding_shares: "800000000", reported_date: counted })
        yield* storeCount("RCP", { is_adr: true, ads_ratio: "8", reported_date: ratio })
        const messages = yield* ingestByCommand(["RCP", "2026-11-24", 1], ["RCP", "2026-11-27", 8])
        assert.strictEqual((yield* readListing("RCP"))["market_cap"], cap)
        assert.strictEqual(messages.includes("because of a split of receipts on 2026-11-25: RCP"), cap === null)
      }),
  )

  it.effect("divides the count by the shares per receipt, and has no value if that number is unknown (D44)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      yield* storeListing("ADR", { outstanding: "800000000", is_adr: true, market_cap: "5" })
      yield* ingestBars(["ADR", "2026-06-01", 100])
      assert.strictEqual((yield* readListing("ADR"))["market_cap"], null)
      yield* insertRows("float_outstanding", {
        ticker: "ADR",
        is_adr: true,
        ads_ratio: "8",
        last_updated: "2026-05-01 10:00:00",
      })
      yield* ingestBars(["ADR", "2026-06-02", 100])
      assert.strictEqual((yield* readListing("ADR"))["market_cap"], "10000000000.00")
      // If `float_outstanding` has no ratio, the most recent ratio stated in a filing is used.
      const sql = yield* SqlClient.SqlClient
      yield* sql`update float_outstanding set ads_ratio = null`
      yield* storeFiling("ADR", "2026-04-30", { reported_date: "2026-03-31", ads_ratio: "4", is_adr: true })
      yield* storeFiling("ADR", "2026-03-01", { reported_date: "2025-12-31", ads_ratio: "2", is_adr: true })
      yield* storeFiling("ADR", "2026-05-30", { reported_date: "2026-05-31", is_adr: true })
      yield* ingestBars(["ADR", "2026-06-03", 100])
      assert.strictEqual((yield* readListing("ADR"))["market_cap"], "20000000000.00")
    }))

  it.effect("adds up classes of shares at their own closes, and has no value if one of these is unknown (D44)", () =>
    Effect.gen(function* () {
      yield* DayBars.emptyTables
      const sql = yield* SqlClient.SqlClient
      const cik = "0001067983"
      yield* sql`insert into company_symbols values ('BRK-A', ${cik}, 'BRK-B'), ('BRK-B', ${cik}, 'BRK-B')`
      const listed = { primary_ticker: "BRK-B", listed_on: "2026-06-01", primary_listed_on: "2026-06-01" }
      yield* insertRows("edgar_companies", { cik, tickers: "{BRK-B,BRK-A}", ...listed })
      yield* storeListing("BRK-B", { cik: "1067983", outstanding: "1300480000" })
      const classes = [{ member: "a", symbol: "BRK.A", shares: 480_000 }, {
        member: "b",
        symbol: "BRK.B",
        shares: 1.3e9,
      }]
      yield* sql`insert into edgar_instances values (${cik}, '1', ${
        JSON.stringify({ date: "2026-05-01", classes })
      }::text::jsonb, '2026-05-08')`
      yield* ingestBars(["BRK-B", "2026-06-01", 480])
      assert.strictEqual((yield* readListing("BRK-B"))["market_cap"], null)
      yield* ingestBars(["BRK-B", "2026-06-02", 480], ["BRK-A", "2026-06-02", 750_000])
      assert.strictEqual((yield* readListing("BRK-B"))["market_cap"], "984000000000.00")
      // The close of another share class remains valid for 30 days.
      yield* ingestBars(["BRK-A", "2026-06-08", 750_000], ["BRK-B", "2026-07-08", 480])
      assert.strictEqual((yield* readListing("BRK-B"))["market_cap"], "984000000000.00")
      const messages = yield* ingestByCommand(["BRK-B", "2026-07-09", 480])
      assert.strictEqual((yield* readListing("BRK-B"))["market_cap"], null)
      assert.include(messages, "because of a class of shares without a close: BRK-B")
    }))
})

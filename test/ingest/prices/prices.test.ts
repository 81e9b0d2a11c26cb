/** Tests `ingest prices` without symbol changes (decision 0127; resources: gap-stats, premarket-stats, screener). */
import { NodeServices } from "@effect/platform-node"
import { assert, describe, layer } from "@effect/vitest"
import { Effect, Fiber, FileSystem, Layer, Schedule, Stream } from "effect"
import { SqlClient } from "effect/sql"
import type { SchemaElement } from "hyparquet"
import { type ColumnSource, parquetWriteBuffer, schemaFromColumnData } from "hyparquet-writer"
import { gzipSync, zstdCompressSync } from "node:zlib"

import { readParquetRows } from "../../../src/ingest/prices/ParquetBars.ts"
import { maxReportedBadRows } from "../../../src/ingest/load/RowValidation.ts"
import { ingestPriceFile, type PriceIngestOptions } from "../../../src/ingest/prices/PriceIngest.ts"
import { priceDatasets } from "../../../src/ingest/prices/PriceRows.ts"
import { beginTransaction } from "../../support/HeldTransactions.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import { type Choices, makeRandomChooser, type RandomChooser, shuffle } from "../../support/RandomChoices.ts"
import { assertEqualRows } from "../../support/RowAssertions.ts"
import * as Service from "../../support/Service.ts"
import { sampleUnlessThorough } from "../../support/Thoroughness.ts"
import * as DayBars from "./DayBars.ts"
import { computeTables, getUtcOffset, type OracleBar, type OracleRow, type OracleSplit } from "./PriceOracle.ts"

// @module-tag slow

// ----------------------------------------------------------------------------------------------------------------
// Files and tables
// ----------------------------------------------------------------------------------------------------------------

/** Converts a time such as `09:30` to minutes after midnight. */
const toMinute = (time: string) => Number(time.slice(0, 2)) * 60 + Number(time.slice(3))

/** Converts the start time of a bar to seconds since 1970. */
const toSeconds = ({ date, minute }: Pick<OracleBar, "date" | "minute">) =>
  Date.parse(`${date}T00:00Z`) / 1000 + (minute + getUtcOffset(date) * 60) * 60

/** Converts the start time of a bar to nanoseconds since 1970, as text. */
const toNanoseconds = (bar: Pick<OracleBar, "date" | "minute">) => `${toSeconds(bar)}000000000`

/** Formats ten-thousandths of a dollar as a dollar amount. */
const toPrice = (ticks: bigint) => `${ticks / 10_000n}.${String(ticks % 10_000n).padStart(4, "0")}`

const massiveHeader = "ticker,volume,open,close,high,low,window_start,transactions"

const toMassiveLine = (bar: OracleBar) =>
  [
    bar.ticker,
    bar.volume,
    ...[bar.open, bar.close, bar.high, bar.low].map(toPrice),
    toNanoseconds(bar),
    bar.trades,
  ].join(",")

const toMassiveFile = (bars: ReadonlyArray<OracleBar>) => `${[massiveHeader, ...bars.map(toMassiveLine)].join("\n")}\n`

/** Builds the content of a Parquet file. `types` contains the types of the columns whose data does not specify one. */
const toParquet = (columnData: ReadonlyArray<ColumnSource>, types: ReadonlyArray<SchemaElement>) => {
  const schemaOverrides = Object.fromEntries(types.map((element) => [element.name, element]))
  const schema = schemaFromColumnData({ columnData: [...columnData], schemaOverrides })
  const columns = columnData.map(({ data, name }) => ({ data, name }))
  return new Uint8Array(parquetWriteBuffer({ columnData: columns, schema }))
}

/** Writes a file into a new temporary folder, which is removed after the test. Returns its path. */
const writeFile = Effect.fnUntraced(function* (name: string, content: string | Uint8Array) {
  const fs = yield* FileSystem.FileSystem
  const file = `${yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-prices-" })}/${name}`
  yield* fs.writeFile(file, typeof content === "string" ? new TextEncoder().encode(content) : content)
  return file
})

const defaultOptions: PriceIngestOptions = { allowEmpty: false, check: false, datasets: priceDatasets }

/** Ingests a file with the given content. The extension in `name` determines the file format. */
const ingest = Effect.fnUntraced(
  function* (
    content: string | Uint8Array,
    name = "bars.csv",
    options: Partial<PriceIngestOptions> = {},
  ) {
    return yield* ingestPriceFile(yield* writeFile(name, content), { ...defaultOptions, ...options })
  },
)

const emptyTables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql.unsafe(`truncate price_periods, split_status, ${priceDatasets.join(", ")}`)
})

const computedTables = ["daily_prices", "premarket_stats", "afterhours_stats", "gap_stats", "intraday_runners"] as const

/** Columns that are not computed from bars. */
const otherColumns = ["market_cap", "tradable_float", "filing_types", "all_tags", "recorded_in"]

/** Reads a table with every value as text. Times are truncated to seconds and have no zone; instants are in UTC. */
const readTable = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly row: OracleRow }>`
    select (select jsonb_object_agg(key, case
        when jsonb_typeof(value) = 'null' then null
        when key ~ '_time$|^last_updated$' then left(replace(value #>> '{}', 'T', ' '), 19)
        else value #>> '{}' end) from jsonb_each(to_jsonb(t)) where key <> all (${otherColumns})) as row
    from ${sql(table)} as t order by ticker, date
  `
  return rows.map(({ row }) => row)
})

const readAllTables = Effect.forEach(["price_periods", ...computedTables], readTable)

// ----------------------------------------------------------------------------------------------------------------
// Generated bars
// ----------------------------------------------------------------------------------------------------------------

/** The factors, in percent, by which a bar may change the price. Most of them are close to 100. */
const factors = [90, 96, 98, 99, 100, 100, 101, 102, 105, 115] as const

/** Generates a random bar that follows the price `before`. `size` is the typical volume of a bar, in tens of shares. */
const makeBar = (choose: RandomChooser, ticker: string, date: string, minute: number, before: bigint, size: bigint) => {
  const close = before * BigInt(choose(factors)) / 100n + BigInt(choose([0, 1, 7, 33]))
  const open = choose([before, before, before + 3n])
  const [high, low] = [open > close ? open : close, open > close ? close : open]
  return {
    ticker,
    date,
    minute,
    open,
    close,
    high: high + BigInt(choose([0, 0, 11, 250])),
    low: low - BigInt(choose([0, 0, 9, 120])),
    volume: size * BigInt(choose([0, 1, 1, 2, 5])) * 10n,
    trades: BigInt(choose([1, 2, 40])),
  }
}

/**
 * Sets of minutes in which a symbol may trade on a day: with halts, without regular hours, or without one of the
 * extended sessions.
 */
const minuteSets: Choices<ReadonlyArray<number>> = [
  [240, 300, 569, 570, 571, 572, 573, 574, 575, 590, 700, 959, 960, 1199],
  [570, 600, 601, 602, 603, 604, 610, 611, 612, 613, 614, 619, 640, 780, 959],
  [568, 569, 580, 900, 1000, 1001],
  [570, 571, 572, 573, 574, 960],
  [300, 301],
]

/**
 * Generates bars for three symbols. Some days have no bars, some open with a gap, and some have far more volume than
 * the others.
 */
const makeBars = (seed: number, days: ReadonlyArray<string>): ReadonlyArray<OracleBar> => {
  const choose = makeRandomChooser(seed)
  return ["AAA", "BBB", "CCC"].flatMap((ticker) => {
    let last = BigInt(choose([9_000, 25_000, 123_456, 5_000_000]))
    return days.flatMap((date) => {
      if (choose([false, false, false, false, false, true])) return []
      const size = choose([10n, 10n, 12n, 15n, 20n, 400n])
      if (choose([false, true])) last = last * BigInt(choose([80, 103, 97, 140])) / 100n
      return choose(minuteSets).map((minute) => {
        const bar = makeBar(choose, ticker, date, minute, last, size)
        last = bar.close < 2_000n ? 50_000n : bar.close
        return bar
      })
    })
  })
}

/** Multiplies the prices from the day of the split on, because bars that do not show a split contradict it. */
const showSplit = (bar: OracleBar, { date, from, ticker, to }: OracleSplit): OracleBar => {
  if (bar.ticker !== ticker || bar.date < date) return bar
  const scale = (price: bigint) => price * from / to
  return { ...bar, open: scale(bar.open), high: scale(bar.high), low: scale(bar.low), close: scale(bar.close) }
}

/** Stores an executed split. `more` adds or overrides columns. */
const storeSplit = ({ date, from, ticker, to }: OracleSplit, more: Readonly<Record<string, unknown>> = {}) =>
  DayBars.storeSplit(ticker, date, from, to, more)

const TestLayer = Layer.merge(Service.migratedDatabaseLayer, NodeServices.layer)

/** Builds a bar with four equal prices. `time` is its start time in New York, such as `09:30`. */
const makeFlatBar = (ticker: string, date: string, time: string, dollars: number, volume = 100): OracleBar => {
  const ticks = BigInt(Math.round(dollars * 10_000))
  return {
    ticker,
    date,
    minute: toMinute(time),
    open: ticks,
    high: ticks,
    low: ticks,
    close: ticks,
    volume: BigInt(volume),
    trades: 1n,
  }
}

/** Builds the first and the last bar of regular hours, both at the same price. */
const makeFlatDay = (ticker: string, date: string, dollars: number) =>
  ["09:30", "15:59"].map((time) => makeFlatBar(ticker, date, time, dollars))

/** Two trading days. The second opens 10% higher than the first. */
const twoDays = [
  makeFlatBar("AAA", "2026-06-01", "09:30", 10),
  makeFlatBar("AAA", "2026-06-01", "15:59", 10),
  makeFlatBar("AAA", "2026-06-02", "06:40", 11.5),
  makeFlatBar("AAA", "2026-06-02", "09:30", 11),
  makeFlatBar("AAA", "2026-06-02", "15:59", 12),
  makeFlatBar("AAA", "2026-06-02", "16:01", 12.6),
]

/** `twoDays` as written by pyarrow 26, with decimals, timestamps, a dictionary and Zstandard compression. */
const pyarrowFile = new URL("pyarrow.parquet", import.meta.url).pathname

/**
 * Bars of AAA and BBB as written by pyarrow 26 with Snappy, in two row groups. `trades` is null in both, and `vwap` in
 * the first one. The second file has data pages of version 2.
 */
const pyarrowNullFiles = ["pyarrow-nulls.parquet", "pyarrow-nulls-v2.parquet"]

layer(TestLayer, { excludeTestServices: true, timeout: "240 seconds" })("ingest prices", (it) => {
  describe("computed rows", () => {
    it.effect(
      "equal those of an independent calculation, in whichever order files come (resources: gap-stats)",
      () =>
        Effect.gen(function* () {
          const days = DayBars.listDays("2026-02-17", 22)
          let [gaps, runners] = [0, 0]
          for (const seed of sampleUnlessThorough([1, 2, 3], 3, 0)) {
            yield* emptyTables
            const choose = makeRandomChooser(seed * 7919)
            // The last day is still in progress, so it has no bars after noon.
            const split = { ticker: "BBB", date: days[14] ?? "", from: 10n, to: 1n }
            const bars = makeBars(seed, days).filter(({ date, minute }) => date !== days.at(-1) || minute < 720)
              .map((bar) => showSplit(bar, split))
            yield* storeSplit(split)
            const expected = computeTables(bars, [split])
            const files = [0, 4, 8, 11, 13, 14, 18, 21].map((first, index, starts) =>
              days.slice(first, starts[index + 1])
            )
              .map((daysOfFile) => toMassiveFile(shuffle(choose, bars.filter(({ date }) => daysOfFile.includes(date)))))
            for (const file of files) yield* ingest(file)
            for (const table of computedTables) {
              assertEqualRows(table, yield* readTable(table), expected[table], `seed ${seed}`)
            }
            gaps += expected.gap_stats.length
            runners += expected.intraday_runners.length
            yield* emptyTables
            yield* storeSplit(split)
            for (const file of shuffle(choose, files)) yield* ingest(file)
            for (const table of computedTables) {
              const rows = yield* readTable(table)
              // Only bars show when a gap was filled. If the previous day is ingested later, the bars are no longer
              // available.
              const known = rows.map((row, index) =>
                "gap_fill_time" in row && row["gap_fill_time"] === null
                  ? { ...row, gap_fill_time: expected[table][index]?.["gap_fill_time"] ?? null }
                  : row
              )
              assertEqualRows(table, known, expected[table], `seed ${seed}, shuffled`)
            }
          }
          // The seeds must produce enough gaps, and at least one runner, for a meaningful comparison.
          assert.isAbove(gaps, 20)
          assert.isAbove(runners, 0)
        }),
      240_000,
    )

    it.effect("use the session times of New York in the week of the clock change (D15, operations/ingest-prices)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        const lines = [
          // On Friday, at -05:00, 14:29 UTC is before the open and 21:00 UTC is after the close.
          ["2026-03-06T14:29:00Z", 9],
          ["2026-03-06T14:30:00Z", 10],
          ["2026-03-06T20:59:00Z", 10],
          ["2026-03-06T21:00:00Z", 11],
          // On Monday, at -04:00, 13:29 UTC is before the open and 20:00 UTC is after the close.
          ["2026-03-09T13:29:00Z", 12],
          ["2026-03-09T13:30:00Z", 13],
          ["2026-03-09T19:59:00Z", 13],
          ["2026-03-09T20:00:00Z", 14],
        ].map(([time, price]) => `AAA,${time},${price},${price},${price},${price},100`)
        yield* ingest(["ticker,time,open,high,low,close,volume", ...lines].join("\n"))
        assert.deepStrictEqual(
          (yield* readTable("daily_prices")).map(({ close, date }) => [date, close]),
          [["2026-03-06", "10.0000"], ["2026-03-09", "13.0000"]],
        )
        const [gap] = yield* readTable("gap_stats")
        assert.deepStrictEqual(
          [
            gap?.["gap_percentage"],
            gap?.["high_time"],
            gap?.["premarket_high"],
            gap?.["afterhours_close"],
            gap?.["last_updated"],
          ],
          ["30.0000", "2026-03-09 09:30:00", "12.0000", "14.0000", "2026-03-09 20:01:00"],
        )
      }))

    it.effect("end regular hours at 13:00 on the half days of the exchanges (resources: afterhours-stats)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        const { barWarnings } = yield* ingest(toMassiveFile([
          makeFlatBar("AAA", "2025-11-28", "09:30", 10),
          makeFlatBar("AAA", "2025-11-28", "12:59", 11),
          makeFlatBar("AAA", "2025-11-28", "15:59", 19),
          makeFlatBar("AAA", "2025-12-01", "09:30", 11.5),
        ]))
        assert.deepStrictEqual(barWarnings, [
          "The bars of these days end before the close, so there is no close of their symbols: 2025-12-01 (09:30). " +
          "Ingest the whole day once it is over, or its day bars.",
        ])
        assert.deepStrictEqual((yield* readTable("daily_prices")).map(({ close }) => close), ["11.0000"])
        assert.strictEqual((yield* readTable("afterhours_stats"))[0]?.["reference_close"], "11.0000")
        assert.deepStrictEqual((yield* readTable("gap_stats")).map((row) => row["gap_percentage"]), ["4.5455"])
      }))

    it.effect("end regular hours at 13:00 on other days if the whole market stops then (resources: afterhours-stats)", () =>
      Effect.gen(function* () {
        const day = "2025-11-25"
        const minSymbols = 500
        const symbols = Array.from({ length: minSymbols }, (_, index) => `S${index}`)
        const bars = symbols.flatMap((ticker) => [
          makeFlatBar(ticker, day, "09:30", 10),
          makeFlatBar(ticker, day, "12:59", 11),
          ...(ticker === "S7" ? [makeFlatBar(ticker, day, "13:20", 12), makeFlatBar(ticker, day, "16:59", 13)] : []),
        ])
        yield* emptyTables
        const { barWarnings } = yield* ingest(toMassiveFile(bars))
        const [row, ...others] = yield* readTable("afterhours_stats")
        assert.deepStrictEqual(
          [row?.["reference_close"], row?.["open_price"], row?.["close_price"], others.length],
          ["11.0000", "12.0000", "13.0000", 0],
        )
        const doubt = `The bars of ${day} show little trading after 13:00, but no early close was scheduled. `
        assert.deepStrictEqual(barWarnings, [
          `${doubt}Because so many symbols show it, the close is taken at 13:00.`,
        ])
        // With one symbol fewer, the same bars are not conclusive, because a symbol may be halted or rarely traded.
        yield* emptyTables
        const fewer = yield* ingest(toMassiveFile(bars.filter(({ ticker }) => ticker !== "S8")))
        assert.deepStrictEqual((yield* readTable("afterhours_stats"))[0]?.["reference_close"], "12.0000")
        assert.match(
          fewer.barWarnings.join(),
          /^The bars of 2025-11-25 .* the close is taken at 16:00\. Ingest a file with more/,
        )
        // With only nine symbols, the bars are not even reported.
        yield* emptyTables
        const few = yield* ingest(toMassiveFile(bars.filter(({ ticker }) => /^S\d$/.test(ticker) && ticker !== "S3")))
        assert.deepStrictEqual(few.barWarnings, [])
      }))

    it.effect("end at the same time for all symbols of a day, also in a file with few of them (resources: daily-prices)", () =>
      Effect.gen(function* () {
        const day = "2025-11-25"
        const makeDay = (ticker: string, times: ReadonlyArray<readonly [string, number]>) =>
          times.map(([time, dollars]) => makeFlatBar(ticker, day, time, dollars, time > "13:04" ? 1 : 100))
        const early = [["09:30", 10], ["12:59", 11], ["15:59", 19]] as const
        const minSymbols = 500
        const symbols = Array.from({ length: minSymbols }, (_, index) => `S${index}`)
        const market = toMassiveFile(
          symbols.flatMap((ticker) => makeDay(ticker, early.slice(0, ticker < "S3" ? 3 : 2))),
        )
        const few = toMassiveFile(["S1", "S2", "NEW"].flatMap((ticker) => makeDay(ticker, early)))
        const readCloses = Effect.map(
          readTable("daily_prices"),
          (rows) => Object.fromEntries(rows.map(({ close, ticker }) => [ticker, close])),
        )
        const expected = Object.fromEntries([...symbols, "NEW"].map((ticker) => [ticker, "11.0000"]))
        // First the whole market shows the early close, then a correction for three symbols is ingested.
        yield* emptyTables
        yield* ingest(market)
        assert.deepStrictEqual((yield* ingest(few)).barWarnings, [
          `No early close was scheduled for ${day}, but the bars that were ingested before show one. The close is ` +
          "taken at 13:00.",
        ])
        assert.deepStrictEqual(yield* readCloses, expected)
        // In reverse order, only the market file shows that the close of the three symbols was wrong.
        yield* emptyTables
        assert.deepStrictEqual((yield* ingest(few)).barWarnings, [])
        assert.deepStrictEqual((yield* ingest(market)).barWarnings, [
          `The bars of ${day} show little trading after 13:00, but no early close was scheduled. Because so many ` +
          "symbols show it, the close is taken at 13:00.",
          `The close of ${day} is taken at 13:00, but that of 1 symbol that the file lacks was taken at 16:00. Ingest ` +
          `the bars of ${day} of these symbols again: NEW`,
        ])
        assert.deepStrictEqual(yield* readCloses, { ...expected, NEW: "19.0000" })
        yield* ingest(few)
        assert.deepStrictEqual(yield* readCloses, expected)
        // A corrected market file shows that trading continued.
        const whole = symbols.flatMap((ticker) => makeFlatDay(ticker, day, 12))
        const { barWarnings } = yield* ingest(toMassiveFile(whole))
        assert.deepStrictEqual(barWarnings, [
          `The close of ${day} is taken at 16:00, but that of 1 symbol that the file lacks was taken at 13:00. Ingest ` +
          `the bars of ${day} of these symbols again: NEW`,
        ])
        assert.deepStrictEqual((yield* ingest(few)).barWarnings, [])
        assert.strictEqual((yield* readCloses)["NEW"], "19.0000")
      }))

    it.effect("lack a close while the bars of the file end before it (resources: daily-prices)", () =>
      Effect.gen(function* () {
        const day = "2025-11-25"
        const makeSession = (ticker: string, last: string) =>
          ["09:30", last].map((time, index) => makeFlatBar(ticker, day, time, 10 + index))
        const readCloses = Effect.map(
          readTable("daily_prices"),
          (rows) => rows.map(({ close, ticker }) => `${ticker} ${close}`).toSorted(),
        )
        // Files from a session in progress.
        yield* emptyTables
        for (const time of ["11:00", "13:01", "14:00", "15:58"]) {
          const { barWarnings } = yield* ingest(
            toMassiveFile(["AAA", "BBB"].flatMap((name) => makeSession(name, time))),
          )
          assert.deepStrictEqual(barWarnings, [
            `The bars of these days end before the close, so there is no close of their symbols: ${day} (${time}). ` +
            "Ingest the whole day once it is over, or its day bars.",
          ])
          assert.deepStrictEqual(yield* readCloses, [], time)
        }
        // A file of the whole day without BBB: nothing shows whether BBB was traded later.
        const late = yield* ingest(toMassiveFile([...makeSession("AAA", "15:30"), ...makeSession("CCC", "15:59")]))
        assert.deepStrictEqual(late.barWarnings, [
          `There is no close of ${day} for 1 symbol that the file lacks, because the bars that were ingested before ` +
          `end earlier. Ingest the bars of ${day} of these symbols again: BBB`,
        ])
        assert.deepStrictEqual(yield* readCloses, ["AAA 11.0000", "CCC 11.0000"])
        const all = ["AAA", "BBB", "CCC"].flatMap((name) => makeSession(name, "15:59"))
        assert.deepStrictEqual((yield* ingest(toMassiveFile(all))).barWarnings, [])
        assert.deepStrictEqual(yield* readCloses, ["AAA 11.0000", "BBB 11.0000", "CCC 11.0000"])
        // A day bar is the close of its symbol only.
        yield* emptyTables
        yield* ingest(toMassiveFile(["AAA", "BBB"].flatMap((name) => makeSession(name, "14:00"))))
        yield* ingest(toMassiveFile([makeFlatBar("AAA", day, "00:00", 12)]))
        assert.deepStrictEqual(yield* readCloses, ["AAA 12.0000"])
        assert.deepStrictEqual((yield* ingest(toMassiveFile(makeSession("AAA", "14:00")))).barWarnings, [])
      }))

    it.effect("are in doubt if there are no prices of the trading day before (operations/ingest-prices)", () =>
      Effect.gen(function* () {
        const warn = (days: string) => [
          `There are no prices of these days, on which the exchanges were open: ${days}. So the previous closes of the ` +
          "days after them are those of earlier days. Ingest the missing days.",
        ]
        const ingestDays = (...days: ReadonlyArray<string>) =>
          Effect.map(
            ingest(toMassiveFile(days.flatMap((day) => makeFlatDay("AAA", day, 10)))),
            ({ barWarnings }) => barWarnings,
          )
        yield* emptyTables
        // There are no earlier prices, so 2026-05-21 need not be one that was forgotten.
        assert.deepStrictEqual(yield* ingestDays("2026-05-22"), [])
        // 2026-05-25 is Memorial Day, after a weekend.
        assert.deepStrictEqual(yield* ingestDays("2026-05-26"), [])
        assert.deepStrictEqual(yield* ingestDays("2026-05-28", "2026-06-01"), warn("2026-05-27, 2026-05-29"))
        // A day without a close of its own is a day with prices, too.
        yield* ingest(toMassiveFile([makeFlatBar("BBB", "2026-05-29", "06:00", 10)]))
        const sql = yield* SqlClient.SqlClient
        assert.deepStrictEqual(yield* ingestDays("2026-05-28", "2026-06-01"), warn("2026-05-27"))
        yield* sql`insert into daily_prices (ticker, date, close) values ('CCC', '2026-05-27', 1)`
        assert.deepStrictEqual(yield* ingestDays("2026-05-28", "2026-06-01"), [])
        // The newest prices are older than a previous close may be.
        assert.deepStrictEqual(yield* ingestDays("2026-07-02"), [])
      }))

    it.effect("are in doubt if trading goes on after a scheduled early close (resources: daily-prices)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        const minReportedSymbols = 10
        const symbols = Array.from({ length: minReportedSymbols }, (_, index) => `S${index}`)
        const { barWarnings } = yield* ingest(toMassiveFile(
          symbols.flatMap((ticker) =>
            ["09:30", "15:00", "15:59"].map((time) => makeFlatBar(ticker, "2026-11-27", time, 10))
          ),
        ))
        assert.deepStrictEqual(barWarnings, [
          "An early close was scheduled for 2026-11-27, but bars show trading after it. The close is taken at 13:00.",
        ])
      }))

    it.effect("have a close if the last bar is at 12:59 on a half day (resources: daily-prices)", () =>
      Effect.gen(function* () {
        for (
          const { closes, day, time } of [
            { day: "2025-11-28", time: "12:59", closes: 1 },
            { day: "2025-11-28", time: "13:20", closes: 1 },
            { day: "2025-11-28", time: "12:58", closes: 0 },
            { day: "2025-11-25", time: "12:59", closes: 0 },
            { day: "2025-11-25", time: "13:04", closes: 0 },
          ]
        ) {
          yield* emptyTables
          const { barWarnings } = yield* ingest(toMassiveFile([
            makeFlatBar("AAA", day, "09:30", 10),
            makeFlatBar("AAA", day, "12:58", 11),
            makeFlatBar("BBB", day, time, 5),
          ]))
          assert.strictEqual(barWarnings.length, 1 - closes, `${day} ${time}`)
          const rows = (yield* readTable("daily_prices")).filter(({ ticker }) => ticker === "AAA")
          assert.strictEqual(rows.length, closes, `${day} ${time}`)
        }
      }))

    it.effect("give the screener the newest price and the gains up to it (resources: screener)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* emptyTables
        const company = {
          is_adr: false,
          num_gaps: 0,
          num_runners: 0,
          pending_s1: false,
          last_updated: "2026-01-01 10:00:00",
        }
        yield* Service.insertRows("screener", { ticker: "AAA", outstanding: "1000", gain_365_day: "5", ...company })
        yield* Service.insertRows("daily_prices", { ticker: "AAA", date: "2026-03-03", close: "4" })
        yield* ingest(toMassiveFile([...twoDays, makeFlatBar("NEW", "2026-06-02", "10:00", 5)]))
        const rows = yield* sql`
          select ticker, price, market_cap, today_volume::int, gain_1_day, gain_2_day, gain_90_day, gain_365_day,
            average_volume, high_365, num_gaps::int, avg_gap, last_updated::text from screener
        `
        assert.deepStrictEqual(rows, [{
          ticker: "AAA",
          price: "12.0000",
          market_cap: "12000.00",
          today_volume: 400,
          gain_1_day: "20.0000",
          gain_2_day: null,
          gain_90_day: "200.0000",
          gain_365_day: "5.0000",
          average_volume: null,
          high_365: null,
          num_gaps: 1,
          avg_gap: "10.0000",
          last_updated: "2026-06-02 16:00:00",
        }])
      }))

    it.effect("give the high and low of a year without a hole of more than ten days (resources: screener)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const readExtremes = sql`select high_365, low_365 from screener`
        const unknown = [{ high_365: null, low_365: null }]
        const known = [{ high_365: "12.0000", low_365: "10.0000" }]
        const year = DayBars.listDays("2025-06-16", 261)
        const newestDay = "2026-06-15"
        assert.strictEqual(year.at(-1), newestDay)
        const without = (from: string, to: string) => year.filter((day) => day < from || day > to)
        for (
          const [days, expected] of [
            [year, known],
            // From Friday, 5 September, to Monday, 15 September, are ten days.
            [without("2025-09-06", "2025-09-14"), known],
            [without("2025-09-06", "2025-09-15"), unknown],
            // The year begins after 15 June, and ten days later is 25 June.
            [without("2025-06-15", "2025-06-24"), known],
            [without("2025-06-15", "2025-06-25"), unknown],
          ] as const
        ) {
          const makeFile = (part: ReadonlyArray<string>) =>
            toMassiveFile(
              part.flatMap((day) => makeFlatDay("AAA", day, day === newestDay ? 10 : day === days[0] ? 12 : 11)),
            )
          yield* emptyTables
          yield* DayBars.storeListing("AAA", {})
          // The newest session is computed again when the oldest one, which has the high, is ingested.
          yield* ingest(makeFile(days.slice(1)))
          yield* ingest(makeFile(days.slice(0, 1)))
          assert.deepStrictEqual(yield* readExtremes, expected, `${days.length} days`)
        }
      }))

    it.effect("extend a loaded high and low of a year, and drop them after a split (resources: screener)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const readExtremes = sql`select high_365, low_365, average_volume::text from screener`
        yield* emptyTables
        yield* DayBars.storeSplit("AAA", "2026-06-04", 10, 1)
        yield* DayBars.storeListing("AAA", { high_365: "50", low_365: "20", average_volume: "700" })
        yield* ingest(toMassiveFile(makeFlatDay("AAA", "2026-06-01", 30)))
        assert.deepStrictEqual(yield* readExtremes, [
          { high_365: "50.0000", low_365: "20.0000", average_volume: "700" },
        ])
        yield* ingest(toMassiveFile([...makeFlatDay("AAA", "2026-06-02", 60), ...makeFlatDay("AAA", "2026-06-03", 15)]))
        assert.deepStrictEqual(yield* readExtremes, [
          { high_365: "60.0000", low_365: "15.0000", average_volume: "700" },
        ])
        yield* ingest(toMassiveFile(makeFlatDay("AAA", "2026-06-04", 150)))
        assert.deepStrictEqual(yield* readExtremes, [{ high_365: null, low_365: null, average_volume: null }])
      }))

    it.effect("do not depend on a few bars of other symbols in the past (resources: screener)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* emptyTables
        yield* DayBars.storeListing("AAA", { low_365: "3", average_volume: "7", gain_90_day: "5" })
        const days = DayBars.listDays("2026-06-01", 3)
        yield* ingest(toMassiveFile(days.flatMap((day, index) => makeFlatDay("AAA", day, 40 + index))))
        const before = yield* sql`select * from screener`
        yield* ingest(toMassiveFile(makeFlatDay("ZED", "2025-05-01", 5)))
        yield* ingest(toMassiveFile(makeFlatDay("AAA", days.at(-1) ?? "", 42)))
        assert.deepStrictEqual(yield* sql`select * from screener`, before)
      }))

    it.effect("end at 13:00 if they come from the day bar of a half day (resources: screener)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* emptyTables
        const company = { is_adr: false, num_gaps: 0, num_runners: 0, pending_s1: false }
        yield* Service.insertRows("screener", { ticker: "AAA", last_updated: "2025-01-01 10:00:00", ...company })
        for (const [date, time] of [["2025-11-26", "16:00:00"], ["2025-11-28", "13:00:00"]]) {
          yield* ingest(`ticker,date,open,high,low,close,volume\nAAA,${date},1,1,1,1,100\n`)
          assert.deepStrictEqual(yield* sql`select last_updated::text from screener`, [
            { last_updated: `${date} ${time}` },
          ])
        }
      }))

    it.effect.each(
      [
        ["9007199254740991", 9_999_999, "42.00"],
        ["1000000000000", 1_000_000, "42.00"],
        ["1000000000000", 999_999.9999, "999999999900000000.00"],
      ] as const,
    )(
      "keep the market cap if the new one does not fit the column: %s × %s (resources: screener)",
      ([outstanding, price, cap]) =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          yield* emptyTables
          yield* Service.insertRows("screener", {
            ticker: "AAA",
            outstanding,
            market_cap: "42",
            is_adr: false,
            num_gaps: 0,
            num_runners: 0,
            pending_s1: false,
            last_updated: "2026-01-01 10:00:00",
          })
          yield* ingest(toMassiveFile(makeFlatDay("AAA", "2026-06-01", price)))
          assert.deepStrictEqual(yield* sql`select price, market_cap from screener`, [
            { price: price.toFixed(4), market_cap: cap },
          ])
        }),
    )

    it.effect("adjust the previous close for executed splits only (resources: split-status)", () =>
      Effect.gen(function* () {
        const split = { ticker: "AAA", date: "2026-06-02", from: 10n, to: 1n }
        const bars = [
          makeFlatBar("AAA", "2026-06-01", "15:59", 1),
          makeFlatBar("AAA", "2026-06-02", "09:30", 10),
          makeFlatBar("AAA", "2026-06-02", "15:59", 10),
        ]
        yield* emptyTables
        yield* storeSplit(split, { executed: false, action_type: "split_announced" })
        yield* ingest(toMassiveFile(bars))
        assert.deepStrictEqual((yield* readTable("gap_stats")).map(({ gap_percentage }) => gap_percentage), [
          "900.0000",
        ])
        yield* storeSplit(split, { id: "executed" })
        const { merged } = yield* ingest(toMassiveFile(bars))
        assert.deepStrictEqual(merged.get("gap_stats"), { added: 0, updated: 0, unchanged: 0, kept: 0, removed: 1 })
        assert.deepStrictEqual(yield* readTable("gap_stats"), [])
      }))

    it.effect.each([[10_000_000n, 1n], [1n, 1_000_000n]] as const)(
      "have no previous close if a split of %i to %i shares pushes it out of the bounds of a price (D42)",
      ([from, to]) =>
        Effect.gen(function* () {
          yield* emptyTables
          yield* storeSplit({ ticker: "AAA", date: "2026-06-02", from, to }, { id: "executed" })
          yield* ingest(toMassiveFile([
            makeFlatBar("AAA", "2026-06-01", "15:59", 10),
            makeFlatBar("AAA", "2026-06-02", "09:30", 10),
            makeFlatBar("AAA", "2026-06-02", "15:59", 10),
          ]))
          assert.deepStrictEqual(yield* readTable("gap_stats"), [])
          assert.strictEqual((yield* readTable("daily_prices")).length, 2)
        }),
    )
  })

  describe("files", () => {
    it.effect("from Massive have the same columns for day and minute bars, and may be gzipped (D41, resources: daily-prices)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        yield* ingest(toMassiveFile(twoDays))
        const midnight = toNanoseconds({ date: "2026-06-01", minute: 0 })
        const dayBars = [
          massiveHeader,
          `AAA,4930283,10,10.05,10.2,9.9,${midnight},74000`,
          `BACpL,10,26,25.5,27,25,${midnight},3`,
          `BRK.B,10,480.1,481,482,480,${midnight},3`,
          `DCOMp,10,18,18,18,18,${midnight},3`,
          `ACHR.WS,10,2,2,2,2,${midnight},3`,
          `ETSS.U,10,11,11,11,11,${midnight},3`,
          `LGLr,10,1,1,1,1,${midnight},3`,
          "",
        ].join("\n")
        const { skipped } = yield* ingest(gzipSync(dayBars), "2026-06-01.csv.gz")
        assert.deepStrictEqual([...skipped.symbols], [["LGLr", 1]])
        // The official close of the day replaces the last minute's price, also where it is used as the previous close.
        assert.deepStrictEqual(
          (yield* readTable("daily_prices")).map(({ close, date, ticker }) => [ticker, date, close]),
          [
            ["AAA", "2026-06-01", "10.0500"],
            ["AAA", "2026-06-02", "12.0000"],
            ["ACHR-WT", "2026-06-01", "2.0000"],
            ["BAC-PL", "2026-06-01", "25.5000"],
            ["BRK-B", "2026-06-01", "481.0000"],
            ["DCOM-P", "2026-06-01", "18.0000"],
            ["ETSS-UN", "2026-06-01", "11.0000"],
          ],
        )
        assert.deepStrictEqual((yield* readTable("gap_stats")).map(({ previous_day_close }) => previous_day_close), [
          "10.0500",
        ])
      }))

    it.effect("from Databento have fixed-point or decimal prices, and days in UTC (resources: gap-stats)", () =>
      Effect.gen(function* () {
        const header = "ts_event,rtype,publisher_id,instrument_id,open,high,low,close,volume,symbol"
        const minutes = [
          "1780347540000000000,33,2,38,11000000000,11500000000,10990000000,11250000000,300,AAA",
          "1780406940000000000,33,2,38,11250000000,11500000000,10990000000,11123456789,300,AAA",
        ]
        const pretty = [
          "2026-06-01T20:59:00.000000000Z,33,2,38,11.000000000,11.500000000,10.990000000,11.250000000,300,AAA",
          "2026-06-02T13:29:00.000000000Z,33,2,38,11.250000000,11.500000000,10.990000000,11.123456789,300,AAA",
        ]
        const day = "2026-06-01T00:00:00.000000000Z,35,2,38,10.000000000,11.500000000,10.000000000,11.000000000,300,AAA"
        const results = []
        for (const lines of [minutes, pretty]) {
          yield* emptyTables
          yield* ingest(zstdCompressSync(`${[header, ...lines].join("\n")}\n`), "xnas-itch-20260601.ohlcv-1m.csv.zst")
          yield* ingest([header, day].join("\n"), "equs-summary-20260601.ohlcv-1d.csv")
          results.push(yield* Effect.forEach(["daily_prices", "premarket_stats", "afterhours_stats"], readTable))
        }
        assert.deepStrictEqual(results[0], results[1])
        const [closes = [], premarket = [], afterhours = []] = results[0] ?? []
        assert.deepStrictEqual(closes.map(({ close, date }) => [date, close]), [["2026-06-01", "11.0000"]])
        assert.deepStrictEqual(
          [
            premarket[0]?.["close_price"],
            premarket[0]?.["high_time"],
            afterhours[0]?.["reference_close"],
            afterhours[0]?.["last_updated"],
          ],
          ["11.1235", "2026-06-02 09:29:00", "11.0000", "2026-06-01 16:00:00"],
        )
      }))

    it.effect("from Databento have hyphens only before the series of preferred shares (operations/ingest-prices)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        const spellings = [
          ["AGM.A", "AGM-A"],
          ["AGM-A", "AGM-PA"],
          ["BAC-L", "BAC-PL"],
          ["DCOM-", "DCOM-P"],
          ["OXY+", "OXY-WT"],
          ["ETSS=", "ETSS-UN"],
          ["BRK.B", "BRK-B"],
          ["AAPL", "AAPL"],
        ] as const
        const uncertain = ["LGL^", "GOOG#", "OXY+A", "AGM-A#", "AGM.A=", "BAC-PL", "BACpL"]
        const header = "ts_event,rtype,publisher_id,instrument_id,open,high,low,close,volume,symbol"
        const lines = [...spellings.map(([symbol]) => symbol), ...uncertain].map((symbol, index) =>
          `2026-06-01T00:00:00Z,35,2,${index},${index + 1}.0,${index + 1}.0,${index + 1}.0,${index + 1}.0,300,${symbol}`
        )
        const { skipped } = yield* ingest([header, ...lines].join("\n"))
        assert.deepStrictEqual([...skipped.symbols.keys()], uncertain)
        const expected = spellings.map(([, ticker], index) => [ticker, `${index + 1}.0000`])
        assert.deepStrictEqual(
          (yield* readTable("daily_prices")).map(({ close, ticker }) => [ticker, close]),
          expected.toSorted(([one = ""], [other = ""]) => one < other ? -1 : 1),
        )
      }))

    it.effect("from Databento as Parquet have billionths only in integer columns (D31, operations/ingest-prices)", () =>
      Effect.gen(function* () {
        const prices = Object.entries({ open: 10, high: 12, low: 10, close: 11 })
        const others: ReadonlyArray<ColumnSource> = [
          { name: "ts_event", data: [BigInt(Date.parse("2026-06-01")) * 1_000_000n], type: "INT64" },
          { name: "rtype", data: [35], type: "INT32" },
          { name: "publisher_id", data: [2], type: "INT32" },
          { name: "volume", data: [300n], type: "INT64" },
          { name: "symbol", data: ["AAA"], type: "STRING" },
        ]
        const forms: ReadonlyArray<readonly [type: Omit<SchemaElement, "name">, dollar: number | bigint]> = [
          [{ type: "DOUBLE" }, 1],
          [{ type: "INT64", converted_type: "DECIMAL", precision: 18, scale: 0 }, 1],
          [{ type: "INT64" }, 1_000_000_000n],
        ]
        for (const [type, dollar] of forms) {
          yield* emptyTables
          const columns = prices.map(([name, price]) => ({
            name,
            data: [typeof dollar === "bigint" ? BigInt(price) * dollar : price * dollar],
          }))
          const types = prices.map(([name]) => ({ name, ...type }))
          yield* ingest(toParquet([...others, ...columns], types), "bars.parquet")
          const closes = (yield* readTable("daily_prices")).map(({ close }) => close)
          assert.deepStrictEqual(closes, ["11.0000"], JSON.stringify(type))
        }
      }))

    it.effect("may have unused Parquet columns of any type, which are ignored and named (D31, operations/ingest-prices)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        const columns: ReadonlyArray<ColumnSource> = [
          { name: "ticker", data: ["AAA"], type: "STRING" },
          { name: "date", data: ["2026-06-01"], type: "STRING" },
          ...["open", "high", "low", "close"].map((name): ColumnSource => ({ name, data: [10], type: "DOUBLE" })),
          { name: "volume", data: [300n], type: "INT64" },
        ]
        const zoneless: SchemaElement = {
          name: "local",
          type: "INT64",
          logical_type: { type: "TIMESTAMP", isAdjustedToUTC: false, unit: "MICROS" },
        }
        const unused: ReadonlyArray<ColumnSource> = [
          { name: "score", data: [0.5], type: "FLOAT" },
          { name: "local", data: [0n] },
          { name: "nested", data: [{ a: 1 }], type: "VARIANT" },
          { name: "other", data: [{ b: 1 }], type: "VARIANT" },
        ]
        const { skipped } = yield* ingest(toParquet([...unused, ...columns], [zoneless]), "bars.parquet")
        assert.deepStrictEqual(skipped.ignoredColumns, ["score", "local", "nested", "other"])
        assert.deepStrictEqual((yield* readTable("daily_prices")).map(({ close }) => close), ["10.0000"])
        const vwap = (column: ColumnSource) => Effect.flip(ingest(toParquet([...columns, column], []), "bars.parquet"))
        assert.match((yield* vwap({ name: "vwap", data: [10], type: "FLOAT" })).message, /vwap has 32-bit floating/)
        assert.match((yield* vwap({ name: "vwap", data: [10], type: "VARIANT" })).message, /vwap has nested values/)
      }))

    it.effect("are refused as Parquet if a page is larger than its header says (SECURITY.md)", () =>
      Effect.gen(function* () {
        const bomb = gzipSync(new Uint8Array(64 * 1024 * 1024))
        const file = parquetWriteBuffer({
          columnData: massiveHeader.split(",").map((name) => ({ name, data: ["A"] })),
          codec: "GZIP",
          compressors: { GZIP: () => bomb },
        })
        const fs = yield* FileSystem.FileSystem
        const path = `${yield* fs.makeTempDirectoryScoped()}/bomb.parquet`
        yield* fs.writeFile(path, new Uint8Array(file))
        const error = yield* Effect.flip(Stream.runDrain(readParquetRows(path)))
        assert.match(error.message, /bomb\.parquet cannot be read as Parquet: .*larger than/)
      }))

    it.effect("may be Parquet, with exact decimals (D31, operations/ingest-prices)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        yield* ingest(toMassiveFile(twoDays))
        const expected = yield* readAllTables
        yield* emptyTables
        const numbers = (get: (bar: OracleBar) => bigint) => twoDays.map((bar) => Number(toPrice(get(bar))))
        const parquet = parquetWriteBuffer({
          rowGroupSize: 4,
          columnData: [
            { name: "ticker", data: twoDays.map(({ ticker }) => ticker), type: "STRING" },
            { name: "volume", data: twoDays.map(({ volume }) => volume), type: "INT64" },
            { name: "open", data: numbers(({ open }) => open), type: "DOUBLE" },
            { name: "close", data: numbers(({ close }) => close), type: "DOUBLE" },
            { name: "high", data: numbers(({ high }) => high), type: "DOUBLE" },
            { name: "low", data: numbers(({ low }) => low), type: "DOUBLE" },
            {
              name: "window_start",
              data: twoDays.map((bar) => BigInt(toNanoseconds(bar))),
              type: "INT64",
            },
            { name: "transactions", data: twoDays.map(({ trades }) => trades), type: "INT64" },
          ],
        })
        yield* ingest(new Uint8Array(parquet), "bars.parquet")
        assert.deepStrictEqual(yield* readAllTables, expected)
        yield* emptyTables
        yield* ingestPriceFile(pyarrowFile, defaultOptions)
        assert.deepStrictEqual(yield* readAllTables, expected)
      }))

    it.effect.each(pyarrowNullFiles)(
      "may be Parquet with columns of nulls only, as in %s (D31, operations/ingest-prices)",
      (file) =>
        Effect.gen(function* () {
          yield* emptyTables
          yield* ingestPriceFile(new URL(file, import.meta.url).pathname, defaultOptions)
          const sql = yield* SqlClient.SqlClient
          assert.deepStrictEqual(yield* sql`select ticker, close, vwap, trades from price_periods order by ticker`, [
            { ticker: "AAA", close: "10.0000", vwap: "10.0000", trades: null },
            { ticker: "BBB", close: "20.0000", vwap: "20.0000", trades: null },
          ])
        }),
    )

    it.effect("may have rows with volume 0, whose prices are not read (operations/ingest-prices)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        const day = (ticker: string, cells: string) => `${ticker},2026-06-01,${cells}`
        const { bars, skipped } = yield* ingest(
          [
            "ticker,date,open,high,low,close,volume,vwap,trades",
            day("AAA", "10,10,10,10,100,10,3"),
            day("BBB", "10,10,10,10,100,10,3"),
            day("BBB", "nan,nan,nan,nan,0,nan,0"),
            day("CCC", "0,0,0,0,0.0,,"),
            day("DDD", ",,,,0,,"),
          ].join("\n"),
        )
        assert.deepStrictEqual([bars, [...skipped.volumeless]], [5, ["CCC", "DDD"]])
        assert.deepStrictEqual((yield* readTable("daily_prices")).map(({ ticker }) => ticker), ["AAA"])
        const { message } = yield* Effect.flip(
          ingest(`ticker,date,open,high,low,close,volume\n${day("AAA", "0,0,0,0,0.5")}`),
        )
        assert.include(message, "open must be a price from")
      }))

    it.effect("may have very small numbers, with an exponent in CSV and as doubles in Parquet (D31, operations/ingest-prices)", () =>
      Effect.gen(function* () {
        const volumes = ["1e-7", "1e-07", "1.2345678901234567e-7", "5E-324", "0.0000012345678901234567"]
        const [ticker, date] = ["AAA", "2026-06-01"]
        const names = ["open", "high", "low", "close"] as const
        for (const volume of volumes) {
          yield* emptyTables
          yield* ingest(`ticker,date,open,high,low,close,volume\n${ticker},${date},1,1,1,1,${volume}\n`)
          const expected = yield* readAllTables
          assert.deepStrictEqual((yield* readTable("price_periods")).map((row) => row["volume"]), ["0"], volume)
          yield* emptyTables
          const columns: ReadonlyArray<ColumnSource> = [
            { name: "ticker", data: [ticker], type: "STRING" },
            { name: "date", data: [date], type: "STRING" },
            ...names.map((name): ColumnSource => ({ name, data: [1], type: "DOUBLE" })),
            { name: "volume", data: [Number(volume)], type: "DOUBLE" },
          ]
          yield* ingest(toParquet(columns, []), "bars.parquet")
          assert.deepStrictEqual(yield* readAllTables, expected, volume)
        }
        // Ten bars of 0.055 shares are 0.55 shares in total, which is rounded to one.
        yield* emptyTables
        const lines = Array.from({ length: 10 }, (_, index) => `AAA,2026-06-01T13:3${index}:00Z,1,1,1,1,5.5e-2`)
        yield* ingest(["ticker,time,open,high,low,close,volume", ...lines].join("\n"))
        assert.deepStrictEqual((yield* readTable("price_periods")).map((row) => row["volume"]), ["1"])
        for (const bad of ["1e12", "1e999", "-1e-7", "1e-400", "e-7", "1e", "1e1.5"]) {
          const { message } = yield* Effect.flip(
            ingest(`ticker,date,open,high,low,close,volume\n${ticker},${date},1,1,1,1,${bad}\n`),
          )
          assert.include(message, `volume must be a number of shares, at most 100000000000, but is "${bad}"`)
        }
      }))

    it.effect("may have large numbers with an exponent (D31, operations/ingest-prices)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        yield* ingest(
          "ticker,date,open,high,low,close,volume,trades\n" +
            "AAA,2026-06-01,1e+01,1.25E+1,1e1,12e0,1e+05,1.2e+03\nBBB,2026-06-01,0.5e1,5,5,5.0e-0,2.5e10,\n",
        )
        const sql = yield* SqlClient.SqlClient
        assert.deepStrictEqual(
          yield* sql`select open, high, close, volume::text, trades::text from price_periods order by ticker`,
          [
            { open: "10.0000", high: "12.5000", close: "12.0000", volume: "100000", trades: "1200" },
            { open: "5.0000", high: "5.0000", close: "5.0000", volume: "25000000000", trades: null },
          ],
        )
      }))

    it.effect.each(["+00", "-04", "-0400", "-04:00", "Z"])(
      "may have times with the zone %s (operations/ingest-prices)",
      (zone) =>
        Effect.gen(function* () {
          yield* emptyTables
          const time = zone.startsWith("-04") ? "2026-06-01 15:59:00" : "2026-06-01 19:59:00.000000"
          yield* ingest(`ticker,time,open,high,low,close,volume\nAAA,${time}${zone},10,10,10,10,100\n`)
          const sql = yield* SqlClient.SqlClient
          assert.deepStrictEqual(yield* sql`select first_minute from price_periods`, [{
            first_minute: toMinute("15:59"),
          }])
        }),
    )

    it.effect("without bars to ingest are refused, unless --allow-empty is given (D31, operations/ingest-prices)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        const night = makeFlatBar("AAA", "2026-06-01", "21:40", 10)
        const files = [
          [],
          [night, makeFlatBar("AAA", "2026-06-01", "03:00", 10), makeFlatBar("LGLr", "2026-06-01", "09:30", 10)],
          [makeFlatBar("AAA", "2026-06-01", "09:30", 10, 0)],
        ].map(toMassiveFile)
        for (const file of files) {
          assert.match((yield* Effect.flip(ingest(file))).message, /no bars to ingest.* add --allow-empty\.$/)
          const { merged } = yield* ingest(file, "bars.csv", { allowEmpty: true })
          assert.deepStrictEqual(merged.get("daily_prices"), {
            added: 0,
            updated: 0,
            unchanged: 0,
            kept: 0,
            removed: 0,
          })
        }
        const { message } = yield* Effect.flip(ingest(files[1] ?? ""))
        assert.include(message, "outside of the sessions from 04:00 to 20:00 in New York: 2; ")
        assert.include(message, "symbols that the tables cannot contain: 1 (LGLr); test symbols: 0; ")
        const names = ["BRK/B", "BRK B", ...Array.from({ length: 30 }, (_, index) => `S${index}r`)]
        const refused = yield* Effect.flip(
          ingest(toMassiveFile(names.map((ticker) => makeFlatBar(ticker, "2026-06-01", "09:30", 10)))),
        )
        assert.include(refused.message, "the tables cannot contain: 32 (BRK/B, BRK B, S0r, S1r, ")
        assert.include(refused.message, "S17r, …); test symbols: 0; symbols without volume: 0;")
      }))

    it.effect("may have quotation marks and white space around cells (operations/ingest-prices)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        const file = (...cells: ReadonlyArray<string>) =>
          `"ticker","date", open,"high",low,close,volume\n"AAA","2026-06-01",${cells.join(",")}\n`
        yield* ingest(file(" 1.5", '" 1.5 "', "1.5 ", '"1.5"', ' "1200" '))
        const sql = yield* SqlClient.SqlClient
        assert.deepStrictEqual(yield* sql`select close, volume::text from price_periods`, [
          { close: "1.5000", volume: "1200" },
        ])
        for (
          const [cells, reason] of [
            [
              ["1", "1", "1", "1", '"1,234"'],
              'volume must be a number of shares, at most 100000000000, but is "1,234"',
            ],
            [["1", "1", "1", '"1,234.50"', "1"], 'close must be a price from 0.0001 to 9999999 USD, but is "1,234.50"'],
            [["1", "1", "1", "1", '"1,234'], "the row has 8 cells; the header has 7"],
            [["1", "1", "1", "1", '""'], "volume must be a number of shares, at most 100000000000"],
            [
              ["1", "1", "1", "1", '"1"2'],
              'volume must be a number of shares, at most 100000000000, but is "\\"1\\"2"',
            ],
          ] as const
        ) {
          const { message } = yield* Effect.flip(ingest(file(...cells)))
          assert.include(message, `line 2: ${reason}`)
        }
      }))

    it.effect("are refused as Parquet if the days of day bars are times (operations/ingest-prices)", () =>
      Effect.gen(function* () {
        const columns: ReadonlyArray<ColumnSource> = [
          { name: "ticker", data: ["AAA"], type: "STRING" },
          ...["open", "high", "low", "close"].map((name): ColumnSource => ({ name, data: [10], type: "DOUBLE" })),
          { name: "volume", data: [300n], type: "INT64" },
        ]
        const types: ReadonlyArray<Omit<SchemaElement, "name">> = [
          { type: "INT64", logical_type: { type: "TIMESTAMP", isAdjustedToUTC: false, unit: "NANOS" } },
          { type: "INT64", logical_type: { type: "TIMESTAMP", isAdjustedToUTC: true, unit: "MICROS" } },
          { type: "INT64", converted_type: "TIMESTAMP_MILLIS" },
        ]
        for (const type of types) {
          const days: ColumnSource = { name: "date", data: [BigInt(Date.parse("2026-06-01"))] }
          const file = toParquet([...columns, days], [{ name: "date", ...type }])
          const { message } = yield* Effect.flip(ingest(file, "bars.parquet"))
          assert.match(message, /the column date has times; write it as a date without a time of day \(date32\), or as/)
        }
      }))

    it.effect("may have extensions in upper case (D31, operations/ingest-prices)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        yield* ingest(gzipSync(toMassiveFile(twoDays)), "BARS.CSV.GZ")
        const expected = yield* readAllTables
        yield* emptyTables
        const fs = yield* FileSystem.FileSystem
        yield* ingest(yield* fs.readFile(pyarrowFile), "BARS.PARQUET")
        assert.deepStrictEqual(yield* readAllTables, expected)
      }))

    it.effect("with other columns are refused with a list of the formats, in lower case (D31, operations/ingest-prices)", () =>
      Effect.gen(function* () {
        const { message } = yield* Effect.flip(
          ingest("Ticker,Date,Open,High,Low,Close,Volume\nAAA,2026-06-01,1,1,1,1,1\n"),
        )
        assert.include(message, "line 1: the header has the columns Ticker,Date,")
        assert.include(message, "must have those of one of these formats, in lower case:")
        assert.include(message, "\n  day bars: ticker,date,open,high,low,close,volume (optional: vwap,trades)")
      }))

    it.effect("with days after tomorrow in New York are refused (D31, operations/ingest-prices)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        const today = new Intl.DateTimeFormat("sv", { timeZone: "America/New_York" }).format()
        const inDays = (days: number) => new Date(Date.parse(today) + days * 86_400_000).toISOString().slice(0, 10)
        const dayBar = (date: string) => `ticker,date,open,high,low,close,volume\nAAA,${date},1,1,1,1,100\n`
        // The exchanges may be closed tomorrow, so a file without trading must be accepted.
        yield* ingest(dayBar(inDays(1)), "bars.csv", { check: true, allowEmpty: true })
        assert.match(
          (yield* Effect.flip(ingest(dayBar(inDays(3))))).message,
          /line 2: date must not be after tomorrow, .*, but is on /,
        )
        assert.match(
          (yield* Effect.flip(ingest(toMassiveFile([makeFlatBar("AAA", "2062-06-01", "09:30", 10)])))).message,
          /line 2: window_start must not be after tomorrow, .*, but is on 2062-06-01/,
        )
      }))

    it.effect("from Massive have day bars if most bars start at midnight, and minute bars otherwise (D31, operations/ingest-prices)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        const night = [makeFlatBar("AAA", "2026-06-02", "00:00", 10), makeFlatBar("BBB", "2026-06-02", "00:00", 10)]
        const minutes = [
          makeFlatBar("AAA", "2026-06-02", "20:00", 10),
          makeFlatBar("AAA", "2026-06-02", "09:30", 12),
          makeFlatBar("AAA", "2026-06-02", "15:59", 12.5),
        ]
        for (const bars of [[...night, ...minutes], [...minutes, ...night]]) {
          yield* emptyTables
          const found = yield* ingest(toMassiveFile(bars))
          assert.deepStrictEqual([found.bars, found.skipped.outside], [2, 3])
          assert.deepStrictEqual(yield* readTable("daily_prices"), [
            { ticker: "AAA", date: "2026-06-02", close: "12.5000" },
          ])
        }
        yield* emptyTables
        assert.strictEqual((yield* ingest(toMassiveFile(night))).bars, 2)
        assert.deepStrictEqual((yield* readTable("daily_prices")).map(({ close }) => close), ["10.0000", "10.0000"])
        const [first] = minutes
        if (first === undefined) return
        for (const bars of [[first, ...night], [...night, first]]) {
          assert.include(
            (yield* Effect.flip(ingest(toMassiveFile(bars)))).message,
            `line ${bars.indexOf(first) + 2}: window_start must be midnight in New York, as in most rows of the file`,
          )
        }
      }))

    it.effect("may have fractions of shares, day bars at midnight, small letters in symbols, and the symbol NA (D31, operations/ingest-prices)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* emptyTables
        const midnight = toNanoseconds({ date: "2026-06-01", minute: 0 })
        const lines = [["AAP", "1234.567891", "41.5"], ["AAp", "10.5", "25"], ["NA", "0.25", "3.5"]].map(
          ([ticker, volume, price]) => `${ticker},${volume},${price},${price},${price},${price},${midnight},7.0`,
        )
        const { skipped } = yield* ingest([massiveHeader, ...lines].join("\n"))
        assert.deepStrictEqual([...skipped.symbols], [])
        assert.deepStrictEqual(yield* sql`select ticker, period, close, volume::int from price_periods order by 1`, [
          { ticker: "AA-P", period: "day", close: "25.0000", volume: 11 },
          { ticker: "AAP", period: "day", close: "41.5000", volume: 1235 },
          { ticker: "NA", period: "day", close: "3.5000", volume: 0 },
        ])
        const parquet = parquetWriteBuffer({
          columnData: [
            { name: "ticker", data: ["AAP", "AAp", "NA"], type: "STRING" },
            { name: "volume", data: [1234.567891, 10.5, 0.25], type: "DOUBLE" },
            ...["open", "close", "high", "low"].map((name) => {
              const column: ColumnSource = { name, data: [41.5, 25, 3.5], type: "DOUBLE" }
              return column
            }),
            { name: "window_start", data: [midnight, midnight, midnight].map(BigInt) },
            { name: "transactions", data: [7n, 7n, 7n] },
          ],
        })
        const { merged } = yield* ingest(new Uint8Array(parquet), "day.parquet")
        assert.deepInclude(merged.get("daily_prices"), { added: 0, updated: 0, unchanged: 3 })
      }))

    it.effect("may have bars for days on which the exchanges are closed and for test symbols, which are left out (D31, operations/ingest-prices)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        const bar = (ticker: string, date: string) => makeFlatBar(ticker, date, "15:59", 10)
        const tests = "ZVZZT ZAZZT MTEST.A NTEST ZXYZ.A CBO IGZ ZZV AAZST XZZST ZVZZC ZVZZCNX".split(" ")
        const securities = ["AAA", "ATES", "IBO", "ZST", "ZZT", "ZZZ"]
        const { bars, skipped } = yield* ingest(toMassiveFile([
          ...tests.map((ticker) => bar(ticker, "2026-06-01")),
          ...["2026-05-25", "2026-05-30", "2026-05-31"].map((date) => bar("AAA", date)),
          ...securities.map((ticker) => bar(ticker, "2026-06-01")),
        ]))
        assert.strictEqual(bars, securities.length)
        assert.deepStrictEqual([...skipped.testSymbols], tests.map((name) => name.replace(".", "-")))
        assert.deepStrictEqual([...skipped.closedDays], ["2026-05-25", "2026-05-30", "2026-05-31"])
        assert.deepStrictEqual((yield* readTable("daily_prices")).map(({ ticker }) => ticker), securities)
      }))

    it.effect("are reported with symbols without volume and, with --check, with times that seem wrong (D31, operations/ingest-prices)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        const bars = [
          makeFlatBar("SPX", "2026-06-01", "09:31", 5_000, 0),
          makeFlatBar("AAA", "2026-06-01", "09:31", 10, 0),
          makeFlatBar("AAA", "2026-06-01", "10:00", 10),
          makeFlatBar("AAA", "2026-06-01", "16:00", 10),
        ]
        const { skipped } = yield* ingest(toMassiveFile(bars))
        assert.deepStrictEqual([...skipped.volumeless], ["SPX"])
        const check = { check: true }
        const { barWarnings } = yield* ingest(toMassiveFile(bars), "bars.csv", check)
        assert.match(
          barWarnings.join(),
          /^Hardly anything was traded in the bars at 09:30 in New York, but there is one at 16:00, so the times seem/,
        )
        const starts = [...bars, makeFlatBar("AAA", "2026-06-01", "09:30", 10)]
        assert.deepStrictEqual((yield* ingest(toMassiveFile(starts), "bars.csv", check)).barWarnings, [])
        const file = yield* writeFile(
          "2026-06-01.csv",
          toMassiveFile([...bars, makeFlatBar("ZVZZT", "2026-06-01", "10:00", 1)]),
        )
        const environment = { DATABASE_URL: yield* Service.databaseUrl }
        const ended = yield* runCommandInProcess(["ingest", "prices", file, "--check"], environment)
        assert.include(ended.err, `${file}: left out 1 symbol without volume, as indexes are: SPX\n`)
        assert.include(ended.err, `${file}: left out 1 symbol with which the exchanges test their systems: ZVZZT\n`)
        assert.include(ended.err, `${file}: Hardly anything was traded in the bars at 09:30`)
      }))

    it.effect("are reported if their times seem to be those of their ends, also with bars before the open (D31, operations/ingest-prices)", () =>
      Effect.gen(function* () {
        const makeSymbols = (count: number) => Array.from({ length: count }, (_, index) => `S${index}`)
        // If the times are starts, the open is at 09:30 and the last regular bar is at 15:59.
        const starts = [["09:29", 20], ["09:30", 5_000], ["09:31", 900], ["15:59", 800], ["16:00", 4_000]] as const
        const ends = [["09:30", 20], ["09:31", 5_000], ["09:32", 900], ["16:00", 800], ["16:01", 4_000]] as const
        const minReportedSymbols = 10
        for (
          const [times, symbols, check, doubted] of [
            [starts, 30, true, false],
            [ends, minReportedSymbols, false, true],
            [ends, minReportedSymbols - 1, false, false],
            [ends, 1, true, true],
            [ends.slice(2), 1, true, false],
          ] as const
        ) {
          yield* emptyTables
          const bars = makeSymbols(symbols).flatMap((ticker) =>
            times.map(([time, volume]) => makeFlatBar(ticker, "2026-06-01", time, 10, volume))
          )
          const { barWarnings } = yield* ingest(toMassiveFile(bars), "bars.csv", { check })
          assert.strictEqual(
            barWarnings.join().includes("seem to be the ends of the bars"),
            doubted,
            `${symbols} ${check}`,
          )
        }
      }))

    it.effect("are reported if their bars seem to be longer than a minute (operations/ingest-prices)", () =>
      Effect.gen(function* () {
        const toTime = (minute: number) =>
          `${String(Math.floor(minute / 60)).padStart(2, "0")}:${String(minute % 60).padStart(2, "0")}`
        const makeStarts = (first: number, step: number, count: number) =>
          Array.from({ length: count }, (_, index) => toTime(first + step * index))
        const hourly = makeStarts(9 * 60, 60, 7)
        for (
          const [starts, minutes] of [
            [hourly, 60],
            [makeStarts(9 * 60 + 30, 60, 7), 30],
            [makeStarts(9 * 60 + 30, 5, 78), 5],
            [[...hourly, "10:01"], undefined],
            [hourly.slice(0, 5), undefined],
          ] as const
        ) {
          yield* emptyTables
          const bars = starts.map((time) => makeFlatBar("AAA", "2026-06-01", time, 10))
          const { barWarnings } = yield* ingest(toMassiveFile(bars))
          const [, found] = /so they seem to be bars of (\d+) minutes or more\./.exec(barWarnings.join()) ?? []
          assert.strictEqual(found, minutes?.toString(), starts.join())
        }
      }))

    it.effect("with days before 1900 are refused (D42)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        const header = "open,high,low,close,volume,ticker"
        const [day, minute] = [["date", "0021-06-01"], ["time", "1021-06-01T13:30:00Z"]] as const
        for (const [column, start] of [day, minute]) {
          const { message } = yield* Effect.flip(ingest(`${header},${column}\n1,1,1,1,100,AAA,${start}\n`))
          assert.include(message, `line 2: ${column} must not be before 1900-01-01, but is on ${start.slice(0, 10)}`)
        }
      }))

    it.effect("may have a VWAP outside of low and high, because of odd lots, and 0 if it is unknown (D42)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        const lines = ["10.5", "9.2", "0", "0.0000", ""].map((vwap, index) =>
          `AAA,2026-06-01T13:${30 + index}:00Z,10,10.2,9.8,10,100,${vwap}`
        )
        const header = "ticker,time,open,high,low,close,volume,vwap"
        yield* ingest([header, ...lines].join("\n"))
        const sql = yield* SqlClient.SqlClient
        // The three bars with an unknown VWAP count with their typical price, which is 10.
        assert.deepStrictEqual(yield* sql`select vwap from price_periods`, [{ vwap: "9.9400" }])
        for (const vwap of ["-1", "9999999.5", "x"]) {
          const bad = `${header}\nAAA,2026-06-01T13:30:00Z,10,10.2,9.8,10,100,${vwap}\n`
          const { message } = yield* Effect.flip(ingest(bad))
          assert.include(message, "vwap must be a price from 0.0001 to 9999999 USD, or 0 if it is unknown, but is ")
        }
      }))

    it.effect("may have prices whose last digits contradict each other, because they are rounded (D42)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        const file = (cells: string) => `ticker,date,open,high,low,close,volume\nAAA,2026-06-01,${cells},100\n`
        yield* ingest(file("12.34,12.34,12.34,12.340000000000002"))
        yield* ingest(file("12.339999999999996,12.34,12.340000000000003,12.34"))
        yield* ingest(file("1.00005,1.00005,1.00009,1.0001"))
        const sql = yield* SqlClient.SqlClient
        assert.deepStrictEqual(yield* sql`select open, high, low, close from price_periods`, [
          { open: "1.0001", high: "1.0001", low: "1.0001", close: "1.0001" },
        ])
        assert.match(
          (yield* Effect.flip(ingest(file("12.34,12.34,12.34,12.34005")))).message,
          /line 2: high must not be below open, close or low/,
        )
        assert.match(
          (yield* Effect.flip(ingest(file("12.33994,12.35,12.34,12.35")))).message,
          /line 2: low must not be above open or close/,
        )
      }))

    it.effect("from Databento in whole dollars are refused, because whole numbers are billionths (D31, operations/ingest-prices)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        const { message } = yield* Effect.flip(ingest(
          "ts_event,rtype,publisher_id,instrument_id,open,high,low,close,volume,symbol\n" +
            "1780347540000000000,33,2,38,10,11,9,10,300,AAA\n",
        ))
        assert.include(
          message,
          'line 2: open must be a price from 0.0001 to 9999999 USD, but is "10", which means billionths of a dollar ' +
            "without a decimal point; write dollars with one, like 10.00",
        )
        for (
          const [price, explanation] of [
            ["9223372036854775807", ", which is how Databento writes an unknown price; leave the row out"],
            ["10000000000000000", ", which means billionths of a dollar without a decimal point"],
            ["-10", ""],
          ] as const
        ) {
          const refused = yield* Effect.flip(ingest(
            "ts_event,rtype,publisher_id,instrument_id,open,high,low,close,volume,symbol\n" +
              `1780347540000000000,33,2,38,${price},11,9,10,300,AAA\n`,
          ))
          assert.match(refused.message, new RegExp(`USD, but is "${price}"${explanation}$`))
        }
      }))

    it.effect.each(["\r", "\r\n", "\n"])(
      "may have %j line ends, as load reads them (D31, operations/ingest-prices)",
      (end) =>
        Effect.gen(function* () {
          yield* emptyTables
          const { bars } = yield* ingest(toMassiveFile(twoDays).replaceAll("\n", end))
          assert.strictEqual(bars, twoDays.length)
          const bad = [massiveHeader, ...twoDays.map(toMassiveLine), "AAA,1"].join(end)
          assert.include((yield* Effect.flip(ingest(bad))).message, `line ${twoDays.length + 2}: the row has 2 cells`)
        }),
    )

    it.effect("with bad rows are refused as a whole, with line, column and reason (D31, operations/ingest-prices)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        const [first = makeFlatBar("AAA", "2026-06-01", "09:30", 10)] = twoDays
        const good = toMassiveLine(first)
        const start = toNanoseconds(first)
        const inMinute = String(BigInt(start) + 1_000_000_000n)
        const bad = [
          `AAA,100,0,10,10,10,${start},1`,
          `AAA,100,10,10,9,9,${start},1`,
          `AAA,100,10,10,11,10.5,${start},1`,
          `AAA,-5,10,10,11,9,${start},1`,
          `AAA,100,10,10,11,9,${inMinute},1`,
          "AAA,100,10,10,11,9",
          `AAA,100,1e7,10,11,9,${start},1`,
          `,100,10,10,11,9,${start},1`,
          `AAA,100,10,10,9999999.0001,9,${start},1`,
          `AAA,100,10,10,11,0.00009,${start},1`,
        ]
        const error = yield* Effect.flip(ingest([massiveHeader, good, ...bad, good].join("\n")))
        assert.deepStrictEqual(error.message.split("\n").slice(1), [
          '  line 3: open must be a price from 0.0001 to 9999999 USD, but is "0"',
          '  line 4: high must not be below open, close or low, but is "9"',
          '  line 5: low must not be above open or close, but is "10.5"',
          '  line 6: volume must be a number of shares, at most 1000000000, but is "-5"',
          "  line 7: window_start must be the start of a minute: nanoseconds since 1970, or a time with its zone " +
          `such as 2026-06-01T13:30:00Z, but is "${inMinute}"`,
          "  line 8: the row has 6 cells; the header has 8",
          '  line 9: open must be a price from 0.0001 to 9999999 USD, but is "1e7"',
          "  line 10: ticker must not be empty",
          '  line 11: high must be a price from 0.0001 to 9999999 USD, but is "9999999.0001"',
          '  line 12: low must be a price from 0.0001 to 9999999 USD, but is "0.00009"',
        ])
        assert.deepStrictEqual((yield* readAllTables).flat(), [])
        const many = yield* Effect.flip(ingest([massiveHeader, ...Array.from({ length: 30 }, () => bad[0])].join("\n")))
        const headingAndEllipsis = 2
        assert.strictEqual(many.message.split("\n").length, maxReportedBadRows + headingAndEllipsis)
        const venues = "ts_event,rtype,publisher_id,instrument_id,open,high,low,close,volume,symbol\n" +
          "1780347540000000000,33,2,38,1.0,1.0,1.0,1.0,300,AAA\n1780347540000000000,33,3,38,1.0,1.0,1.0,1.0,300,AAA\n"
        assert.match((yield* Effect.flip(ingest(venues))).message, /line 3: publisher_id must be the same in all rows/)
        assert.match((yield* Effect.flip(ingest("a,b\n1,2\n"))).message, /must have those of one of these formats/)
        assert.match((yield* Effect.flip(ingest(""))).message, /is empty/)
        assert.match((yield* Effect.flip(ingest("x", "bars.txt"))).message, /no supported extension/)
      }))
  })

  describe("repeated files", () => {
    it.effect("change nothing, not even the versions of the datasets (D17)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* emptyTables
        yield* ingest(toMassiveFile(twoDays))
        const versions = sql`select * from dataset_versions order by 1`
        const before = [yield* readAllTables, yield* versions]
        const { merged } = yield* ingest(toMassiveFile([...twoDays, ...twoDays]))
        for (const [dataset, { added, removed, updated }] of merged) {
          assert.deepStrictEqual([dataset, added, updated, removed], [dataset, 0, 0, 0])
        }
        assert.deepStrictEqual([yield* readAllTables, yield* versions], before)
      }))

    it.effect("correct the rows of their days and of the days after (D22, operations/ingest-prices)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        yield* ingest(toMassiveFile(twoDays))
        const first = twoDays.slice(0, 2)
        const corrected = [...first, makeFlatBar("AAA", "2026-06-01", "15:59", 10.5)]
        const checked = yield* ingest(toMassiveFile(corrected), "bars.csv", { check: true })
        assert.deepStrictEqual(checked.merged.get("gap_stats"), {
          added: 0,
          updated: 1,
          unchanged: 0,
          kept: 0,
          removed: 0,
        })
        assert.deepStrictEqual((yield* readTable("gap_stats"))[0]?.["previous_day_close"], "10.0000")
        yield* ingest(toMassiveFile(corrected))
        assert.deepStrictEqual((yield* readTable("gap_stats"))[0]?.["previous_day_close"], "10.5000")
        // If the session no longer has a gap, its row is removed from gap_stats.
        yield* ingest(toMassiveFile([...first, makeFlatBar("AAA", "2026-06-01", "15:59", 11)]), "bars.csv", {
          datasets: ["gap_stats"],
        })
        assert.deepStrictEqual(
          [(yield* readTable("gap_stats")).length, (yield* readTable("daily_prices"))[0]?.["close"]],
          [1, "10.5000"],
        )
        yield* ingest(toMassiveFile([...first, makeFlatBar("AAA", "2026-06-01", "15:59", 11)]))
        assert.deepStrictEqual(yield* readTable("gap_stats"), [])
      }))

    it.effect("lose a bar if a later one for the same minute has volume 0 (D22, operations/ingest-prices)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        const bars = [makeFlatBar("AAA", "2026-06-01", "09:30", 10), makeFlatBar("AAA", "2026-06-01", "13:20", 50)]
        const last = makeFlatBar("AAA", "2026-06-01", "15:59", 11)
        yield* ingest(toMassiveFile([...bars, makeFlatBar("AAA", "2026-06-01", "13:20", 0.5, 0), last]))
        const readPeriods = Effect.map(
          readTable("price_periods"),
          (rows) => rows.map(({ close, high, low, volume }) => [low, high, close, volume]),
        )
        assert.deepStrictEqual(yield* readPeriods, [["10.0000", "11.0000", "11.0000", "200"]])
        // A bar without volume has no effect if it comes before the other bar for the same minute.
        yield* ingest(toMassiveFile([makeFlatBar("AAA", "2026-06-01", "13:20", 0.5, 0), ...bars, last]))
        assert.deepStrictEqual(yield* readPeriods, [["10.0000", "50.0000", "11.0000", "300"]])
      }))

    it.effect("for an unfinished session give no close, and can be followed by longer ones (§2.6, operations/ingest-prices)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        const noon = [makeFlatBar("AAA", "2026-06-01", "09:30", 10), makeFlatBar("AAA", "2026-06-01", "11:59", 11)]
        yield* ingest(toMassiveFile(noon))
        assert.deepStrictEqual(yield* readTable("daily_prices"), [])
        yield* ingest(toMassiveFile([...noon, makeFlatBar("AAA", "2026-06-01", "15:59", 12)]))
        assert.deepStrictEqual((yield* readTable("daily_prices")).map(({ close }) => close), ["12.0000"])
      }))

    it.effect("are refused if they begin later or end earlier than what is known of the day (D22, operations/ingest-prices)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* emptyTables
        const bars = ["08:00", "09:30", "11:59", "15:59", "16:05"].map((time) =>
          makeFlatBar("AAA", "2026-06-02", time, 10)
        )
        yield* ingest(toMassiveFile([makeFlatBar("AAA", "2026-06-01", "15:59", 9), ...bars]))
        const before = yield* readAllTables
        const parts = [
          { part: bars.slice(1), times: "start from 09:30 to 16:05" },
          { part: bars.slice(0, 3), times: "start from 08:00 to 11:59" },
          // The day is complete, but the after-hours trades are missing.
          { part: bars.slice(0, 4), times: "start from 08:00 to 15:59" },
          // A new symbol's bars must not end before noon if trading on that day continued.
          {
            part: [makeFlatBar("NEW", "2026-06-02", "08:00", 5), makeFlatBar("NEW", "2026-06-02", "11:59", 5)],
            times: "to 11:59",
          },
        ]
        for (const { part, times } of parts) {
          const error = yield* Effect.flip(
            ingest(toMassiveFile([makeFlatBar("NEW", "2026-06-03", "15:59", 9), ...part])),
          )
          assert.match(
            error.message,
            /bars\.csv was refused, so none of its bars was ingested: its bars of 2026-06-02 /,
          )
          assert.include(error.message, `${times} in New York, but bars from 08:00 to 16:05 were ingested before`)
          assert.match(error.message, /Join the files/)
        }
        assert.deepStrictEqual(yield* readAllTables, before)
        // After the day has been deleted as the guide describes, a shorter day replaces its rows.
        yield* sql`delete from price_periods where date = '2026-06-02' and period <> 'day'`
        yield* ingest(toMassiveFile(bars.slice(1, 4)))
        assert.deepStrictEqual(
          [(yield* readTable("premarket_stats")).length, (yield* readTable("afterhours_stats")).length],
          [0, 0],
        )
      }))

    it.effect("can add symbols and shorten the day of a symbol, within the times of the day (D22, operations/ingest-prices)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        const all = makeFlatDay("AAA", "2026-06-01", 10)
        const illiquid = [
          makeFlatBar("CCC", "2026-06-01", "11:40", 7),
          makeFlatBar("CCC", "2026-06-01", "11:50", 7.1),
          makeFlatBar("CCC", "2026-06-01", "12:00", 7.2),
        ]
        yield* ingest(toMassiveFile([...all, ...illiquid]))
        const complete = makeFlatDay("DDD", "2026-06-01", 5)
        const readCloses = Effect.map(
          readTable("daily_prices"),
          (rows) => rows.map(({ close, ticker }) => [ticker, close]),
        )
        yield* ingest(toMassiveFile([...illiquid.slice(1, 2), ...complete]))
        assert.deepStrictEqual(yield* readCloses, [["AAA", "10.0000"], ["CCC", "7.1000"], ["DDD", "5.0000"]])
      }))
  })

  describe("closes", () => {
    const days = ["2026-06-01", "2026-06-02", "2026-06-03"]
    const everyDay = days.flatMap((date) => makeFlatDay("AAA", date, 10))

    it.effect("are removed if the corrected bars of the day have none (§2.6, operations/ingest-prices)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        const wrong = days.map((date, index) => makeFlatBar("BBB", date, "15:59", index === 1 ? 5 : 50))
        yield* ingest(toMassiveFile([...everyDay, ...wrong]))
        const readCloses = Effect.map(
          readTable("daily_prices"),
          (rows) => rows.filter(({ ticker }) => ticker === "BBB").map(({ close }) => close),
        )
        assert.deepStrictEqual(yield* readCloses, ["50.0000", "5.0000", "50.0000"])
        assert.strictEqual((yield* readTable("gap_stats")).length, 2)
        yield* ingest(toMassiveFile([...everyDay.slice(2, 4), makeFlatBar("BBB", "2026-06-02", "09:29", 50)]))
        assert.deepStrictEqual(yield* readCloses, ["50.0000", "50.0000"])
        assert.deepStrictEqual(yield* readTable("gap_stats"), [])
      }))

    it.effect("from another source stay if the corrected bars of the day have none (D38)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        yield* ingest(toMassiveFile([...everyDay, makeFlatBar("BBB", "2026-06-02", "15:59", 5)]))
        const sql = yield* SqlClient.SqlClient
        yield* sql`update daily_prices set close = 6 where ticker = 'BBB'`
        yield* ingest(toMassiveFile([...everyDay.slice(2, 4), makeFlatBar("BBB", "2026-06-02", "09:29", 50)]))
        assert.include((yield* readTable("daily_prices")).map(({ close }) => close), "6.0000")
      }))
  })

  describe("volumes", () => {
    const usualDays = DayBars.listDays("2026-05-04", 12)
    const spikeDay = "2026-05-20"
    const usual = usualDays.flatMap((date) => makeFlatDay("AAA", date, 10))

    it.effect("are those of the day bar if the minute bars lack regular hours (§2.4, operations/ingest-prices)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        yield* ingest(toMassiveFile([...usual, makeFlatBar("AAA", spikeDay, "08:20", 12)]))
        yield* ingest(`ticker,date,open,high,low,close,volume\nAAA,${spikeDay},12,13,12,13,900000\n`)
        assert.deepStrictEqual((yield* readTable("intraday_runners")).map(({ volume }) => volume), ["900000"])
      }))

    it.effect("are compared in shares of the day, also after a large split (§2.4, operations/ingest-prices)", () =>
      Effect.gen(function* () {
        yield* emptyTables
        // Long ago, one old share became 1,000,000 new ones. Today's volume is less than one old share.
        yield* Service.insertRows("split_status", {
          id: "old-split",
          ticker: "AAA",
          action_type: "split_effective",
          split_from: "1",
          split_to: "1000000",
          effective_date: "2020-01-02",
          executed: true,
          filed_at: "2020-01-02",
          form_type: "8-K",
          last_updated: "2020-01-02 10:00:00",
        })
        yield* ingest(toMassiveFile([...usual, { ...makeFlatBar("AAA", spikeDay, "15:59", 11), volume: 100_000n }]))
        assert.strictEqual((yield* readTable("intraday_runners")).length, 1)
      }))
  })

  it.effect("repeats a file after losing the connection to PostgreSQL, and ingests it once (decision 0127)", () =>
    Effect.gen(function* () {
      yield* emptyTables
      const sql = yield* SqlClient.SqlClient
      const file = yield* writeFile("2026-06-01.csv", toMassiveFile(twoDays))
      // The ingest waits for this lock inside its transaction.
      const lock = yield* beginTransaction(sql`lock table price_periods in share mode`)
      const running = yield* Effect.forkChild(
        runCommandInProcess(["ingest", "prices", file], { DATABASE_URL: yield* Service.databaseUrl }),
      )
      const waiting = sql<{ readonly pid: number }>`
        select pid from pg_locks where not granted and relation = 'price_periods'::regclass`
      const [{ pid } = { pid: 0 }] = yield* Effect.repeat(waiting, {
        until: (rows) => rows.length > 0,
        schedule: Schedule.spaced("20 millis"),
      })
      yield* sql`select pg_terminate_backend(${pid}::int)`
      yield* lock.commit
      const { code, err, out } = yield* Fiber.join(running)
      assert.strictEqual(code, 0, err)
      assert.include(err, "Waiting until PostgreSQL accepts connections again")
      assert.include(out, "daily_prices: 2 added, 0 updated, 0 unchanged, 0 removed\n")
      assert.match(out, /\n1 file, 6 bars, in /)
      // There are regular hours on both days, and two extended sessions on the second day.
      assert.strictEqual((yield* readTable("price_periods")).length, 4)
    }))

  it.effect("says which files to name if it is given a folder (D31, operations/ingest-prices)", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* fs.makeTempDirectoryScoped({ prefix: "tickerline-prices-" })
      for (const name of ["flatfiles", "dir.csv", "dir.parquet"]) {
        const path = `${folder}/${name}`
        yield* fs.makeDirectory(path)
        for (const given of [path, `${path}/`]) {
          const { message } = yield* Effect.flip(ingestPriceFile(given, defaultOptions))
          assert.strictEqual(
            message,
            `${given} is a folder, but ingest takes files. Name the files in it, for example ${path}/*.csv.gz.`,
          )
        }
      }
    }))

  it.effect.each([[";", "semicolons"], ["\t", "tabs"]] as const)(
    "refuses files that are separated by %s, and names the separator (D31, operations/ingest-prices)",
    ([separator, name]) =>
      Effect.gen(function* () {
        const { message } = yield* Effect.flip(ingest(toMassiveFile(twoDays).replaceAll(",", separator)))
        assert.include(message, `bars.csv is separated by ${name}, but ingest expects commas between cells and`)
        assert.match(message, / or as Parquet\.$/)
      }),
  )

  it.effect("reports what it did, and refuses only the bad files (D31, operations/ingest-prices)", () =>
    Effect.gen(function* () {
      yield* emptyTables
      const good = yield* writeFile("2026-06-01.csv", toMassiveFile(twoDays))
      const bad = yield* writeFile("2026-06-02.csv", `${massiveHeader}\nAAA,1\n`)
      const environment = { DATABASE_URL: yield* Service.databaseUrl }
      const ended = yield* runCommandInProcess(["ingest", "prices", bad, good], environment)
      assert.strictEqual(ended.code, 1)
      assert.include(ended.err, "line 2: the row has 2 cells; the header has 8")
      assert.include(ended.out, "gap_stats: 1 added, 0 updated, 0 unchanged, 0 removed\n")
      assert.match(ended.out, /1 file, 6 bars, in \d+s|1 file, 6 bars/)
      const refused = yield* runCommandInProcess(["ingest", "prices", bad], environment)
      assert.match(refused.out, /0 files, 0 bars, in (less than a second|.*\ds)\n/)
      assert.include(refused.err, "Refused 1 of 1 file; see above.")
      const empty = yield* writeFile("2026-06-03.csv", massiveHeader)
      const allowed = yield* runCommandInProcess(["ingest", "prices", empty, "--allow-empty"], environment)
      assert.strictEqual(allowed.code, 0)
      const wrong = yield* runCommandInProcess(["ingest", "prices", good, "--only", "gap-stat"], environment)
      assert.include(wrong.err, "Prices do not fill gap-stat. Did you mean gap_stats?")
      const comma = yield* runCommandInProcess(["ingest", "prices", good, "--only", "daily-prices,"], environment)
      assert.strictEqual(comma.code, 0)
      const nothing = yield* runCommandInProcess(["ingest", "prices", good, "--only", ","], environment)
      assert.include(nothing.err, "Name at least one dataset. Prices fill: daily_prices, ")
    }))
})

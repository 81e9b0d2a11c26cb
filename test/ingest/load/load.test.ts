/**
 * Tests `load`: valid and invalid files, rows with equal keys, concurrent readers and writers, and interruptions (D31).
 */
import { assert, describe, layer } from "@effect/vitest"
import {
  Clock,
  Console,
  Context,
  Data,
  Deferred,
  Duration,
  Effect,
  Exit,
  Fiber,
  FileSystem,
  Layer,
  Redacted,
  Ref,
  Schedule,
} from "effect"
import { SqlClient } from "effect/sql"
import { spawn } from "node:child_process"
import { gzipSync, zstdCompressSync } from "node:zlib"
import { databaseClientLayer } from "../../../src/postgres/pool/PooledClient.ts"
import { loadableDatasets } from "../../../src/contract/Datasets.ts"
import { describeDatasetFormat } from "../../../src/ingest/load/DatasetDescription.ts"
import { insertBatchSize, loadDatasetFile } from "../../../src/ingest/load/DatasetLoad.ts"
import { maxReportedBadRows } from "../../../src/ingest/load/RowValidation.ts"
import { beginTransaction, waitUntilBlocked } from "../../support/HeldTransactions.ts"
import { commandFile, compileCacheFolder, projectRoot } from "../../support/Processes.ts"
import * as Service from "../../support/Service.ts"
import { sampleUnlessThorough, skipUnlessThorough } from "../../support/Thoroughness.ts"

const { requestJson } = Service

/** The URL of the database, for commands that run in separate processes. */
class DatabaseUrl extends Context.Service<DatabaseUrl, string>()("test/ingest/load/DatabaseUrl") {
  static readonly layer = Layer.effect(
    DatabaseUrl,
    Effect.map(Service.copyMigratedDatabase, (url) => Redacted.value(url)),
  )
}

const TestLayer = Service.serviceLayerOver(
  Layer.unwrap(
    Effect.map(
      DatabaseUrl,
      (url) => databaseClientLayer({ url: Redacted.make(url), applicationName: "tickerline-test" }),
    ),
  ),
).pipe(Layer.provideMerge(DatabaseUrl.layer))

type Dataset = "ticker_changes" | "historical_tickers" | "intraday_runners" | "float_outstanding" | "daily_prices"
type Cells = Readonly<Record<string, string>>

/** The required cells of an intraday session. */
const sessionRow: Cells = {
  ticker: "ZYXA",
  date: "2026-06-01",
  gap_percentage: "25.5",
  market_open: "1.25",
  previous_day_close: "1",
  percentage_gain: "80",
  open_to_high_pct: "44",
  high_price: "1.8",
  low_price: "1.1",
  daily_volume_ratio: "12.5",
  market_close: "1.2",
  close_under_50pct_of_range: "true",
  last_updated: "2026-06-01 20:05:00",
  anomaly_flagged: "true",
}

/** The required cells of a ticker change. */
const changeRow: Cells = { old_ticker: "AAA", new_ticker: "BBB", effective_date: "2025-03-03", status: "confirmed" }

/** Quotes a CSV cell if necessary. */
const quoteCell = (cell: string) => /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell

const toCsv = (rows: ReadonlyArray<Cells>, columns = Object.keys(rows[0] ?? {})) =>
  [columns, ...rows.map((row) => columns.map((column) => row[column] ?? ""))]
    .map((cells) => `${cells.map(quoteCell).join(",")}\n`).join("")

const toNdjson = (rows: ReadonlyArray<Readonly<Record<string, unknown>>>) =>
  rows.map((row) => `${JSON.stringify(row)}\n`).join("")

/** Creates a folder that is removed after the test. */
const folder = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped({ prefix: "tickerline-load-" }))

/** Writes a file with the given name and content. Returns its path. */
const writeTestFile = Effect.fnUntraced(function* (name: string, content: string | Uint8Array) {
  const fs = yield* FileSystem.FileSystem
  const path = `${yield* folder}/${name}`
  yield* fs.writeFile(path, typeof content === "string" ? new TextEncoder().encode(content) : content)
  return path
})

const load = (dataset: string, file: string, append = false) =>
  Effect.flatMap(Ref.make(0), (progress) => loadDatasetFile({ dataset, file, append }, progress))

const replaceWith = (dataset: Dataset, name: string, content: string | Uint8Array) =>
  Effect.flatMap(writeTestFile(name, content), (file) => load(dataset, file))

const appendText = (dataset: Dataset, name: string, content: string | Uint8Array) =>
  Effect.flatMap(writeTestFile(name, content), (file) => load(dataset, file, true))

/** Reads the number of rows in a table and a digest of their content. */
const readTableState = Effect.fnUntraced(function* (table: Dataset) {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* sql<{ readonly rows: number; readonly digest: string }>`
    select count(*)::int as rows, coalesce(md5(string_agg(t::text, '|' order by t::text)), '') as digest from ${
    sql(table)
  } as t
  `
  return found ?? { rows: -1, digest: "" }
})

/** Returns the names of staging tables that a load should have dropped but did not. */
const findLeftoverTables = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.map(
    sql<{ readonly name: string }>`select relname as name from pg_class where relnamespace = 'loading'::regnamespace`,
    (rows) => rows.map(({ name }) => name),
  ))

/** Parses the lines of an error message that report a row error. Returns the line number and the reason. */
const parseErrors = (message: string) =>
  Array.from(message.matchAll(/^ {2}line (\d+): (.+)$/gm), ([, line, reason]) => [Number(line), reason ?? ""] as const)

/** Asserts that a load fails and changes nothing. Returns the error message. */
const assertRefused = Effect.fnUntraced(
  function* (dataset: Dataset, name: string, content: string | Uint8Array, append = false) {
    const before = yield* readTableState(dataset)
    const error = yield* Effect.flip(append ? appendText(dataset, name, content) : replaceWith(dataset, name, content))
    assert.deepStrictEqual(yield* readTableState(dataset), before)
    assert.deepStrictEqual(yield* findLeftoverTables, [])
    assert.notMatch(error.message, /Query failed|\n\s+at /)
    return error.message
  },
)

/** The files that `seed` loads. */
const seeds = {
  ticker_changes: toCsv([{ ...changeRow, old_ticker: "OLD1", new_ticker: "NEW1" }]),
  intraday_runners: toCsv([{ ...sessionRow, ticker: "SEED" }]),
}

/** The digests of the tables after `seed` has loaded them. */
const seededDigests = new Map<Dataset, string>()

/** Loads one row into each of two tables. Skips a table that still contains exactly that row. */
const seed = Effect.gen(function* () {
  for (const table of ["ticker_changes", "intraday_runners"] as const) {
    if ((yield* readTableState(table)).digest === seededDigests.get(table)) continue
    yield* replaceWith(table, "seed.csv", seeds[table])
    seededDigests.set(table, (yield* readTableState(table)).digest)
  }
})

/** Retries every 10 ms, for at least 90 seconds. */
const retryOften = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.retry(effect, { schedule: Schedule.spaced("10 millis"), times: 9000 })

/** The condition that `waitUntil` waits for is not met yet. */
class NotYet extends Data.TaggedError("NotYet")<{ readonly message: string }> {}

/** Waits until the condition is true. `what` describes the condition in the timeout error. */
const waitUntil = <E, R>(what: string, condition: Effect.Effect<boolean, E, R>) =>
  retryOften(
    Effect.filterOrFail(condition, (holds) => holds, () => new NotYet({ message: `${what} did not happen` })),
  )

/** Formats the day that is the given number of days after 2010-01-01. */
const formatDay = (at: number) => new Date(Date.UTC(2010, 0, 1 + at)).toISOString().slice(0, 10)

/**
 * Returns sessions with distinct keys. All have `market_open` set to `open`, by which a test recognizes the file that
 * they came from.
 */
const makeSessions = (count: number, open: string): ReadonlyArray<Cells> =>
  Array.from({ length: count }, (_, at) => ({
    ...sessionRow,
    ticker: `T${at % 1000}`,
    date: formatDay(Math.floor(at / 1000)),
    market_open: open,
    high_price: "9",
    low_price: "0.5",
  }))

/** Returns ticker changes with distinct keys. Their symbols start with `prefix`. */
const makeChanges = (count: number, prefix: string): ReadonlyArray<Cells> =>
  Array.from(
    { length: count },
    (_, at) => ({ ...changeRow, old_ticker: `${prefix}${at}`, new_ticker: `${prefix}${at}.N` }),
  )

/** Starts `tickerline` with the given arguments in a separate process, which is killed at the end of the test. */
const startCommand = Effect.fnUntraced(function* (args: ReadonlyArray<string>, flags: ReadonlyArray<string> = []) {
  const url = yield* DatabaseUrl
  const child = yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn(process.execPath, [...flags, commandFile, ...args], {
        cwd: projectRoot,
        env: { DATABASE_URL: url, PATH: process.env["PATH"], NODE_COMPILE_CACHE: compileCacheFolder },
        stdio: ["ignore", "pipe", "pipe"],
      })
    ),
    (child) => Effect.sync(() => child.kill("SIGKILL")),
  )
  const output = { out: "", err: "" }
  child.stdout.on("data", (chunk) => output.out += String(chunk))
  child.stderr.on("data", (chunk) => output.err += String(chunk))
  const ended = Promise.withResolvers<number | null>()
  child.once("close", (code) => ended.resolve(code))
  const end = Effect.promise(() => ended.promise)
  return {
    output,
    send: (signal: NodeJS.Signals) => Effect.sync(() => child.kill(signal)),
    closeOutput: Effect.sync(() => child.stdout.destroy()),
    kill: Effect.andThen(Effect.sync(() => child.kill("SIGKILL")), end),
    result: Effect.map(end, (code) => ({ code, ...output })),
  }
})

/**
 * Starts a load in a separate process and waits until it inserts rows. The load cannot commit before the transaction
 * `writer` ends, because `writer` holds a lock that a replacement has to wait for.
 */
const startUnfinishedLoad = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* seed
  const before = yield* readTableState("intraday_runners")
  const writer = yield* beginTransaction(sql`lock table intraday_runners in row exclusive mode`)
  const file = yield* writeTestFile("new.csv", toCsv(makeSessions(3 * insertBatchSize, "2")))
  const loading = yield* startCommand(["load", "intraday-runners", file, "--yes"])
  const isLoading = Effect.map(
    sql`
      select 1 from pg_stat_activity where application_name = 'tickerline-command' and datname = current_database()
        and query ~ '^(/[*] load loading.intraday_runners|lock table)'
    `,
    (rows) => rows.length > 0,
  )
  yield* waitUntil("the first batch", isLoading)
  return { before, loading, isLoading, writer }
})

layer(TestLayer, { excludeTestServices: true })("load", (it) => {
  describe("with a valid file", () => {
    /** Sessions with values that are hard to parse or at the limits of their columns. */
    const full: ReadonlyArray<Cells> = [
      {
        ...sessionRow,
        high_time: "2026-06-01 09:31:02",
        low_time: "2026-06-01 15:59:59.250",
        spike_start_time: "2026-06-01 09:30:00",
        spike_start_price: "1.2345",
        spike_duration_minutes: "17",
        est_halt_minutes: "0",
        volume: "9007199254740991",
        dollar_volume: "123456789012345678.91",
        filing_types: '["8-K","S-3"]',
        all_tags: '["a, \\"b\\"","c"]',
      },
      {
        ...sessionRow,
        ticker: "ZYXB",
        gap_percentage: "-12.5",
        filing_types: "[]",
        close_under_50pct_of_range: "false",
      },
    ]
    /** The sessions of the CSV file, as JSON objects that contain lists, booleans and numbers. */
    const json = full.map(({ all_tags, filing_types, ...row }) => ({
      ...row,
      ...(filing_types === undefined ? {} : { filing_types: JSON.parse(filing_types) }),
      ...(all_tags === undefined ? {} : { all_tags: JSON.parse(all_tags) }),
      close_under_50pct_of_range: row["close_under_50pct_of_range"] === "true",
      market_open: Number(row["market_open"]),
    }))
    const columns = Object.keys({ ...full[0], ...full[1] })

    it.effect("loads the same rows from CSV, NDJSON, .gz and .zst, with columns in any order (D31)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* seed
        const files: ReadonlyArray<readonly [string, string | Uint8Array]> = [
          ["a.csv", toCsv(full, columns)],
          ["b.csv", toCsv(full.toReversed(), columns.toReversed())],
          ["c.csv", `\uFEFF${toCsv(full, columns).replaceAll("\n", "\r\n")}`],
          ["d.csv", toCsv(full, columns).trimEnd()],
          ["e.csv.gz", gzipSync(toCsv(full, columns))],
          ["f.ndjson", toNdjson(json)],
          ["g.jsonl", `\uFEFF\n${toNdjson(json).replaceAll("\n", "\r\n")}\n`],
          ["h.ndjson.gz", gzipSync(toNdjson(json))],
          ["i.ndjson", toNdjson(json).trimEnd()],
          ["j.CSV.GZ", gzipSync(toCsv(full, columns))],
          ["k.jsonl.zst", zstdCompressSync(toNdjson(json))],
        ]
        const digests: Array<string> = []
        for (const [name, content] of files) {
          const { dropped, rows, table } = yield* replaceWith("intraday_runners", name, content)
          assert.deepStrictEqual([name, table, rows, dropped], [name, "intraday_runners", full.length, 0])
          digests.push((yield* readTableState("intraday_runners")).digest)
        }
        assert.lengthOf(new Set(digests), 1)
        const [first] =
          yield* sql`select filing_types, all_tags, low_time::text, volume::text from intraday_runners order by ticker`
        assert.deepStrictEqual(first, {
          filing_types: ["8-K", "S-3"],
          all_tags: ['a, "b"', "c"],
          low_time: "2026-06-01 15:59:59.25",
          volume: "9007199254740991",
        })
      }))

    it.effect("replaces the rows, or adds to them with --append (D31)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* replaceWith("ticker_changes", "a.csv", toCsv(makeChanges(3, "A")))
        yield* replaceWith("ticker_changes", "b.csv", toCsv(makeChanges(2, "B")))
        yield* appendText("ticker_changes", "c.ndjson", toNdjson(makeChanges(1, "C")))
        const rows = yield* sql<{ readonly old_ticker: string }>`select old_ticker from ticker_changes order by 1`
        assert.deepStrictEqual(rows.map(({ old_ticker }) => old_ticker), ["B0", "B1", "C0"])
      }))

    it.effect("accepts the name of a table or an endpoint, and rejects unknown names (D31)", () =>
      Effect.gen(function* () {
        const file = yield* writeTestFile("a.csv", toCsv([changeRow]))
        assert.strictEqual((yield* load("ticker-changes", file)).table, "ticker_changes")
        assert.strictEqual((yield* load("ticker_changes", file)).table, "ticker_changes")
        const { message } = yield* Effect.flip(load("accounts", file))
        assert.match(message, /accounts.*ticker_changes.*historical_tickers.*intraday_runners/)
      }))

    it.effect("fills missing columns with null, an empty array or, for recorded_at, the time of the load (D31)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const now = Effect.map(sql<{ readonly now: Date }>`select now()`, ([row]) => row?.now.getTime() ?? Number.NaN)
        const before = yield* now
        for (const [name, content] of [["a.csv", toCsv([changeRow])], ["a.ndjson", toNdjson([changeRow])]] as const) {
          yield* sql`truncate ticker_changes`
          yield* replaceWith("ticker_changes", name, content)
          const [row] = yield* sql<
            { readonly recorded_at: Date }
          >`select recorded_at, cik, company_name, source from ticker_changes`
          const { recorded_at, ...rest } = row ?? { recorded_at: new Date(0) }
          assert.deepStrictEqual(rest, { cik: null, company_name: null, source: null })
          assert.isAtLeast(recorded_at.getTime(), before - 1)
          assert.isAtMost(recorded_at.getTime(), yield* now)
        }
        for (const [name, content] of [["a.csv", toCsv([sessionRow])], ["a.ndjson", toNdjson([sessionRow])]] as const) {
          yield* replaceWith("intraday_runners", name, content)
          const [row] = yield* sql`select filing_types, all_tags, volume, high_time, market_cap from intraday_runners`
          assert.deepStrictEqual(row, {
            filing_types: [],
            all_tags: [],
            volume: null,
            high_time: null,
            market_cap: null,
          })
        }
      }))

    it.effect("reads an empty cell as null, and an instant in any time zone (D31)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* replaceWith(
          "ticker_changes",
          "a.csv",
          toCsv([
            { ...changeRow, cik: "", company_name: "", recorded_at: "2026-06-01T13:30:00Z" },
            {
              ...changeRow,
              new_ticker: "CCC",
              cik: "0000320193",
              company_name: 'A, "B"\nC',
              recorded_at: "2026-06-01 09:30:00.500-04:00",
            },
          ]),
        )
        const rows = yield* sql`select cik, company_name, recorded_at::text from ticker_changes order by new_ticker`
        assert.deepStrictEqual(rows, [
          { cik: null, company_name: null, recorded_at: "2026-06-01 13:30:00+00" },
          { cik: "0000320193", company_name: 'A, "B"\nC', recorded_at: "2026-06-01 13:30:00.5+00" },
        ])
      }))

    it.effect("keeps every digit of NDJSON numbers from file to response (D16)", () =>
      Effect.gen(function* () {
        const numbers = {
          market_open: "0.1",
          previous_day_close: "9999998.5678",
          gap_percentage: "-0.0001",
          dollar_volume: "12345678901234567.89",
          rth_dollar_volume: "999999999999999999.99",
          volume: "9007199254740991",
          premarket_volume: "0",
          high_price: "1.3000",
          low_price: "0.1",
        }
        const { close_under_50pct_of_range: _, anomaly_flagged: __, ...rest } = sessionRow
        const others = { ...rest, close_under_50pct_of_range: false, anomaly_flagged: true }
        const text = Object.entries(others).filter(([name]) => !(name in numbers))
          .map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`)
        const line = `{${
          [...text, ...Object.entries(numbers).map(([name, value]) => `"${name}":${value}`)].join(",")
        }}\n`
        yield* replaceWith("intraday_runners", "a.ndjson", line)
        const response = yield* requestJson("/v1/intraday-runners")
        assert.strictEqual(response.status, 200)
        for (const [name, value] of Object.entries({ ...numbers, high_price: "1.3" })) {
          assert.include(response.text, `"${name}":${value},`)
        }
      }))

    it.effect("reads cells with line breaks and commas, and skips empty lines (D31)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const text = "\nold_ticker,company_name,new_ticker,effective_date,status\n\n" +
          'A,"one\r\ntwo, ""three""",B,2025-01-02,confirmed\r\n\r\n\n'
        assert.strictEqual((yield* replaceWith("ticker_changes", "a.csv", text)).rows, 1)
        assert.deepStrictEqual(yield* sql`select company_name from ticker_changes`, [
          { company_name: 'one\r\ntwo, "three"' },
        ])
      }))
  })

  describe("with an invalid row", () => {
    /** Valid cells for optional columns that must not be empty if the file contains them. */
    const validOptionalCells: Cells = { recorded_at: "2026-06-01T13:30:00Z" }
    /** Each case has a description of the error, the cells, the column that the message mentions, and the reason. */
    const wrongSessions: ReadonlyArray<readonly [string, Cells, string, RegExp]> = [
      ["an unknown column", { closing_price: "1" }, "closing_price", /not a column/],
      ["a column named like a property of every object", { constructor: "1" }, "constructor", /not a column/],
      ["an empty required cell", { market_open: "" }, "market_open", /must not be empty|decimal/],
      ["a date that does not exist", { date: "2025-02-30" }, "date", /exists in the calendar/],
      ["a date in another order", { date: "02/03/2025" }, "date", /YYYY-MM-DD/],
      ["a number with a large exponent", { market_open: "1e14" }, "market_open", /14 digits/],
      ["a number with a small exponent", { market_open: "1e-5" }, "market_open", /4 after it, but is "1e-5"$/],
      ["an exponent without a number", { market_open: "e3" }, "market_open", /decimal/],
      ["a number with a comma", { market_open: "1,5" }, "market_open", /decimal/],
      ["a number that is NaN", { market_open: "NaN" }, "market_open", /decimal/],
      ["an infinite number", { market_open: "Infinity" }, "market_open", /decimal/],
      ["too many digits", { market_open: "123456789012345" }, "market_open", /14 digits/],
      ["too many decimals", { market_open: "1.23456" }, "market_open", /4 after/],
      ["too many decimals of money", { dollar_volume: "1.234" }, "dollar_volume", /2 after/],
      ["a whole number above 2^53-1", { volume: "9007199254740992" }, "volume", /9007199254740991/],
      ["a whole number far above it", { volume: "99999999999999999999999" }, "volume", /9007199254740991/],
      ["a whole number with decimals", { volume: "1.5" }, "volume", /whole number/],
      ["white space within a number", { volume: "1 5" }, "volume", /whole number, .*, but is "1 5"$/],
      ["a boolean in other words", { anomaly_flagged: "yes" }, "anomaly_flagged", /true.*false/],
      ["a boolean as a digit", { close_under_50pct_of_range: "1" }, "close_under_50pct_of_range", /true.*false/],
      ["a wall-clock time with Z", { last_updated: "2026-06-01 20:05:00Z" }, "last_updated", /without a zone/],
      ["a wall-clock time with an offset", { high_time: "2026-06-01T20:05:00-04:00" }, "high_time", /without a zone/],
      [
        "a wall-clock time on a day that does not exist",
        { last_updated: "2026-02-30 20:05:00" },
        "last_updated",
        /wall-clock/,
      ],
      [
        "a wall-clock time on the 31st of a month with 30 days",
        { low_time: "2026-06-31 20:05:00" },
        "low_time",
        /wall-clock/,
      ],
      ["a wall-clock time with the hour 25", { last_updated: "2026-06-01 25:00:00" }, "last_updated", /wall-clock/],
      ["a date without a time", { last_updated: "2026-06-01" }, "last_updated", /wall-clock/],
      ["a symbol in lower case", { ticker: "zyxa" }, "ticker", /symbol/],
      ["a symbol with white space", { ticker: "ZYX A" }, "ticker", /symbol/],
      ["a symbol of 17 characters", { ticker: "ABCDEFGHIJKLMNOPQ" }, "ticker", /symbol/],
    ]
    const wrongChanges: ReadonlyArray<readonly [string, Cells, string, RegExp]> = [
      ["an unknown word", { status: "Confirmed" }, "status", /confirmed.*estimated/],
      ["a CIK without leading zeros", { cik: "320193" }, "cik", /ten digits/],
      ["an instant without a zone", { recorded_at: "2026-06-01 13:30:00" }, "recorded_at", /with its zone/],
      ["an instant on a day that does not exist", { recorded_at: "2026-02-30T13:30:00Z" }, "recorded_at", /instant/],
      ["an instant with an impossible offset", { recorded_at: "2026-06-01T13:30:00+25:00" }, "recorded_at", /instant/],
      ["a NUL character", { company_name: "Ac\0me" }, "company_name", /NUL|\\0|control/i],
    ]
    const invalidColumns = wrongSessions.filter(([, , , reason]) => reason.source === "not a column")
    const invalidSessions = wrongSessions.filter((wrong) => !invalidColumns.includes(wrong))
    // No case has more bad rows than a load reports.
    const cases = [
      { dataset: "intraday_runners", good: sessionRow, wrong: invalidSessions.slice(0, maxReportedBadRows) },
      { dataset: "intraday_runners", good: sessionRow, wrong: invalidSessions.slice(maxReportedBadRows) },
      { dataset: "ticker_changes", good: changeRow, wrong: wrongChanges },
    ] as const

    it.effect.each(cases)(
      "refuses wrong cells of $dataset, and reports line, column and reason of each (D31)",
      ({ dataset, good, wrong }) =>
        Effect.gen(function* () {
          yield* seed
          const valid = dataset === "ticker_changes" ? { ...good, old_ticker: "GOOD" } : { ...good, ticker: "GOOD" }
          const names = Array.from(new Set(wrong.flatMap(([, cells]) => Object.keys(cells))))
          const known = Object.fromEntries(names.map((name) => [name, good[name] ?? validOptionalCells[name] ?? ""]))
          const bad = wrong.map(([, cells]) => ({ ...good, ...known, ...cells }))
          const inCsv = parseErrors(yield* assertRefused(dataset, "bad.csv", toCsv([{ ...valid, ...known }, ...bad])))
          // The line of the first bad row. It follows the header and the valid row.
          const firstCsvLine = 3
          assert.deepStrictEqual(
            Array.from(new Set(inCsv.map(([line]) => line))),
            wrong.map((_, index) => firstCsvLine + index),
          )
          for (const [line, problem] of inCsv) {
            const [what, , column, reason] = wrong[line - firstCsvLine] ?? assert.fail(problem)
            assert.isTrue(problem.startsWith(`${column} `), `${what}: ${problem}`)
            assert.match(problem.slice(column.length + 1), reason, what)
          }
          const objects = wrong.map(([, cells]) => ({ ...good, ...cells }))
          const inJson = parseErrors(yield* assertRefused(dataset, "bad.ndjson", toNdjson([valid, ...objects])))
          const firstJsonLine = 2
          assert.deepStrictEqual(
            Array.from(new Set(inJson.map(([line]) => line))),
            wrong.map((_, index) => firstJsonLine + index),
          )
          for (const [line, problem] of inJson) {
            const [what, , column] = wrong[line - firstJsonLine] ?? assert.fail(problem)
            assert.isTrue(problem.startsWith(`${column} `), `${what}: ${problem}`)
          }
        }),
    )

    it.effect.each(invalidColumns.map(([what, cells, column]) => ({ what, cells, column })))(
      "refuses $what, and reports it as an error of the header (D31)",
      ({ cells, column }) =>
        Effect.gen(function* () {
          yield* seed
          for (const append of [false, true]) {
            const file = toCsv([{ ...sessionRow, ...cells }])
            const found = parseErrors(yield* assertRefused("intraday_runners", "bad.csv", file, append))
            assert.deepStrictEqual(found, [[1, `${column} is not a column of this table`]])
          }
          const file = toNdjson([sessionRow, { ...sessionRow, ...cells }])
          const found = parseErrors(yield* assertRefused("intraday_runners", "bad.ndjson", file))
          assert.deepStrictEqual(found, [[2, `${column} is not a column of this table`]])
        }),
    )

    it.effect("reports a missing required column (D31)", () =>
      Effect.gen(function* () {
        yield* seed
        const { market_open: _, ...without } = sessionRow
        assert.match(
          yield* assertRefused("intraday_runners", "a.csv", toCsv([without])),
          /^ {2}line 1: market_open is missing$/m,
        )
        assert.match(
          yield* assertRefused("intraday_runners", "a.ndjson", `\n${toNdjson([without])}`),
          /^ {2}line 2: market_open is missing$/m,
        )
      }))

    it.effect("refuses an array that is not JSON, or has elements that are not strings, in CSV and NDJSON (D31)", () =>
      Effect.gen(function* () {
        yield* seed
        for (const cell of ["8-K", "8-K,S-3", '{"a":1}', '["8-K",5]', '["8-K"', "null", '"8-K"']) {
          const found = parseErrors(
            yield* assertRefused("intraday_runners", "a.csv", toCsv([{ ...sessionRow, filing_types: cell }])),
          )
          assert.deepStrictEqual(found.map(([line]) => line), [2], cell)
          assert.match(found[0]?.[1] ?? "", /^filing_types must be a JSON array of strings/)
        }
        const wrong: ReadonlyArray<unknown> = ["8-K", { a: 1 }, ["8-K", 5], [true], [["8-K"]], [null], 5]
        for (const value of wrong) {
          const found = parseErrors(
            yield* assertRefused("intraday_runners", "a.ndjson", toNdjson([{ ...sessionRow, filing_types: value }])),
          )
          assert.deepStrictEqual(found.map(([line]) => line), [1], JSON.stringify(value))
          assert.match(
            found[0]?.[1] ?? "",
            /^filing_types must be a JSON array of strings.*, but is /,
            JSON.stringify(value),
          )
        }
        for (const value of [["8-K", ""], ["8-K", " "]]) {
          const found = parseErrors(
            yield* assertRefused("intraday_runners", "a.ndjson", toNdjson([{ ...sessionRow, filing_types: value }])),
          )
          assert.match(found[0]?.[1] ?? "", /^filing_types must not contain empty text, but is \["8-K",""\]$/)
        }
      }))

    it.effect("refuses an array in a text column, and reports it as an array, not as empty (D31)", () =>
      Effect.gen(function* () {
        yield* seed
        const found = parseErrors(
          yield* assertRefused("ticker_changes", "a.ndjson", toNdjson([{ ...changeRow, company_name: ["A"] }])),
        )
        assert.deepStrictEqual(found.map(([line]) => line), [1])
        assert.match(found[0]?.[1] ?? "", /^company_name (?!.*must not be empty$)/)
      }))

    it.effect("refuses an unpaired surrogate instead of replacing it (D31)", () =>
      Effect.gen(function* () {
        yield* seed
        const text = toNdjson([{ ...changeRow, company_name: "X" }]).replace('"X"', '"\\ud800x"')
        const inText = parseErrors(yield* assertRefused("ticker_changes", "a.ndjson", text))
        assert.deepStrictEqual(inText.map(([line]) => line), [1])
        const tags = toNdjson([{ ...sessionRow, all_tags: ["X"] }]).replace('["X"]', '["\\udc00"]')
        const inList = parseErrors(yield* assertRefused("intraday_runners", "a.ndjson", tags))
        assert.deepStrictEqual(inList.map(([line]) => line), [1])
      }))

    it.effect("refuses a list with a NUL character, and reports the line (D31)", () =>
      Effect.gen(function* () {
        yield* seed
        const text = toCsv([sessionRow, { ...sessionRow, ticker: "ZYXB", all_tags: JSON.stringify(["a\0b"]) }], [
          ...Object.keys(sessionRow),
          "all_tags",
        ])
        const found = parseErrors(yield* assertRefused("intraday_runners", "a.csv", text))
        assert.deepStrictEqual(found.map(([line]) => line), [3])
        assert.isTrue(found[0]?.[1].startsWith("all_tags "))
      }))

    it.effect("validates NDJSON numbers as written, before a float rounds them (D31)", () =>
      Effect.gen(function* () {
        yield* seed
        const line = (numbers: string) => `${toNdjson([{ ...sessionRow, x: 1 }]).trimEnd().replace('"x":1', numbers)}\n`
        for (
          const [numbers, column] of [
            ['"volume":9007199254740993', "volume"],
            ['"volume":1.0000000000000001e3', "volume"],
            ['"dollar_volume":0.30000000000000004', "dollar_volume"],
            ['"market_cap":1.00000000000000001E2', "market_cap"],
          ] as const
        ) {
          const found = parseErrors(yield* assertRefused("intraday_runners", "a.ndjson", line(numbers)))
          assert.deepStrictEqual(found.map(([at]) => at), [1])
          assert.isTrue(found[0]?.[1].startsWith(`${column} `))
        }
      }))

    it.effect("refuses a line that is not a JSON object, and reports its number (D31)", () =>
      Effect.gen(function* () {
        yield* seed
        const good = JSON.stringify(changeRow)
        const found = parseErrors(
          yield* assertRefused(
            "ticker_changes",
            "a.ndjson",
            [
              good,
              "",
              '{"old_ticker": ',
              "[1]",
              "  ",
              "5",
              "null",
              '{"old_ticker":{}}',
              "old_ticker,new_ticker",
            ].join("\r\n"),
          ),
        )
        assert.deepStrictEqual(found.map(([line]) => line), [3, 4, 6, 7, 8, 9])
        assert.match(found[4]?.[1] ?? "", /^old_ticker /)
      }))

    it.effect("counts lines correctly after empty lines and cells with line breaks (D31)", () =>
      Effect.gen(function* () {
        yield* seed
        const text = [
          "old_ticker,new_ticker,effective_date,status,company_name", // 1
          "", // 2
          'A,B,2025-01-02,confirmed,"one', // 3
          "two\r", // 4
          'three"', // 5
          "A,C,2025-01-02,wrong,x", // 6
          "\r", // 7
          'A,D,2025-13-02,confirmed,"', // 8: the row starts here
          '"', // 9
          "A,B,2025-01-02,confirmed\r", // 10
          "a,B,2025-01-02,confirmed,y,z", // 11
        ].join("\n")
        const found = parseErrors(yield* assertRefused("ticker_changes", "a.csv", text))
        assert.deepStrictEqual(Array.from(new Set(found.map(([line]) => line))), [6, 8, 10, 11])
        assert.match(found[0]?.[1] ?? "", /^status /)
        assert.match(found.at(-1)?.[1] ?? "", /6 cells.*5/)
      }))

    it.effect("reports only the first 20 bad rows (D31)", () =>
      Effect.gen(function* () {
        yield* seed
        const badRows = 3 * maxReportedBadRows
        const rows = Array.from({ length: badRows }, () => [{ ...changeRow, status: "wrong" }, changeRow]).flat()
        for (
          const message of [
            yield* assertRefused("ticker_changes", "a.csv", toCsv(rows)),
            yield* assertRefused("ticker_changes", "a.ndjson", `\n${toNdjson(rows)}`),
          ]
        ) {
          assert.deepStrictEqual(
            parseErrors(message).map(([line]) => line),
            // Every second row is bad, starting with line 2.
            Array.from({ length: maxReportedBadRows }, (_, index) => 2 + 2 * index),
          )
        }
      }))

    it.effect("leaves the table unchanged if a bad row follows thousands of good ones, even with --append (D31)", () =>
      Effect.gen(function* () {
        yield* seed
        const goodRows = insertBatchSize + 100
        const rows = [...makeChanges(goodRows, "G"), { ...changeRow, status: "wrong" }]
        const columns = Object.keys(changeRow)
        for (const append of [false, true]) {
          const message = yield* assertRefused("ticker_changes", "a.csv", toCsv(rows, columns), append)
          assert.match(message, /unchanged/)
          const lineOfBadRow = goodRows + 2
          assert.deepStrictEqual(parseErrors(message).map(([line]) => line), [lineOfBadRow])
        }
      }))

    it.effect("reports an error in the header once, and suggests the most similar column (D31)", () =>
      Effect.gen(function* () {
        yield* seed
        const rowCount = 30
        const rows = Array.from({ length: rowCount }, () => ({ ...changeRow, status: "wrong" }))
        const names = ["Old_Ticker", "new_tiker", "effective_date", "closing", "status"]
        const body = toCsv(rows).split("\n").slice(1).map((line) => line.replace(/,confirmed|,wrong/, ",x,wrong")).join(
          "\n",
        )
        assert.deepStrictEqual(
          parseErrors(yield* assertRefused("ticker_changes", "a.csv", `${names.join(",")}\n${body}`)),
          [
            [1, "Old_Ticker is not a column of this table; did you mean old_ticker?"],
            [1, "new_tiker is not a column of this table; did you mean new_ticker?"],
            [1, "closing is not a column of this table"],
          ],
        )
        const objects = Array.from({ length: rowCount }, () => ({ ...changeRow, compny_name: "A" }))
        const inJson = yield* assertRefused("ticker_changes", "a.ndjson", toNdjson(objects))
        assert.deepStrictEqual(parseErrors(inJson), [
          [1, "compny_name is not a column of this table; did you mean company_name?"],
        ])
      }))

    it.effect("refuses a header with a repeated, unknown or missing column, even without rows (D31)", () =>
      Effect.gen(function* () {
        yield* seed
        assert.match(
          yield* assertRefused(
            "ticker_changes",
            "a.csv",
            `${Object.keys(changeRow).join(",")},status\nA,B,2025-01-02,confirmed,estimated\n`,
          ),
          /line 1: status /,
        )
        assert.match(
          yield* assertRefused("ticker_changes", "a.csv", `${Object.keys(changeRow).join(",")},closing\n`),
          /line 1: closing /,
        )
        assert.match(
          yield* assertRefused("ticker_changes", "a.csv", "old_ticker,new_ticker,status\n"),
          /line 1: effective_date /,
        )
      }))
  })

  describe("with an unreadable file", () => {
    const header = `${Object.keys(changeRow).join(",")}\n`
    /** Each case has a description of the error, the file's name and content, and the expected message. */
    const cases: ReadonlyArray<readonly [string, string, string | Uint8Array, RegExp]> = [
      ["an unknown file type", "a.parquet", "PAR1", /a\.parquet.*\.csv.*\.ndjson/],
      [
        "a truncated gzip file",
        "a.csv.gz",
        gzipSync(toCsv(makeChanges(500, "A"))).subarray(0, 300),
        /a\.csv\.gz.*gzip/,
      ],
      [
        "a gzip file without its last bytes",
        "a.ndjson.gz",
        gzipSync(toNdjson(makeChanges(50, "A"))).subarray(0, -4),
        /a\.ndjson\.gz.*gzip/,
      ],
      ["an empty .gz file", "a.csv.gz", "", /a\.csv\.gz/],
      ["a .gz file that is not gzip", "a.csv.gz", header, /a\.csv\.gz.*gzip/],
      ["an empty CSV file, without even a header", "a.csv", "", /a\.csv.*header/],
      ["a quote that is never closed", "a.csv", `${header}AAA,"BBB,2025-03-03,confirmed\n`, /[Ll]ine 2/],
      ["text after a closing quote", "a.csv", `${header}AAA,"B"BB,2025-03-03,confirmed\n`, /[Ll]ine 2/],
      [
        "a CSV file that is not UTF-8",
        "a.csv",
        Buffer.from(`${header.trimEnd()},company_name\nA,B,2025-03-03,confirmed,Caf\xe9\n`, "latin1"),
        /UTF-8/,
      ],
      [
        "an NDJSON file that is not UTF-8",
        "a.ndjson",
        Buffer.from(toNdjson([{ ...changeRow, company_name: "Caf\xe9" }]), "latin1"),
        /UTF-8/,
      ],
    ]
    it.effect.each(cases.map(([what, name, content, expected]) => ({ what, name, content, expected })))(
      "refuses $what, and keeps the table's rows (D31)",
      ({ content, name, expected }) =>
        Effect.gen(function* () {
          yield* seed
          assert.match(yield* assertRefused("ticker_changes", name, content), expected)
        }),
    )

    it.effect("distinguishes a missing file from a folder (D31)", () =>
      Effect.gen(function* () {
        yield* seed
        const fs = yield* FileSystem.FileSystem
        const place = yield* folder
        yield* fs.makeDirectory(`${place}/folder.csv`)
        const before = yield* readTableState("ticker_changes")
        const missing = yield* Effect.flip(load("ticker_changes", `${place}/none.csv`))
        assert.match(missing.message, /(?=.*none\.csv).*(NotFound|not found|no such|not exist|no file)/i)
        const missingGz = yield* Effect.flip(load("ticker_changes", `${place}/none.csv.gz`))
        assert.match(missingGz.message, /(?=.*none\.csv\.gz).*(NotFound|not found|no such|not exist|no file)/i)
        const directory = yield* Effect.flip(load("ticker_changes", `${place}/folder.csv`))
        assert.match(directory.message, /folder\.csv.*(directory|folder\b(?!\.csv)|not a file)/i)
        assert.deepStrictEqual(yield* readTableState("ticker_changes"), before)
      }))

    const empties: ReadonlyArray<readonly [name: string, content: string | Uint8Array]> = [
      ["a.csv", header],
      ["a.csv", `\uFEFF${header}\r\n\n`],
      ["a.csv.gz", gzipSync(header)],
      ["a.ndjson", ""],
      ["a.jsonl", "\n \n"],
      ["a.ndjson.gz", gzipSync("\n")],
    ]

    it.effect("refuses a file without rows, unless --allow-empty is given (D31)", () =>
      Effect.gen(function* () {
        yield* seed
        for (const [name, content] of empties) {
          const replacing = yield* assertRefused("ticker_changes", name, content)
          assert.include(replacing, `${name} has no rows, so it was refused and ticker_changes is unchanged.`)
          assert.include(replacing, "It would have removed the only row from the table.")
          assert.include(replacing, "--allow-empty")
          const adding = yield* assertRefused("ticker_changes", name, content, true)
          assert.include(adding, "It would have added nothing.")
        }
        for (const [name, content] of empties) {
          yield* seed
          const task = { dataset: "ticker_changes", file: yield* writeTestFile(name, content), allowEmpty: true }
          const loading = (append: boolean) =>
            Effect.flatMap(Ref.make(0), (rows) => loadDatasetFile({ ...task, append }, rows))
          assert.strictEqual((yield* loading(true)).rows, 0)
          assert.strictEqual((yield* readTableState("ticker_changes")).rows, 1)
          assert.strictEqual((yield* loading(false)).rows, 0)
          assert.strictEqual((yield* readTableState("ticker_changes")).rows, 0)
        }
      }))

    it.effect("refuses a file without rows even with --check (D31)", () =>
      Effect.gen(function* () {
        yield* seed
        const file = yield* writeTestFile("a.csv", header)
        const task = { dataset: "ticker_changes", file, append: false, check: true }
        const error = yield* Effect.flip(Effect.flatMap(Ref.make(0), (rows) => loadDatasetFile(task, rows)))
        assert.strictEqual(error._tag, "EmptyLoadFile")
      }))

    const columns = Object.keys(changeRow)
    const separators = [
      ["semicolons", "a.csv", `${columns.join(";")}\nA;B;2025-03-03;confirmed\n`],
      ["semicolons", "a.csv", `\uFEFF"${columns.join('";"')}"\r\n"A";"B";"2025-03-03";"confirmed"\r\n`],
      ["semicolons", "a.csv.gz", gzipSync(`sep=;\n${columns.join(";")}\n`)],
      ["tabs", "a.csv", `${columns.join("\t")}\nA\tB\t2025-03-03\tconfirmed\n`],
      ["vertical bars", "a.csv", `${columns.join("|")}\rA|B|2025-03-03|confirmed, later\r`],
    ] as const
    it.effect.each(separators.map(([name, file, content]) => ({ name, file, content })))(
      "refuses $file, which is separated by $name (D31)",
      ({ content, file, name }) =>
        Effect.gen(function* () {
          yield* seed
          const message = yield* assertRefused("ticker_changes", file, content)
          assert.match(message, new RegExp(`${file} is separated by ${name}, but load expects commas`))
          assert.deepStrictEqual(parseErrors(message), [])
        }),
    )
  })

  it.effect("accepts booleans as PostgreSQL, pandas and spreadsheets write them (D31, operations/data)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const booleans = ["true", "f", "True", "FALSE"]
      const rows = booleans.map((is_adr, index) => ({
        ticker: `B${index}`,
        is_adr,
        last_updated: "2026-06-01 20:05:00",
      }))
      yield* replaceWith("float_outstanding", "booleans.csv", toCsv(rows))
      const stored = yield* sql`select is_adr from float_outstanding order by ticker`
      assert.deepStrictEqual(stored.map(({ is_adr }) => is_adr), [true, false, true, false])
    }))

  describe("with unknown values", () => {
    const company = { is_adr: "false", last_updated: "2026-06-01 20:05:00" }
    const readColumns = Effect.flatMap(
      SqlClient.SqlClient,
      (sql) => sql`select ticker, company, sector, "float"::text, source from float_outstanding order by ticker`,
    )

    it.effect("keeps texts such as NULL and names them in the result, but reads those in the option nulls as null (D43)", () =>
      Effect.gen(function* () {
        const rows = [
          { ...company, ticker: "A", company: "NULL", sector: " NaN ", float: "100.0", source: "" },
          { ...company, ticker: "B", company: "NULL", sector: "None", float: "14681140000.000", source: "\\N" },
          { ...company, ticker: "C", company: "\\N", sector: "#N/A", float: "\\N", source: '["https://a.example/"]' },
          { ...company, ticker: "NULL", company: "Null Inc.", sector: "N/A", float: "", source: "" },
        ]
        const kept = yield* replaceWith("float_outstanding", "a.csv", toCsv(rows))
        assert.deepStrictEqual(kept.unknownTexts, [
          { column: "company", text: "NULL", count: 2 },
          { column: "sector", text: "NaN", count: 1 },
          { column: "sector", text: "None", count: 1 },
          { column: "sector", text: "#N/A", count: 1 },
          { column: "ticker", text: "NULL", count: 1 },
          { column: "sector", text: "N/A", count: 1 },
        ])
        assert.deepStrictEqual(yield* readColumns, [
          { ticker: "A", company: "NULL", sector: "NaN", float: "100", source: null },
          { ticker: "B", company: "NULL", sector: "None", float: "14681140000", source: null },
          { ticker: "C", company: null, sector: "#N/A", float: null, source: ["https://a.example/"] },
          { ticker: "NULL", company: "Null Inc.", sector: "N/A", float: null, source: null },
        ])
        const [first, second, third] = rows
        const withNulls = [first, { ...second, float: "None" }, { ...third, source: "NaN" }]
        const file = yield* writeTestFile("nulls.csv", toCsv(withNulls.map((row) => ({ ...company, ...row }))))
        const result = yield* Effect.flatMap(
          Ref.make(0),
          (inserted) =>
            loadDatasetFile(
              { dataset: "float_outstanding", file, append: false, nulls: ["NaN", "None", "NULL"] },
              inserted,
            ),
        )
        assert.deepStrictEqual(result.unknownTexts, [{ column: "sector", text: "#N/A", count: 1 }])
        assert.deepStrictEqual(yield* readColumns, [
          { ticker: "A", company: null, sector: null, float: "100", source: null },
          { ticker: "B", company: null, sector: null, float: null, source: null },
          { ticker: "C", company: null, sector: "#N/A", float: null, source: null },
        ])
      }))

    it.effect("keeps an apostrophe at the start of text, even with a byte order mark, if no export has this header (D43)", () =>
      Effect.gen(function* () {
        for (const mark of ["", "\uFEFF"]) {
          const rows = [{ ...company, ticker: "A", company: "'=1+1", sector: "'-tis" }]
          yield* replaceWith("float_outstanding", "a.csv", `${mark}${toCsv(rows)}`)
          assert.deepStrictEqual(yield* readColumns, [
            { ticker: "A", company: "'=1+1", sector: "'-tis", float: null, source: null },
          ])
        }
      }))

    it.effect.each(["csv", "ndjson"])(
      "reads numbers with exponents, and with zeros at the end, in %s (D43)",
      (format) =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const numbers = [
            ["1e+05", "1.52E-1"],
            ["1.0E10", "0.12500000"],
            ["12.5e1", "5e-02"],
            ["-0", "0.0000000"],
            ["9.007199254740991e15", "1.0000e+0"],
          ] as const
          const text = format === "csv"
            ? toCsv(numbers.map(([float, insider_percent], index) => ({
              ...company,
              ticker: `T${index}`,
              float,
              insider_percent,
            })))
            : numbers.map(([float, percent], index) =>
              `${JSON.stringify({ ...company, ticker: `T${index}` }).slice(0, -1)},"float":${float},` +
              `"insider_percent":${percent}}\n`
            ).join("")
          yield* replaceWith("float_outstanding", `a.${format}`, text)
          assert.deepStrictEqual(
            yield* sql`select "float"::text, insider_percent from float_outstanding order by ticker`,
            [
              { float: "100000", insider_percent: "0.1520" },
              { float: "10000000000", insider_percent: "0.1250" },
              { float: "125", insider_percent: "0.0500" },
              { float: "0", insider_percent: "0.0000" },
              { float: "9007199254740991", insider_percent: "1.0000" },
            ],
          )
        }),
    )

    it.effect.each(
      [
        ["100.5", /float must be a whole number/],
        ["1.5e0", /float must be a whole number, at most 9007199254740991, but is "1.5e0"/],
        ["1e16", /float must be a whole number/],
        ["9007199254740992.0", /float must be a whole number, at most 9007199254740991/],
        ["100.", /float must be a whole number/],
      ] as const,
    )("refuses %s as a whole number (D43)", ([float, reason]) =>
      Effect.gen(function* () {
        yield* seed
        const text = toCsv([{ ...company, ticker: "A", float }])
        assert.match(yield* assertRefused("float_outstanding", "a.csv", text), reason)
      }))

    it.effect.each(
      [
        ["2026-06-01 09:30:00.123456", "last_updated", /must have at most three decimals of a second, but is "2026/],
        ["2026-06-01T09:30:00.1234567-05:00", "last_updated", /must have at most three decimals of a second/],
        ["2026-06-01 09:30:00Z", "last_updated", /must be a wall-clock time without a zone/],
        ["2026-06-31 09:30:00.123456", "last_updated", /must be a wall-clock time without a zone/],
      ] as const,
    )("says why it refuses the time %s (D31)", ([time, column, reason]) =>
      Effect.gen(function* () {
        yield* seed
        const text = toCsv([{ ...company, ticker: "A", [column]: time }])
        assert.match(yield* assertRefused("float_outstanding", "a.csv", text), reason)
      }))

    it.effect("says that a line such as sep=, must not precede the header (D31)", () =>
      Effect.gen(function* () {
        yield* seed
        const message = yield* assertRefused("ticker_changes", "a.csv", `\uFEFFsep=,\r\n${toCsv([changeRow])}`)
        assert.include(message, "begins with the line sep=,, which is for spreadsheets. Remove this line")
      }))
  })

  describe("with rows that share a key", () => {
    it.effect("refuses an event whose two symbols are equal (D22)", () =>
      Effect.gen(function* () {
        yield* seed
        const rows = [{ ...changeRow, old_ticker: "GOOD" }, { ...changeRow, new_ticker: "AAA" }]
        const csvSays = parseErrors(yield* assertRefused("ticker_changes", "a.csv", toCsv(rows)))
        assert.deepStrictEqual(csvSays.map(([line]) => line), [3])
        assert.match(csvSays[0]?.[1] ?? "", /(old|new)_ticker.*differ/)
        const jsonSays = parseErrors(yield* assertRefused("ticker_changes", "a.ndjson", toNdjson(rows), true))
        assert.deepStrictEqual(jsonSays.map(([line]) => line), [2])
      }))

    const cik = "0000320193"
    /** Reads the status and company name of each ticker change, in order. */
    const readNames = Effect.flatMap(SqlClient.SqlClient, (sql) =>
      Effect.map(
        sql<
          { readonly name: string }
        >`select concat_ws(' ', status, company_name) as name from ticker_changes order by 1`,
        (rows) => rows.map(({ name }) => name),
      ))

    it.effect("keeps the last row of a key, drops identical rows, and treats a missing CIK as a value (D22)", () =>
      Effect.gen(function* () {
        const rows: ReadonlyArray<Cells> = [
          { ...changeRow, cik, company_name: "an estimate", status: "estimated" },
          { ...changeRow, cik, company_name: "the fact" },
          { ...changeRow, cik: "", company_name: "without a CIK" },
          { ...changeRow, cik: "", company_name: "without a CIK" },
          { ...changeRow, cik, effective_date: "2025-03-04", company_name: "another day" },
          { ...changeRow, cik, old_ticker: "BBB", new_ticker: "AAA", company_name: "the other way" },
        ]
        const { dropped, rows: loaded, superseded } = yield* replaceWith("ticker_changes", "a.csv", toCsv(rows))
        assert.deepStrictEqual({ loaded, dropped, superseded }, { loaded: 4, dropped: 1, superseded: 1 })
        assert.deepStrictEqual(yield* readNames, [
          "confirmed another day",
          "confirmed the fact",
          "confirmed the other way",
          "confirmed without a CIK",
        ])
      }))

    it.effect("updates rows with a known key on --append, and counts added, updated and unchanged rows (D22)", () =>
      Effect.gen(function* () {
        const first = [
          { ...changeRow, cik, company_name: "a" },
          { ...changeRow, cik: "", company_name: "b" },
          { ...changeRow, cik, old_ticker: "CCC", company_name: "c" },
        ]
        yield* replaceWith("ticker_changes", "a.csv", toCsv(first))
        const again = yield* appendText("ticker_changes", "a.csv", toCsv([...first, ...first]))
        assert.deepStrictEqual(again.merged, { added: 0, updated: 0, unchanged: 3, kept: 0 })
        assert.strictEqual(again.dropped, 3)
        const more = [
          { ...changeRow, cik, company_name: "a", status: "reverted" },
          { ...changeRow, cik: "", company_name: "b", status: "estimated" },
          { ...changeRow, cik: "", company_name: "b", status: "blocked" },
          { ...changeRow, cik, old_ticker: "CCC", company_name: "c" },
          { ...changeRow, cik: "0000000001", company_name: "d" },
        ]
        const { merged, rows, superseded } = yield* appendText("ticker_changes", "b.csv", toCsv(more))
        assert.deepStrictEqual(merged, { added: 1, updated: 2, unchanged: 1, kept: 0 })
        assert.deepStrictEqual([rows, superseded], [4, 1])
        assert.deepStrictEqual(yield* readNames, ["blocked b", "confirmed c", "confirmed d", "reverted a"])
        // A column that the file omits becomes null.
        yield* appendText("ticker_changes", "c.csv", toCsv([{ ...changeRow, cik, status: "confirmed" }]))
        assert.deepStrictEqual(yield* readNames, ["blocked b", "confirmed", "confirmed c", "confirmed d"])
        assert.deepStrictEqual(yield* findLeftoverTables, [])
      }))

    it.effect("updates a row on --append that another program adds while the load runs (D22)", () =>
      Effect.gen(function* () {
        yield* replaceWith("ticker_changes", "a.csv", toCsv([{ ...changeRow, company_name: "old" }]))
        const other = yield* beginTransaction(
          Service.insertRows("ticker_changes", { ...changeRow, old_ticker: "CCC", company_name: "other" }),
        )
        const rows = [{ ...changeRow, company_name: "new" }, { ...changeRow, old_ticker: "CCC", company_name: "new" }]
        const loading = yield* Effect.forkChild(appendText("ticker_changes", "b.csv", toCsv(rows)))
        yield* waitUntilBlocked
        yield* other.commit
        const { merged } = yield* Fiber.join(loading)
        assert.deepStrictEqual(merged, { added: 0, updated: 2, unchanged: 0, kept: 0 })
        assert.deepStrictEqual(yield* readNames, ["confirmed new", "confirmed new"])
      }))

    it.effect("refuses an --append if a unique index besides the key keeps a row out, and names the row (D31)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* replaceWith("ticker_changes", "a.csv", toCsv([{ ...changeRow, company_name: "taken" }]))
        yield* sql`create unique index other_key on ticker_changes (company_name)`
        yield* Effect.addFinalizer(() => Effect.orDie(sql`drop index other_key`))
        const rows = [{ ...changeRow, company_name: "free" }, { ...changeRow, old_ticker: "CCC", company_name: "free" }]
        const refused = yield* Effect.flip(appendText("ticker_changes", "b.csv", toCsv(rows)))
        assert.include(
          String(refused),
          "The row with the key (old_ticker, new_ticker, effective_date, cik) = (CCC,BBB,2025-03-03,) could not be merged",
        )
        assert.deepStrictEqual(yield* readNames, ["confirmed taken"])
      }))

    it.effect("stops an event from being followed when --append reverts it (D22, D17, §4.1)", () =>
      Effect.gen(function* () {
        yield* replaceWith("ticker_changes", "a.csv", toCsv([{ ...changeRow, cik }]))
        const current = Effect.map(
          requestJson("/v1/ticker-changes?ticker=AAA"),
          ({ body }) => Service.valueAt(body, "results", 0, "current_ticker"),
        )
        yield* Effect.all([current, current, current])
        assert.strictEqual(yield* current, "BBB")
        yield* appendText("ticker_changes", "b.csv", toCsv([{ ...changeRow, cik, status: "reverted" }]))
        yield* waitUntil("the reverted event", Effect.map(current, (ticker) => ticker === null))
      }))

    it.effect("keeps recorded_at of an unchanged event, and renews it if the event changed (D22)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const recorded = Effect.map(
          sql<{ readonly at: string }>`select recorded_at::text as at from ticker_changes`,
          ([row]) => row?.at,
        )
        const then = { recorded_at: "2020-01-01T00:00:00Z" }
        yield* replaceWith("ticker_changes", "a.csv", toCsv([{ ...changeRow, ...then }]))
        assert.deepStrictEqual((yield* appendText("ticker_changes", "b.csv", toCsv([changeRow]))).merged?.unchanged, 1)
        assert.strictEqual(yield* recorded, "2020-01-01 00:00:00+00")
        yield* appendText("ticker_changes", "b.csv", toCsv([{ ...changeRow, recorded_at: "2021-01-01T00:00:00Z" }]))
        assert.strictEqual(yield* recorded, "2021-01-01 00:00:00+00")
        yield* appendText("ticker_changes", "b.csv", toCsv([{ ...changeRow, status: "blocked" }]))
        assert.match(String(yield* recorded), /^20(?!20|21)/)
      }))

    it.effect("finds repeated and corrected rows across batches (D22)", () =>
      Effect.gen(function* () {
        const [distinctRows, repeatedRows, correctedRows] = [insertBatchSize + 200, 60, 40]
        const rows = makeChanges(distinctRows, "A")
        const later = rows.slice(0, repeatedRows + correctedRows)
          .map((row, index) => index < repeatedRows ? row : { ...row, status: "reverted" })
        const file = toCsv([...rows, ...later])
        const { dropped, rows: loaded, superseded } = yield* replaceWith("ticker_changes", "a.csv", file)
        assert.deepStrictEqual([loaded, dropped, superseded], [distinctRows, repeatedRows, correctedRows])
        const sql = yield* SqlClient.SqlClient
        assert.lengthOf(yield* sql`select 1 from ticker_changes where status = 'reverted'`, correctedRows)
      }))

    it.effect("drops a former name that is repeated, with or without a date (D22)", () =>
      Effect.gen(function* () {
        const name = { ticker: "AAA", former_ticker: "BBB", date: "" }
        const rows = [name, name, { ...name, date: "2020-02-02" }, { ...name, date: "2020-02-02" }]
        const { dropped, rows: loaded } = yield* replaceWith("historical_tickers", "a.csv", toCsv(rows))
        assert.deepStrictEqual([loaded, dropped], [2, 2])
        const again = yield* appendText(
          "historical_tickers",
          "a.csv",
          toCsv([...rows, { ...name, former_ticker: "CCC" }]),
        )
        assert.deepStrictEqual(again.merged, { added: 1, updated: 0, unchanged: 2, kept: 0 })
      }))

    /** Returns the example row that `datasets` prints for a dataset. */
    const exampleOf = (dataset: (typeof loadableDatasets)[number]): Cells => {
      const [, example = ""] = describeDatasetFormat(dataset).split(`${dataset.table}.csv:\n`)
      const [names = "", cells = ""] = example.split("\n").map((line) => line.trim())
      const list = Array.from(
        cells.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g),
        ([, quotedCell, cell]) => quotedCell === undefined ? cell ?? "" : quotedCell.replaceAll('""', '"'),
      )
      return Object.fromEntries(names.split(",").map((name, at) => [name, list[at] ?? ""]))
    }
    /** Valid values that differ from those in the example row, for columns that are not part of a key. */
    const differences = { last_updated: "2026-06-02 20:05:00", status: "reverted", close: "99.99" } as const

    it.effect.each(sampleUnlessThorough(loadableDatasets, 4, 0))(
      "keeps the last row of a key in $table, in a file and with --append (D22)",
      (dataset) =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const row = exampleOf(dataset)
          const column = (["last_updated", "status", "close"] as const).find((name) => name in row)
          const zone = ["gap_stats", "research_reports"].includes(dataset.table) ? "Z" : ""
          const other = column === undefined ? row : {
            ...row,
            [column]: differences[column] + (column === "last_updated" ? zone : ""),
          }
          const stored = Effect.map(
            sql<{ readonly row: string }>`select (to_jsonb(t) - 'recorded_in')::text as row from ${
              sql(dataset.table)
            } as t`,
            (rows) => rows.map(({ row }) => row),
          )
          const put = (append: boolean, ...rows: ReadonlyArray<Cells>) =>
            Effect.flatMap(writeTestFile("rows.csv", toCsv(rows)), (file) => load(dataset.table, file, append))
          yield* put(false, row)
          const first = yield* stored
          const inFile = yield* put(false, row, other)
          const second = yield* stored
          assert.strictEqual(inFile.rows, 1)
          assert.strictEqual(inFile.superseded, column === undefined ? 0 : 1)
          assert.deepStrictEqual((yield* put(true, other)).merged, { added: 0, updated: 0, unchanged: 1, kept: 0 })
          const { merged } = yield* put(true, row)
          assert.deepStrictEqual(merged, {
            added: 0,
            updated: column === undefined ? 0 : 1,
            unchanged: column === undefined ? 1 : 0,
            kept: 0,
          })
          if (column !== undefined) assert.notDeepEqual(second, first)
          if (dataset.table !== "ticker_changes") assert.deepStrictEqual(yield* stored, first)
          assert.lengthOf(yield* stored, 1)
        }),
    )

    it.effect.each(loadableDatasets)(
      "uses a unique constraint of $table as its key (D22)",
      ({ key, table }) =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const found = yield* sql<{ readonly columns: string }>`
          select string_agg(attname, ',' order by attname) as columns
          from pg_constraint join pg_attribute on attrelid = conrelid and attnum = any (conkey)
          where conrelid = ${`public.${table}`}::regclass and contype in ('p', 'u') group by pg_constraint.oid
        `
          assert.include(found.map(({ columns }) => columns), key.toSorted().join(","))
        }),
    )

    it.effect("updates both copies of a row with --append, and removes one of them without --append, if a table lost its key (D22)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const row = { ticker: "TWICE", date: "2025-01-02", close: "1" }
        const file = yield* writeTestFile("a.csv", toCsv([{ ...row, close: "2" }, { ...row, ticker: "ONCE" }]))
        yield* sql`truncate daily_prices`
        yield* sql`alter table daily_prices drop constraint daily_prices_pkey`
        yield* sql`insert into daily_prices values ('TWICE', '2025-01-02', 1), ('TWICE', '2025-01-02', 1.5)`
        // The failed statement leaves an invalid index, which proves nothing about the rows.
        yield* Effect.flip(sql`create unique index concurrently invalid_key on daily_prices (ticker, date)`)
        const { merged } = yield* load("daily_prices", file, true)
        assert.deepStrictEqual(merged, { added: 1, updated: 1, unchanged: 0, kept: 0 })
        const closes =
          sql`select ticker, trim_scale(close) as close from daily_prices where ticker in ('ONCE', 'TWICE') order by 1`
        const [once, twice] = [{ ticker: "ONCE", close: "1" }, { ticker: "TWICE", close: "2" }]
        assert.deepStrictEqual(yield* closes, [once, twice, twice])
        const task = { dataset: "daily_prices", file, append: false }
        const checked = yield* loadDatasetFile({ ...task, check: true }, yield* Ref.make(0))
        const replaced = yield* loadDatasetFile(task, yield* Ref.make(0))
        assert.deepStrictEqual(replaced.merged, { added: 0, updated: 0, unchanged: 2, kept: 0, removed: 1 })
        assert.deepStrictEqual(checked, replaced)
        assert.deepStrictEqual(yield* closes, [once, twice])
        yield* sql`drop index invalid_key`
        yield* sql`alter table daily_prices alter ticker set not null, alter date set not null`
        yield* sql`alter table daily_prices add primary key (ticker, date)`
      }))

    it.effect("counts an --append as a change only if it changes a row (D17)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const noted = Effect.map(
          sql<{ readonly changes: number }>`
            select coalesce(sum(changes), 0)::int as changes from dataset_versions where dataset = 'ticker_changes'
          `,
          ([row]) => row?.changes ?? 0,
        )
        const rows = makeChanges(5, "A")
        yield* replaceWith("ticker_changes", "a.csv", toCsv(rows))
        const before = yield* noted
        yield* appendText("ticker_changes", "a.csv", toCsv(rows))
        assert.strictEqual(yield* noted, before)
        yield* appendText("ticker_changes", "a.csv", toCsv([{ ...rows[0], status: "blocked" }]))
        assert.strictEqual(yield* noted, before + 1)
        yield* appendText("ticker_changes", "a.csv", toCsv(makeChanges(1, "B")))
        assert.strictEqual(yield* noted, before + 2)
      }))

    it.effect("warns about symbols that are too long for requests to /v1/ticker-changes (D6)", () =>
      Effect.gen(function* () {
        const rows = [
          changeRow,
          { ...changeRow, old_ticker: "SEVENTH" },
          { ...changeRow, new_ticker: "ABCDEFGHIJKLMNOP" },
          { ...changeRow, old_ticker: "SIXSIX" },
          { ...changeRow, old_ticker: "EIGHTH.A" },
          { ...changeRow, old_ticker: "NINTHNINT" },
          { ...changeRow, old_ticker: "UNIT-UN" },
        ]
        const { rows: loaded, warnings } = yield* replaceWith("ticker_changes", "a.csv", toCsv(rows))
        assert.strictEqual(loaded, rows.length)
        assert.match(
          warnings.join(),
          /^Warning: 4 rows .* \(SEVENTH in line 3, ABCDEFGHIJKLMNOP in line 4, EIGHTH\.A in line 6, …\)/,
        )
        assert.deepStrictEqual((yield* replaceWith("ticker_changes", "a.csv", toCsv([changeRow]))).warnings, [])
      }))

    it.effect("warns about closes of days on which the exchanges were closed (D32, operations/data)", () =>
      Effect.gen(function* () {
        const toCloses = (...days: ReadonlyArray<string>) =>
          toCsv(days.map((date) => ({ ticker: "ZYXA", date, close: "5" })))
        const closedDays = ["2026-06-06", "2026-05-25", "2025-01-09", "2026-06-07"]
        const { rows, warnings } = yield* replaceWith(
          "daily_prices",
          "a.csv",
          toCloses("2026-06-05", ...closedDays, "2026-06-08"),
        )
        assert.deepStrictEqual([rows, warnings], [
          closedDays.length + 2,
          [
            "Warning: 4 rows of daily_prices for days on which the exchanges were closed (2025-01-09, 2026-05-25, " +
            "2026-06-06, …). A day with closes counts as a trading day, so market caps on it are null for symbols without a " +
            "close.",
          ],
        ])
        const open = yield* replaceWith("daily_prices", "a.csv", toCloses("2026-06-05", "2026-06-08"))
        assert.deepStrictEqual(open.warnings, [])
      }))
  })

  describe("while clients read", () => {
    /** The observations of a repeated read. */
    interface Readings {
      /** The distinct results, in order of first occurrence. */
      readonly results: Set<string>
      readonly reads: Ref.Ref<number>
      /** The duration of the longest read, in milliseconds. */
      readonly longest: Ref.Ref<number>
    }
    /** Repeats a read every 10 ms until interrupted, and records the results. */
    const readRepeatedly = <E, R>(readings: Readings, read: Effect.Effect<string, E, R>) =>
      Effect.repeat(
        Effect.gen(function* () {
          const [duration, result] = yield* Effect.timed(read)
          readings.results.add(result)
          yield* Ref.update(readings.reads, (reads) => reads + 1)
          yield* Ref.update(readings.longest, (longest) => Math.max(longest, Duration.toMillis(duration)))
        }),
        Schedule.spaced("10 millis"),
      )
    const makeReadings = Effect.map(Effect.all([Ref.make(0), Ref.make(0)]), ([reads, longest]): Readings => ({
      results: new Set<string>(),
      reads,
      longest,
    }))

    /** Reads the number of sessions and their lowest and highest `market_open`. */
    const readSessions = Effect.flatMap(SqlClient.SqlClient, (sql) =>
      Effect.map(
        sql<
          { readonly seen: string }
        >`select concat_ws(' ', count(*), min(market_open), max(market_open)) as seen from intraday_runners`,
        ([row]) => row?.seen ?? "",
      ))

    it.effect("lets readers see either the old or the new rows, without waiting, while 6,000 rows are replaced (D31)", () =>
      Effect.gen(function* () {
        yield* skipUnlessThorough
        yield* replaceWith("intraday_runners", "old.csv", toCsv(makeSessions(100, "1")))
        const file = yield* writeTestFile("new.csv", toCsv(makeSessions(6_000, "2")))
        const [inSql, overHttp] = [yield* makeReadings, yield* makeReadings]
        const requestSession = Effect.map(
          requestJson("/v1/intraday-runners?limit=1"),
          ({ status, text }) => `${status} ${/"market_open":\d/.exec(text)?.[0]}`,
        )
        const readers = yield* Effect.forkChild(
          Effect.all([readRepeatedly(inSql, readSessions), readRepeatedly(overHttp, requestSession)], {
            concurrency: 2,
            discard: true,
          }),
        )
        const loading = yield* startCommand(["load", "intraday-runners", file, "--yes"])
        const [loadTime, { code, err, out }] = yield* Effect.timed(loading.result)
        assert.strictEqual(code, 0, err)
        assert.match(out, /^intraday_runners: 6000 rows loaded/)
        yield* waitUntil(
          "a read after the load",
          Effect.sync(() => inSql.results.size === 2 && overHttp.results.size === 2),
        )
        yield* Fiber.interrupt(readers)
        assert.deepStrictEqual(Array.from(inSql.results), ["100 1.0000 1.0000", "6000 2.0000 2.0000"])
        assert.deepStrictEqual(Array.from(overHttp.results), ['200 "market_open":1', '200 "market_open":2'])
        for (const [name, readings] of [["in SQL", inSql], ["over HTTP", overHttp]] as const) {
          const [reads, longest] = [yield* Ref.get(readings.reads), yield* Ref.get(readings.longest)]
          console.info(`${reads} reads ${name} during a load of 6,000 rows; the longest took ${longest.toFixed(1)} ms`)
          const minReads = 20
          assert.isAbove(reads, minReads)
          assert.isBelow(longest, Duration.toMillis(loadTime), "no read waited for the load")
        }
      }))

    it.effect("completes without delaying reads while a long read of the table is open (D31)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* replaceWith("intraday_runners", "old.csv", toCsv(makeSessions(10, "1")))
        const [begun, enough] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        const long = yield* Effect.forkChild(sql.withTransaction(Effect.gen(function* () {
          yield* sql`set transaction isolation level repeatable read`
          yield* readSessions
          yield* Deferred.succeed(begun, undefined)
          yield* Deferred.await(enough)
          return yield* readSessions
        })))
        yield* Deferred.await(begun)
        assert.strictEqual(
          (yield* replaceWith("intraday_runners", "new.csv", toCsv(makeSessions(20, "2")))).rows,
          20,
        )
        assert.strictEqual(yield* readSessions, "20 2.0000 2.0000")
        yield* Deferred.succeed(enough, undefined)
        assert.strictEqual(yield* Fiber.join(long), "10 1.0000 1.0000")
      }))

    it.effect("discards the rows that another program adds while it runs (D31)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const [begun, enough] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        const writing = yield* Effect.forkChild(sql.withTransaction(Effect.gen(function* () {
          yield* sql`insert into daily_prices (ticker, date, close) values ('OTHER', '2025-01-02', 1)`
          yield* Deferred.succeed(begun, undefined)
          yield* Deferred.await(enough)
        })))
        yield* Deferred.await(begun)
        const loading = yield* Effect.forkChild(
          load(
            "daily_prices",
            yield* writeTestFile("a.csv", toCsv([{ ticker: "FILE", date: "2025-01-02", close: "1" }])),
          ),
        )
        yield* waitUntil(
          "the load waits for the other writer",
          Effect.map(
            sql`select from pg_locks where relation = 'daily_prices'::regclass and mode = 'ShareRowExclusiveLock'
              and not granted`,
            ({ length }) => length > 0,
          ),
        )
        yield* Deferred.succeed(enough, undefined)
        yield* Effect.all([Fiber.join(writing), Fiber.join(loading)])
        assert.deepStrictEqual(yield* sql`select ticker from daily_prices`, [{ ticker: "FILE" }])
      }))
  })

  describe("that does not finish", () => {
    it.effect("leaves only the old rows after an interruption (D31)", () =>
      Effect.gen(function* () {
        yield* seed
        const before = yield* readTableState("ticker_changes")
        const allRows = 5 * insertBatchSize
        const file = yield* writeTestFile("new.csv", toCsv(makeChanges(allRows, "A")))
        for (const append of [false, true]) {
          const progress = yield* Ref.make(0)
          const loading = yield* Effect.forkChild(
            loadDatasetFile({ dataset: "ticker_changes", file, append }, progress),
          )
          yield* waitUntil("the first batch", Effect.map(Ref.get(progress), (inserted) => inserted >= insertBatchSize))
          const exit = yield* Effect.andThen(Fiber.interrupt(loading), Fiber.await(loading))
          assert.isTrue(Exit.isFailure(exit))
          assert.isBelow(yield* Ref.get(progress), allRows)
          assert.deepStrictEqual(yield* readTableState("ticker_changes"), before)
          assert.deepStrictEqual(yield* findLeftoverTables, [])
        }
        // The next load must succeed.
        assert.strictEqual((yield* replaceWith("ticker_changes", "b.csv", toCsv(makeChanges(3, "B")))).rows, 3)
      }))

    it.effect("leaves only the old rows after it is killed (D31)", () =>
      Effect.gen(function* () {
        yield* skipUnlessThorough
        const { before, isLoading, loading, writer } = yield* startUnfinishedLoad
        yield* loading.kill
        yield* waitUntil("the end of its connection", Effect.map(isLoading, (is) => !is))
        yield* writer.commit
        assert.deepStrictEqual(yield* readTableState("intraday_runners"), before)
        assert.deepStrictEqual(yield* findLeftoverTables, [])
        assert.strictEqual((yield* replaceWith("intraday_runners", "b.csv", toCsv(makeSessions(3, "3")))).rows, 3)
      }))
  })

  describe("on a signal", () => {
    /** Acquires the load lock of a dataset. Returns an effect that releases it. */
    const holdLoadLock = (dataset: Dataset) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const [begun, enough] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        const holding = yield* Effect.forkChild(sql.withTransaction(
          sql`select pg_advisory_xact_lock(hashtext(${`load ${dataset}`}))`.pipe(
            Effect.andThen(Deferred.succeed(begun, undefined)),
            Effect.andThen(Deferred.await(enough)),
          ),
        ))
        yield* Deferred.await(begun)
        return Effect.andThen(Deferred.succeed(enough, undefined), Fiber.join(holding))
      })

    const signals = [["SIGINT", 130], ["SIGTERM", 143]] as const
    it.effect.each(signals.map(([signal, status]) => ({ signal, status })))(
      "reports replaced and unchanged tables after $signal, and exits with $status (operations/data)",
      ({ signal, status }) =>
        Effect.gen(function* () {
          yield* skipUnlessThorough
          yield* seed
          const release = yield* holdLoadLock("intraday_runners")
          const place = yield* folder
          const fs = yield* FileSystem.FileSystem
          yield* fs.writeFileString(`${place}/ticker_changes.csv`, toCsv(makeChanges(7, "N")))
          yield* fs.writeFileString(`${place}/intraday_runners.csv`, toCsv(makeSessions(3, "2")))
          yield* fs.writeFileString(`${place}/historical_tickers.csv`, toCsv([{ ticker: "AAA", former_ticker: "BBB" }]))
          const before = yield* readTableState("intraday_runners")
          const loading = yield* startCommand(["load", "--all", place, "--yes"])
          yield* waitUntil(
            "the second load",
            Effect.sync(() => loading.output.err.includes("Another load of intraday")),
          )
          yield* loading.send(signal)
          const { code, err, out } = yield* loading.result
          yield* release
          assert.strictEqual(code, status, err)
          assert.match(out, /^ticker_changes: 7 rows loaded/)
          assert.include(err, "Interrupted. Replaced: ticker_changes, historical_tickers. Unchanged: intraday_runners.")
          assert.strictEqual((yield* readTableState("ticker_changes")).rows, 7)
          assert.deepStrictEqual(yield* readTableState("intraday_runners"), before)
          assert.deepStrictEqual(yield* findLeftoverTables, [])
        }),
    )

    it.effect("stops and exits with 141 if its output is closed (operations/data)", () =>
      Effect.gen(function* () {
        yield* skipUnlessThorough
        yield* seed
        const release = yield* holdLoadLock("historical_tickers")
        const place = yield* folder
        const fs = yield* FileSystem.FileSystem
        yield* fs.writeFileString(`${place}/ticker_changes.csv`, toCsv(makeChanges(7, "N")))
        yield* fs.writeFileString(`${place}/historical_tickers.csv`, toCsv([{ ticker: "AAA", former_ticker: "BBB" }]))
        const loading = yield* startCommand(["load", "--all", place, "--yes"])
        yield* loading.closeOutput
        const { code, err } = yield* loading.result
        yield* release
        assert.strictEqual(code, 141, err)
        assert.include(err, "Interrupted. Replaced: ticker_changes. Unchanged: historical_tickers.")
        assert.notMatch(err, /\n\s+at /)
      }))

    it.effect("leaves the table unchanged after Ctrl-C within a file, and reports it (operations/data)", () =>
      Effect.gen(function* () {
        yield* skipUnlessThorough
        const { before, loading, writer } = yield* startUnfinishedLoad
        yield* loading.send("SIGINT")
        const { code, err, out } = yield* loading.result
        yield* writer.commit
        assert.deepStrictEqual({ code, out }, { code: 130, out: "" })
        assert.include(err, "Interrupted. Unchanged: intraday_runners.")
        assert.deepStrictEqual(yield* readTableState("intraday_runners"), before)
        assert.deepStrictEqual(yield* findLeftoverTables, [])
      }))
  })

  it.effect("lets the second of two loads wait, and completes both (D31)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const messages: Array<string> = []
      const listening: Console.Console = Object.assign(Object.create(console), {
        error: (...words: ReadonlyArray<unknown>) => messages.push(words.join(" ")),
      })
      const [firstSize, secondSize] = [insertBatchSize + 1_000, insertBatchSize + 500]
      const files = [
        yield* writeTestFile("a.csv", toCsv(makeChanges(firstSize, "A"))),
        yield* writeTestFile("b.csv", toCsv(makeChanges(secondSize, "B"))),
      ]
      const loaded = yield* Effect.forEach(files, (file) => load("ticker_changes", file), { concurrency: 2 }).pipe(
        Effect.provideService(Console.Console, listening),
      )
      assert.deepStrictEqual(loaded.map(({ rows }) => rows), [firstSize, secondSize])
      assert.deepStrictEqual(messages, ["Another load of ticker_changes is running. Waiting for it to finish."])
      const { rows } = yield* readTableState("ticker_changes")
      assert.include([firstSize, secondSize], rows)
      const appended = { first: 600, second: 700 }
      yield* Effect.all(
        [
          appendText("ticker_changes", "c.csv", toCsv(makeChanges(appended.first, "C"))),
          appendText("ticker_changes", "d.csv", toCsv(makeChanges(appended.second, "D"))),
        ],
        { concurrency: 2 },
      )
      assert.strictEqual((yield* readTableState("ticker_changes")).rows, rows + appended.first + appended.second)
    }))

  it.effect("counts a load as a change of its dataset if it changes a row, but not a check (D31, D17)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const noted = sql<{ readonly changes: number; readonly at: number }>`
        select coalesce(sum(changes), 0)::int as changes, coalesce(extract(epoch from max(changed_at)), 0)::float8 as at
        from dataset_versions where dataset = 'ticker_changes'
      `
      const [before] = yield* noted
      const file = toCsv(makeChanges(10, "A"))
      yield* replaceWith("ticker_changes", "a.csv", file)
      const [after] = yield* noted
      assert.strictEqual(after?.changes, (before?.changes ?? 0) + 1)
      assert.isAbove(after?.at ?? 0, before?.at ?? 0)
      const path = yield* writeTestFile("a.csv", file)
      yield* loadDatasetFile({ dataset: "ticker_changes", file: path, append: false, check: true }, yield* Ref.make(0))
      assert.deepStrictEqual((yield* noted)[0], after)
      yield* replaceWith("ticker_changes", "a.csv", file)
      assert.deepStrictEqual((yield* noted)[0], after)
    }))

  it.effect("streams a file that is larger than its heap (D31)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      // The file contains 120 MB of text, but the heap has only 96 MB.
      const [rowCount, heapSize] = [10_000, 96]
      const padding = " ".repeat(12_000)
      const lines = Array.from(
        { length: rowCount },
        (_, at) => `{"ticker":"A${at}","former_ticker":"B${at}","date":"${formatDay(at % 5000)}"${padding}}`,
      )
      const file = yield* writeTestFile("big.ndjson.gz", gzipSync(`${lines.join("\n")}\n`, { level: 1 }))
      const loading = yield* startCommand(["load", "historical-tickers", file, "--yes"], [
        `--max-old-space-size=${heapSize}`,
      ])
      const began = yield* Clock.currentTimeMillis
      const { code, err, out } = yield* loading.result
      console.info(
        `120 MB of historical_tickers with a heap of 96 MB: ${(yield* Clock.currentTimeMillis) - began} ms`,
      )
      assert.strictEqual(code, 0, err.slice(-500))
      assert.match(
        out,
        /^historical_tickers: 10000 rows loaded: 10000 added, 0 updated, 0 unchanged, \d removed, in \d+\.\d s\n$/,
      )
      assert.strictEqual((yield* readTableState("historical_tickers")).rows, rowCount)
    }))
})

/** Streams the bars of a CSV or Parquet file in batches, without loading the whole file into memory. */
import { Data, Effect, FileSystem, Result, Stream } from "effect"
import { readDomainBounds } from "../load/ColumnBounds.ts"
import {
  type CellProblem,
  readTextFile,
  refuseOtherSeparators,
  removeCompressionExtension,
  UnreadableLoadFile,
} from "../load/FileReader.ts"
import { formatLoadCellErrors, type LoadCellError, maxReportedBadRows } from "../load/RowValidation.ts"
import { OperationProgress } from "../../postgres/metrics/OperationProgress.ts"
import { formatCountWithNoun } from "../../contract/rules/CountWithNoun.ts"
import { tomorrowInNewYork } from "../../contract/rules/Dates.ts"
import {
  type Bar,
  type BarBounds,
  type BarRow,
  type BarRows,
  findBarFormat,
  isInSession,
  isTestSymbol,
  listIgnoredColumns,
  makeBarParser,
} from "./BarFormats.ts"
import { getMarketDay } from "../load/MarketCalendar.ts"
import { readParquetRows } from "./ParquetBars.ts"

/** A bar and its location in the file. */
export interface NumberedBar extends Bar {
  /** The line in a CSV file, or the row number in a Parquet file. */
  readonly line: number
}

/** The file has bad rows or no bars to ingest, so none of its bars were ingested. */
export class BarFileRefused extends Data.TaggedError("BarFileRefused")<{ readonly message: string }> {}

/**
 * The bars and columns of a file that were skipped. The caller creates the object, and `readBars` fills it as its
 * stream runs.
 */
export interface SkippedBars {
  /** Symbols that the tables do not accept, with the number of bars for each. */
  readonly symbols: Map<string, number>
  /** Symbols that the exchanges use to test their systems. */
  readonly testSymbols: Set<string>
  /** Symbols whose bars all lack a volume, such as indexes. */
  readonly volumeless: Set<string>
  /** Days on which the exchanges are closed, as `YYYY-MM-DD`. */
  readonly closedDays: Set<string>
  /** The number of bars outside of the sessions. */
  outside: number
  /**
   * Whether bars at midnight, which are first read as day bars, are in fact minute bars outside of the sessions,
   * because the file has at least as many bars at other times.
   */
  hasMinutesAtMidnight: boolean
  /** The names of columns that are not used. */
  ignoredColumns: ReadonlyArray<string>
}

/** Creates an empty `SkippedBars`. */
export const makeSkippedBars = (): SkippedBars => ({
  symbols: new Map(),
  testSymbols: new Set(),
  volumeless: new Set(),
  closedDays: new Set(),
  outside: 0,
  hasMinutesAtMidnight: false,
  ignoredColumns: [],
})

/**
 * The size of a batch of lines in characters, enough for about 8,000 bars. A line of this length is rejected, so that a
 * file without line breaks cannot exhaust memory.
 */
const batchLength = 524_288

/** Splits text at line endings: LF, CR or CRLF. */
const splitLines = (text: string) => text.split(text.includes("\r") ? /\r\n?|\n/ : "\n")

/** Matches a cell of a CSV row, with or without quotation marks, and the comma after it or the end of the row. */
const cellPattern = /(?:\s*"([^"]*)"\s*|([^,]*))(?:,|$)/y

/** Splits a CSV row with quotation marks. A comma within them is part of the cell. */
const splitQuotedRow = (row: string) => {
  const cells: Array<string> = []
  cellPattern.lastIndex = 0
  for (let hasMore = true; hasMore;) {
    const [text = "", quoted, bare = ""] = cellPattern.exec(row) ?? []
    cells.push(quoted ?? bare)
    hasMore = text.endsWith(",")
  }
  return cells
}

/**
 * Streams the rows of a CSV file in batches. Valid cells of bars contain neither commas nor quotation marks, so most
 * lines are split at commas only. A full CSV parser would take ten times as long.
 */
const readCsvRows = (path: string) => {
  /** Text that has been read but not yet split into lines. */
  let pending = ""
  /** The number of lines that have been split so far. */
  let line = 0
  const toRows = (lines: ReadonlyArray<string>): BarRows =>
    lines.flatMap((row) => {
      line += 1
      if (row.trim() === "") return []
      return [{ line, cells: row.includes('"') ? splitQuotedRow(row) : row.split(",") }]
    })
  return readTextFile(path).pipe(
    refuseOtherSeparators(path, "ingest", "Parquet"),
    Stream.mapEffect((chunk) => {
      pending += chunk
      if (pending.length < batchLength) return Effect.succeed([])
      // A carriage return at the end may be the first half of a CRLF, so it is left for the next chunk.
      const rest = pending.endsWith("\r") ? "\r" : ""
      const lines = splitLines(rest === "" ? pending : pending.slice(0, -1))
      // The last line may continue in the next chunk.
      pending = `${lines.pop() ?? ""}${rest}`
      const rows = toRows(lines)
      // If what remains, which is a single line, is still as long as a batch, the file has no usable lines.
      return pending.length >= batchLength
        ? Effect.fail(new UnreadableLoadFile({ message: `${path}, line ${line + 1}: the line is too long.` }))
        : Effect.succeed(rows)
    }),
    Stream.concat(Stream.suspend(() => Stream.succeed(toRows(splitLines(pending))))),
  )
}

const extensions = "Ingest takes .csv, .csv.gz, .csv.zst and .parquet files."

/** Fails if the path is a folder. Some programs write a folder of Parquet files with a name that ends in `.parquet`. */
const refuseFolder = Effect.fnUntraced(function* (path: string) {
  const fs = yield* FileSystem.FileSystem
  const isFolder = yield* Effect.match(fs.stat(path), {
    onFailure: () => false,
    onSuccess: ({ type }) => type === "Directory",
  })
  if (!isFolder) return
  return yield* new UnreadableLoadFile({
    message: `${path} is a folder, but ingest takes files. Name the files in it, for example ` +
      `${path.replace(/\/+$/, "")}/*.csv.gz.`,
  })
})

/** Reads the rows of a file. The file extension determines the format. */
const readRows = (path: string) => {
  if (/\.parquet$/i.test(path)) return readParquetRows(path)
  if (removeCompressionExtension(path).endsWith(".csv")) return readCsvRows(path)
  return Stream.fail(new UnreadableLoadFile({ message: `${path} has no supported extension. ${extensions}` }))
}

/** Creates the error that lists the bad rows of a file. */
const refuse = (path: string, errors: ReadonlyArray<LoadCellError>) =>
  new BarFileRefused({
    message: `${path} was refused, so none of its bars was ingested:\n${formatLoadCellErrors(errors)}`,
  })

/** The properties of a file that its header determines. */
interface BarHeader {
  /** Parses the cells of one row. */
  readonly parse: ReturnType<typeof makeBarParser>
  /** The number of columns. */
  readonly width: number
  /** The column with the times, if a bar at midnight may be a day bar or a minute bar (`hasAmbiguousMidnight`). */
  readonly ambiguousColumn: string | undefined
}

/**
 * Determines the file's format from its header row. Returns the parser of its rows, which accepts only prices within
 * `bounds`, the number of columns, and the column with ambiguous times. Records in `skipped` which columns are not
 * used. Fails if the header is that of no known format.
 */
const parseHeader = (
  path: string,
  { cells, line }: BarRow,
  bounds: BarBounds,
  skipped: SkippedBars,
): Result.Result<BarHeader, BarFileRefused> => {
  const names = cells.map((name) => name.trim())
  const found = findBarFormat(names)
  if (Result.isFailure(found)) {
    return Result.fail(refuse(path, found.failure.map((problem) => ({ line, ...problem }))))
  }
  const format = found.success
  skipped.ignoredColumns = listIgnoredColumns(format, names).map((name) => name || "(without a name)")
  return Result.succeed({
    parse: makeBarParser(format, names, bounds),
    width: names.length,
    ambiguousColumn: format.hasAmbiguousMidnight === true ? format.timeColumn : undefined,
  })
}

/**
 * Parses the cells of one row. Fails if the row has more or fewer cells than the header, or with the first bad cell.
 */
const parseCells = (cells: ReadonlyArray<string>, { parse, width }: BarHeader): Result.Result<Bar, CellProblem> =>
  cells.length === width ? parse(cells) : Result.fail({
    column: "",
    reason: `has ${formatCountWithNoun(cells.length, "cell")}; the header has ${width}`,
  })

/** Returns whether a bar should be ingested. If not, records the reason in `skipped`. */
const keepsBar = (bar: Bar, skipped: SkippedBars) => {
  const { day, isStorable, ticker } = bar
  if (isTestSymbol(ticker)) skipped.testSymbols.add(ticker)
  else if (!isStorable) skipped.symbols.set(ticker, (skipped.symbols.get(ticker) ?? 0) + 1)
  else if (getMarketDay(day) === "closed") skipped.closedDays.add(day)
  else if (!isInSession(bar)) skipped.outside += 1
  else return true
  return false
}

/**
 * Streams the bars of a file that should be ingested, in batches. The bars that are skipped are recorded in `skipped`,
 * which is complete after the last batch. If there are bad rows, fails with `BarFileRefused` after the last row, or
 * once there are too many bad rows. Bars after the first bad row are checked but not returned.
 */
export const readBars = (path: string, skipped: SkippedBars) =>
  Stream.unwrap(Effect.gen(function* () {
    yield* refuseFolder(path)
    const progress = yield* OperationProgress
    const bounds: BarBounds = {
      price: yield* readDomainBounds("price"),
      day: yield* readDomainBounds("fact_day"),
      tomorrow: yield* tomorrowInNewYork,
    }
    const errors: Array<LoadCellError> = []
    /** Undefined until the first row, which is the header, has been read. */
    let header: BarHeader | undefined
    /** The symbols of which at least one bar has a volume. */
    const tradedSymbols = new Set<string>()
    /** The numbers of bars at midnight and at other times, in a format in which these may be day and minute bars. */
    const count = { midnight: 0, minute: 0 }
    /** The rows of the first bars that are not at midnight. */
    const minuteRows: Array<LoadCellError> = []

    /** Counts a bar whose format does not tell whether a bar at midnight is a day bar or a minute bar. */
    const countAmbiguousBar = ({ minute }: Bar, line: number, column: string) => {
      count[minute === null ? "midnight" : "minute"] += 1
      if (minute === null || minuteRows.length > maxReportedBadRows) return
      const reason = "must be midnight in New York, as in most rows of the file, which are day bars"
      minuteRows.push({ line, column, reason })
    }

    /** Returns the row's bar, or nothing if the row is bad or its bar is skipped. */
    const parseRow = ({ cells, line }: BarRow, known: BarHeader): ReadonlyArray<NumberedBar> => {
      const parsed = parseCells(cells, known)
      if (Result.isFailure(parsed)) {
        errors.push({ line, ...parsed.failure })
        return []
      }
      const bar = parsed.success
      if (known.ambiguousColumn !== undefined) countAmbiguousBar(bar, line, known.ambiguousColumn)
      if (!keepsBar(bar, skipped)) return []
      if (Number(bar.volume) > 0) tradedSymbols.add(bar.ticker)
      else skipped.volumeless.add(bar.ticker)
      return errors.length > 0 ? [] : [{ line, ...bar }]
    }

    /** Parses a batch of rows. The first row of the first batch is the header. */
    const parseRows = Effect.fnUntraced(function* (rows: BarRows) {
      const [first, ...others] = rows
      if (first === undefined) return []
      const isStart = header === undefined
      const known = header ?? (yield* Effect.fromResult(parseHeader(path, first, bounds, skipped)))
      header = known
      progress.count += rows.length
      const bars = (isStart ? others : rows).flatMap((row) => parseRow(row, known))
      return errors.length > maxReportedBadRows ? yield* refuse(path, errors) : bars
    })

    /** Runs after the last batch. */
    const checkEnd = Effect.suspend((): Effect.Effect<void, BarFileRefused | UnreadableLoadFile> => {
      if (errors.length > 0) return Effect.fail(refuse(path, errors))
      if (count.midnight > count.minute && count.minute > 0) return Effect.fail(refuse(path, minuteRows))
      skipped.hasMinutesAtMidnight = count.minute > 0
      // A symbol lacks volume only if none of its bars has one.
      for (const ticker of tradedSymbols) skipped.volumeless.delete(ticker)
      return header === undefined ? Effect.fail(new UnreadableLoadFile({ message: `${path} is empty.` })) : Effect.void
    })
    return readRows(path).pipe(Stream.mapEffect(parseRows), Stream.concat(Stream.drain(Stream.fromEffect(checkEnd))))
  }))

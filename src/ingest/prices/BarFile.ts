/** Streams the bars of a CSV or Parquet file in batches, without holding the file in memory. */
import { Data, Effect, FileSystem, Result, Stream } from "effect"
import { readDomainBounds } from "../load/ColumnBounds.ts"
import { type CellProblem, readTextFile, refuseOtherSeparators, UnreadableLoadFile } from "../load/FileReader.ts"
import { formatLoadCellErrors, type LoadCellError, maxReportedBadRows } from "../load/RowValidation.ts"
import { OperationProgress } from "../../postgres/metrics/Progress.ts"
import { tomorrowInNewYork } from "../../contract/rules/Dates.ts"
import {
  type Bar,
  type BarBounds,
  type BarRow,
  type BarRows,
  findBarFormat,
  isInSession,
  isStorableSymbol,
  isTestSymbol,
  listIgnoredColumns,
  makeBarParser,
} from "./BarFormats.ts"
import { getMarketDay } from "./MarketCalendar.ts"
import { readParquetRows } from "./ParquetBars.ts"

export interface NumberedBar extends Bar {
  readonly line: number
}

/** The file has bad rows or no bars to ingest, so none of its bars was ingested. */
export class BarFileRefused extends Data.TaggedError("BarFileRefused")<{ readonly message: string }> {}

/** What was left out of a file. The caller creates it. */
export interface SkippedBars {
  /** Symbols that the tables cannot contain, with the number of their bars. */
  readonly symbols: Map<string, number>
  /** Symbols with which the exchanges test their systems. */
  readonly testSymbols: Set<string>
  /** Symbols without a bar that has a volume, such as indexes. */
  readonly volumeless: Set<string>
  /** Days on which the exchanges are closed. */
  readonly closedDays: Set<string>
  /** Number of bars outside of the sessions. */
  outside: number
  /** Whether the bars at midnight, which are read as those of days, are bars of minutes outside of the sessions. */
  hasMinutesAtMidnight: boolean
  ignoredColumns: ReadonlyArray<string>
}

export const makeSkippedBars = (): SkippedBars => ({
  symbols: new Map(),
  testSymbols: new Set(),
  volumeless: new Set(),
  closedDays: new Set(),
  outside: 0,
  hasMinutesAtMidnight: false,
  ignoredColumns: [],
})

/** Characters per batch of lines, about 8,000 bars. A longer line is refused, so that it does not exhaust memory. */
const batchLength = 524_288

/** Splits text at line ends: line feeds, carriage returns or both. */
const splitLines = (text: string) => text.split(text.includes("\r") ? /\r\n?|\n/ : "\n")

/**
 * Reads the lines of a CSV file. Cells of bars contain neither commas nor quotation marks, so marks around them are
 * dropped. A full CSV parser would take ten times as long.
 */
const readCsvRows = (path: string) => {
  let pending = ""
  let line = 0
  const toRows = (lines: ReadonlyArray<string>): BarRows =>
    lines.flatMap((row) => {
      line += 1
      if (row.trim() === "") return []
      return [{ line, cells: (row.includes('"') ? row.replaceAll('"', "") : row).split(",") }]
    })
  return readTextFile(path).pipe(
    refuseOtherSeparators(path, "ingest", "Parquet"),
    Stream.mapEffect((chunk) => {
      pending += chunk
      if (pending.length < batchLength) return Effect.succeed([])
      // A carriage return at the end may be the first half of a line end.
      const rest = pending.endsWith("\r") ? "\r" : ""
      const lines = splitLines(rest === "" ? pending : pending.slice(0, -1))
      pending = `${lines.pop() ?? ""}${rest}`
      const rows = toRows(lines)
      return pending.length >= batchLength
        ? Effect.fail(new UnreadableLoadFile({ message: `${path}, line ${line + 1}: the line is too long.` }))
        : Effect.succeed(rows)
    }),
    Stream.concat(Stream.suspend(() => Stream.succeed(toRows(splitLines(pending))))),
  )
}

const extensions = "Ingest takes .csv, .csv.gz, .csv.zst and .parquet files."

/** Fails if the path is that of a folder, such as one of Parquet files whose name ends in `.parquet`. */
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

const readRows = (path: string) => {
  if (/\.parquet$/i.test(path)) return readParquetRows(path)
  if (/\.csv(\.gz|\.zst)?$/i.test(path)) return readCsvRows(path)
  return Stream.fail(new UnreadableLoadFile({ message: `${path} has no supported extension. ${extensions}` }))
}

const refuse = (path: string, errors: ReadonlyArray<LoadCellError>) =>
  new BarFileRefused({
    message: `${path} was refused, so none of its bars was ingested:\n${formatLoadCellErrors(errors)}`,
  })

/**
 * Streams the bars of a file. Fails with `BarFileRefused` after the last row, or after too many bad rows, if a row is
 * bad; the bars after the first bad row are not returned.
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
    let parse: ReturnType<typeof makeBarParser> | undefined
    let width = 0
    let hasAmbiguousMidnight = false
    const traded = new Set<string>()

    const parseHeader = ({ cells, line }: BarRow) => {
      const names = cells.map((name) => name.trim())
      const format = findBarFormat(names)
      if (Result.isFailure(format)) {
        return refuse(path, format.failure.map((problem) => ({ line, ...problem })))
      }
      skipped.ignoredColumns = listIgnoredColumns(format.success, names).map((name) => name || "(without a name)")
      parse = makeBarParser(format.success, names, bounds)
      width = names.length
      hasAmbiguousMidnight = format.success.hasAmbiguousMidnight === true
      return undefined
    }

    const parseRow = (
      { cells, line }: BarRow,
      parseCells: ReturnType<typeof makeBarParser>,
    ): ReadonlyArray<NumberedBar> => {
      const parsed: Result.Result<Bar, CellProblem> = cells.length === width
        ? parseCells(cells)
        : Result.fail({ column: "", reason: `has ${cells.length} cells; the header has ${width}` })
      if (Result.isFailure(parsed)) {
        errors.push({ line, ...parsed.failure })
        return []
      }
      const { day, minute, ticker, volume } = parsed.success
      if (hasAmbiguousMidnight && minute !== null) skipped.hasMinutesAtMidnight = true
      if (isTestSymbol(ticker)) {
        skipped.testSymbols.add(ticker)
        return []
      }
      if (!isStorableSymbol(ticker)) {
        skipped.symbols.set(ticker, (skipped.symbols.get(ticker) ?? 0) + 1)
        return []
      }
      if (getMarketDay(day) === "closed") {
        skipped.closedDays.add(day)
        return []
      }
      if (!isInSession(parsed.success)) {
        skipped.outside += 1
        return []
      }
      if (Number(volume) > 0) traded.add(ticker)
      else skipped.volumeless.add(ticker)
      return errors.length > 0 ? [] : [{ line, ...parsed.success }]
    }

    const parseRows = (rows: BarRows) => {
      const [first, ...others] = rows
      const isHeader = parse === undefined && first !== undefined
      const problem = isHeader ? parseHeader(first) : undefined
      if (problem !== undefined) return Effect.fail(problem)
      const parseCells = parse
      if (parseCells === undefined) return Effect.succeed([])
      progress.count += rows.length
      const bars = (isHeader ? others : rows).flatMap((row) => parseRow(row, parseCells))
      return errors.length > maxReportedBadRows ? Effect.fail(refuse(path, errors)) : Effect.succeed(bars)
    }

    const checkEnd = Effect.suspend((): Effect.Effect<void, BarFileRefused | UnreadableLoadFile> => {
      if (errors.length > 0) return Effect.fail(refuse(path, errors))
      for (const ticker of traded) skipped.volumeless.delete(ticker)
      return parse === undefined ? Effect.fail(new UnreadableLoadFile({ message: `${path} is empty.` })) : Effect.void
    })
    return readRows(path).pipe(Stream.mapEffect(parseRows), Stream.concat(Stream.drain(Stream.fromEffect(checkEnd))))
  }))

/** The rows of a CSV file, with the lines they start on. */
import { Predicate, Stream } from "effect"
import { Csv } from "effect/encoding"
import { type CheckHeader, notAListReason, type ParsedRow, type RowCells } from "./ParsedRow.ts"

/** In a cell a list is JSON (D31). */
const list = (text: string): ReadonlyArray<string> | undefined => {
  try {
    const value: unknown = JSON.parse(text)
    return Array.isArray(value) && value.every(Predicate.isString) ? value : undefined
  } catch {
    return undefined
  }
}

const toRow = (
  header: ReadonlyArray<string>,
  lists: ReadonlySet<string>,
  line: number,
  record: ReadonlyArray<string>,
): ParsedRow => {
  if (record.length !== header.length) {
    const reason = `has ${record.length} cells; the header has ${header.length}`
    return { line, cells: {}, problem: { column: "", reason } }
  }
  const cells: Record<string, RowCells[string]> = {}
  for (const [at, column] of header.entries()) {
    const text = record[at] ?? ""
    if (lists.has(column)) {
      if (text === "") continue
      const words = list(text)
      if (words === undefined) {
        return { line, cells, problem: { column, reason: notAListReason } }
      }
      cells[column] = words
    } else cells[column] = text === "" ? null : text
  }
  return { line, cells }
}

const lineBreaks = (record: ReadonlyArray<string>) =>
  record.reduce((count, cell) => count + (cell.includes("\n") ? cell.split("\n").length - 1 : 0), 0)

/** The first record names the columns. If it names wrong ones, no row is read. */
class Reader {
  readonly lists: ReadonlySet<string>
  readonly wrongHeader: CheckHeader
  header: ReadonlyArray<string> | undefined = undefined
  isHeaderWrong = false
  line = 1

  constructor(lists: ReadonlySet<string>, wrongHeader: CheckHeader) {
    this.lists = lists
    this.wrongHeader = wrongHeader
  }

  take(record: ReadonlyArray<string>): ReadonlyArray<ParsedRow> {
    const { line } = this
    this.line += 1 + lineBreaks(record)
    if (record.length === 1 && record[0] === "") return []
    if (this.header !== undefined) return [toRow(this.header, this.lists, line, record)]
    this.header = record.map((name) => name.trim())
    const problems = this.headerProblems(this.header)
    this.isHeaderWrong = problems.length > 0
    return problems.map((problem) => ({ line, cells: {}, problem }))
  }

  headerProblems(names: ReadonlyArray<string>) {
    const twice = names.filter((name, at) => names.indexOf(name) < at)
    return [...twice.map((column) => ({ column, reason: "is named twice in the header" })), ...this.wrongHeader(names)]
  }
}

const noHeader = new Csv.CsvError({ kind: "Header", message: "It has no header", record: 0, line: 1 })

/** A report or the body of a news item may be long, but not endless. */
const longestRecord = 16 * 1024 * 1024

const separators = [[";", "semicolons"], ["\t", "tabs"]] as const

/** The name of the character that separates the cells of the first line, unless it is a comma. */
export const detectSeparator = (firstLine: string) =>
  firstLine.includes(",") ? undefined : separators.find(([sign]) => firstLine.includes(sign))?.[1]

export const readCsv = <E, R>(
  source: Stream.Stream<Uint8Array, E, R>,
  lists: ReadonlySet<string>,
  wrongHeader: CheckHeader,
): Stream.Stream<ParsedRow, E | Csv.CsvError, R> =>
  Stream.suspend(() => {
    const reader = new Reader(lists, wrongHeader)
    return Stream.pipeThroughChannel(source, Csv.decode({ maxRecordSize: longestRecord })).pipe(
      Stream.mapError((error) =>
        Csv.isCsvError(error) ? new Csv.CsvError({ ...error, message: `Line ${error.line}: ${error.message}` }) : error
      ),
      Stream.map((record) => reader.take(record)),
      Stream.takeUntil(() => reader.isHeaderWrong),
      Stream.flattenIterable,
      Stream.concat(Stream.suspend(() => reader.header === undefined ? Stream.fail(noHeader) : Stream.empty)),
    )
  })

/** D8, D16: how the rows of a list become its results, and results the text of an answer. */
import { Array } from "effect"
import { byteOrderMark, csvNewline } from "./CsvCells.ts"
import { getColumnNames, makeCsvRowEncoder, makeJsonRowEncoder, type RowModels, type RowValues } from "./RowEncoder.ts"

/** A list's results: most are one row each, some are made of several that follow each other. */
export interface ResultEncoder {
  /** What the rows show, and the header of CSV. */
  readonly columns: ReadonlyArray<string>
  /** The JSON text of each result. */
  readonly print: (rows: ReadonlyArray<RowValues>) => ReadonlyArray<string>
  /** A row's record of CSV, where each row has its own, whatever it is part of. */
  readonly record: (row: RowValues) => string
  /** Whether a row belongs to the same result as the one before it; none where a result is a row. */
  readonly isSameResult: ((row: RowValues, before: RowValues) => boolean) | undefined
}

export const makeRowResultEncoder = (Row: RowModels): ResultEncoder => {
  const print = makeJsonRowEncoder(Row)
  return {
    columns: getColumnNames(Row),
    print: (rows) => rows.map((row) => print(row)),
    record: makeCsvRowEncoder(Row),
    isSameResult: undefined,
  }
}

/** Results of several rows, with what tells where one ends. */
export const makeGroupResultEncoder = (
  Row: RowModels,
  continues: (row: RowValues, before: RowValues) => boolean,
  print: (rows: Array.NonEmptyReadonlyArray<RowValues>) => string,
): ResultEncoder => ({
  columns: getColumnNames(Row),
  print: (rows) =>
    Array.isReadonlyArrayNonEmpty(rows)
      ? Array.groupWith(rows, (before, row) => continues(row, before)).map(print)
      : [],
  record: makeCsvRowEncoder(Row),
  isSameResult: continues,
})

/** Where the results begin. */
const beginnings = ({ isSameResult: continues }: ResultEncoder, rows: ReadonlyArray<RowValues>) =>
  rows.flatMap((row, at) => {
    const before = rows[at - 1]
    return continues !== undefined && before !== undefined && continues(row, before) ? [] : [at]
  })

/** The rows of so many results at most. */
export const takeResults = (results: ResultEncoder, rows: ReadonlyArray<RowValues>, most: number) =>
  results.isSameResult === undefined ? rows.slice(0, most) : rows.slice(0, beginnings(results, rows)[most])

/** Some of a list, as it stands in a file. */
export interface EncodedChunk {
  readonly text: string
  readonly results: number
  /** Lines of NDJSON; records of CSV, without the header. */
  readonly rows: number
}

export interface FileWriter {
  /** What a file begins with. */
  readonly header: string
  /** The text of rows that follow each other; what may go on in rows to come waits for them. */
  readonly write: (rows: ReadonlyArray<RowValues>) => EncodedChunk
  /** What still waits. */
  readonly end: () => EncodedChunk
}

const counting = (results: ResultEncoder, rows: ReadonlyArray<RowValues>) =>
  results.isSameResult === undefined ? rows.length : beginnings(results, rows).length

/** For one file: it knows the row before. */
export const makeFileWriter = (results: ResultEncoder, format: "csv" | "ndjson"): FileWriter => {
  const { columns, print, record } = results
  if (format === "csv") {
    let last: ReadonlyArray<RowValues> = []
    const write = (rows: ReadonlyArray<RowValues>): EncodedChunk => {
      let text = ""
      for (const row of rows) text += record(row) + csvNewline
      const begun = counting(results, [...last, ...rows]) - counting(results, last)
      last = rows.length === 0 ? last : rows.slice(-1)
      return { text, results: begun, rows: rows.length }
    }
    return { header: `${byteOrderMark}${columns.join(",")}${csvNewline}`, write, end: () => write([]) }
  }
  let waiting: ReadonlyArray<RowValues> = []
  const lines = (rows: ReadonlyArray<RowValues>): EncodedChunk => {
    const printed = print(rows)
    return { text: printed.map((line) => `${line}\n`).join(""), results: printed.length, rows: printed.length }
  }
  const write = (rows: ReadonlyArray<RowValues>) => {
    if (results.isSameResult === undefined) return lines(rows)
    const known = [...waiting, ...rows]
    const open = beginnings(results, known).at(-1) ?? 0
    waiting = known.slice(open)
    return lines(known.slice(0, open))
  }
  const end = () => {
    const rest = waiting
    waiting = []
    return lines(rest)
  }
  return { header: "", write, end }
}

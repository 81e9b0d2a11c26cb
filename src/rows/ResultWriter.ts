/** D8, D16: how the rows of a list become its results, and results the text of an answer. */
import { Array } from "effect"
import { mark, newline } from "./CsvCells.ts"
import { columnsOf, printer, recorder, type Rows, type Values } from "./RowEncoder.ts"

/** A list's results: most are one row each, some are made of several that follow each other. */
export interface Results {
  /** What the rows show, and the header of CSV. */
  readonly columns: ReadonlyArray<string>
  /** The JSON text of each result. */
  readonly print: (rows: ReadonlyArray<Values>) => ReadonlyArray<string>
  /** A row's record of CSV, where each row has its own, whatever it is part of. */
  readonly record: (row: Values) => string
  /** Whether a row belongs to the same result as the one before it; none where a result is a row. */
  readonly continues: ((row: Values, before: Values) => boolean) | undefined
}

export const eachRow = (Row: Rows): Results => {
  const print = printer(Row)
  return {
    columns: columnsOf(Row),
    print: (rows) => rows.map((row) => print(row)),
    record: recorder(Row),
    continues: undefined,
  }
}

/** Results of several rows, with what tells where one ends. */
export const together = (
  Row: Rows,
  continues: (row: Values, before: Values) => boolean,
  print: (rows: Array.NonEmptyReadonlyArray<Values>) => string,
): Results => ({
  columns: columnsOf(Row),
  print: (rows) =>
    Array.isReadonlyArrayNonEmpty(rows)
      ? Array.groupWith(rows, (before, row) => continues(row, before)).map(print)
      : [],
  record: recorder(Row),
  continues,
})

/** Where the results begin. */
const beginnings = ({ continues }: Results, rows: ReadonlyArray<Values>) =>
  rows.flatMap((row, at) => {
    const before = rows[at - 1]
    return continues !== undefined && before !== undefined && continues(row, before) ? [] : [at]
  })

/** The rows of so many results at most. */
export const firstOf = (results: Results, rows: ReadonlyArray<Values>, most: number) =>
  results.continues === undefined ? rows.slice(0, most) : rows.slice(0, beginnings(results, rows)[most])

/** Some of a list, as it stands in a file. */
export interface Piece {
  readonly text: string
  readonly results: number
  /** Lines of NDJSON; records of CSV, without the header. */
  readonly rows: number
}

export interface Writer {
  /** What a file begins with. */
  readonly head: string
  /** The text of rows that follow each other; what may go on in rows to come waits for them. */
  readonly write: (rows: ReadonlyArray<Values>) => Piece
  /** What still waits. */
  readonly end: () => Piece
}

const counting = (results: Results, rows: ReadonlyArray<Values>) =>
  results.continues === undefined ? rows.length : beginnings(results, rows).length

/** For one file: it knows the row before. */
export const writer = (results: Results, format: "csv" | "ndjson"): Writer => {
  const { columns, print, record } = results
  if (format === "csv") {
    let last: ReadonlyArray<Values> = []
    const write = (rows: ReadonlyArray<Values>): Piece => {
      let text = ""
      for (const row of rows) text += record(row) + newline
      const begun = counting(results, [...last, ...rows]) - counting(results, last)
      last = rows.length === 0 ? last : rows.slice(-1)
      return { text, results: begun, rows: rows.length }
    }
    return { head: `${mark}${columns.join(",")}${newline}`, write, end: () => write([]) }
  }
  let waiting: ReadonlyArray<Values> = []
  const lines = (rows: ReadonlyArray<Values>): Piece => {
    const printed = print(rows)
    return { text: printed.map((line) => `${line}\n`).join(""), results: printed.length, rows: printed.length }
  }
  const write = (rows: ReadonlyArray<Values>) => {
    if (results.continues === undefined) return lines(rows)
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
  return { head: "", write, end }
}

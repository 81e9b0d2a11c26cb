/** Encodes the rows of a list as results, and results as a page or file (D8, D16). */
import { Array } from "effect"
import { byteOrderMark, csvNewline } from "./CsvCells.ts"
import { getColumnNames, makeCsvRowEncoder, makeJsonRowEncoder, type RowModels, type RowValues } from "./RowEncoder.ts"

/** Encodes results. A result is one row, or a group of adjacent rows such as an ownership filing. */
export interface ResultEncoder {
  /** Column names, also the CSV header. */
  readonly columns: ReadonlyArray<string>
  /** Returns the JSON text of each result. */
  readonly encode: (rows: ReadonlyArray<RowValues>) => ReadonlyArray<string>
  /** Returns the CSV record of a row; each row of a group has one. */
  readonly encodeCsvRecord: (row: RowValues) => string
  /** Whether a row belongs to the same result as the previous one; undefined if each result is one row. */
  readonly isSameResult: ((row: RowValues, previous: RowValues) => boolean) | undefined
}

export const makeRowResultEncoder = (Row: RowModels): ResultEncoder => {
  const encode = makeJsonRowEncoder(Row)
  return {
    columns: getColumnNames(Row),
    encode: (rows) => rows.map((row) => encode(row)),
    encodeCsvRecord: makeCsvRowEncoder(Row),
    isSameResult: undefined,
  }
}

/** For results that are groups of rows. `encodeGroup` returns the JSON text of one group. */
export const makeGroupResultEncoder = (
  Row: RowModels,
  isSameResult: (row: RowValues, previous: RowValues) => boolean,
  encodeGroup: (rows: Array.NonEmptyReadonlyArray<RowValues>) => string,
): ResultEncoder => ({
  columns: getColumnNames(Row),
  encode: (rows) =>
    Array.isReadonlyArrayNonEmpty(rows)
      ? Array.groupWith(rows, (previous, row) => isSameResult(row, previous)).map(encodeGroup)
      : [],
  encodeCsvRecord: makeCsvRowEncoder(Row),
  isSameResult,
})

/** Returns the index of the first row of each result. */
const findResultStarts = ({ isSameResult }: ResultEncoder, rows: ReadonlyArray<RowValues>) =>
  rows.flatMap((row, index) => {
    const previous = rows[index - 1]
    return isSameResult !== undefined && previous !== undefined && isSameResult(row, previous) ? [] : [index]
  })

/** Returns the rows of the first `count` results. */
export const takeResults = (encoder: ResultEncoder, rows: ReadonlyArray<RowValues>, count: number) =>
  encoder.isSameResult === undefined ? rows.slice(0, count) : rows.slice(0, findResultStarts(encoder, rows)[count])

/** A part of a file, with the number of results and rows in it. */
export interface EncodedChunk {
  readonly text: string
  readonly results: number
  /** Lines of NDJSON, or records of CSV without the header. */
  readonly rows: number
}

export interface FileWriter {
  /** The beginning of the file. */
  readonly header: string
  /** Encodes the next rows. A group that may continue is held back until the next call. */
  readonly write: (rows: ReadonlyArray<RowValues>) => EncodedChunk
  /** Encodes the group that is held back. */
  readonly end: () => EncodedChunk
}

const countResults = (encoder: ResultEncoder, rows: ReadonlyArray<RowValues>) =>
  encoder.isSameResult === undefined ? rows.length : findResultStarts(encoder, rows).length

const makeCsvWriter = (encoder: ResultEncoder): FileWriter => {
  let previous: ReadonlyArray<RowValues> = []
  const write = (rows: ReadonlyArray<RowValues>): EncodedChunk => {
    let text = ""
    for (const row of rows) text += encoder.encodeCsvRecord(row) + csvNewline
    const results = countResults(encoder, [...previous, ...rows]) - countResults(encoder, previous)
    previous = rows.length === 0 ? previous : rows.slice(-1)
    return { text, results, rows: rows.length }
  }
  return { header: `${byteOrderMark}${encoder.columns.join(",")}${csvNewline}`, write, end: () => write([]) }
}

const makeNdjsonWriter = (encoder: ResultEncoder): FileWriter => {
  let pending: ReadonlyArray<RowValues> = []
  const encodeLines = (rows: ReadonlyArray<RowValues>): EncodedChunk => {
    const lines = encoder.encode(rows)
    return { text: lines.map((line) => `${line}\n`).join(""), results: lines.length, rows: lines.length }
  }
  const write = (rows: ReadonlyArray<RowValues>) => {
    if (encoder.isSameResult === undefined) return encodeLines(rows)
    const available = [...pending, ...rows]
    const lastStart = findResultStarts(encoder, available).at(-1) ?? 0
    pending = available.slice(lastStart)
    return encodeLines(available.slice(0, lastStart))
  }
  const end = () => {
    const rows = pending
    pending = []
    return encodeLines(rows)
  }
  return { header: "", write, end }
}

/** Creates a writer for one file. It is stateful, because a group of rows may span two calls of `write`. */
export const makeFileWriter = (encoder: ResultEncoder, format: "csv" | "ndjson"): FileWriter =>
  format === "csv" ? makeCsvWriter(encoder) : makeNdjsonWriter(encoder)

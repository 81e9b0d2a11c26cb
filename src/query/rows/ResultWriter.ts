/** Groups the rows of a list into results, and encodes the results as a page or a file (D8, D16). */
import { Array } from "effect"
import { byteOrderMark, csvNewline } from "./CsvCells.ts"
import { rowOutputBuffer } from "./OutputBuffer.ts"
import {
  findRowDateColumn,
  makeCsvRowWriter,
  makeJsonRowWriter,
  type RowDateColumn,
  type RowWriter,
  selectRecord,
} from "./RowEncoder.ts"
import { getColumnNames, type RowModels } from "../../contract/rows/RowModel.ts"
import type { BinaryRecord } from "../../postgres/BinaryRecord.ts"

/** The rows of one result: a single row, or a group of adjacent rows, such as those of an ownership filing. */
export type ResultRows = Array.NonEmptyReadonlyArray<BinaryRecord>

/**
 * Encodes results. The `write` functions write at a position in the output, and return the position after what they
 * wrote.
 */
export interface ResultEncoder {
  readonly models: RowModels
  /** Column names, which are also the CSV header. */
  readonly columns: ReadonlyArray<string>
  /** The select list in SQL: a single record with all columns. */
  readonly selection: string
  /** Writes a result as JSON. */
  readonly writeJson: (rows: ResultRows, position: number) => number
  /** Writes a row as a CSV record. A result that is a group of rows has one record per row. */
  readonly writeCsvRecord: RowWriter
  /** The column with the date of a row, or undefined if rows have no date. */
  readonly rowDate: RowDateColumn | undefined
  /** Whether a row belongs to the same result as the previous row. Undefined if each result is one row. */
  readonly isSameResult: ((row: BinaryRecord, previous: BinaryRecord) => boolean) | undefined
}

const makeResultEncoder = (Row: RowModels, rest: Pick<ResultEncoder, "writeJson" | "isSameResult">): ResultEncoder => {
  const columns = getColumnNames(Row)
  const selection = selectRecord(Row, columns)
  return {
    models: Row,
    columns,
    selection,
    writeCsvRecord: makeCsvRowWriter(Row),
    rowDate: findRowDateColumn(Row),
    ...rest,
  }
}

/** Creates the encoder of results that are single rows. */
export const makeSingleRowResultEncoder = (Row: RowModels): ResultEncoder => {
  const write = makeJsonRowWriter(Row)
  return makeResultEncoder(Row, { writeJson: ([row], position) => write(row, position), isSameResult: undefined })
}

/** Creates the encoder of results that are groups of rows. `writeJson` writes one group. */
export const makeGroupResultEncoder = (
  Row: RowModels,
  isSameResult: (row: BinaryRecord, previous: BinaryRecord) => boolean,
  writeJson: ResultEncoder["writeJson"],
): ResultEncoder => makeResultEncoder(Row, { writeJson, isSameResult })

/** Groups rows into results. */
export const groupRowsIntoResults = (
  { isSameResult }: ResultEncoder,
  rows: ReadonlyArray<BinaryRecord>,
): ReadonlyArray<ResultRows> => {
  if (isSameResult === undefined) return rows.map((row) => [row])
  if (!Array.isReadonlyArrayNonEmpty(rows)) return []
  return Array.groupWith(rows, (previous, row) => isSameResult(row, previous))
}

/** Writes results as JSON, with the separator between them. */
export const writeJsonResults = (
  encoder: ResultEncoder,
  results: ReadonlyArray<ResultRows>,
  separator: string,
  position: number,
): number => {
  let end = position
  for (const result of results) {
    if (end > position) end = rowOutputBuffer.writeText(separator, end)
    end = encoder.writeJson(result, end)
  }
  return end
}

/** Returns a function that counts the results that begin in the next rows of a list. */
export const makeResultCounter = ({ isSameResult }: ResultEncoder) => {
  let previous: BinaryRecord | undefined
  return (rows: ReadonlyArray<BinaryRecord>) => {
    if (isSameResult === undefined) return rows.length
    let count = 0
    for (const row of rows) {
      if (previous === undefined || !isSameResult(row, previous)) count += 1
      previous = row
    }
    previous = previous?.copy()
    return count
  }
}

/** A part of a file. */
export interface FileChunk {
  /** Empty while the encoded bytes are still buffered. */
  readonly bytes: Uint8Array
  /** How many results end in the chunk. */
  readonly results: number
}

/**
 * Encodes the next rows of a file. For NDJSON, holds back the last group, which may continue, unless `isLast` is true.
 */
type FileChunkEncoder = (rows: ReadonlyArray<BinaryRecord>, isLast: boolean) => FileChunk

const makeCsvWriter = (encoder: ResultEncoder): FileChunkEncoder => {
  const countResults = makeResultCounter(encoder)
  let header = `${byteOrderMark}${encoder.columns.join(",")}${csvNewline}`
  return (rows) => {
    let end = rowOutputBuffer.writeText(header, 0)
    header = ""
    for (const row of rows) end = rowOutputBuffer.writeText(csvNewline, encoder.writeCsvRecord(row, end))
    return { bytes: rowOutputBuffer.take(end), results: countResults(rows) }
  }
}

const makeNdjsonWriter = (encoder: ResultEncoder): FileChunkEncoder => {
  let pending: ReadonlyArray<BinaryRecord> = []
  return (rows, isLast) => {
    const results = groupRowsIntoResults(encoder, [...pending, ...rows])
    const complete = isLast || encoder.isSameResult === undefined ? results : results.slice(0, -1)
    pending = results.slice(complete.length).flat().map((row) => row.copy())
    const end = writeJsonResults(encoder, complete, "\n", 0)
    const bytes = rowOutputBuffer.take(complete.length === 0 ? end : rowOutputBuffer.writeText("\n", end))
    return { bytes, results: complete.length }
  }
}

/** Creates a writer for one file. It is stateful, because a group of rows may span two chunks. */
export const makeCsvOrNdjsonWriter = (encoder: ResultEncoder, format: "csv" | "ndjson"): FileChunkEncoder =>
  format === "csv" ? makeCsvWriter(encoder) : makeNdjsonWriter(encoder)

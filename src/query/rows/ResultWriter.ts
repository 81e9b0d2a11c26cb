/** Groups a list's rows into results, and encodes the results as a page or a file (D8, D16). */
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

/** The rows of one result: either a single row or a group of adjacent rows, such as all rows of an ownership filing. */
export type ResultRows = Array.NonEmptyReadonlyArray<BinaryRecord>

/**
 * Encodes results. The `write` functions write at a position in the output and return the position after the written
 * bytes.
 */
export interface ResultEncoder {
  readonly models: RowModels
  /** The column names, which also form the CSV header. */
  readonly columns: ReadonlyArray<string>
  /** The SQL select list: a single record with all columns. */
  readonly selection: string
  /** Writes a result as JSON. */
  readonly writeJson: (rows: ResultRows, position: number) => number
  /** Writes a row as a CSV record. A result that is a group of rows becomes one record per row. */
  readonly writeCsvRecord: RowWriter
  /** The column with a row's date, or undefined if the rows have no date. */
  readonly rowDate: RowDateColumn | undefined
  /** Returns whether a row belongs to the same result as the previous row. Undefined if each result is a single row. */
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

/** Creates the encoder for results that are single rows. */
export const makeSingleRowResultEncoder = (Row: RowModels): ResultEncoder => {
  const write = makeJsonRowWriter(Row)
  return makeResultEncoder(Row, { writeJson: ([row], position) => write(row, position), isSameResult: undefined })
}

/** Creates the encoder for results that are groups of rows. `writeJson` writes one group. */
export const makeGroupResultEncoder = (
  Row: RowModels,
  isSameResult: (row: BinaryRecord, previous: BinaryRecord) => boolean,
  writeJson: ResultEncoder["writeJson"],
): ResultEncoder => makeResultEncoder(Row, { writeJson, isSameResult })

/** Groups rows into results. Adjacent rows of the same result form a group. */
export const groupRowsIntoResults = (
  { isSameResult }: ResultEncoder,
  rows: ReadonlyArray<BinaryRecord>,
): ReadonlyArray<ResultRows> => {
  if (isSameResult === undefined) return rows.map((row) => [row])
  if (!Array.isReadonlyArrayNonEmpty(rows)) return []
  return Array.groupWith(rows, (previous, row) => isSameResult(row, previous))
}

/** Writes results as JSON, with a separator between them. Returns the position after the last result. */
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

/**
 * Creates a function that counts how many results begin in the next rows of a list. A group of rows that began in an
 * earlier call is not counted again.
 */
export const makeResultCounter = ({ isSameResult }: ResultEncoder) => {
  let previous: BinaryRecord | undefined
  return (rows: ReadonlyArray<BinaryRecord>) => {
    if (isSameResult === undefined) return rows.length
    let count = 0
    for (const row of rows) {
      if (previous === undefined || !isSameResult(row, previous)) count += 1
      previous = row
    }
    // Copied, because holding the record itself would keep its whole read buffer in memory.
    previous = previous?.copy()
    return count
  }
}

/** A part of a file. */
export interface FileChunk {
  /** The encoded bytes. Empty if they are still buffered. */
  readonly bytes: Uint8Array
  /** The number of results that end in this chunk. */
  readonly results: number
}

/**
 * Encodes the next rows of a file. For NDJSON, the last group is held back until the next call, because it may continue
 * there, unless `isLast` is true.
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
    // The negative index leaves out the last group.
    const complete = isLast || encoder.isSameResult === undefined ? results : results.slice(0, -1)
    pending = results.slice(complete.length).flat().map((row) => row.copy())
    const end = writeJsonResults(encoder, complete, "\n", 0)
    const bytes = rowOutputBuffer.take(complete.length === 0 ? end : rowOutputBuffer.writeText("\n", end))
    return { bytes, results: complete.length }
  }
}

/** Creates a writer for a single file. The writer is stateful, because a group of rows may span two chunks. */
export const makeCsvOrNdjsonWriter = (encoder: ResultEncoder, format: "csv" | "ndjson"): FileChunkEncoder =>
  format === "csv" ? makeCsvWriter(encoder) : makeNdjsonWriter(encoder)

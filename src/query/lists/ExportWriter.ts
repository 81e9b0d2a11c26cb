/** Encodes the rows of an export as a file. */
import type { ExportFormat } from "../../contract/rows/ListFormats.ts"
import { makeParquetWriter } from "./ParquetWriter.ts"
import { type FileChunk, makeCsvOrNdjsonWriter, makeResultCounter, type ResultEncoder } from "../rows/ResultWriter.ts"
import type { BinaryRecord } from "../../postgres/BinaryRecord.ts"

/** Encodes the next rows. Each step of the iterator encodes one chunk, so that other requests can run between steps. */
type ExportRowsWriter = (rows: ReadonlyArray<BinaryRecord>, isLast: boolean) => Iterable<FileChunk>

/**
 * Adapts the Parquet writer to `ExportRowsWriter`. The Parquet writer collects rows and encodes them as one row group,
 * so a chunk of bytes belongs to no particular rows. The results are therefore counted all at once, with the chunk that
 * completes their row group.
 */
const makeParquetExportWriter = (
  encoder: ResultEncoder,
  metadata: Readonly<Record<string, string>>,
): ExportRowsWriter => {
  const writeRows = makeParquetWriter(encoder.models, encoder.columns, metadata)
  const countResults = makeResultCounter(encoder)
  /** The number of results in the row group that is not complete yet. */
  let buffered = 0
  return function* (rows, isLast) {
    buffered += countResults(rows)
    for (const { bytes, endsGroup } of writeRows(rows, isLast)) {
      const results = endsGroup ? buffered : 0
      buffered -= results
      yield { bytes, results }
    }
  }
}

/**
 * Creates a writer for a file. `metadata` becomes the key-value metadata of a Parquet file and is ignored for other
 * formats.
 */
export const makeExportWriter = (
  encoder: ResultEncoder,
  format: ExportFormat,
  metadata: Readonly<Record<string, string>>,
): ExportRowsWriter => {
  if (format === "parquet") return makeParquetExportWriter(encoder, metadata)
  const writeChunk = makeCsvOrNdjsonWriter(encoder, format)
  return (rows, isLast) => [writeChunk(rows, isLast)]
}

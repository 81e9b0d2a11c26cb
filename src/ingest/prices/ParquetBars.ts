/** Reads the rows of Parquet files as text, one row group at a time. */
import { Array, Effect, FileSystem, Stream } from "effect"
import {
  asyncBufferFromFile,
  type ColumnData,
  type Compressors,
  parquetMetadataAsync,
  parquetRead,
  parquetSchema,
  type SchemaElement,
  snappyUncompress,
} from "hyparquet"
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from "node:zlib"
import { UnreadableLoadFile } from "../load/FileReader.ts"
import { OperationProgress } from "../../postgres/metrics/Progress.ts"
import { type BarRows, isPriceColumn, listUsedColumns } from "./BarFormats.ts"

/** Limits of what a file may claim. Writers make pages of about 1 MiB, and row groups of at most a few million rows. */
const maxPageBytes = 256 * 1024 * 1024
const maxGroupRows = 10_000_000

type Decompress = NonNullable<Compressors[keyof Compressors]>

const decompressWith =
  (run: (bytes: Uint8Array, options: { readonly maxOutputLength: number }) => Uint8Array): Decompress =>
  (bytes, length) => {
    if (length > maxPageBytes) throw new Error("a page is larger than 256 MiB; write smaller pages")
    return run(bytes, { maxOutputLength: Math.max(1, length) })
  }

/** hyparquet itself decompresses only Snappy. */
const compressors: Compressors = {
  GZIP: decompressWith(gunzipSync),
  ZSTD: decompressWith(zstdDecompressSync),
  BROTLI: decompressWith(brotliDecompressSync),
  SNAPPY: decompressWith((bytes, { maxOutputLength }) => {
    const output = new Uint8Array(maxOutputLength)
    snappyUncompress(bytes, output)
    return output
  }),
}

/** Rows per batch. */
const batchSize = 10_000

const nanosecondsPerUnit = { MILLIS: 1_000_000n, MICROS: 1000n, NANOS: 1n }

const toBigInt = (value: unknown) => {
  if (!(value instanceof Uint8Array)) return BigInt(String(value))
  return BigInt.asIntN(value.length * 8, value.reduce((total, byte) => total * 256n + BigInt(byte), 0n))
}

const formatDecimal = (unscaled: bigint, scale: number) => {
  if (scale === 0) return String(unscaled)
  const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(scale + 1, "0")
  return `${unscaled < 0n ? "-" : ""}${digits.slice(0, -scale)}.${digits.slice(-scale)}`
}

type FormatCell = (value: unknown) => string

/** Adds a decimal point to an integer, which marks a price in dollars: Databento's prices without it are billionths. */
const formatDollars = (text: string) => /^\d+$/.test(text) ? `${text}.0` : text

/** Returns a function that formats the physical values of a column, or the reason why the column cannot be read. */
const makeCellFormatter = (element: SchemaElement): FormatCell | string => {
  const { converted_type: converted, logical_type: logical, name, scale = 0, type } = element
  if (type === undefined) return "has nested values; write it as text or numbers"
  const formatNumber = isPriceColumn(name) ? formatDollars : String
  if (logical?.type === "DECIMAL" || converted === "DECIMAL") {
    return (value) => formatNumber(formatDecimal(toBigInt(value), scale))
  }
  if (logical?.type === "TIMESTAMP") {
    const factor = nanosecondsPerUnit[logical.unit]
    return logical.isAdjustedToUTC
      ? (value) => String(toBigInt(value) * factor)
      : "has times without a zone; write them as UTC"
  }
  if (converted === "TIMESTAMP_MILLIS") return (value) => String(toBigInt(value) * nanosecondsPerUnit.MILLIS)
  if (converted === "TIMESTAMP_MICROS") return (value) => String(toBigInt(value) * nanosecondsPerUnit.MICROS)
  if (logical?.type === "DATE" || converted === "DATE") {
    return (value) => new Date(Number(value) * 86_400_000).toISOString().slice(0, 10)
  }
  if (type === "FLOAT") {
    return "has 32-bit floating-point numbers, which hold only seven digits; write it as decimal or double"
  }
  if (type === "INT96") return "has times in the obsolete type INT96; write it as timestamp"
  return type === "DOUBLE" ? (value) => formatNumber(String(value)) : String
}

/** Removes the annotations that hyparquet would convert. It converts decimals to floating-point numbers. */
const toPhysical = (element: SchemaElement): SchemaElement => {
  const { converted_type, logical_type: _logical, precision: _precision, scale: _scale, ...physical } = element
  return converted_type === "UTF8" ? { ...physical, converted_type } : physical
}

const unreadable = (path: string, reason: string) => new UnreadableLoadFile({ message: `${path} ${reason}.` })

const attempt = <A>(path: string, run: () => Promise<A>) =>
  Effect.tryPromise({
    try: run,
    catch: (error) => unreadable(path, `cannot be read as Parquet: ${error instanceof Error ? error.message : error}`),
  })

/** Reads the values of some rows by column. hyparquet also returns other rows of the same pages. */
const readColumns = Effect.fnUntraced(
  function* (path: string, options: Omit<Parameters<typeof parquetRead>[0], "onChunk" | "onComplete" | "rowFormat">) {
    const { rowEnd = 0, rowStart = 0 } = options
    const columns = new Map<string, Array<unknown>>()
    const onChunk = ({ columnData, columnName, rowStart: first }: ColumnData) => {
      const values = columns.get(columnName) ?? []
      for (let row = Math.max(first, rowStart); row < Math.min(first + columnData.length, rowEnd); row += 1) {
        values[row - rowStart] = columnData[row - first]
      }
      columns.set(columnName, values)
    }
    yield* attempt(path, () => parquetRead({ ...options, onChunk }))
    return columns
  },
)

/**
 * Reads the rows of a Parquet file. The first batch has the names of the columns. Null becomes an empty cell, and so do
 * the values of columns that the format does not use.
 */
export const readParquetRows = (path: string): Stream.Stream<BarRows, UnreadableLoadFile, FileSystem.FileSystem> =>
  Stream.unwrap(Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const progress = yield* OperationProgress
    if (!(yield* Effect.orElseSucceed(fs.exists(path), () => false))) {
      return Stream.fail(unreadable(path, "does not exist"))
    }
    const file = yield* attempt(path, () => asyncBufferFromFile(path))
    const metadata = yield* attempt(path, () => parquetMetadataAsync(file))
    const elements = parquetSchema(metadata).children.map(({ element }) => element)
    const names = elements.map(({ name }) => name)
    const used = listUsedColumns(names)
    // Unused columns are not read, so their types do not matter.
    const formatters = elements.map((element) => used.includes(element.name) ? makeCellFormatter(element) : String)
    const problem = formatters.findIndex((formatter) => typeof formatter === "string")
    if (problem >= 0) {
      return Stream.fail(unreadable(path, `cannot be read: the column ${names[problem]} ${formatters[problem]}`))
    }
    if (metadata.row_groups.some(({ num_rows }) => num_rows > maxGroupRows)) {
      return Stream.fail(unreadable(path, `has a row group of more than ${maxGroupRows} rows; write smaller ones`))
    }
    const formats = formatters.filter((formatter) => typeof formatter !== "string")
    Object.assign(progress, { done: 0, total: Number(metadata.num_rows) })
    const schema = metadata.schema.map(toPhysical)
    const options = { file, metadata: { ...metadata, schema }, compressors, columns: [...used] }

    const groups = Array.mapAccum(metadata.row_groups, 0, (start, { num_rows }) => {
      const end = start + Number(num_rows)
      return [end, { rowStart: start, rowEnd: end }]
    })[1]

    const readGroup = ({ rowEnd, rowStart }: { readonly rowStart: number; readonly rowEnd: number }) =>
      Stream.unwrap(Effect.map(readColumns(path, { ...options, rowStart, rowEnd }), (columns) => {
        const values = names.map((name) => columns.get(name) ?? [])
        const batches = Array.range(0, Math.max(0, Math.ceil((rowEnd - rowStart) / batchSize) - 1))
        return Stream.map(Stream.fromIterable(batches), (batch): BarRows => {
          const first = batch * batchSize
          const count = Math.min(batchSize, rowEnd - rowStart - first)
          progress.done = rowStart + first + count
          return Array.makeBy(count, (index) => ({
            line: rowStart + first + index + 1,
            cells: values.map((column, position) => {
              const value = column[first + index]
              return value === null || value === undefined ? "" : formats[position]?.(value) ?? ""
            }),
          }))
        })
      }))
    const header: BarRows = [{ line: 0, cells: names }]
    return Stream.concat(
      Stream.succeed(header),
      Stream.flatMap(Stream.fromIterable(groups.filter(({ rowEnd, rowStart }) => rowEnd > rowStart)), readGroup),
    )
  }))

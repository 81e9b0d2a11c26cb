/** Reads the rows of Parquet files as text, one row group at a time. */
import { Array, Effect, FileSystem, Stream } from "effect"
import {
  asyncBufferFromFile,
  type ColumnData,
  type Compressors,
  type FileMetaData,
  parquetMetadataAsync,
  parquetRead,
  parquetSchema,
  type SchemaElement,
  snappyUncompress,
} from "hyparquet"
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from "node:zlib"
import { UnreadableLoadFile } from "../load/FileReader.ts"
import { OperationProgress } from "../../postgres/metrics/OperationProgress.ts"
import { type BarRows, isPriceColumn, listUsedColumns } from "./BarFormats.ts"

/**
 * Limits on the sizes that a file declares, so that a file cannot exhaust memory. Programs usually write pages of about
 * 1 MiB, and row groups of at most a few million rows.
 */
const maxPageBytes = 256 * 1024 * 1024
const maxGroupRows = 10_000_000

type Decompress = NonNullable<Compressors[keyof Compressors]>

/**
 * Returns a decompressor for hyparquet that rejects large pages and limits its output to the size in the page header.
 */
const decompressWith =
  (run: (bytes: Uint8Array, options: { readonly maxOutputLength: number }) => Uint8Array): Decompress =>
  (bytes, length) => {
    if (length > maxPageBytes) throw new Error("a page is larger than 256 MiB; write smaller pages")
    // A page or dictionary without values, as in a column of nulls, is empty. Snappy and zlib reject an empty output.
    return length === 0 ? new Uint8Array() : run(bytes, { maxOutputLength: length })
  }

/** Decompressors by codec. hyparquet itself includes only Snappy. */
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

/** The number of rows per batch. */
const batchSize = 10_000

const nanosecondsPerUnit = { MILLIS: 1_000_000n, MICROS: 1000n, NANOS: 1n }

/**
 * Converts an integer value of a column. The value is a number or, in a fixed-length column, big-endian bytes in two's
 * complement.
 */
const toBigInt = (value: unknown) => {
  if (!(value instanceof Uint8Array)) return BigInt(String(value))
  return BigInt.asIntN(value.length * 8, value.reduce((total, byte) => total * 256n + BigInt(byte), 0n))
}

/** Formats an integer as a decimal number with `scale` decimal places. For example, 12345 with scale 2 is `123.45`. */
const formatDecimal = (unscaled: bigint, scale: number) => {
  if (scale === 0) return String(unscaled)
  const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(scale + 1, "0")
  return `${unscaled < 0n ? "-" : ""}${digits.slice(0, -scale)}.${digits.slice(-scale)}`
}

/** Formats a column value as text, in the form used by a CSV file of the same format. */
type FormatCell = (value: unknown) => string

/**
 * Adds a decimal point to a whole number of dollars. Without it, a Databento price would be read as billionths of a
 * dollar.
 */
const formatDollars = (text: string) => /^\d+$/.test(text) ? `${text}.0` : text

/**
 * Returns a function that turns the stored values of a Parquet column into the text that a CSV file of the same format
 * would contain. If the column cannot be read, returns the reason instead. Times become nanoseconds since 1970, which
 * CSV files contain.
 *
 * The function receives the values as the file stores them: a decimal as its unscaled integer, and a time as a number
 * of milliseconds, microseconds or nanoseconds (`toPhysical`).
 */
const makeCellFormatter = (element: SchemaElement): FormatCell | string => {
  const { converted_type: converted, logical_type: logical, name, scale = 0, type } = element
  // In a Parquet schema, only a group of columns has no type of its own.
  if (type === undefined) return "has nested values; write it as text or numbers"
  // A price without a decimal point would be read as billionths of a dollar.
  const formatNumber = isPriceColumn(name) ? formatDollars : String
  if (logical?.type === "DECIMAL" || converted === "DECIMAL") {
    return (value) => formatNumber(formatDecimal(toBigInt(value), scale))
  }
  const isTime = logical?.type === "TIMESTAMP" || converted?.startsWith("TIMESTAMP_") === true || type === "INT96"
  // The days of day bars. pandas has no type for them, so it often writes them as times at midnight.
  if (isTime && name === "date") return "has times; write it as a date without a time of day (date32), or as text"
  if (logical?.type === "TIMESTAMP") {
    const factor = nanosecondsPerUnit[logical.unit]
    return logical.isAdjustedToUTC
      ? (value) => String(toBigInt(value) * factor)
      : "has times without a zone; write them as UTC"
  }
  // These older annotations have no time zone flag: such times are always in UTC.
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

/**
 * Removes the annotations of a column that make hyparquet convert its values, so that it returns them in their physical
 * form: a decimal as its unscaled integer, and a time as the number of units since 1970. Otherwise, it would convert
 * decimals to floating-point numbers. Text columns keep their annotation, because text must be decoded.
 */
const toPhysical = (element: SchemaElement): SchemaElement => {
  const { converted_type, logical_type: _logical, precision: _precision, scale: _scale, ...physical } = element
  return converted_type === "UTF8" ? { ...physical, converted_type } : physical
}

const unreadable = (path: string, reason: string) => new UnreadableLoadFile({ message: `${path} ${reason}.` })

/** Runs a function of hyparquet. If it fails, fails with the path and the reason. */
const attempt = <A>(path: string, run: () => Promise<A>) =>
  Effect.tryPromise({
    try: run,
    catch: (error) => unreadable(path, `cannot be read as Parquet: ${error instanceof Error ? error.message : error}`),
  })

type ReadOptions = Omit<Parameters<typeof parquetRead>[0], "onChunk" | "onComplete" | "rowFormat">

/**
 * Reads the rows from `rowStart` up to, but not including, `rowEnd`, both counted from the start of the file. Returns
 * one array of values per column, by column name. The values of the row `rowStart` are at index 0.
 */
const readColumns = Effect.fnUntraced(
  function* (path: string, options: ReadOptions) {
    const { rowEnd = 0, rowStart = 0 } = options
    const columns = new Map<string, Array<unknown>>()
    const onChunk = ({ columnData, columnName, rowStart: pageStart }: ColumnData) => {
      const values = columns.get(columnName) ?? []
      // hyparquet passes whole pages, so the first and the last page may contain rows outside of the requested range.
      const pageEnd = pageStart + columnData.length
      for (let row = Math.max(pageStart, rowStart); row < Math.min(pageEnd, rowEnd); row += 1) {
        values[row - rowStart] = columnData[row - pageStart]
      }
      columns.set(columnName, values)
    }
    yield* attempt(path, () => parquetRead({ ...options, onChunk }))
    return columns
  },
)

/**
 * The rows of one row group, from `rowStart` up to, but not including, `rowEnd`. Rows are counted from the start of the
 * file, starting at 0.
 */
interface RowRange {
  readonly rowStart: number
  readonly rowEnd: number
}

/** A Parquet file whose metadata has been read and checked. */
interface ParquetFile {
  readonly path: string
  /** The names of all columns, in file order. */
  readonly names: ReadonlyArray<string>
  /** The formatting function of each column, in the same order as `names`. */
  readonly formats: ReadonlyArray<FormatCell>
  /** Options for hyparquet that are the same for all row groups. */
  readonly options: ReadOptions
  /** The row groups that are not empty, in file order. */
  readonly groups: ReadonlyArray<RowRange>
  readonly rowCount: number
}

/**
 * Returns the formatting functions of the file's columns, in file order. Fails with the first column in `usedNames`
 * that cannot be read. The other columns are not read, so their types do not matter, and their functions are never
 * called.
 */
const makeCellFormatters = Effect.fnUntraced(
  function* (path: string, elements: ReadonlyArray<SchemaElement>, usedNames: ReadonlyArray<string>) {
    const formats: Array<FormatCell> = []
    for (const element of elements) {
      const formatter = usedNames.includes(element.name) ? makeCellFormatter(element) : String
      if (typeof formatter === "string") {
        return yield* unreadable(path, `cannot be read: the column ${element.name} ${formatter}`)
      }
      formats.push(formatter)
    }
    return formats
  },
)

/** Returns the rows of each row group that is not empty. The groups follow one another in the file. */
const listRowGroups = (groups: FileMetaData["row_groups"]): ReadonlyArray<RowRange> => {
  const [, ranges] = Array.mapAccum(groups, 0, (rowStart, { num_rows }) => {
    const rowEnd = rowStart + Number(num_rows)
    return [rowEnd, { rowStart, rowEnd }]
  })
  return ranges.filter(({ rowEnd, rowStart }) => rowEnd > rowStart)
}

/**
 * Opens a file and reads its metadata, which is at the end of the file. Fails if it is not a Parquet file, if a column
 * that its format uses cannot be read, or if a row group is too large. If the names of the columns match no known
 * format, none are read, and the code that parses the names reports this.
 */
const openParquetFile = Effect.fnUntraced(function* (path: string) {
  const fs = yield* FileSystem.FileSystem
  if (!(yield* Effect.orElseSucceed(fs.exists(path), () => false))) return yield* unreadable(path, "does not exist")
  const file = yield* attempt(path, () => asyncBufferFromFile(path))
  const metadata = yield* attempt(path, () => parquetMetadataAsync(file))
  const elements = parquetSchema(metadata).children.map(({ element }) => element)
  const names = elements.map(({ name }) => name)
  const usedNames = listUsedColumns(names)
  const formats = yield* makeCellFormatters(path, elements, usedNames)
  if (metadata.row_groups.some(({ num_rows }) => num_rows > maxGroupRows)) {
    return yield* unreadable(path, `has a row group of more than ${maxGroupRows} rows; write smaller ones`)
  }
  const opened: ParquetFile = {
    path,
    names,
    formats,
    options: {
      file,
      // The formatting functions expect values in their physical form.
      metadata: { ...metadata, schema: metadata.schema.map(toPhysical) },
      compressors,
      columns: [...usedNames],
    },
    groups: listRowGroups(metadata.row_groups),
    rowCount: Number(metadata.num_rows),
  }
  return opened
})

/**
 * Reads a whole row group in one step, and streams its rows as text in batches. The `line` of a row is its number in
 * the file, starting at 1. A cell is empty if its value is null.
 */
const readGroup = ({ formats, names, options, path }: ParquetFile, { rowEnd, rowStart }: RowRange) =>
  Stream.unwrap(Effect.gen(function* () {
    const progress = yield* OperationProgress
    const columns = yield* readColumns(path, { ...options, rowStart, rowEnd })
    // Columns that the format does not use have not been read.
    const values = names.map((name) => columns.get(name) ?? [])
    const batches = Array.range(0, Math.ceil((rowEnd - rowStart) / batchSize) - 1)
    return Stream.map(Stream.fromIterable(batches), (batch): BarRows => {
      // The position of the batch's first row within the row group.
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

/**
 * Streams the rows of a Parquet file. The first batch is the header with the column names. Null values, and values in
 * columns that the format does not use, become empty cells.
 */
export const readParquetRows = (path: string): Stream.Stream<BarRows, UnreadableLoadFile, FileSystem.FileSystem> =>
  Stream.unwrap(Effect.gen(function* () {
    const file = yield* openParquetFile(path)
    Object.assign(yield* OperationProgress, { done: 0, total: file.rowCount })
    const header: BarRows = [{ line: 0, cells: file.names }]
    return Stream.concat(
      Stream.succeed(header),
      Stream.flatMap(Stream.fromIterable(file.groups), (group) => readGroup(file, group)),
    )
  }))

/** Reads Parquet files. Converts the physical values itself, because hyparquet would convert decimals to floats. */
import { parquetMetadata, parquetReadObjects, type SchemaElement } from "hyparquet"
import { zstdDecompressSync } from "node:zlib"

export interface ParquetFile {
  /** The type of each column, such as `decimal(18,4) int64`, with `?` if the column may be null. */
  readonly types: Readonly<Record<string, string>>
  /** The encodings of each column in the first row group. */
  readonly encodings: Readonly<Record<string, ReadonlyArray<string>>>
  readonly metadata: Readonly<Record<string, string>>
  readonly groupSizes: ReadonlyArray<number>
  /** The values as in JSON, but numbers are text. */
  readonly rows: ReadonlyArray<Readonly<Record<string, unknown>>>
}

const toArrayBuffer = (bytes: Uint8Array) => {
  const copy = new ArrayBuffer(bytes.length)
  new Uint8Array(copy).set(bytes)
  return copy
}

const describeType = ({ logical_type: logical, precision, scale, type, type_length }: SchemaElement) => {
  const physical = `${type?.toLowerCase()}${type_length === undefined ? "" : `(${type_length})`}`
  switch (logical?.type) {
    case "DECIMAL":
      return `decimal(${precision},${scale}) ${physical}`
    case "TIMESTAMP":
      return `timestamp(${logical.unit.toLowerCase()}${logical.isAdjustedToUTC ? ",utc" : ""}) ${physical}`
    case undefined:
      return physical
    default:
      return `${logical?.type.toLowerCase()} ${physical}`
  }
}

const toBigInt = (value: unknown) => {
  if (!(value instanceof Uint8Array)) return BigInt(String(value))
  const unsigned = value.reduce((total, byte) => total * 256n + BigInt(byte), 0n)
  return BigInt.asIntN(value.length * 8, unsigned)
}

/** Formats an unscaled integer as a decimal without trailing zeros. */
export const formatDecimal = (unscaled: bigint, scale: number) => {
  const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(scale + 1, "0")
  const text = `${digits.slice(0, -scale)}.${digits.slice(-scale)}`.replace(/\.?0+$/, "")
  return `${unscaled < 0n ? "-" : ""}${text}`
}

const toText = (value: unknown) => value instanceof Uint8Array ? new TextDecoder().decode(value) : value

const toJsonValue = (value: unknown, { logical_type: logical, scale = 0 }: SchemaElement): unknown => {
  if (value === null || value === undefined) return null
  if (Array.isArray(value)) return value.map(toText)
  switch (logical?.type) {
    case "DECIMAL":
      return formatDecimal(toBigInt(value), scale)
    case "DATE":
      return new Date(Number(value) * 86_400_000).toISOString().slice(0, 10)
    case "TIMESTAMP":
      return new Date(Number(BigInt(String(value)) / 1000n) - 5 * 3_600_000).toISOString()
        .replace(/(\.000)?Z$/, "-05:00")
    case "STRING":
      return toText(value)
    default:
      return typeof value === "bigint" ? String(value) : value
  }
}

/** Returns the number of rows in each row group, without reading the rows. */
export const readGroupSizes = (bytes: Uint8Array) =>
  parquetMetadata(toArrayBuffer(bytes)).row_groups.map(({ num_rows }) => Number(num_rows))

export const readParquet = async (bytes: Uint8Array): Promise<ParquetFile> => {
  const file = toArrayBuffer(bytes)
  const { key_value_metadata = [], row_groups, schema } = parquetMetadata(file)
  const columns = schema.slice(1).filter(({ name }) => name !== "list" && name !== "element")
  const element = schema.find(({ name }) => name === "element")
  // Without annotations, hyparquet returns the physical values; it would convert decimals to floats.
  const physicalSchema = schema.map((column) => {
    const { converted_type, logical_type: _logical, precision: _precision, scale: _scale, ...physical } = column
    return converted_type === "LIST" ? { ...physical, converted_type } : physical
  })
  const rows = await parquetReadObjects({
    file,
    metadata: { ...parquetMetadata(file), schema: physicalSchema },
    utf8: false,
    compressors: { ZSTD: (input) => zstdDecompressSync(input) },
  })
  return {
    types: Object.fromEntries(columns.map((column) => [
      column.name,
      `${
        column.converted_type === "LIST" && element !== undefined
          ? `list of ${describeType(element)}`
          : describeType(column)
      }${column.repetition_type === "REQUIRED" ? "" : "?"}`,
    ])),
    encodings: Object.fromEntries((row_groups[0]?.columns ?? []).map(({ meta_data }) => [
      meta_data?.path_in_schema[0],
      meta_data?.encodings ?? [],
    ])),
    metadata: Object.fromEntries(key_value_metadata.map(({ key, value = "" }) => [key, value])),
    groupSizes: row_groups.map(({ num_rows }) => Number(num_rows)),
    rows: rows.map((row) =>
      Object.fromEntries(columns.map((column) => [column.name, toJsonValue(row[column.name], column)]))
    ),
  }
}

/** Parses JSON like the values of `readParquet`: numbers are text with all their digits. */
export const parseWithDigits = (json: string): unknown =>
  JSON.parse(json, (_, value, { source } = { source: "" }) => typeof value === "number" ? source : value)

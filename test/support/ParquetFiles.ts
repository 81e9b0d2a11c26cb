/** Reads Parquet files. Converts the physical values itself, because hyparquet converts decimals to floats. */
import { Schema } from "effect"
import { parquetMetadata, parquetReadObjects, type SchemaElement } from "hyparquet"
import { deserializeTCompactProtocol } from "hyparquet/src/thrift.js"
import { zstdDecompressSync } from "node:zlib"

/** The contents of a Parquet file. */
export interface ParquetFile {
  /** The type of each column, such as `decimal(18,4) int64`. A nullable column's type ends with `?`. */
  readonly types: Readonly<Record<string, string>>
  /** The encodings that each column uses in the first row group. */
  readonly encodings: Readonly<Record<string, ReadonlyArray<string>>>
  readonly metadata: Readonly<Record<string, string>>
  readonly groupSizes: ReadonlyArray<number>
  /** The values in the form that they have in JSON, except that numbers are text. */
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

// ----------------------------------------------------------------------------------------------------------------
// Statistics
// ----------------------------------------------------------------------------------------------------------------

/** A value that compares in the order of its Parquet type: bytes for text, and an integer for all other types. */
type Comparable = bigint | Buffer

/**
 * The parts of the Thrift footer that contain statistics. They are decoded here, because hyparquet's own metadata
 * represents decimals as floats.
 */
const decodeFooter = Schema.decodeUnknownSync(Schema.Struct({
  field_4: Schema.Array(Schema.Struct({
    field_1: Schema.Array(Schema.Struct({
      field_3: Schema.Struct({
        field_12: Schema.Struct({
          field_3: Schema.BigInt,
          field_5: Schema.optionalKey(Schema.Uint8Array),
          field_6: Schema.optionalKey(Schema.Uint8Array),
          field_7: Schema.optionalKey(Schema.Boolean),
          field_8: Schema.optionalKey(Schema.Boolean),
        }),
      }),
    })),
  })),
}))

const fromBytes = (bytes: Uint8Array, { type }: SchemaElement): Comparable => {
  if (type === "BYTE_ARRAY") return Buffer.from(bytes)
  return toBigInt(type === "FIXED_LEN_BYTE_ARRAY" ? bytes : bytes.toReversed())
}

/**
 * Converts a non-null value from `readParquet` so that it compares in the order of its Parquet type: text as bytes, a
 * date as days and a timestamp as microseconds since 1970, and a decimal as an integer without its point, so that
 * `1.5` with the scale 4 becomes 15000.
 */
const toComparable = (value: unknown, { logical_type: logical, scale = 0 }: SchemaElement): Comparable => {
  switch (logical?.type) {
    case "STRING":
      return Buffer.from(String(value))
    case "DATE":
      return BigInt(Date.parse(String(value)) / 86_400_000)
    case "TIMESTAMP":
      return BigInt(Date.parse(String(value))) * 1000n
    case "DECIMAL": {
      const [integer = "", fraction = ""] = String(value).split(".")
      return BigInt(integer + fraction.padEnd(scale, "0"))
    }
    default:
      return BigInt(typeof value === "boolean" ? value : String(value))
  }
}

const compare = (left: Comparable, right: Comparable) => {
  if (typeof left !== "bigint" && typeof right !== "bigint") return Buffer.compare(left, right)
  return left < right ? -1 : left > right ? 1 : 0
}

const isText = (value: Comparable | undefined) => value !== undefined && typeof value !== "bigint"

/**
 * The maximum length of a text in statistics. Longer texts are truncated, and the statistics then state that they are
 * not exact.
 */
const maxTextBytes = 16

/**
 * Compares the statistics of each column in each row group of a Parquet file (`bytes`) with the values in `rows`: the
 * minimum, the maximum, and the number of nulls. Returns a text for each difference. `rows` have the same form as the
 * result of `readParquet`, so a test can pass rows from another source.
 *
 * The end of the file is its footer, then the footer's size in four bytes, and four more bytes. In the footer's Thrift
 * structures, fields have numbers: `field_4` are the row groups, `field_1` their columns, and `field_3.field_12` the
 * statistics of a column, with the nulls (3), the maximum (5), the minimum (6), and whether these are exact (7, 8).
 */
export const findWrongStatistics = (bytes: Uint8Array, rows: ReadonlyArray<Readonly<Record<string, unknown>>>) => {
  const { row_groups, schema } = parquetMetadata(toArrayBuffer(bytes))
  const elements = schema.filter(({ type }) => type !== undefined)
  const footerSize = Buffer.from(bytes).readUInt32LE(bytes.length - 8)
  const view = new DataView(toArrayBuffer(bytes.subarray(bytes.length - 8 - footerSize)))
  const footer = decodeFooter(deserializeTCompactProtocol({ view, offset: 0 }))
  let start = 0
  return row_groups.flatMap(({ columns, num_rows }, group) => {
    const groupRows = rows.slice(start, start += Number(num_rows))
    return columns.flatMap(({ meta_data }, index) => {
      const [name = ""] = meta_data?.path_in_schema ?? []
      const element = elements[index] ?? { name }
      const statistics = footer.field_4[group]?.field_1[index]?.field_3.field_12
      // An empty list, like null, has one entry without a value.
      const entries = groupRows.flatMap((row) => {
        const value = row[name] ?? null
        return Array.isArray(value) && value.length > 0 ? value : [Array.isArray(value) ? null : value]
      })
      const sorted = entries.filter((value) => value !== null).map((value) => toComparable(value, element)).toSorted(
        compare,
      )
      const [least, greatest] = [sorted[0], sorted.at(-1)]
      const read = (bound: Uint8Array | undefined) => bound === undefined ? undefined : fromBytes(bound, element)
      const [minimum, maximum] = [read(statistics?.field_6), read(statistics?.field_5)]
      /**
       * Whether `bound` is a shortened text beside the actual extreme value: below the minimum (`order` is -1), or
       * above the maximum (1).
       */
      const isCut = (bound: Comparable | undefined, actual: Comparable | undefined, order: number) =>
        isText(bound) && isText(actual) && bound.length <= maxTextBytes && actual.length > maxTextBytes &&
        compare(bound, actual) === order
      const isRight = (bound: Comparable | undefined, actual: Comparable | undefined, order: number, isExact = true) =>
        isExact
          ? bound === undefined || actual === undefined ? bound === actual : compare(bound, actual) === 0
          : isCut(bound, actual, order)
      const problems = [
        ...(isRight(minimum, least, -1, statistics?.field_8) ? [] : [`minimum ${minimum} instead of ${least}`]),
        ...(isRight(maximum, greatest, 1, statistics?.field_7) ? [] : [`maximum ${maximum} instead of ${greatest}`]),
        ...(statistics?.field_3 === BigInt(entries.length - sorted.length) ? [] : [`${statistics?.field_3} nulls`]),
      ]
      return problems.map((problem) => `${name} in row group ${group}: ${problem}`)
    })
  })
}

// ----------------------------------------------------------------------------------------------------------------
// Values
// ----------------------------------------------------------------------------------------------------------------

const toText = (value: unknown) => value instanceof Uint8Array ? new TextDecoder().decode(value) : value

/**
 * Converts a physical Parquet value to the value that it has in the API's JSON: a decimal to text, days and
 * microseconds since 1970 to a date and a time at -05:00, and bytes to text.
 */
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

/** Returns the number of rows in each row group without reading the rows. */
export const readGroupSizes = (bytes: Uint8Array) =>
  parquetMetadata(toArrayBuffer(bytes)).row_groups.map(({ num_rows }) => Number(num_rows))

/**
 * Reads a complete Parquet file. The first element of its schema is the root, and a column with a list has two more
 * elements, `list` and `element`. All lists have the same type of elements.
 */
export const readParquet = async (bytes: Uint8Array): Promise<ParquetFile> => {
  const file = toArrayBuffer(bytes)
  const { key_value_metadata = [], row_groups, schema } = parquetMetadata(file)
  const columns = schema.slice(1).filter(({ name }) => name !== "list" && name !== "element")
  const element = schema.find(({ name }) => name === "element")
  // Without the logical types, hyparquet returns physical values. With them, it would convert decimals to floats.
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

/** Parses JSON into values of the form that `readParquet` returns: numbers are text with all their digits. */
export const parseWithDigits = (json: string): unknown =>
  JSON.parse(json, (_, value, { source } = { source: "" }) => typeof value === "number" ? source : value)

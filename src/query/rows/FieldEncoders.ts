/**
 * Encoders from PostgreSQL's binary format to JSON. There is one for each column type, along with the column's Parquet
 * type (docs/decisions/0030-compiled-row-encoders.md).
 */
import { DateTime } from "effect"
import type { ColumnType } from "../../contract/rows/Columns.ts"
import { decodeNewYorkTime } from "../../contract/rows/Timestamps.ts"
import { printedOffset } from "../../contract/rules/Dates.ts"
import { encodeAsWords, rowOutputBuffer } from "./OutputBuffer.ts"
import {
  booleanParquetField,
  hasBytesAt,
  integerParquetField,
  makeDateParquetField,
  makeDecimalParquetField,
  makeInstantParquetField,
  makeLiteralParquetField,
  type ParquetField,
  readInt64,
  textListParquetField,
  textParquetField,
} from "./ParquetFields.ts"
import { isMissingValue, textTypeId } from "../../postgres/BinaryRecord.ts"

/** The result of an encoder that cannot encode a rare or invalid value. The column's schema must encode it instead. */
export const unsupportedFieldResult = -1

/** The result of an encoder if the value does not match the column's schema. */
export const invalidFieldResult = -2

/** OIDs of the PostgreSQL types that have an encoder. */
export const postgresTypeIds = {
  boolean: 16,
  bigint: 20,
  text: textTypeId,
  textArray: 1009,
  date: 1082,
  timestamp: 1114,
  timestamptz: 1184,
  numeric: 1700,
} as const

/**
 * The maximum number of bytes that a field adds to the output in addition to its text, and the length of an escape
 * sequence such as `\u0001`.
 */
export const [fieldOverheadBytes, maxEscapeBytes] = [64, 6]

/**
 * Writes a non-null field as JSON at a position in the output. Returns the position after the JSON,
 * `unsupportedFieldResult` or `invalidFieldResult`.
 */
export type FieldWriter = (view: DataView, offset: number, size: number, position: number) => number

/** How columns of a type are encoded. */
export interface FieldEncoder {
  readonly type: (typeof postgresTypeIds)[keyof typeof postgresTypeIds]
  readonly write: FieldWriter
  readonly parquet: ParquetField
}

const textEncoder = new TextEncoder()

// ASCII codes.
const [quote, comma, hyphen, point, zero, colon] = [34, 44, 45, 46, 48, 58]
const [letterT, openBracket, backslash, closeBracket] = [84, 91, 92, 93]

// ----------------------------------------------------------------------------------------------------------------
// Text
// ----------------------------------------------------------------------------------------------------------------

/** The JSON escape sequence for each ASCII code. Empty if the character needs no escape. */
const escapes = Array.from({ length: 128 }, (_, code) => {
  const json = JSON.stringify(String.fromCharCode(code)).slice(1, -1)
  return textEncoder.encode(json.length === 1 ? "" : json)
})

const writeEscape = (code: number, position: number) => {
  const { bytes } = rowOutputBuffer
  for (const byte of escapes[code] ?? []) bytes[position++] = byte
  return position
}

/**
 * For each of the four bytes in a word, sets the highest bit if the byte is less than 32. The bit may also be set for
 * bytes above such a byte.
 */
const findControls = (word: number) => (word - 0x2020_2020) & ~word & 0x8080_8080

/**
 * For each of the four bytes in a word, sets the highest bit if the byte is zero. The bit may also be set for bytes
 * above such a byte.
 */
const findZeros = (word: number) => (word - 0x0101_0101) & ~word & 0x8080_8080

/**
 * Returns whether any of the four bytes needs a JSON escape. PostgreSQL sends valid UTF-8, in which only ASCII
 * characters need escapes.
 */
const needsEscape = (word: number) =>
  (findControls(word) | findZeros(word ^ 0x2222_2222) | findZeros(word ^ 0x5c5c_5c5c)) !== 0

/**
 * Writes text as a JSON string, four bytes at a time where none of them needs an escape. The text is UTF-8, in `view`
 * from `offset` on, and `size` bytes long. It is written to the output buffer at `position`. Returns the position after
 * it.
 */
const writeText: FieldWriter = (view, offset, size, position) => {
  const { bytes, view: output } = rowOutputBuffer
  const end = offset + size
  bytes[position++] = quote
  for (let at = offset; at < end;) {
    // Fewer than four remaining bytes are written one at a time: a zero byte counts as a character to escape.
    const word = at + 4 <= end ? view.getInt32(at) : 0
    if (needsEscape(word)) {
      const code = view.getUint8(at)
      if (code >= 32 && code !== quote && code !== backslash) bytes[position++] = code
      else position = writeEscape(code, position)
      at += 1
    } else {
      output.setInt32(position, word)
      position += 4
      at += 4
    }
  }
  bytes[position] = quote
  return position + 1
}

/** Encodes text columns. */
export const textFieldEncoder: FieldEncoder = {
  type: postgresTypeIds.text,
  write: writeText,
  parquet: textParquetField,
}

/** Creates the encoder for a column that contains only the given words. */
export const makeLiteralFieldEncoder = (words: ReadonlyArray<string>): FieldEncoder => {
  const encoded = words.map((word) => ({
    stored: textEncoder.encode(word),
    json: encodeAsWords(JSON.stringify(word)),
  }))
  const write: FieldWriter = (view, offset, size, position) => {
    for (const { json, stored } of encoded) {
      if (stored.length === size && hasBytesAt(view, offset, stored)) return rowOutputBuffer.writeWords(json, position)
    }
    return invalidFieldResult
  }
  return { type: postgresTypeIds.text, write, parquet: makeLiteralParquetField(words) }
}

/**
 * Writes an array as JSON, without its empty elements (D16, missing values). PostgreSQL sends the number of dimensions,
 * flags, the element type, the size and lower bound of each dimension, and then the elements.
 */
const writeTextArray: FieldWriter = (view, offset, size, position) => {
  const dimensions = view.getInt32(offset)
  // Lists have one dimension and begin at index 1. An empty array has no dimension.
  const isList = dimensions === 1 && view.getInt32(offset + 16) === 1
  if (dimensions !== 0 && !isList) return unsupportedFieldResult
  // The first element follows the header of 12 bytes and the 8 bytes for the only dimension.
  const first = offset + 20
  const end = offset + size
  rowOutputBuffer.bytes[position++] = openBracket
  let isFirst = true
  for (let at = first; at < end;) {
    const length = view.getInt32(at)
    if (length < 0) return unsupportedFieldResult
    if (!isMissingValue(length, textTypeId)) {
      if (!isFirst) rowOutputBuffer.bytes[position++] = comma
      isFirst = false
      position = writeText(view, at + 4, length, position)
    }
    at += 4 + length
  }
  rowOutputBuffer.bytes[position] = closeBracket
  return position + 1
}

/** Encodes columns with arrays of text. */
export const textArrayFieldEncoder: FieldEncoder = {
  type: postgresTypeIds.textArray,
  write: writeTextArray,
  parquet: textListParquetField,
}

// ----------------------------------------------------------------------------------------------------------------
// Numbers
// ----------------------------------------------------------------------------------------------------------------

/**
 * The four ASCII digits of each number from 0 to 9999, as a 32-bit integer. PostgreSQL stores a `numeric` as groups of
 * four digits, and each group is a number in this range.
 */
const fourDigits = Int32Array.from({ length: 10_000 }, (_, group) => {
  const digits = String(group).padStart(4, "0")
  return new DataView(textEncoder.encode(digits).buffer).getInt32(0)
})
/** For each group, the number of digits without leading zeros. */
const leadingDigits = Uint8Array.from({ length: 10_000 }, (_, group) => String(group).length)
/** For each group, the number of digits without trailing zeros. */
const trailingDigits = Uint8Array.from(
  { length: 10_000 },
  (_, group) => String(group).padStart(4, "0").replace(/0+$/, "").length,
)

/** Writes a number from 0 to 9999 as exactly four digits. Returns the position after them. */
export const writeFourDigits = (group: number, position: number) => {
  rowOutputBuffer.view.setInt32(position, fourDigits[group] ?? 0)
  return position + 4
}

/** Writes a number from 0 to 9999 without leading zeros. Returns the position after it. */
const writeFirstGroup = (group: number, position: number) => {
  const digits = leadingDigits[group] ?? 0
  rowOutputBuffer.view.setInt32(position, (fourDigits[group] ?? 0) << (8 * (4 - digits)))
  return position + digits
}

const writeDigits = (value: number, position: number): number => {
  if (value < 10_000) return writeFirstGroup(value, position)
  const rest = Math.floor(value / 10_000)
  return writeFourDigits(value - rest * 10_000, writeDigits(rest, position))
}

const writeInteger: FieldWriter = (view, offset, _, position) => {
  const value = readInt64(view, offset)
  if (!Number.isSafeInteger(value)) return unsupportedFieldResult
  if (value < 0) rowOutputBuffer.bytes[position++] = hyphen
  return writeDigits(Math.abs(value), position)
}

/** Encodes `bigint` columns. Values must not exceed 2^53-1. */
export const integerFieldEncoder: FieldEncoder = {
  type: postgresTypeIds.bigint,
  write: writeInteger,
  parquet: integerParquetField,
}

const maxGroups = 10
const [positive, negative] = [0, 0x4000]

/**
 * Writes a decimal without trailing zeros. PostgreSQL sends the number of four-digit groups, the weight of the first
 * group (as a power of 10,000), the sign (or a code for NaN or infinity), the number of decimal places, and then the
 * groups.
 */
const writeDecimal: FieldWriter = (view, offset, _, position) => {
  const count = view.getInt16(offset)
  const weight = view.getInt16(offset + 2)
  const sign = view.getInt16(offset + 4)
  const isShort = count <= maxGroups && weight >= -1 && weight < maxGroups
  if (!isShort || (sign !== positive && sign !== negative)) return unsupportedFieldResult
  if (count === 0) return writeFirstGroup(0, position)
  if (sign === negative) rowOutputBuffer.bytes[position++] = hyphen
  let at = offset + 8
  const end = at + 2 * count
  // Write the groups before the decimal point, the first one without leading zeros. PostgreSQL omits trailing groups
  // that are zero.
  if (weight < 0) rowOutputBuffer.bytes[position++] = zero
  else {
    const fraction = at + 2 * (weight + 1)
    position = writeFirstGroup(view.getInt16(at), position)
    for (at += 2; at < fraction; at += 2) position = writeFourDigits(at < end ? view.getInt16(at) : 0, position)
  }
  // Write the groups after the decimal point, up to the last nonzero digit.
  let last = end - 2
  while (last >= at && view.getInt16(last) === 0) last -= 2
  if (last < at) return position
  rowOutputBuffer.bytes[position++] = point
  for (; at < last; at += 2) position = writeFourDigits(view.getInt16(at), position)
  // Writes all four digits of the last group, but counts only those before its trailing zeros, so that the next output
  // overwrites the zeros.
  const group = view.getInt16(last)
  writeFourDigits(group, position)
  return position + (trailingDigits[group] ?? 0)
}

/**
 * Creates the encoder for a `numeric` column. `precision` (total digits) and `scale` (decimal places) affect only
 * Parquet.
 */
export const makeDecimalFieldEncoder = (precision: number, scale: number): FieldEncoder => ({
  type: postgresTypeIds.numeric,
  write: writeDecimal,
  parquet: makeDecimalParquetField(precision, scale),
})

const [jsonTrue, jsonFalse] = [encodeAsWords("true"), encodeAsWords("false")]

const writeBoolean: FieldWriter = (view, offset, _, position) =>
  rowOutputBuffer.writeWords(view.getUint8(offset) === 0 ? jsonFalse : jsonTrue, position)

/** Encodes boolean columns. */
export const booleanFieldEncoder: FieldEncoder = {
  type: postgresTypeIds.boolean,
  write: writeBoolean,
  parquet: booleanParquetField,
}

// ----------------------------------------------------------------------------------------------------------------
// Dates and times
// ----------------------------------------------------------------------------------------------------------------

const millisPerDay = 86_400_000

/** PostgreSQL counts days and microseconds from 2000-01-01. This is that date, in milliseconds since 1970. */
const epochMillis = Date.UTC(2000, 0, 1)
const epochDay = epochMillis / millisPerDay

const [minDay, maxDay] = [Date.parse("0001-01-01") / millisPerDay, Date.parse("9999-12-31") / millisPerDay]

/** Writes a number from 0 to 99 as exactly two digits. Returns the position after them. */
const writeTwoDigits = (value: number, position: number) => {
  rowOutputBuffer.view.setInt16(position, fourDigits[value] ?? 0)
  return position + 2
}

/**
 * Splits a day number counted from 1970-01-01 into the year, month (from 1) and day of the month. Also returns the day
 * number itself. The year must be from 1 to 9999.
 */
const splitDay = (day: number) => {
  // This algorithm is from Howard Hinnant's "chrono-Compatible Low-Level Date Algorithms". Its years start in March, so
  // that the leap day is the last day of the year. An era is 400 years, or 146,097 days. 719,468 is the number of days
  // from 0000-03-01 to 1970-01-01. `| 0` converts to an integer.
  const shifted = day + 719_468
  const era = Math.floor(shifted / 146_097)
  const dayOfEra = shifted - era * 146_097
  const yearOfEra =
    ((dayOfEra - ((dayOfEra / 1460) | 0) + ((dayOfEra / 36_524) | 0) - ((dayOfEra / 146_096) | 0)) / 365) | 0
  const dayOfYear = dayOfEra - (365 * yearOfEra + ((yearOfEra / 4) | 0) - ((yearOfEra / 100) | 0))
  const monthFromMarch = ((5 * dayOfYear + 2) / 153) | 0
  const month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
  return {
    day,
    year: yearOfEra + era * 400 + (month <= 2 ? 1 : 0),
    month,
    dayOfMonth: dayOfYear - (((153 * monthFromMarch + 2) / 5) | 0) + 1,
  }
}

/** The last day that was split. It is reused because the columns of a row often contain the same day. */
let lastDay = splitDay(0)

/** Writes a day number counted from 1970-01-01 as `YYYY-MM-DD`. The year must be from 1 to 9999. */
const writeDay = (day: number, position: number) => {
  if (day !== lastDay.day) lastDay = splitDay(day)
  position = writeFourDigits(lastDay.year, position)
  rowOutputBuffer.bytes[position] = hyphen
  position = writeTwoDigits(lastDay.month, position + 1)
  rowOutputBuffer.bytes[position] = hyphen
  return writeTwoDigits(lastDay.dayOfMonth, position + 1)
}

/**
 * Reads a date as the number of days since 1970. Returns undefined for years before 1 or after 9999 and for infinity.
 */
const readDay = (view: DataView, offset: number) => {
  const day = view.getInt32(offset) + epochDay
  return day < minDay || day > maxDay ? undefined : day
}

const writeDate: FieldWriter = (view, offset, _, position) => {
  const day = readDay(view, offset)
  if (day === undefined) return unsupportedFieldResult
  rowOutputBuffer.bytes[position] = quote
  const end = writeDay(day, position + 1)
  rowOutputBuffer.bytes[end] = quote
  return end + 1
}

/** Encodes date columns. */
export const dateFieldEncoder: FieldEncoder = {
  type: postgresTypeIds.date,
  write: writeDate,
  parquet: makeDateParquetField(readDay),
}

const offsetSuffix = encodeAsWords(`${printedOffset.text}"`)

/**
 * Writes a time as a JSON string such as `"2026-03-01T10:00:00-05:00"`. `time` is the wall-clock time at UTC-05:00, as
 * milliseconds since 1970 if it were UTC. Omits the milliseconds if they are zero. Returns the position after the
 * string.
 */
const writeTime = (time: number, position: number) => {
  const day = Math.floor(time / millisPerDay)
  // Converted to an integer, because V8 computes the remainder of a float with a slow function call.
  const millis = (time - day * millisPerDay) | 0
  const seconds = (millis / 1000) | 0
  const minutes = (seconds / 60) | 0
  rowOutputBuffer.bytes[position] = quote
  position = writeDay(day, position + 1)
  rowOutputBuffer.bytes[position] = letterT
  position = writeTwoDigits((minutes / 60) | 0, position + 1)
  rowOutputBuffer.bytes[position] = colon
  position = writeTwoDigits(minutes % 60, position + 1)
  rowOutputBuffer.bytes[position] = colon
  position = writeTwoDigits(seconds % 60, position + 1)
  const fraction = millis % 1000
  if (fraction > 0) {
    // Writes four digits, the first of which is zero, and replaces that one with the decimal point.
    writeFourDigits(fraction, position)
    rowOutputBuffer.bytes[position] = point
    position += 4
  }
  return rowOutputBuffer.writeWords(offsetSuffix, position)
}

/**
 * The range of times that the encoders support. Before 1883, New York used local mean time. After 2285, microseconds
 * since 1970 exceed 2^53.
 */
const [fastSince, fastUntil] = [Date.UTC(1900, 0, 1), Date.UTC(2285, 0, 1)]

/**
 * Creates the encoder for a time column. `getShift` returns how many milliseconds to add to the stored time to get the
 * wall-clock time to print.
 */
export const makeTimeFieldEncoder = (
  type: typeof postgresTypeIds.timestamp | typeof postgresTypeIds.timestamptz,
  getShift: (time: number) => number,
): FieldEncoder => {
  /**
   * Returns the wall-clock time to print, in milliseconds since 1970. Returns undefined if the schema must compute it.
   */
  const readPrinted = (view: DataView, offset: number) => {
    const micros = readInt64(view, offset)
    // Truncates to milliseconds toward the start of the year 2000, as the driver does.
    const time = Math.trunc(micros / 1000) + epochMillis
    return time >= fastSince && time < fastUntil ? time + getShift(time) : undefined
  }
  return {
    type,
    write: (view, offset, _, position) => {
      const time = readPrinted(view, offset)
      return time === undefined ? unsupportedFieldResult : writeTime(time, position)
    },
    parquet: makeInstantParquetField((view, offset) => {
      const time = readPrinted(view, offset)
      return time === undefined ? undefined : time - printedOffset.millis
    }),
  }
}

/** Maximum number of days in a cache of `cachePerDay`. If there are more, the cache is emptied. */
const maxCachedDays = 50_000

/**
 * Wraps a function so that its value for each day is cached. Days are counted from 1970-01-01. The value of the last
 * day is also kept outside the map, because consecutive calls are often for the same day.
 */
export const cachePerDay = <A extends number | null>(compute: (day: number) => A) => {
  const cache = new Map<number, A>()
  let last: { readonly day: number; readonly value: A } | undefined
  const get = (day: number): A => {
    const found = cache.get(day)
    if (found !== undefined) return found
    if (cache.size >= maxCachedDays) cache.clear()
    const value = compute(day)
    cache.set(day, value)
    return value
  }
  return (day: number): A => {
    if (last?.day !== day) last = { day, value: get(day) }
    return last.value
  }
}

/**
 * Creates a function that returns how many milliseconds to add to a New York wall-clock time to convert it to
 * UTC-05:00. The result is cached per day.
 */
const makeNewYorkShift = () => {
  const computeShift = (time: number) =>
    DateTime.toEpochMillis(decodeNewYorkTime(new Date(time))) + printedOffset.millis - time
  /** The shift of all times on a day, or null if it changes during the day because daylight saving begins or ends. */
  const getDayShift = cachePerDay((day) => {
    const shift = computeShift(day * millisPerDay)
    return shift === computeShift((day + 1) * millisPerDay - 1) ? shift : null
  })
  return (time: number) => getDayShift(Math.floor(time / millisPerDay)) ?? computeShift(time)
}

// ----------------------------------------------------------------------------------------------------------------
// All types
// ----------------------------------------------------------------------------------------------------------------

const timeFieldEncoders = {
  "fixed offset": makeTimeFieldEncoder(postgresTypeIds.timestamp, () => 0),
  instant: makeTimeFieldEncoder(postgresTypeIds.timestamptz, () => printedOffset.millis),
  "New York": makeTimeFieldEncoder(postgresTypeIds.timestamp, makeNewYorkShift()),
}

const simpleFieldEncoders = {
  text: textFieldEncoder,
  textArray: textArrayFieldEncoder,
  integer: integerFieldEncoder,
  boolean: booleanFieldEncoder,
  date: dateFieldEncoder,
}

/** Returns the encoder for a column type. */
export const getFieldEncoder = (type: ColumnType): FieldEncoder => {
  switch (type.name) {
    case "literal":
      return makeLiteralFieldEncoder(type.words)
    case "decimal":
      return makeDecimalFieldEncoder(type.precision, type.scale)
    case "time":
      return timeFieldEncoders[type.clock]
    default:
      return simpleFieldEncoders[type.name]
  }
}

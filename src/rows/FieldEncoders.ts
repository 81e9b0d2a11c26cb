/**
 * Encoders from PostgreSQL's binary format to JSON, one per column type, with the column's type in Parquet.
 * docs/decisions/0030-compiled-row-encoders.md
 */
import { printedOffset } from "../rules/Dates.ts"
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
import { isMissingValue, readInt16, readInt32, textTypeId } from "./BinaryRecord.ts"

/** Result of an encoder if the column's schemas must encode the value instead, because it is rare or invalid. */
export const unsupportedFieldResult = -1

/** Result of an encoder if the value does not match the schema. */
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

/** Room that the caller reserves for each field. An encoder that needs more must reserve it. */
export const reservedFieldBytes = 64

/**
 * Writes a field that is not null as JSON at the position in the output.
 * Returns the position after the JSON, `unsupportedFieldResult` or `invalidFieldResult`.
 */
export type FieldWriter = (bytes: Uint8Array, offset: number, size: number, position: number) => number

export interface FieldEncoder {
  readonly type: (typeof postgresTypeIds)[keyof typeof postgresTypeIds]
  readonly write: FieldWriter
  readonly parquet: ParquetField
}

declare module "effect/Schema" {
  namespace Annotations {
    interface Annotations {
      readonly fieldEncoder?: FieldEncoder | undefined
    }
  }
}

const textEncoder = new TextEncoder()

// ASCII codes
const [quote, comma, hyphen, point, zero, colon] = [34, 44, 45, 46, 48, 58]
const [letterT, openBracket, backslash, closeBracket] = [84, 91, 92, 93]

// ----------------------------------------------------------------------------------------------------------------
// Text
// ----------------------------------------------------------------------------------------------------------------

/** The JSON escape of each ASCII code that needs one. */
const escapes = Array.from({ length: 128 }, (_, code) => {
  const json = JSON.stringify(String.fromCharCode(code)).slice(1, -1)
  return textEncoder.encode(json.length === 1 ? "" : json)
})

const writeEscape = (code: number, position: number) => {
  const { bytes } = rowOutputBuffer
  for (const byte of escapes[code] ?? []) bytes[position++] = byte
  return position
}

/** Writes the characters of a JSON string. PostgreSQL sends valid UTF-8, in which only ASCII needs JSON escapes. */
const writeCharacters: FieldWriter = (bytes, offset, size, position) => {
  rowOutputBuffer.reserve(position, size * 6 + 2)
  const target = rowOutputBuffer.bytes
  const end = offset + size
  for (let at = offset; at < end; at += 1) {
    const code = bytes[at] ?? 0
    if (code >= 32 && code !== quote && code !== backslash) target[position++] = code
    else position = writeEscape(code, position)
  }
  return position
}

const writeText: FieldWriter = (bytes, offset, size, position) => {
  rowOutputBuffer.bytes[position] = quote
  const end = writeCharacters(bytes, offset, size, position + 1)
  rowOutputBuffer.bytes[end] = quote
  return end + 1
}

export const textFieldEncoder: FieldEncoder = {
  type: postgresTypeIds.text,
  write: writeText,
  parquet: textParquetField,
}

/** Makes the encoder of a column that contains only these words. */
export const makeLiteralFieldEncoder = (words: ReadonlyArray<string>): FieldEncoder => {
  const encoded = words.map((word) => ({
    stored: textEncoder.encode(word),
    json: encodeAsWords(JSON.stringify(word)),
  }))
  const write: FieldWriter = (bytes, offset, size, position) => {
    for (const { json, stored } of encoded) {
      if (stored.length !== size || !hasBytesAt(bytes, offset, stored)) continue
      rowOutputBuffer.reserve(position, json.size)
      return rowOutputBuffer.writeWords(json, position)
    }
    return invalidFieldResult
  }
  return { type: postgresTypeIds.text, write, parquet: makeLiteralParquetField(words) }
}

/**
 * Writes an array as JSON, without empty elements (D16, missing values). PostgreSQL sends: number of dimensions, flags,
 * element type, size and lower bound of each dimension, elements.
 */
const writeTextArray: FieldWriter = (bytes, offset, size, position) => {
  const dimensions = readInt32(bytes, offset)
  const isList = dimensions === 1 && readInt32(bytes, offset + 16) === 1
  if (dimensions !== 0 && !isList) return unsupportedFieldResult
  const first = offset + 20
  const end = offset + size
  rowOutputBuffer.bytes[position++] = openBracket
  let isFirst = true
  for (let at = first; at < end;) {
    const length = readInt32(bytes, at)
    if (length < 0) return unsupportedFieldResult
    if (!isMissingValue(length, textTypeId)) {
      if (!isFirst) rowOutputBuffer.bytes[position++] = comma
      isFirst = false
      position = writeText(bytes, at + 4, length, position)
      rowOutputBuffer.reserve(position, 4)
    }
    at += 4 + length
  }
  rowOutputBuffer.bytes[position] = closeBracket
  return position + 1
}

export const textArrayFieldEncoder: FieldEncoder = {
  type: postgresTypeIds.textArray,
  write: writeTextArray,
  parquet: textListParquetField,
}

// ----------------------------------------------------------------------------------------------------------------
// Numbers
// ----------------------------------------------------------------------------------------------------------------

/** The ASCII digits of each number from 0 to 9999 (a digit group of `numeric`) as four bytes. */
const fourDigits = Int32Array.from({ length: 10_000 }, (_, group) => {
  const digits = String(group).padStart(4, "0")
  return readInt32(textEncoder.encode(digits), 0)
})
/** The number of digits of each group, not counting leading zeros. */
const leadingDigits = Uint8Array.from({ length: 10_000 }, (_, group) => String(group).length)
/** The number of digits of each group, not counting trailing zeros. */
const trailingDigits = Uint8Array.from(
  { length: 10_000 },
  (_, group) => String(group).padStart(4, "0").replace(/0+$/, "").length,
)

/** Writes a number from 0 to 9999 as four digits. */
export const writeFourDigits = (group: number, position: number) => {
  rowOutputBuffer.view.setInt32(position, fourDigits[group] ?? 0)
  return position + 4
}

/** Writes a number from 0 to 9999 without leading zeros. */
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

const writeInteger: FieldWriter = (bytes, offset, _, position) => {
  const value = readInt64(bytes, offset)
  if (!Number.isSafeInteger(value)) return unsupportedFieldResult
  if (value < 0) rowOutputBuffer.bytes[position++] = hyphen
  return writeDigits(Math.abs(value), position)
}

/** Encodes a `bigint` of at most 2^53-1. */
export const integerFieldEncoder: FieldEncoder = {
  type: postgresTypeIds.bigint,
  write: writeInteger,
  parquet: integerParquetField,
}

const maxGroups = 10
const [positive, negative] = [0, 0x4000]

/**
 * Writes a decimal without trailing zeros. PostgreSQL sends: number of four-digit groups, weight of the first group
 * (as a power of 10,000), sign (or a code for NaN or infinity), number of decimals, groups.
 */
const writeDecimal: FieldWriter = (bytes, offset, _, position) => {
  const count = readInt16(bytes, offset)
  const weight = readInt16(bytes, offset + 2)
  const sign = readInt16(bytes, offset + 4)
  const isShort = count <= maxGroups && weight >= -1 && weight < maxGroups
  if (!isShort || (sign !== positive && sign !== negative)) return unsupportedFieldResult
  const groups = offset + 8
  if (count === 0) return writeFirstGroup(0, position)
  if (sign === negative) rowOutputBuffer.bytes[position++] = hyphen
  if (weight < 0) rowOutputBuffer.bytes[position++] = zero
  for (let index = 0; index <= weight; index += 1) {
    const group = index < count ? readInt16(bytes, groups + index * 2) : 0
    position = index === 0 ? writeFirstGroup(group, position) : writeFourDigits(group, position)
  }
  let last = count - 1
  while (last > weight && readInt16(bytes, groups + last * 2) === 0) last -= 1
  if (last <= weight) return position
  rowOutputBuffer.bytes[position++] = point
  for (let index = weight + 1; index < last; index += 1) {
    position = writeFourDigits(readInt16(bytes, groups + index * 2), position)
  }
  const group = readInt16(bytes, groups + last * 2)
  writeFourDigits(group, position)
  return position + (trailingDigits[group] ?? 0)
}

/** Makes the encoder of a `numeric` column. `precision` (all digits) and `scale` (decimals) apply only to Parquet. */
export const makeDecimalFieldEncoder = (precision: number, scale: number): FieldEncoder => ({
  type: postgresTypeIds.numeric,
  write: writeDecimal,
  parquet: makeDecimalParquetField(precision, scale),
})

const [jsonTrue, jsonFalse] = [encodeAsWords("true"), encodeAsWords("false")]

const writeBoolean: FieldWriter = (bytes, offset, _, position) =>
  rowOutputBuffer.writeWords(bytes[offset] === 0 ? jsonFalse : jsonTrue, position)

export const booleanFieldEncoder: FieldEncoder = {
  type: postgresTypeIds.boolean,
  write: writeBoolean,
  parquet: booleanParquetField,
}

// ----------------------------------------------------------------------------------------------------------------
// Dates and times
// ----------------------------------------------------------------------------------------------------------------

const millisPerDay = 86_400_000

/** PostgreSQL counts days and microseconds from 2000. */
const epochMillis = Date.UTC(2000, 0, 1)
const epochDay = epochMillis / millisPerDay

const [firstDay, lastDay] = [Date.parse("0001-01-01") / millisPerDay, Date.parse("9999-12-31") / millisPerDay]

const writeTwoDigits = (value: number, position: number) => {
  const tens = (value / 10) | 0
  rowOutputBuffer.bytes[position] = zero + tens
  rowOutputBuffer.bytes[position + 1] = zero + value - tens * 10
  return position + 2
}

/** Writes `YYYY-MM-DD` for a day from year 1 to 9999, counted from 1970. */
const writeDay = (day: number, position: number) => {
  // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms". Years start in March.
  const shifted = day + 719_468
  const era = Math.floor(shifted / 146_097)
  const dayOfEra = shifted - era * 146_097
  const yearOfEra =
    ((dayOfEra - ((dayOfEra / 1460) | 0) + ((dayOfEra / 36_524) | 0) - ((dayOfEra / 146_096) | 0)) / 365) | 0
  const dayOfYear = dayOfEra - (365 * yearOfEra + ((yearOfEra / 4) | 0) - ((yearOfEra / 100) | 0))
  const monthFromMarch = ((5 * dayOfYear + 2) / 153) | 0
  const month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
  position = writeFourDigits(yearOfEra + era * 400 + (month <= 2 ? 1 : 0), position)
  rowOutputBuffer.bytes[position] = hyphen
  position = writeTwoDigits(month, position + 1)
  rowOutputBuffer.bytes[position] = hyphen
  return writeTwoDigits(dayOfYear - (((153 * monthFromMarch + 2) / 5) | 0) + 1, position + 1)
}

const readDay = (bytes: Uint8Array, offset: number) => {
  const day = readInt32(bytes, offset) + epochDay
  return day < firstDay || day > lastDay ? undefined : day
}

const writeDate: FieldWriter = (bytes, offset, _, position) => {
  const day = readDay(bytes, offset)
  if (day === undefined) return unsupportedFieldResult
  rowOutputBuffer.bytes[position] = quote
  const end = writeDay(day, position + 1)
  rowOutputBuffer.bytes[end] = quote
  return end + 1
}

export const dateFieldEncoder: FieldEncoder = {
  type: postgresTypeIds.date,
  write: writeDate,
  parquet: makeDateParquetField(readDay),
}

const offsetSuffix = encodeAsWords(`${printedOffset.text}"`)

/**
 * Writes the UTC fields of a time with the suffix -05:00. Omits the milliseconds if they are zero, unless the
 * microseconds after them are given.
 */
const writeTime = (time: number, position: number, micros?: number) => {
  const day = Math.floor(time / millisPerDay)
  const millis = time - day * millisPerDay
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
  if (fraction > 0 || micros !== undefined) {
    writeFourDigits(fraction, position)
    rowOutputBuffer.bytes[position] = point
    position += 4
  }
  if (micros !== undefined) {
    // The first of the four digits replaces the last one of the milliseconds, and is the same.
    writeFourDigits((fraction % 10) * 1000 + micros, position - 1)
    position += 3
  }
  return rowOutputBuffer.writeWords(offsetSuffix, position)
}

/** Times that encoders support: New York had local mean time until 1883, and in 2285 microseconds exceed 2^53. */
const [fastSince, fastUntil] = [Date.UTC(1900, 0, 1), Date.UTC(2285, 0, 1)]

const writeMoment: FieldWriter = (bytes, offset, _, position) => {
  const micros = readInt64(bytes, offset)
  const millis = Math.floor(micros / 1000)
  const time = millis + epochMillis
  if (time < fastSince || time >= fastUntil) return unsupportedFieldResult
  return writeTime(time + printedOffset.millis, position, micros - millis * 1000)
}

/** Makes the encoder of a time. `getShift` returns the milliseconds from the stored time to the printed clock time. */
export const makeTimeFieldEncoder = (
  type: typeof postgresTypeIds.timestamp | typeof postgresTypeIds.timestamptz,
  getShift: (time: number) => number,
): FieldEncoder => {
  /** Returns the printed wall-clock time in ms since 1970; undefined if the schemas must compute it. */
  const readPrinted = (bytes: Uint8Array, offset: number) => {
    const micros = readInt64(bytes, offset)
    // Truncates to milliseconds, toward the start of 2000, like the driver.
    const time = (micros - micros % 1000) / 1000 + epochMillis
    return time >= fastSince && time < fastUntil ? time + getShift(time) : undefined
  }
  return {
    type,
    write: (bytes, offset, _, position) => {
      const time = readPrinted(bytes, offset)
      return time === undefined ? unsupportedFieldResult : writeTime(time, position)
    },
    parquet: makeInstantParquetField((bytes, offset) => {
      const time = readPrinted(bytes, offset)
      return time === undefined ? undefined : time - printedOffset.millis
    }),
  }
}

/** Encodes a `timestamptz` with six decimals, as moments of the history are printed (D15). */
export const momentFieldEncoder: FieldEncoder = {
  ...makeTimeFieldEncoder(postgresTypeIds.timestamptz, () => printedOffset.millis),
  write: writeMoment,
}

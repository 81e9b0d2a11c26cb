/**
 * The Parquet types of columns, and functions that read their values from PostgreSQL's binary format
 * (docs/decisions/0108-parquet-exports.md).
 */
import { Data } from "effect"
import type { SchemaElement } from "hyparquet"
import { getBytes, isMissingValue, textTypeId } from "../../postgres/BinaryRecord.ts"

/** A value in the form that hyparquet-writer expects: text as UTF-8 bytes, and decimals as unscaled integers. */
export type ParquetValue = bigint | number | boolean | Uint8Array | ReadonlyArray<Uint8Array>

/** A value does not fit the Parquet type of the column. */
class InvalidParquetValue extends Data.TaggedError("InvalidParquetValue")<{ readonly message: string }> {}

/** A column's Parquet type, and how the column's values are read. */
export interface ParquetField {
  /** The type of the value, or of each element if the column is a list. */
  readonly element: Omit<SchemaElement, "name">
  readonly isList?: true
  /** Set for enumerated columns, which are always dictionary-encoded. */
  readonly isEnumerated?: true
  /**
   * Reads a non-null field. Returns undefined if the value is rare or invalid. `parse` must then read the value's JSON
   * instead.
   */
  readonly read: (view: DataView, offset: number, size: number) => ParquetValue | undefined
  /** Reads a value from its JSON. Throws if the value does not fit the Parquet type. */
  readonly parse: (json: string) => ParquetValue
}

const textEncoder = new TextEncoder()

const textElement: ParquetField["element"] = {
  type: "BYTE_ARRAY",
  converted_type: "UTF8",
  logical_type: { type: "STRING" },
}

const parseText = (json: string) => textEncoder.encode(JSON.parse(json))

/** The type of text columns. */
export const textParquetField: ParquetField = {
  element: textElement,
  read: getBytes,
  parse: parseText,
}

/** Returns whether the view contains `text` at this offset. */
export const hasBytesAt = (view: DataView, offset: number, text: Uint8Array) => {
  for (let index = 0; index < text.length; index += 1) {
    if (view.getUint8(offset + index) !== text[index]) return false
  }
  return true
}

/** Creates the type of a column that contains only the given words. */
export const makeLiteralParquetField = (words: ReadonlyArray<string>): ParquetField => {
  const encoded = words.map((word) => textEncoder.encode(word))
  return {
    element: textElement,
    isEnumerated: true,
    read: (view, offset, size) => encoded.find((word) => word.length === size && hasBytesAt(view, offset, word)),
    parse: parseText,
  }
}

/** Reads an array, without its empty elements (D16, missing values). `writeTextArray` describes PostgreSQL's format. */
const readTextList: ParquetField["read"] = (view, offset, size) => {
  const dimensions = view.getInt32(offset)
  const isList = dimensions === 1 && view.getInt32(offset + 16) === 1
  if (dimensions !== 0 && !isList) return undefined
  const texts: Array<Uint8Array> = []
  for (let at = offset + 20; at < offset + size;) {
    const length = view.getInt32(at)
    if (length < 0) return undefined
    if (!isMissingValue(length, textTypeId)) texts.push(getBytes(view, at + 4, length))
    at += 4 + length
  }
  return texts
}

/** The type of columns with arrays of text. */
export const textListParquetField: ParquetField = {
  element: textElement,
  isList: true,
  read: readTextList,
  parse: (json) => Array.from<string, Uint8Array>(JSON.parse(json), (text) => textEncoder.encode(text)),
}

/** Reads a signed 64-bit integer as a floating-point number. The result is exact up to 2^53. */
export const readInt64 = (view: DataView, offset: number) =>
  view.getInt32(offset) * 4_294_967_296 + view.getUint32(offset + 4)

/**
 * The type of columns with integers up to 2^53-1. INT64 needs no logical type, and hyparquet-writer 0.17 would write an
 * invalid one.
 */
export const integerParquetField: ParquetField = {
  element: { type: "INT64" },
  read: (view, offset) => {
    const value = readInt64(view, offset)
    return Number.isSafeInteger(value) ? BigInt(value) : undefined
  },
  parse: BigInt,
}

/** The type of boolean columns. */
export const booleanParquetField: ParquetField = {
  element: { type: "BOOLEAN" },
  read: (view, offset) => view.getUint8(offset) !== 0,
  parse: (json) => json === "true",
}

// ----------------------------------------------------------------------------------------------------------------
// Decimals
// ----------------------------------------------------------------------------------------------------------------

/** Any integer with at most this many digits fits into 64 bits. */
const maxInt64Digits = 18

/** Returns the number of bytes needed for a signed integer with this many digits. */
const countBytes = (digits: number) => {
  const bits = (10n ** BigInt(digits) - 1n).toString(2).length + 1
  return Math.ceil(bits / 8)
}

const [positive, negative] = [0, 0x4000]

/**
 * Creates the type of a decimal column with at most `precision` digits, of which `scale` are after the decimal point.
 * Parquet stores the unscaled integer: 12345 for 123.45 with a scale of 2. `element` describes the column in the file,
 * `read` converts PostgreSQL's binary format and covers almost all values, and `parse` converts the value's JSON, for
 * the values that `read` cannot convert.
 */
export const makeDecimalParquetField = (precision: number, scale: number): ParquetField => {
  const limit = 10n ** BigInt(precision)
  /** The number of four-digit groups that PostgreSQL needs for `scale` decimal places. */
  const fractionGroups = Math.ceil(scale / 4)
  /**
   * The groups may have more decimal places than `scale`. Dividing their digits by this factor gives the unscaled
   * integer.
   */
  const excess = 10 ** (fractionGroups * 4 - scale)

  const parse = (json: string) => {
    const [, sign = "", integers, fraction = ""] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(json) ?? []
    const decimals = fraction.replace(/0+$/, "")
    const unscaled = BigInt(`${sign}${integers}${decimals.padEnd(scale, "0")}`)
    if (decimals.length > scale || unscaled >= limit || unscaled <= -limit) {
      throw new InvalidParquetValue({ message: `${json} does not fit decimal(${precision}, ${scale})` })
    }
    return unscaled
  }

  /**
   * Reads a `numeric` as the unscaled integer, for example 12345 for 123.45 with a scale of 2. PostgreSQL sends the
   * number of four-digit groups, the weight of the first group (as a power of 10,000), the sign, the number of decimal
   * places, and then the groups. Returns undefined if the value has more decimal places than the
   * scale, or if its digits cannot be represented exactly as a floating-point number.
   */
  const read: ParquetField["read"] = (view, offset) => {
    const count = view.getInt16(offset)
    // The index of the group that contains the last of the `scale` decimal places.
    const lastIndex = view.getInt16(offset + 2) + fractionGroups
    const sign = view.getInt16(offset + 4)
    if (sign !== positive && sign !== negative) return undefined
    if (count === 0) return 0n
    // There are digits after that group, so the value has more decimal places than `scale`.
    if (count > lastIndex + 1) return undefined
    // PostgreSQL stores a decimal in groups of four digits, and omits trailing groups that are zero.
    let digits = 0
    for (let index = 0; index <= lastIndex; index += 1) {
      digits = digits * 10_000 + (index < count ? view.getInt16(offset + 8 + index * 2) : 0)
    }
    const unscaled = digits / excess
    if (!Number.isSafeInteger(digits) || !Number.isInteger(unscaled)) return undefined
    const value = BigInt(sign === negative ? -unscaled : unscaled)
    return unscaled < limit ? value : undefined
  }

  const physical: ParquetField["element"] = precision <= maxInt64Digits
    ? { type: "INT64" }
    : { type: "FIXED_LEN_BYTE_ARRAY", type_length: countBytes(precision) }
  const logical_type = { type: "DECIMAL", precision, scale } as const
  return { element: { ...physical, converted_type: "DECIMAL", logical_type, precision, scale }, read, parse }
}

// ----------------------------------------------------------------------------------------------------------------
// Dates and times
// ----------------------------------------------------------------------------------------------------------------

/** Creates the type of a date column. `readDay` returns days since 1970, or undefined if the date cannot be printed. */
export const makeDateParquetField = (
  readDay: (view: DataView, offset: number) => number | undefined,
): ParquetField => ({
  element: { type: "INT32", converted_type: "DATE", logical_type: { type: "DATE" } },
  read: readDay,
  parse: (json) => {
    throw new InvalidParquetValue({ message: `${json} is not a date from year 1 to 9999` })
  },
})

const toMicros = (millis: number) => {
  const micros = millis * 1000
  return Number.isSafeInteger(micros) ? BigInt(micros) : BigInt(millis) * 1000n
}

/**
 * Creates the type of a time column. `readMillis` returns milliseconds since 1970, or undefined if only the schema can
 * compute them.
 */
export const makeInstantParquetField = (
  readMillis: (view: DataView, offset: number) => number | undefined,
): ParquetField => ({
  element: {
    type: "INT64",
    converted_type: "TIMESTAMP_MICROS",
    logical_type: { type: "TIMESTAMP", isAdjustedToUTC: true, unit: "MICROS" },
  },
  read: (view, offset) => {
    const millis = readMillis(view, offset)
    return millis === undefined ? undefined : toMicros(millis)
  },
  parse: (json) => toMicros(Date.parse(JSON.parse(json))),
})

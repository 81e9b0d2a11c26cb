/** Rules for parameters that depend on each other: dates (D7), pages (D8), ranges (D9) and lineages (D35). */
import { BigDecimal, Schema } from "effect"
import type { DecodedQuery } from "./FilterDeclarations.ts"
import { checkLineageParameters } from "./LineageParameters.ts"

/** Compares dates, `YYYY-MM-DD`, which sort chronologically as text. */
const isLater = (from: string, to: string) => from > to

const isGreater = (low: string, high: string) =>
  BigDecimal.isGreaterThan(BigDecimal.fromStringUnsafe(low), BigDecimal.fromStringUnsafe(high))

const checkRange = (
  query: DecodedQuery,
  lower: string,
  upper: string,
  exceeds: (low: string, high: string) => boolean,
) => {
  const [from, to] = [query[lower], query[upper]]
  const isInverted = typeof from === "string" && typeof to === "string" && exceeds(from, to)
  return isInverted ? [{ path: [lower], issue: `must not be greater than ${upper}` }] : []
}

/** Checks each pair of bounds, `min_x` and `max_x` or `x_from` and `x_to`. */
const checkRanges = (query: DecodedQuery) =>
  Object.keys(query).flatMap((name) =>
    name.startsWith("min_")
      ? checkRange(query, name, name.replace("min_", "max_"), isGreater)
      : name.endsWith("_from")
      ? checkRange(query, name, name.replace(/_from$/, "_to"), isLater)
      : []
  )

const checkDate = (query: DecodedQuery) =>
  query["date"] !== undefined && (query["date_from"] !== undefined || query["date_to"] !== undefined)
    ? [{ path: ["date"], issue: "cannot be combined with date_from or date_to" }]
    : []

/**
 * Checks that an export (`limit=all`) begins at the first row and is not JSON, and that Parquet is only requested for
 * an export. If the format comes from the header `Accept`, the handler checks it.
 */
const checkExport = ({ after, format, limit, page }: DecodedQuery) =>
  limit !== "all" ? (format === "parquet" ? [{ path: ["format"], issue: parquetPageErrorReason }] : []) : [
    ...(page === 1 ? [] : [{ path: ["page"], issue: "cannot be combined with limit=all" }]),
    ...(after === undefined ? [] : [{ path: ["after"], issue: "cannot be combined with limit=all" }]),
    ...(format === "json" ? [{ path: ["limit"], issue: jsonExportErrorReason }] : []),
  ]

/** The end of the error message for `limit=all` in JSON. The name of the parameter, `limit`, precedes it. */
export const jsonExportErrorReason = "can be all only with format=csv, format=ndjson or format=parquet"

/** The end of the error message for a page in Parquet. The name of the parameter, `format`, precedes it. */
export const parquetPageErrorReason = "can be parquet only with limit=all. The format of a page is json, csv or ndjson"

/**
 * Checks that ranges are in order, that parameters do not contradict each other, and that none lacks a parameter that
 * it requires.
 */
export const checkParameterCombinations = Schema.makeFilter((query: DecodedQuery) => [
  ...checkRanges(query),
  ...checkDate(query),
  ...checkExport(query),
  ...checkLineageParameters(query),
])

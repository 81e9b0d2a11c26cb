/** Checks parameters that depend on one another: dates (D7), pages (D8), ranges (D9) and lineages (D35). */
import { BigDecimal, Schema } from "effect"
import type { DecodedQuery } from "./FilterDeclarations.ts"
import { checkLineageParameters } from "./LineageParameters.ts"

/** Compares dates in the format `YYYY-MM-DD`, which sort chronologically as strings. */
const isLater = (from: string, to: string) => from > to

const isGreater = (low: string, high: string) =>
  BigDecimal.isGreaterThan(BigDecimal.fromStringUnsafe(low), BigDecimal.fromStringUnsafe(high))

/**
 * Checks one range, given the names of its two parameters. If both were sent and the lower bound exceeds the upper
 * bound, returns an issue for the lower bound. Numbers are still strings here, to keep every digit (D16).
 */
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

/**
 * Checks that the lower bound of each range, `min_x` or `x_from`, does not exceed the upper bound, `max_x` or `x_to`.
 */
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
 * Checks that an export (`limit=all`) starts at the first row and is not in JSON, and that Parquet is used only for
 * exports. If the `Accept` header determines the format, the handler checks it instead.
 */
const checkExport = ({ after, format, limit, page }: DecodedQuery) => {
  if (limit !== "all") return format === "parquet" ? [{ path: ["format"], issue: parquetPageErrorReason }] : []
  return [
    ...(page === 1 ? [] : [{ path: ["page"], issue: "cannot be combined with limit=all" }]),
    ...(after === undefined ? [] : [{ path: ["after"], issue: "cannot be combined with limit=all" }]),
    ...(format === "json" ? [{ path: ["limit"], issue: jsonExportErrorReason }] : []),
  ]
}

/** The error message for `limit=all` in JSON. The parameter name, `limit`, is put in front of it. */
export const jsonExportErrorReason = "can be all only with format=csv, format=ndjson or format=parquet"

/** The error message for a page in Parquet. The parameter name, `format`, is put in front of it. */
export const parquetPageErrorReason = "can be parquet only with limit=all. The format of a page is json, csv or ndjson"

/**
 * Checks that ranges are not inverted, that parameters do not conflict, and that a parameter is only sent together with
 * the parameters it requires.
 */
export const checkParameterCombinations = Schema.makeFilter((query: DecodedQuery) => [
  ...checkRanges(query),
  ...checkDate(query),
  ...checkExport(query),
  ...checkLineageParameters(query),
])

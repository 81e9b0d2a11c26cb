/** D7, D8, D9: what the parameters of a query must agree on. */
import { BigDecimal, Schema } from "effect"

type Filters = { readonly [name: string]: unknown }

const later = (from: string, to: string) => from > to

const greater = (low: string, high: string) =>
  BigDecimal.isGreaterThan(BigDecimal.fromStringUnsafe(low), BigDecimal.fromStringUnsafe(high))

const disordered = (
  query: Filters,
  lower: string,
  upper: string,
  exceeds: (left: string, right: string) => boolean,
) => {
  const [from, to] = [query[lower], query[upper]]
  const wrong = typeof from === "string" && typeof to === "string" && exceeds(from, to)
  return wrong ? [{ path: [lower], issue: `must not be greater than ${upper}` }] : []
}

const pairs = (query: Filters) =>
  Object.keys(query).flatMap((name) =>
    name.startsWith("min_")
      ? disordered(query, name, name.replace("min_", "max_"), greater)
      : name.endsWith("_from")
      ? disordered(query, name, name.replace(/_from$/, "_to"), later)
      : []
  )

const twoWaysToSayWhen = (query: Filters) =>
  query["date"] !== undefined && (query["date_from"] !== undefined || query["date_to"] !== undefined)
    ? [{ path: ["date"], issue: "cannot be combined with date_from or date_to" }]
    : []

/** A whole list has no pages, and is no JSON; where `Accept` decides on that, the handler says so. */
const wholeList = ({ format, limit, page }: Filters) =>
  limit !== "all" ? [] : [
    ...(page === 1 ? [] : [{ path: ["page"], issue: "cannot be combined with limit=all" }]),
    ...(format === "json" ? [{ path: ["limit"], issue: exportNeedsFileFormat }] : []),
  ]

/** Why `limit=all` is refused in JSON. */
export const exportNeedsFileFormat = "can be all only with format=csv or format=ndjson"

/** No range is upside down, and `date` and `limit=all` stand alone. Every query carries this check. */
export const checkParameterCombinations = Schema.makeFilter((query: Filters) => [
  ...pairs(query),
  ...twoWaysToSayWhen(query),
  ...wholeList(query),
])

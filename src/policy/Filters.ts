/** D7, D9: what the filters of one query must agree on. */
import { Schema } from "effect"
import { PastDay } from "./Dates.ts"

type Filters = { readonly [name: string]: unknown }

const disordered = (query: Filters, lower: string, upper: string) => {
  const [from, to] = [query[lower], query[upper]]
  const wrong = typeof from === "number" && typeof to === "number"
    ? from > to
    : typeof from === "string" && typeof to === "string" && from > to
  return wrong ? [{ path: [lower], issue: `must not be greater than ${upper}` }] : []
}

const pairs = (query: Filters) =>
  Object.keys(query).flatMap((name) =>
    name.startsWith("min_")
      ? disordered(query, name, name.replace("min_", "max_"))
      : name.endsWith("_from")
      ? disordered(query, name, name.replace(/_from$/, "_to"))
      : []
  )

const twoWaysToSayWhen = (query: Filters) =>
  query["date"] !== undefined && (query["date_from"] !== undefined || query["date_to"] !== undefined)
    ? [{ path: ["date"], issue: "cannot be combined with date_from or date_to" }]
    : []

/** No range is upside down, and `date` stands alone. Every query carries this check. */
export const consistent = Schema.makeFilter((query: Filters) => [...pairs(query), ...twoWaysToSayWhen(query)])

/** Why a parameter is refused that the endpoint does not take (D4). */
export const unknownParameter = "is not a parameter of this endpoint"

/** The query of an endpoint without parameters; an empty struct alone would take anything (D4). */
export const NoParameters = Schema.Struct({}).check(
  Schema.makeFilter((query: object) => Object.keys(query).map((name) => ({ path: [name], issue: unknownParameter }))),
)

/** `date`, or `date_from` and `date_to`. */
export const OnDate = {
  date: Schema.optionalKey(PastDay.annotate({ description: "Exactly this day. Not with date_from or date_to." })),
  date_from: Schema.optionalKey(PastDay.annotate({ description: "This day or later." })),
  date_to: Schema.optionalKey(PastDay.annotate({ description: "This day or earlier." })),
}

/** Handles `GET /v1/float-outstanding`. */
import { Effect } from "effect"
import { ListEndpointFactory } from "../../query/lists/ListEndpoints.ts"
import { getColumnNames } from "../../contract/rows/RowModel.ts"
import type { BinaryRecord } from "../../postgres/BinaryRecord.ts"
import {
  FloatOutstanding,
  FloatOutstandingApiGroup,
  FloatOutstandingQuery,
} from "../../contract/endpoints/float-outstanding.ts"

const columns = getColumnNames(FloatOutstanding)

/** The indexes of the ownership percentages in a row. */
const percentageIndexes = ["insider_percent", "affiliate_percent", "institutions_percent"].map((name) =>
  columns.indexOf(name)
)

/** Returns whether any of the row's ownership percentages is missing. A reported 0 is not missing (§2.5, fields). */
const isIncomplete = (row: BinaryRecord) => percentageIndexes.some((index) => row.isNull(index))

const message = "Some ownership figures on this page are missing: where insider_percent, affiliate_percent or " +
  "institutions_percent is null, no figure is known; a reported 0 is shown as 0."

/** Handler for the list of floats. Adds a message to the response if ownership figures are missing. */
export const floatOutstandingHandlers = Effect.map(ListEndpointFactory, ({ makeEndpoint }) => ({
  list: makeEndpoint(FloatOutstandingApiGroup.endpoints.list, {
    Query: FloatOutstandingQuery,
    Row: FloatOutstanding,
    message: (rows) => rows.some(isIncomplete) ? message : undefined,
    select: (_, { selectPage }) => selectPage({ table: "float_outstanding", order: "ticker" }),
  }),
}))

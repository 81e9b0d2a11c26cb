import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../lists/Listing.ts"
import { Lists } from "../../lists/ListResponse.ts"
import { columnsOf, type Values } from "../../rows/RowEncoder.ts"
import { conditions } from "../../lists/Conditions.ts"
import { FloatOutstanding, FloatOutstandings, Query } from "./Api.ts"

const columns = columnsOf(FloatOutstanding)
const figures = ["insider_percent", "affiliate_percent", "institutions_percent"].map((name) => columns.indexOf(name))

/** §2.5: a reported 0 is a figure like any other. */
const isIncomplete = (row: Values) => figures.some((at) => row[at] === null)

const message = "Some ownership figures on this page are missing: where insider_percent, affiliate_percent or " +
  "institutions_percent is null, no figure is known; a reported 0 is shown as 0."

export const layer = HttpApiBuilder.group(
  Api,
  "floatOutstanding",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* listing
    const { from } = yield* Lists
    const wanted = conditions(sql, Query, {})

    const floats = list({
      Row: FloatOutstanding,
      message: (rows) => rows.some(isIncomplete) ? message : undefined,
      execute: (query: typeof Query.Type, slice) =>
        sql`
        select ${slice.columns}
        from float_outstanding
        where ${sql.and(wanted(query))}
        ${slice.page(sql`ticker`)}
      `,
    })

    const page = from(FloatOutstandings.endpoints.list, floats)

    return handlers.handle("list", ({ query }) => page(query))
  }),
)

import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { makeListQueryFactory } from "../../lists/ListQuery.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { getColumnNames, type RowValues } from "../../rows/RowEncoder.ts"
import { compileConditions } from "../../lists/Conditions.ts"
import { FloatOutstanding, FloatOutstandingApiGroup, FloatOutstandingQuery } from "./Api.ts"

const columns = getColumnNames(FloatOutstanding)
const figures = ["insider_percent", "affiliate_percent", "institutions_percent"].map((name) => columns.indexOf(name))

/** §2.5: a reported 0 is a figure like any other. */
const isIncomplete = (row: RowValues) => figures.some((at) => row[at] === null)

const message = "Some ownership figures on this page are missing: where insider_percent, affiliate_percent or " +
  "institutions_percent is null, no figure is known; a reported 0 is shown as 0."

export const floatOutstandingHandlers = HttpApiBuilder.group(
  Api,
  "floatOutstanding",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* makeListQueryFactory
    const { makeHandler: from } = yield* ListHandlers
    const wanted = compileConditions(sql, FloatOutstandingQuery, {})

    const floats = list({
      Row: FloatOutstanding,
      message: (rows) => rows.some(isIncomplete) ? message : undefined,
      execute: (query: typeof FloatOutstandingQuery.Type, slice) =>
        sql`
        select ${slice.columns}
        from float_outstanding
        where ${sql.and(wanted(query))}
        ${slice.orderAndLimit(sql`ticker`)}
      `,
    })

    const page = from(FloatOutstandingApiGroup.endpoints.list, floats)

    return handlers.handle("list", ({ query }) => page(query))
  }),
)

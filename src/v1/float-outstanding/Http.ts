import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { getColumnNames } from "../../rows/RowEncoder.ts"
import type { RowRecord } from "../../rows/RowRecord.ts"
import { FloatOutstanding, FloatOutstandingApiGroup, FloatOutstandingQuery } from "./Api.ts"

const columns = getColumnNames(FloatOutstanding)
const figures = ["insider_percent", "affiliate_percent", "institutions_percent"].map((name) => columns.indexOf(name))

/** §2.5: a reported 0 is not missing. */
const isIncomplete = (row: RowRecord) => figures.some((index) => row.isNull(index))

const message = "Some ownership figures on this page are missing: where insider_percent, affiliate_percent or " +
  "institutions_percent is null, no figure is known; a reported 0 is shown as 0."

export const floatOutstandingHandlers = HttpApiBuilder.group(
  Api,
  "floatOutstanding",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { makeHandler } = yield* ListHandlers

    return handlers.handle(
      "list",
      makeHandler(FloatOutstandingApiGroup.endpoints.list, {
        Query: FloatOutstandingQuery,
        Row: FloatOutstanding,
        message: (rows) => rows.some(isIncomplete) ? message : undefined,
        select: (_, { columns, orderAndLimit, where }) =>
          sql`
            select ${columns}
            from float_outstanding
            where ${where}
            ${orderAndLimit(sql`ticker`)}
          `,
      }),
    )
  }),
)

import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { ScreenerApiGroup, ScreenerQuery, ScreenerRow, type ScreenerSort } from "./Api.ts"

export const screenerHandlers = HttpApiBuilder.group(
  Api,
  "screener",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { makeHandler } = yield* ListHandlers

    /** `sort` is validated; the field name is quoted anyway. */
    const order = (sort: ScreenerSort) =>
      sort.startsWith("-") ? sql`${sql(sort.slice(1))} desc nulls last, ticker` : sql`${sql(sort)} nulls last, ticker`

    return handlers.handle(
      "list",
      makeHandler(ScreenerApiGroup.endpoints.list, {
        Query: ScreenerQuery,
        Row: ScreenerRow,
        shapedBy: ["sort"],
        select: (query, { columns, orderAndLimit, where }) =>
          sql`
            select ${columns}
            from screener
            where ${where}
            ${orderAndLimit(order(query.sort))}
          `,
      }),
    )
  }),
)

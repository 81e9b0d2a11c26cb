import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { makeListQueryFactory } from "../../lists/ListQuery.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { compileConditions } from "../../lists/Conditions.ts"
import { ScreenerApiGroup, ScreenerQuery, ScreenerRow, type ScreenerSort } from "./Api.ts"

export const screenerHandlers = HttpApiBuilder.group(
  Api,
  "screener",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* makeListQueryFactory
    const { makeHandler: from } = yield* ListHandlers
    const wanted = compileConditions(sql, ScreenerQuery, {})

    /** Only words of the contract arrive here; the field is quoted all the same. */
    const order = (sort: ScreenerSort) =>
      sort.startsWith("-") ? sql`${sql(sort.slice(1))} desc nulls last, ticker` : sql`${sql(sort)} nulls last, ticker`

    const page = from(
      ScreenerApiGroup.endpoints.list,
      list({
        Row: ScreenerRow,
        execute: (query: typeof ScreenerQuery.Type, slice) =>
          sql`
        select ${slice.columns}
        from screener
        where ${sql.and(wanted(query))}
        ${slice.orderAndLimit(order(query.sort))}
      `,
      }),
    )

    return handlers.handle("list", ({ query }) => page(query))
  }),
)

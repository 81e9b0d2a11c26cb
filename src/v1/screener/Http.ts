import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../lists/Listing.ts"
import { Lists } from "../../lists/ListResponse.ts"
import { conditions } from "../../lists/Conditions.ts"
import { Query, Screener, ScreenerRow, type Sort } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "screener",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* listing
    const { from } = yield* Lists
    const wanted = conditions(sql, Query, {})

    /** Only words of the contract arrive here; the field is quoted all the same. */
    const order = (sort: Sort) =>
      sort.startsWith("-") ? sql`${sql(sort.slice(1))} desc nulls last, ticker` : sql`${sql(sort)} nulls last, ticker`

    const page = from(
      Screener.endpoints.list,
      list({
        Row: ScreenerRow,
        execute: (query: typeof Query.Type, slice) =>
          sql`
        select ${slice.columns}
        from screener
        where ${sql.and(wanted(query))}
        ${slice.page(order(query.sort))}
      `,
      }),
    )

    return handlers.handle("list", ({ query }) => page(query))
  }),
)

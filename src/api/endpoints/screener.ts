/** Handles `GET /v1/screener`. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ListEndpointFactory } from "../../query/lists/ListEndpoints.ts"
import {
  ScreenerApiGroup,
  ScreenerQuery,
  ScreenerRow,
  type ScreenerSortOrder,
} from "../../contract/endpoints/screener.ts"

/** Handler for the screener, whose order depends on `sort`. */
export const screenerHandlers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { makeEndpoint } = yield* ListEndpointFactory

  /**
   * Returns the SQL order for a value of `sort`: `-price` becomes `"price" desc nulls last, ticker`. The value has
   * already been validated. Quoting the field name is a second line of defense against SQL injection.
   */
  const makeOrder = (sort: ScreenerSortOrder) =>
    sort.startsWith("-") ? sql`${sql(sort.slice(1))} desc nulls last, ticker` : sql`${sql(sort)} nulls last, ticker`

  return {
    list: makeEndpoint(ScreenerApiGroup.endpoints.list, {
      Query: ScreenerQuery,
      Row: ScreenerRow,
      shapedBy: ["sort"],
      select: (query, { columns, fromPage, where }) =>
        sql`select ${columns} from ${fromPage({ table: "screener", where, order: makeOrder(query.sort) })}`,
    }),
  }
})

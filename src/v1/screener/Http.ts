import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../db/Listing.ts"
import { Lists } from "../../lists/Lists.ts"
import { where } from "../../policy/Where.ts"
import { Query, ScreenerRow, type Sort } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "screener",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* listing
    const { from } = yield* Lists
    const { in: oneOf, is, ranges } = where(sql)

    /** Only words of the contract arrive here; the field is quoted all the same. */
    const order = (sort: Sort) =>
      sort.startsWith("-") ? sql`${sql(sort.slice(1))} desc nulls last, ticker` : sql`${sql(sort)} nulls last, ticker`

    const page = from(
      ["screener"],
      list({
        Row: ScreenerRow,
        execute: (query: typeof Query.Type, slice) =>
          sql`
        select ${slice.columns}
        from screener
        where ${
            sql.and([
              ...oneOf("ticker", query.ticker),
              ...oneOf("exchange", query.exchange),
              ...oneOf("sector", query.sector),
              ...oneOf("industry", query.industry),
              ...oneOf("country", query.country),
              ...oneOf("state", query.state),
              ...is("is_adr", query.is_adr),
              ...is("pending_s1", query.pending_s1),
              ...ranges(query),
            ])
          }
        ${slice.page(order(query.sort))}
      `,
      }),
    )

    return handlers.handle("list", ({ query }) => page(query))
  }),
)

import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { pageOf } from "../../lists/DeepPages.ts"
import { listing } from "../../lists/Listing.ts"
import { Lists } from "../../lists/ListResponse.ts"
import { conditions } from "../../lists/Conditions.ts"
import { IntradayRunner, IntradayRunners, Query } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "intradayRunners",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* listing
    const { from } = yield* Lists
    const wanted = conditions(sql, Query, {})
    const rows = pageOf(sql)

    const page = from(
      IntradayRunners.endpoints.list,
      list({
        Row: IntradayRunner,
        execute: (query: typeof Query.Type, slice) =>
          sql`
        select ${slice.columns}
        from ${
            rows({
              table: "intraday_runners",
              key: ["ticker", "date"],
              where: sql.and(["anomaly_flagged and daily_volume_ratio > 9", ...wanted(query)]),
              order: sql`date desc, ticker`,
              slice,
            })
          }
      `,
      }),
    )

    return handlers.handle("list", ({ query }) => page(query))
  }),
)

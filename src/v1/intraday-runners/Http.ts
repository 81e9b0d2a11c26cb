import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { makePageFragment } from "../../lists/DeepPages.ts"
import { makeListQueryFactory } from "../../lists/ListQuery.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { compileConditions } from "../../lists/Conditions.ts"
import { IntradayRunner, IntradayRunnersApiGroup, IntradayRunnersQuery } from "./Api.ts"

export const intradayRunnersHandlers = HttpApiBuilder.group(
  Api,
  "intradayRunners",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* makeListQueryFactory
    const { makeHandler: from } = yield* ListHandlers
    const wanted = compileConditions(sql, IntradayRunnersQuery, {})
    const rows = makePageFragment(sql)

    const page = from(
      IntradayRunnersApiGroup.endpoints.list,
      list({
        Row: IntradayRunner,
        execute: (query: typeof IntradayRunnersQuery.Type, slice) =>
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

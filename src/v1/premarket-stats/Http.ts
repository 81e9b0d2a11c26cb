import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { ExtendedHoursQuery, PremarketStat, PremarketStatsApiGroup } from "./Api.ts"

export const premarketStatsHandlers = HttpApiBuilder.group(
  Api,
  "premarketStats",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { makeHandler } = yield* ListHandlers

    return handlers.handle(
      "list",
      makeHandler(PremarketStatsApiGroup.endpoints.list, {
        Query: ExtendedHoursQuery,
        Row: PremarketStat,
        select: (_, { columns, orderAndLimit, where }) =>
          sql`
            select ${columns}
            from premarket_stats
            where ${where}
            ${orderAndLimit(sql`date desc, ticker`)}
          `,
      }),
    )
  }),
)

import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { IntradayRunner, IntradayRunnersApiGroup, IntradayRunnersQuery } from "./Api.ts"

export const intradayRunnersHandlers = HttpApiBuilder.group(
  Api,
  "intradayRunners",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { makeHandler } = yield* ListHandlers

    return handlers.handle(
      "list",
      makeHandler(IntradayRunnersApiGroup.endpoints.list, {
        Query: IntradayRunnersQuery,
        Row: IntradayRunner,
        select: (_, { columns, conditions, fromPage }) => {
          const page = fromPage({
            table: "intraday_runners",
            key: ["ticker", "date"],
            where: sql.and(["anomaly_flagged and daily_volume_ratio > 9", ...conditions]),
            order: sql`date desc, ticker`,
          })
          return sql`select ${columns} from ${page}`
        },
      }),
    )
  }),
)

import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { ExtendedHoursQuery } from "../premarket-stats/Api.ts"
import { AfterhoursStat, AfterhoursStatsApiGroup } from "./Api.ts"

export const afterhoursStatsHandlers = HttpApiBuilder.group(
  Api,
  "afterhoursStats",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { makeHandler } = yield* ListHandlers

    return handlers.handle(
      "list",
      makeHandler(AfterhoursStatsApiGroup.endpoints.list, {
        Query: ExtendedHoursQuery,
        Row: AfterhoursStat,
        select: (_, { columns, orderAndLimit, where }) =>
          sql`
            select ${columns}
            from afterhours_stats
            where ${where}
            ${orderAndLimit(sql`date desc, ticker`)}
          `,
      }),
    )
  }),
)

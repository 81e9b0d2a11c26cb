/** Handles `GET /v1/premarket-stats`. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ListEndpointFactory } from "../../lists/ListEndpoints.ts"
import { ExtendedHoursStatsQuery, PremarketStat, PremarketStatsApiGroup } from "./Api.ts"

export const premarketStatsHandlers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { makeEndpoint } = yield* ListEndpointFactory

  return {
    list: makeEndpoint(PremarketStatsApiGroup.endpoints.list, {
      Query: ExtendedHoursStatsQuery,
      Row: PremarketStat,
      select: (_, { columns, fromPage, where }) =>
        sql`select ${columns} from ${fromPage({ table: "premarket_stats", where, order: sql`date desc, ticker` })}`,
    }),
  }
})

/** Handles `GET /v1/afterhours-stats`. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ListEndpointFactory } from "../../lists/ListEndpoints.ts"
import { ExtendedHoursStatsQuery } from "../premarket-stats/Api.ts"
import { AfterhoursStat, AfterhoursStatsApiGroup } from "./Api.ts"

export const afterhoursStatsHandlers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { makeEndpoint } = yield* ListEndpointFactory

  return {
    list: makeEndpoint(AfterhoursStatsApiGroup.endpoints.list, {
      Query: ExtendedHoursStatsQuery,
      Row: AfterhoursStat,
      select: (_, { columns, fromPage, where }) =>
        sql`select ${columns} from ${fromPage({ table: "afterhours_stats", where, order: sql`date desc, ticker` })}`,
    }),
  }
})

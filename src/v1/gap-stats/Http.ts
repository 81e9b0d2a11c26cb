/** Handles `GET /v1/gap-stats` and `GET /v1/gap-stats-advanced`. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ListEndpointFactory } from "../../lists/ListEndpoints.ts"
import type { ListClauses } from "../../lists/ListQuery.ts"
import { GapStat, GapStatAdvanced, GapStatsApiGroup, GapStatsQuery } from "./Api.ts"

export const gapStatsHandlers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { makeEndpoint } = yield* ListEndpointFactory

  const select = (_: object, { columns, fromPage, where }: ListClauses) =>
    sql`select ${columns} from ${fromPage({ table: "gap_stats", where, order: sql`date desc, ticker` })}`

  return {
    list: makeEndpoint(GapStatsApiGroup.endpoints.list, { Query: GapStatsQuery, Row: GapStat, select }),
    listAdvanced: makeEndpoint(GapStatsApiGroup.endpoints.listAdvanced, {
      Query: GapStatsQuery,
      Row: GapStatAdvanced,
      select,
    }),
  }
})

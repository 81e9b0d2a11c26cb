import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import type { ListClauses } from "../../lists/ListQuery.ts"
import { GapStat, GapStatAdvanced, GapStatsApiGroup, GapStatsQuery } from "./Api.ts"

export const gapStatsHandlers = HttpApiBuilder.group(
  Api,
  "gapStats",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { makeHandler } = yield* ListHandlers

    const select = (_: object, { columns, orderAndLimit, where }: ListClauses) =>
      sql`
        select ${columns}
        from gap_stats
        where ${where}
        ${orderAndLimit(sql`date desc, ticker`)}
      `

    return handlers
      .handle("list", makeHandler(GapStatsApiGroup.endpoints.list, { Query: GapStatsQuery, Row: GapStat, select }))
      .handle(
        "listAdvanced",
        makeHandler(GapStatsApiGroup.endpoints.listAdvanced, { Query: GapStatsQuery, Row: GapStatAdvanced, select }),
      )
  }),
)

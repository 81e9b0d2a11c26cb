import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { makeListQueryFactory, type PageClauses } from "../../lists/ListQuery.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { compileConditions } from "../../lists/Conditions.ts"
import { GapStat, GapStatAdvanced, GapStatsApiGroup, GapStatsQuery } from "./Api.ts"

export const gapStatsHandlers = HttpApiBuilder.group(
  Api,
  "gapStats",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* makeListQueryFactory
    const { makeHandler: from } = yield* ListHandlers
    const wanted = compileConditions(sql, GapStatsQuery, {})

    const execute = (query: typeof GapStatsQuery.Type, slice: PageClauses) =>
      sql`
        select ${slice.columns}
        from gap_stats
        where ${sql.and(wanted(query))}
        ${slice.orderAndLimit(sql`date desc, ticker`)}
      `

    const page = from(GapStatsApiGroup.endpoints.list, list({ Row: GapStat, execute }))
    const pageAdvanced = from(GapStatsApiGroup.endpoints.listAdvanced, list({ Row: GapStatAdvanced, execute }))

    return handlers
      .handle("list", ({ query }) => page(query))
      .handle("listAdvanced", ({ query }) => pageAdvanced(query))
  }),
)

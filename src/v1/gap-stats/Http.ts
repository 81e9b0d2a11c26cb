import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing, type Slice } from "../../lists/Listing.ts"
import { Lists } from "../../lists/ListResponse.ts"
import { conditions } from "../../lists/Conditions.ts"
import { GapStat, GapStatAdvanced, GapStats, Query } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "gapStats",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* listing
    const { from } = yield* Lists
    const wanted = conditions(sql, Query, {})

    const execute = (query: typeof Query.Type, slice: Slice) =>
      sql`
        select ${slice.columns}
        from gap_stats
        where ${sql.and(wanted(query))}
        ${slice.page(sql`date desc, ticker`)}
      `

    const page = from(GapStats.endpoints.list, list({ Row: GapStat, execute }))
    const pageAdvanced = from(GapStats.endpoints.listAdvanced, list({ Row: GapStatAdvanced, execute }))

    return handlers
      .handle("list", ({ query }) => page(query))
      .handle("listAdvanced", ({ query }) => pageAdvanced(query))
  }),
)

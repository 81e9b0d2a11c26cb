import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing, type Slice } from "../../db/Listing.ts"
import { Lists } from "../../lists/Lists.ts"
import { where } from "../../policy/Where.ts"
import { GapStat, GapStatAdvanced, Query } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "gapStats",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* listing
    const { from } = yield* Lists
    const { holds, in: oneOf, is, ranges } = where(sql)

    const wanted = (query: typeof Query.Type) =>
      sql.and([
        ...oneOf("ticker", query.ticker),
        ...holds("all_tags", query.tag),
        ...holds("filing_types", query.filing_type),
        ...is("closed_over_vwap", query.closed_over_vwap),
        ...ranges(query),
      ])

    const execute = (query: typeof Query.Type, slice: Slice) =>
      sql`
        select ${slice.columns}
        from gap_stats
        where ${wanted(query)}
        ${slice.page(sql`date desc, ticker`)}
      `

    const page = from(["gap_stats"], list({ Row: GapStat, execute }))
    const pageAdvanced = from(["gap_stats"], list({ Row: GapStatAdvanced, execute }))

    return handlers
      .handle("list", ({ query }) => page(query))
      .handle("listAdvanced", ({ query }) => pageAdvanced(query))
  }),
)

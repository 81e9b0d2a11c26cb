import { Effect, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../db/Listing.ts"
import { envelope } from "../../policy/Paging.ts"
import { where } from "../../policy/Where.ts"
import { GapStat, GapStatAdvanced, Query } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "gapStats",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const list = yield* listing
    const { holds, in: oneOf, is, ranges } = where(sql)

    const wanted = (query: typeof Query.Type) =>
      sql.and([
        ...oneOf("ticker", query.ticker),
        ...holds("all_tags", query.tag),
        ...holds("filing_types", query.filing_type),
        ...is("closed_over_vwap", query.closed_over_vwap),
        ...ranges(query),
      ])

    const find = list({
      Request: Schema.toType(Query),
      Result: GapStat,
      execute: (query, slice) =>
        sql`
        select ticker, date, previous_day_close, market_open, gap_percentage, high_price, low_price, high_time,
          low_time, market_close, closed_over_vwap, volume, dollar_volume, premarket_volume, premarket_dollar_volume,
          premarket_vwap, afterhours_close, market_cap, filing_types, all_tags, spike_start_time, last_updated
        from gap_stats
        where ${wanted(query)}
        ${slice.page(sql`date desc, ticker`)}
      `,
    })

    const findAdvanced = list({
      Request: Schema.toType(Query),
      Result: GapStatAdvanced,
      execute: (query, slice) =>
        sql`
        select ticker, date, previous_day_close, market_open, gap_percentage, high_price, low_price, high_time,
          low_time, market_close, closed_over_vwap, volume, dollar_volume, premarket_volume, premarket_dollar_volume,
          premarket_vwap, afterhours_close, market_cap, filing_types, all_tags, spike_start_time, last_updated,
          open_to_high_pct, open_to_low_pct, percentage_gain, spike_start_price, spike_duration_minutes,
          est_halt_minutes, rth_volume, rth_dollar_volume, premarket_high, premarket_low, afterhours_high,
          afterhours_low, afterhours_volume, close_under_50pct_of_range, gap_filled, gap_fill_time, tradable_float
        from gap_stats
        where ${wanted(query)}
        ${slice.page(sql`date desc, ticker`)}
      `,
    })

    return handlers
      .handle("list", ({ query }) => Effect.flatMap(find(query), (rows) => envelope(query, rows)))
      .handle("listAdvanced", ({ query }) => Effect.flatMap(findAdvanced(query), (rows) => envelope(query, rows)))
  }),
)

import { Effect, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../db/Listing.ts"
import { envelope } from "../../policy/Paging.ts"
import { where } from "../../policy/Where.ts"
import { IntradayRunner, Query } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "intradayRunners",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const list = yield* listing
    const { in: oneOf, ranges } = where(sql)

    const find = list({
      Request: Schema.toType(Query),
      Result: IntradayRunner,
      execute: (query, slice) =>
        sql`
        select ticker, date, gap_percentage, market_open, previous_day_close, percentage_gain, open_to_high_pct,
          high_price, high_time, low_price, low_time, spike_start_time, spike_start_price, spike_duration_minutes,
          est_halt_minutes, daily_volume_ratio, volume, dollar_volume, rth_volume, rth_dollar_volume, market_close,
          close_under_50pct_of_range, afterhours_close, afterhours_high, afterhours_low, afterhours_volume,
          afterhours_dollar_volume, premarket_vwap, premarket_volume, premarket_dollar_volume, premarket_high,
          premarket_low, market_cap, filing_types, all_tags, last_updated
        from intraday_runners
        where ${
          sql.and([
            "anomaly_flagged and daily_volume_ratio > 9",
            ...oneOf("ticker", query.ticker),
            ...ranges(query),
          ])
        }
        ${slice.page(sql`date desc, ticker`)}
      `,
    })

    return handlers.handle("list", ({ query }) => Effect.flatMap(find(query), (rows) => envelope(query, rows)))
  }),
)

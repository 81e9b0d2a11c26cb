import { Effect, flow, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient, SqlSchema } from "effect/sql"
import { Api } from "../../Api.ts"
import { Database } from "../../db/Database.ts"
import { envelope, span } from "../../policy/Paging.ts"
import { where } from "../../policy/Where.ts"
import { PremarketStat, Query } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "premarketStats",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const database = yield* Database
    const { holds, in: oneOf, ranges } = where(sql)

    const find = flow(
      SqlSchema.findAll({
        Request: Schema.toType(Query),
        Result: PremarketStat,
        execute: (query) => {
          const { rows, skip } = span(query)
          return sql`
        select ticker, date, reference_close, open_price, close_price, high_price, low_price, high_time, low_time,
          percentage_gain, change_percentage, vwap, volume, dollar_volume, volume_ratio, trade_count, spike_start_time,
          spike_start_price, spike_duration_minutes, est_halt_minutes, market_cap, tradable_float, filing_types,
          all_tags, last_updated
        from premarket_stats
        where ${
            sql.and([
              ...oneOf("ticker", query.ticker),
              ...holds("all_tags", query.tag),
              ...ranges(query),
            ])
          }
        order by date desc, ticker
        limit ${rows} offset ${skip}
      `
        },
      }),
      database.read,
    )

    return handlers.handle("list", ({ query }) => Effect.flatMap(find(query), (rows) => envelope(query, rows)))
  }),
)

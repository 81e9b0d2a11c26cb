import { Effect, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../db/Listing.ts"
import { envelope } from "../../policy/Paging.ts"
import { where } from "../../policy/Where.ts"
import { Query, ScreenerRow, type Sort } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "screener",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const list = yield* listing
    const { in: oneOf, is, ranges } = where(sql)

    /** Only words of the contract arrive here; the field is quoted all the same. */
    const order = (sort: Sort) =>
      sort.startsWith("-") ? sql`${sql(sort.slice(1))} desc nulls last, ticker` : sql`${sql(sort)} nulls last, ticker`

    const find = list({
      Request: Schema.toType(Query),
      Result: ScreenerRow,
      execute: (query, slice) =>
        sql`
        select ticker, company, cik, exchange, sector, industry, country, state, city, website, ipo_date, is_adr,
          price, market_cap, high_365, low_365, outstanding, "float", tradable_float, insider_percent,
          affiliate_percent, institutions_percent, ownership_source_url, average_volume, median_volume_60,
          today_volume, volume_change_percentage, short_interest, short_float, days_to_cover, shares_available,
          fee_rate, gain_1_day, gain_2_day, gain_3_day, gain_7_day, gain_14_day, gain_30_day, gain_60_day,
          gain_90_day, gain_180_day, gain_365_day, num_gaps, num_runners, avg_gap, ratio_debt_to_equity, pending_s1,
          last_updated
        from screener
        where ${
          sql.and([
            ...oneOf("ticker", query.ticker),
            ...oneOf("exchange", query.exchange),
            ...oneOf("sector", query.sector),
            ...oneOf("industry", query.industry),
            ...oneOf("country", query.country),
            ...oneOf("state", query.state),
            ...is("is_adr", query.is_adr),
            ...is("pending_s1", query.pending_s1),
            ...ranges(query),
          ])
        }
        ${slice.page(order(query.sort))}
      `,
    })

    return handlers.handle("list", ({ query }) => Effect.flatMap(find(query), (rows) => envelope(query, rows)))
  }),
)

/** Two tables have one shape: sessions before the open, and `/v1/afterhours-stats`. */
import type { SqlClient } from "effect/sql"
import type { Slice } from "../../db/Listing.ts"
import { where } from "../../policy/Where.ts"
import type { Query } from "./Api.ts"

/** A page of sessions from either of the two tables of this shape. */
export const sessions = (sql: SqlClient.SqlClient, table: "premarket_stats" | "afterhours_stats") => {
  const { holds, in: oneOf, ranges } = where(sql)
  return (query: typeof Query.Type, slice: Slice) =>
    sql`
      select ticker, date, reference_close, open_price, close_price, high_price, low_price, high_time, low_time,
        percentage_gain, change_percentage, vwap, volume, dollar_volume, volume_ratio, trade_count, spike_start_time,
        spike_start_price, spike_duration_minutes, est_halt_minutes, market_cap, tradable_float, filing_types,
        all_tags, last_updated
      from ${sql(table)}
      where ${sql.and([...oneOf("ticker", query.ticker), ...holds("all_tags", query.tag), ...ranges(query)])}
      ${slice.page(sql`date desc, ticker`)}
    `
}

import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../db/Listing.ts"
import { Lists } from "../../lists/Lists.ts"
import { columnsOf } from "../../policy/Printing.ts"
import { where } from "../../policy/Where.ts"
import { HistoricalFloat, Query } from "./Api.ts"

/** What a row shows without a look at the closes. */
const withoutMarketCap = columnsOf(HistoricalFloat).filter((column) => column !== "market_cap")

const fragments = (sql: SqlClient.SqlClient) => {
  const order = sql`reported_date desc nulls last, filed_at desc, ticker, form_type, document_url`

  /** §2.6: exact, and null when a factor or the day is missing; one descent of the index on (ticker, date). */
  const marketCap = sql`(
          select round(close * filing.outstanding_shares, 2) from daily_prices as price
          where price.ticker = filing.ticker and price.date <= filing.reported_date
          order by price.date desc limit 1
        )`

  /** Every symbol once, by leaps through an index: a few thousand of them are not worth reading a million rows. */
  const everyTicker = sql`(
            with recursive leap as (
              (select ticker from historical_float_pro order by ticker limit 1)
              union all
              select (
                select ticker from historical_float_pro as next where next.ticker > leap.ticker order by ticker limit 1
              ) from leap where leap.ticker is not null
            )
            select ticker from leap where ticker is not null
          )`

  const newest = (tickers: ReadonlyArray<string> | undefined) =>
    sql`(
          select newest.* from ${tickers === undefined ? everyTicker : sql`unnest(${tickers}::text[])`} as known(ticker)
          cross join lateral (
            select * from historical_float_pro where ticker = known.ticker order by ${order} limit 1
          ) as newest
        )`

  const known = sql.literal(withoutMarketCap.map((column) => `"${column}"`).join(", "))
  return { order, marketCap, newest, known }
}

export const layer = HttpApiBuilder.group(
  Api,
  "historicalFloatPro",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* listing
    const { from } = yield* Lists
    const { in: oneOf, is, ranges } = where(sql)
    const { known, marketCap, newest, order } = fragments(sql)

    // Closes are looked up for the rows of the page alone, once it is known; a filter on market_cap looks up its own.
    const page = from(
      ["historical_float_pro", "daily_prices"],
      list({
        Row: HistoricalFloat,
        execute: (query: typeof Query.Type, slice) =>
          sql`
      select ${slice.columns}
      from (
        select ${known}
        from (
          select *, "float" - restricted_shares as tradable_float, ${marketCap} as market_cap
          from ${query.latest === true ? newest(query.ticker) : sql`historical_float_pro`} as filing
        ) as computed
        where ${sql.and([...oneOf("ticker", query.ticker), ...is("is_adr", query.is_adr), ...ranges(query)])}
        ${slice.page(order)}
      ) as filing cross join lateral (select ${marketCap} as market_cap) as worth
      ${slice.order(order)}
    `,
      }),
    )

    return handlers.handle("list", ({ query }) => page(query))
  }),
)

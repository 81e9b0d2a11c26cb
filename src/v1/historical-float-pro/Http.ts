import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { makeListQueryFactory } from "../../lists/ListQuery.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { getColumnNames } from "../../rows/RowEncoder.ts"
import { compileConditions } from "../../lists/Conditions.ts"
import { HistoricalFloat, HistoricalFloatProApiGroup, HistoricalFloatProQuery } from "./Api.ts"

/** The columns that need no look-up of a close. */
const withoutMarketCap = getColumnNames(HistoricalFloat).filter((column) => column !== "market_cap")

const fragments = (sql: SqlClient.SqlClient) => {
  const order = sql`reported_date desc nulls last, filed_at desc, ticker, form_type, document_url`

  /**
   * §2.6, D32: exact; null without a factor, and on a trading day on which the symbol has no close. One descent of the
   * index on (ticker, date) and, if the close is of an earlier day, one of the index on (date). With `exists`,
   * PostgreSQL would read the table until it finds the day.
   */
  const marketCap = sql`(
          select case
            when price.date = filing.reported_date or filing.reported_date is distinct from (
              select traded.date from daily_prices as traded
              where traded.date >= filing.reported_date order by traded.date limit 1
            ) then round(price.close * filing.outstanding_shares, 2)
          end
          from (
            select date, close from daily_prices
            where daily_prices.ticker = filing.ticker and daily_prices.date <= filing.reported_date
            order by daily_prices.date desc limit 1
          ) as price
        )`

  /** The rows with the computed columns. */
  const computed = sql`
          select *, "float" - restricted_shares as tradable_float, ${marketCap} as market_cap
          from historical_float_pro as filing
        `

  /** Each ticker once, by leaps through an index: a few thousand tickers do not justify reading a million rows. */
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

  const known = sql.literal(withoutMarketCap.map((column) => `"${column}"`).join(", "))
  return { order, marketCap, computed, everyTicker, known }
}

export const historicalFloatProHandlers = HttpApiBuilder.group(
  Api,
  "historicalFloatPro",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* makeListQueryFactory
    const { makeHandler: from } = yield* ListHandlers
    const wanted = compileConditions(sql, HistoricalFloatProQuery, {})
    const { computed, everyTicker, known, marketCap, order } = fragments(sql)

    const matching = (query: typeof HistoricalFloatProQuery.Type) =>
      sql`select ${known} from (${computed}) as computed where ${sql.and(wanted(query))}`

    /** D33: of each ticker the newest row among those that match. */
    const newest = (query: typeof HistoricalFloatProQuery.Type) =>
      sql`
        select newest.*
        from ${query.ticker === undefined ? everyTicker : sql`unnest(${query.ticker}::text[])`} as known(ticker)
        cross join lateral (
          ${matching(query)} and ticker = known.ticker order by ${order} limit 1
        ) as newest
      `

    // Closes are looked up for the rows of the page alone, once it is known; a filter on market_cap looks up its own.
    const page = from(
      HistoricalFloatProApiGroup.endpoints.list,
      list({
        Row: HistoricalFloat,
        execute: (query: typeof HistoricalFloatProQuery.Type, slice) =>
          sql`
      select ${slice.columns}
      from (
        select * from (${query.latest === true ? newest(query) : matching(query)}) as matching
        ${slice.orderAndLimit(order)}
      ) as filing cross join lateral (select ${marketCap} as market_cap) as worth
      ${slice.orderBy(order)}
    `,
      }),
    )

    return handlers.handle("list", ({ query }) => page(query))
  }),
)

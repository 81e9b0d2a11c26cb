import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient, type Statement } from "effect/sql"
import { Api } from "../../Api.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import type { QueryParameter } from "../../lists/Conditions.ts"
import { getColumnNames } from "../../rows/RowEncoder.ts"
import { HistoricalFloat, HistoricalFloatProApiGroup, HistoricalFloatProQuery } from "./Api.ts"

/** The columns except market_cap, which needs a lookup per row. */
const withoutMarketCap = getColumnNames(HistoricalFloat).filter((column) => column !== "market_cap")

const fragments = (sql: SqlClient.SqlClient) => {
  const order = sql`reported_date desc nulls last, filed_at desc, ticker, form_type, document_url`

  /**
   * §2.6, D32 (market_cap): null if a factor is missing, or on a trading day without a close of the symbol.
   * At most two index lookups per row. With `exists` instead, PostgreSQL would scan the table.
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

  /** All rows, with the computed columns tradable_float and market_cap. */
  const computed = sql`
          select *, "float" - restricted_shares as tradable_float, ${marketCap} as market_cap
          from historical_float_pro as filing
        `

  /** Each ticker once, with a loose index scan: one lookup per ticker instead of reading a million rows. */
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
    const { makeHandler } = yield* ListHandlers
    const { computed, everyTicker, known, marketCap, order } = fragments(sql)

    /** The newest matching row of each ticker (D33, latest). */
    const selectNewest = (tickers: QueryParameter | undefined, matching: Statement.Fragment) =>
      sql`
        select newest.*
        from ${tickers === undefined ? everyTicker : sql`unnest(${tickers}::text[])`} as known(ticker)
        cross join lateral (
          ${matching} and ticker = known.ticker order by ${order} limit 1
        ) as newest
      `

    return handlers.handle(
      "list",
      makeHandler(HistoricalFloatProApiGroup.endpoints.list, {
        Query: HistoricalFloatProQuery,
        Row: HistoricalFloat,
        shapedBy: ["latest"],
        // The market cap is computed for the rows of the page only; a filter on market_cap computes its own.
        select: (query, { columns, orderAndLimit, orderBy, where }) => {
          const matching = sql`select ${known} from (${computed}) as computed where ${where}`
          return sql`
            select ${columns}
            from (
              select * from (${query.latest === true ? selectNewest(query.ticker, matching) : matching}) as matching
              ${orderAndLimit(order)}
            ) as filing cross join lateral (select ${marketCap} as market_cap) as worth
            ${orderBy(order)}
          `
        },
      }),
    )
  }),
)

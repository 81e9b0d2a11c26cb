/** Handles `GET /v1/historical-float-pro`. */
import { Effect } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { ListEndpointFactory } from "../../query/lists/ListEndpoints.ts"
import type { ListStatementParameter } from "../../query/lists/Conditions.ts"
import type { SymbolPeriodClauses } from "../../query/lists/SymbolPeriodClauses.ts"
import { getColumnNames } from "../../contract/rows/RowModel.ts"
import {
  HistoricalFloat,
  HistoricalFloatProApiGroup,
  HistoricalFloatProQuery,
  tradableFloatSql,
} from "../../contract/endpoints/historical-float-pro.ts"

/** All columns except market_cap, which needs lookups for each row and is added last. */
const withoutMarketCap = getColumnNames(HistoricalFloat).filter((column) => column !== "market_cap")

const makeFragments = (sql: SqlClient.SqlClient) => {
  const order = sql`reported_date desc nulls last, filed_at desc, ticker, form_type, document_url`

  /**
   * market_cap (§2.6, D32) at the close on `reported_date`, or at the last close before it if no symbol has one on that
   * day. The close of the day itself is looked up alone, because a search for the last of several days reads a whole
   * page of the index. With `exists` instead of `limit 1`, PostgreSQL would scan the table.
   */
  const marketCap = sql`round(filing.outstanding_shares * coalesce(
          (
            select close from daily_prices
            where daily_prices.ticker = filing.ticker and daily_prices.date = filing.reported_date
          ),
          case when filing.reported_date is distinct from (
            select traded.date from daily_prices as traded
            where traded.date >= filing.reported_date order by traded.date limit 1
          ) then (
            select close from daily_prices
            where daily_prices.ticker = filing.ticker and daily_prices.date < filing.reported_date
            order by daily_prices.date desc limit 1
          ) end
        ), 2)`

  /** All rows, with the computed columns tradable_float and market_cap. */
  const computed = sql`
          select *, ${sql.literal(tradableFloatSql)} as tradable_float, ${marketCap} as market_cap
          from historical_float_pro as filing
        `

  /** Every distinct ticker, from a loose index scan: one lookup per ticker instead of reading all rows. */
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

  const baseColumns = sql.literal(withoutMarketCap.map((column) => `"${column}"`).join(", "))
  return { baseColumns, computed, everyTicker, marketCap, order }
}

export const historicalFloatProHandlers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { makeEndpoint } = yield* ListEndpointFactory
  const { baseColumns, computed, everyTicker, marketCap, order } = makeFragments(sql)

  /** Selects the newest matching row of each ticker (D33, latest). */
  const selectNewest = (tickers: ListStatementParameter | undefined, matching: Statement.Fragment) =>
    sql`
        select newest.*
        from ${tickers === undefined ? everyTicker : sql`unnest(${tickers}::text[])`} as requested(ticker)
        cross join lateral (
          ${matching} and ticker = requested.ticker order by ${order} limit 1
        ) as newest
      `

  /** Selects the matching rows of each period; with `latest`, only the newest row of each period. */
  const selectPeriods = (period: SymbolPeriodClauses, isLatest: boolean, matching: Statement.Fragment) =>
    sql`
        select lineage_ticker, followed.*
        from ${period.from} cross join lateral (
          ${matching} and ${period.where} ${isLatest ? sql`order by ${order} limit 1` : period.orderAndLimit(order)}
        ) as followed
      `

  return {
    list: makeEndpoint(HistoricalFloatProApiGroup.endpoints.list, {
      Query: HistoricalFloatProQuery,
      Row: HistoricalFloat,
      shapedBy: ["latest", "provenance"],
      // Computes market_cap only for the rows on the page. A filter on market_cap computes it a second time.
      select: (query, { columns, orderAndLimit, orderBy, period, where }) => {
        const storedColumns = query.provenance === true ? sql`${baseColumns}, source` : baseColumns
        const matching = sql`select ${storedColumns} from (${computed}) as computed where ${where}`
        const isLatest = query.latest === true
        const selected = period !== undefined
          ? selectPeriods(period, isLatest, matching)
          : isLatest
          ? selectNewest(query.ticker, matching)
          : matching
        return sql`
            select ${columns}
            from (
              select * from (${selected}) as matching
              ${orderAndLimit(order)}
            ) as filing cross join lateral (select ${marketCap} as market_cap) as worth
            ${orderBy(order)}
          `
      },
    }),
  }
})

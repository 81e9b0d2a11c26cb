/** Handles `GET /v1/historical-float-pro`. */
import { Effect } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import type { AdmittedRequest } from "../../query/EndpointHandler.ts"
import { ListEndpointFactory } from "../../query/lists/ListEndpoints.ts"
import type { ListStatementParameter } from "../../query/lists/Conditions.ts"
import type { SymbolPeriodClauses } from "../../query/lists/SymbolPeriodClauses.ts"
import { getDateInChicago } from "../../contract/rules/Dates.ts"
import { isEligibleTickerChange } from "../../contract/rules/EffectiveDates.ts"
import { getColumnNames } from "../../contract/rows/RowModel.ts"
import {
  HistoricalFloat,
  HistoricalFloatProApiGroup,
  HistoricalFloatProQuery,
  tradableFloatSql,
} from "../../contract/endpoints/historical-float-pro.ts"

/** All columns except market_cap, which needs lookups for each row and is added last. */
const withoutMarketCap = getColumnNames(HistoricalFloat).filter((column) => column !== "market_cap")

/** Maximum number of ticker changes of a component. One with so many is ambiguous. */
const maxChanges = 200

/** `today` is the date in Chicago up to which ticker changes count (D19). */
const makeFragments = (sql: SqlClient.SqlClient, today: ListStatementParameter) => {
  const order = sql`reported_date desc nulls last, filed_at desc, ticker, form_type, document_url`
  const isEligible = isEligibleTickerChange(sql, sql`${today}::text::date`)

  /** Whether no symbol has a close on `reported_date`. With `exists` instead of `limit 1`, PostgreSQL would scan. */
  const isNoTradingDay = sql`filing.reported_date is distinct from (
            select traded.date from daily_prices as traded
            where traded.date >= filing.reported_date order by traded.date limit 1
          )`

  /**
   * The close of a symbol that has always been that of one company. The close of the day itself is looked up alone,
   * because a search for the last of several days reads a whole page of the index.
   */
  const closeOfSymbol = sql`coalesce(
          (
            select close from daily_prices
            where daily_prices.ticker = filing.ticker and daily_prices.date = filing.reported_date
          ),
          case when ${isNoTradingDay} then (
            select close from daily_prices
            where daily_prices.ticker = filing.ticker and daily_prices.date < filing.reported_date
            order by daily_prices.date desc limit 1
          ) end
        )`

  /** The close of the symbol that the row's security used, from the ticker changes of the symbol's component. */
  const closeOfSecurity = sql`(
          select case when price.date = filing.reported_date or ${isNoTradingDay} then price.close end
          from (
            with recursive symbols (ticker) as (
              select filing.ticker::text
              union
              select neighbour.ticker from symbols cross join lateral (
                select new_ticker as ticker from ticker_changes where old_ticker = symbols.ticker and ${isEligible}
                union all
                select old_ticker from ticker_changes where new_ticker = symbols.ticker and ${isEligible}
              ) as neighbour
            )
            select array_agg(old_ticker::text) as old_tickers, array_agg(new_ticker::text) as new_tickers,
              array_agg(effective_date::date) as days, array_agg(cik::text) as ciks
            from (
              select link.* from (select ticker from symbols limit ${sql.literal(String(maxChanges))}) as reached
              cross join lateral (
                select old_ticker, new_ticker, effective_date, cik from ticker_changes
                where old_ticker = reached.ticker and ${isEligible} limit ${sql.literal(String(maxChanges))}
              ) as link limit ${sql.literal(String(maxChanges))}
            ) as found
          ) as component
          cross join lateral find_row_periods(
            filing.ticker, filing.cik, filing.reported_date, old_tickers, new_tickers, days, ciks
          ) as period
          cross join lateral (
            select date, close from daily_prices
            where daily_prices.ticker = period.ticker and daily_prices.date <= filing.reported_date
              and daily_prices.date >= period.starts and daily_prices.date < period.ends
            order by daily_prices.date desc limit 1
          ) as price
          where cardinality(old_tickers) < ${sql.literal(String(maxChanges))}
          order by price.date desc limit 1
        )`

  /**
   * market_cap (§2.6, D32) at the close on `reported_date`, or at the last close before it if no symbol has one then.
   */
  const marketCap = sql`round(filing.outstanding_shares * case
          when exists (select from ticker_changes where old_ticker = filing.ticker and ${isEligible})
            or exists (select from ticker_changes where new_ticker = filing.ticker and ${isEligible})
          then ${closeOfSecurity} else ${closeOfSymbol} end, 2)`

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

  return { computed, everyTicker, marketCap, order }
}

type Query = typeof HistoricalFloatProQuery.Type

const resolve = (query: Query, { now }: AdmittedRequest) => ({ query: { ...query, today: getDateInChicago(now) } })

export const historicalFloatProHandlers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { makeResolvedEndpoint } = yield* ListEndpointFactory
  const baseColumns = sql.literal(withoutMarketCap.map((column) => `"${column}"`).join(", "))

  /** Selects the newest matching row of each ticker (D33, latest). */
  const selectNewest = (
    tickers: ListStatementParameter | undefined,
    matching: Statement.Fragment,
    { everyTicker, order }: ReturnType<typeof makeFragments>,
  ) =>
    sql`
        select newest.*
        from ${tickers === undefined ? everyTicker : sql`unnest(${tickers}::text[])`} as requested(ticker)
        cross join lateral (
          ${matching} and ticker = requested.ticker order by ${order} limit 1
        ) as newest
      `

  /** Selects the matching rows of each period; with `latest`, only the newest row of each period. */
  const selectPeriods = (
    period: SymbolPeriodClauses,
    isLatest: boolean,
    matching: Statement.Fragment,
    { order }: ReturnType<typeof makeFragments>,
  ) =>
    sql`
        select lineage_ticker, followed.*
        from ${period.from} cross join lateral (
          ${matching} and ${period.where} ${isLatest ? sql`order by ${order} limit 1` : period.orderAndLimit(order)}
        ) as followed
      `

  return {
    list: makeResolvedEndpoint(HistoricalFloatProApiGroup.endpoints.list, HistoricalFloatProQuery, resolve, {
      Query: HistoricalFloatProQuery,
      Row: HistoricalFloat,
      shapedBy: ["latest", "provenance"],
      // Computes market_cap only for the rows on the page. A filter on market_cap computes it a second time.
      select: (query, { columns, orderAndLimit, orderBy, period, where }) => {
        const fragments = makeFragments(sql, query.today)
        const { computed, marketCap, order } = fragments
        const storedColumns = query.provenance === true ? sql`${baseColumns}, source` : baseColumns
        const matching = sql`select ${storedColumns} from (${computed}) as computed where ${where}`
        const isLatest = query.latest === true
        const selected = period !== undefined
          ? selectPeriods(period, isLatest, matching, fragments)
          : isLatest
          ? selectNewest(query.ticker, matching, fragments)
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

/** Handles `GET /v1/historical-float-pro`. */
import { Effect } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import type { AdmittedRequest } from "../../query/EndpointHandler.ts"
import { ListEndpointFactory } from "../../query/lists/ListEndpoints.ts"
import type { ListStatementParameter } from "../../query/lists/FilterConditions.ts"
import type { ListClauses, ListQueryShape } from "../../query/lists/ListDefinition.ts"
import type { SymbolPeriodClauses } from "../../query/lists/SymbolPeriodClauses.ts"
import { getDateInChicago } from "../../contract/rules/Dates.ts"
import { makeEligibleChangeCondition } from "../../contract/rules/EffectiveDates.ts"
import { getColumnNames } from "../../contract/rows/RowModel.ts"
import {
  HistoricalFloat,
  HistoricalFloatProApiGroup,
  HistoricalFloatProQuery,
  tradableFloatSql,
} from "../../contract/endpoints/historical-float-pro.ts"

/**
 * All columns except market_cap, which requires lookups for each row and is therefore added last, only for the rows on
 * the page.
 */
const withoutMarketCap = getColumnNames(HistoricalFloat).filter((column) => column !== "market_cap")

/**
 * A company is considered to have used a symbol on a day if the symbol has a close at most this many days before or
 * after that day.
 */
const maxDaysWithoutClose = 30

/** Builds the SQL of `market_cap` for `filing`, a row of `historical_float_pro`. It reads the table `row_periods`. */
const makeMarketCapSql = (sql: SqlClient.SqlClient) => {
  const daysAround = sql.literal(String(maxDaysWithoutClose))

  /**
   * SQL condition: no symbol at all has a close on the filing's `reported_date`. The first day from that date on that
   * has a close is compared with it. This uses `limit 1`, because PostgreSQL would choose a scan of the table for
   * `exists`.
   */
  const isNoTradingDay = sql`filing.reported_date is distinct from (
            select traded.date from daily_prices as traded
            where traded.date >= filing.reported_date order by traded.date limit 1
          )`

  /**
   * SQL expression: the close with which market_cap is calculated, for a symbol that only one company has ever used.
   * The close on the day itself is looked up separately, because searching for the latest of several days reads an
   * entire index page.
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

  /**
   * SQL expression: the close of the symbol that the row's security used at the time, for a symbol with a ticker
   * change. It is the last close up to `reported_date` in the periods that apply to the row.
   *
   * - `filer`: the row's CIK in the form that the periods use. `offset 0` makes PostgreSQL normalize it only once per
   *   row. Otherwise it would repeat the expression wherever the CIK is used.
   * - `keys`: the two keys of `row_periods` that a row may have: the symbol alone, and the symbol with the row's CIK.
   * - `period`: the periods of these keys. `since` and `until` are the days of the rows to which a period applies,
   *   `rule` and `cik` are the condition that the row's CIK must satisfy, and `ticker`, `starts` and `ends` are the
   *   symbol and the days of the closes that such a row gets.
   * - `price`: the period's last close up to `reported_date`.
   */
  const closeOfSecurity = sql`(
          select case when price.date = filing.reported_date or ${isNoTradingDay} then price.close end
          from (select normal_cik(filing.cik) as cik offset 0) as filer
          cross join lateral (values (filing.ticker), (filing.ticker || ' ' || coalesce(filer.cik, ''))) as keys (key)
          cross join lateral json_to_recordset(((select by_key from row_periods) ->> key)::json) as period (
            cik text, rule text, since date, until date, ticker text, starts date, ends date
          )
          cross join lateral (
            select date, close from daily_prices
            where daily_prices.ticker = period.ticker and daily_prices.date <= filing.reported_date
              and daily_prices.date >= period.starts and daily_prices.date < period.ends
            order by daily_prices.date desc limit 1
          ) as price
          where filing.reported_date >= period.since and filing.reported_date < period.until
            and filing.reported_date >= period.starts
            -- The rules are explained at find_row_periods.
            and case period.rule
              when 'same' then true
              when 'other' then period.cik <> filer.cik
              when 'unknown' then (period.cik = filer.cik) is null
              when 'untraded' then (period.cik = filer.cik) is null and not exists (
                select from daily_prices as traded
                where traded.ticker = filing.ticker
                  and traded.date >= greatest(period.since, filing.reported_date - ${daysAround})
                  and traded.date <= least(period.until - 1, filing.reported_date + ${daysAround})
              )
              else coalesce(period.cik = filer.cik, true)
            end
          order by price.date desc limit 1
        )`

  /**
   * market_cap (§2.6, D32), calculated with the close on `reported_date`. If no symbol has a close on that day, the
   * last close before it is used.
   */
  return sql`round(filing.outstanding_shares * case
          when (select by_key from row_periods) ? filing.ticker::text
          then ${closeOfSecurity} else ${closeOfSymbol} end, 2)`
}

/**
 * Defines the table `row_periods` for a `with` clause. It contains the periods returned by `find_row_periods` for the
 * given symbols, grouped by key. `symbols` is a query for the symbols of the statement's rows, and `isEligible` is the
 * condition that a ticker change is in effect. Hundreds of companies may have used the same symbol, so each row reads
 * only those periods that can apply to it. A symbol `X` can have these keys:
 *
 * - `X`: periods that apply to rows of any company. Every symbol with a ticker change has this key, although its
 *   value may be null.
 * - `X 0000320193`: periods that apply to rows of the company with this CIK.
 * - `X ` (the symbol and a space): periods that apply to rows without a CIK.
 *
 * The values are JSON stored as text, which takes PostgreSQL one third of the time of `jsonb`.
 */
const makeRowPeriodsSql = (sql: SqlClient.SqlClient, isEligible: Statement.Fragment, symbols: Statement.Fragment) =>
  sql`row_periods as materialized (
          select jsonb_object_agg(key, periods) as by_key
          from (
            -- The rule of a period says to which rows it applies, by their CIK: to those with the same CIK as the
            -- period ('same'), to those where one of the two CIKs is unknown ('unknown', and 'untraded' with a further
            -- condition), or to others, which only the reader of this table can compare.
            select case
                when rule = 'same' then symbol || ' ' || cik
                when rule in ('unknown', 'untraded') and cik is not null then symbol || ' '
                else symbol
              end as key,
              json_agg(period) filter (where rule is not null)::text as periods
            from (
              -- One row with all ticker changes that the periods depend on, as arrays.
              select array_agg(old_ticker) as old_tickers, array_agg(new_ticker) as new_tickers,
                array_agg(effective_date) as days, array_agg(cik) as ciks
              from (
                -- The requested symbols, and all symbols connected with them by ticker changes.
                with recursive symbols (symbol) as (
                  select ticker::text from (${symbols}) as requested (ticker)
                  union
                  select neighbour.ticker from symbols cross join lateral (
                    select new_ticker as ticker from ticker_changes where old_ticker = symbol and ${isEligible}
                    union all
                    select old_ticker from ticker_changes where new_ticker = symbol and ${isEligible}
                  ) as neighbour
                )
                select link.* from symbols cross join lateral (
                  select old_ticker::text, new_ticker::text, effective_date::date, cik::text from ticker_changes
                  where old_ticker = symbol and ${isEligible} offset 0
                ) as link
              ) as change
              -- Most symbols have no ticker change. Without a row, the function below is not called.
              having count(*) > 0
            ) as found cross join lateral (
              select * from find_row_periods(old_tickers, new_tickers, days, ciks)
              union all
              -- A key for every symbol with a ticker change, even if no period applies to its rows.
              select symbol, null, null, null, null, null, null, null
              from unnest(old_tickers || new_tickers) as changed (symbol)
            ) as period
            group by 1
          ) as grouped
        )`

/**
 * SQL subquery: all distinct tickers of the table. This loose index scan looks up one index entry per ticker instead
 * of reading all rows.
 */
const makeEveryTickerSql = (sql: SqlClient.SqlClient) =>
  sql`(
            with recursive leap as (
              (select ticker from historical_float_pro order by ticker limit 1)
              union all
              select (
                select ticker from historical_float_pro as next where next.ticker > leap.ticker order by ticker limit 1
              ) from leap where leap.ticker is not null
            )
            select ticker from leap where ticker is not null
          )`

/** The columns of the list's order, newest first. They are those of `historical_float_pro`. */
const newestFirst = "reported_date desc nulls last, filed_at desc, ticker, form_type, document_url"

type Query = typeof HistoricalFloatProQuery.Type

const resolve = (query: Query, { now }: AdmittedRequest) => ({ query: { ...query, today: getDateInChicago(now) } })

/** Handler for the list of reported floats, newest first, with the market cap at the time of each report. */
export const historicalFloatProHandlers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { makeResolvedEndpoint } = yield* ListEndpointFactory
  const baseColumns = sql.literal(withoutMarketCap.map((column) => `"${column}"`).join(", "))
  const marketCap = makeMarketCapSql(sql)
  const everyTicker = makeEveryTickerSql(sql)
  const order = sql.literal(newestFirst)

  /**
   * Selects the rows that match the filters in `where`. They have the computed column tradable_float, and also
   * market_cap if a filter needs it. `offset 0` makes PostgreSQL compute market_cap once per row, although both the
   * filter and the result use it.
   */
  const selectMatching = (columns: Statement.Fragment, hasMarketCap: boolean, where: Statement.Fragment) => {
    const valued = hasMarketCap
      ? sql`cross join lateral (select ${marketCap} as market_cap offset 0) as valued`
      : sql.literal("")
    return sql`select ${columns} from (
          select *, ${sql.literal(tradableFloatSql)} as tradable_float from historical_float_pro as filing
          ${valued}
        ) as computed where ${where}`
  }

  /** Selects each ticker's newest matching row (D33, latest). Without `tickers`, selects it for every ticker. */
  const selectNewest = (tickers: ListStatementParameter | undefined, matching: Statement.Fragment) =>
    sql`
        select newest.*
        from ${tickers === undefined ? everyTicker : sql`unnest(${tickers}::text[])`} as requested(ticker)
        cross join lateral (
          ${matching} and ticker = requested.ticker order by ${order} limit 1
        ) as newest
      `

  /** Selects each period's matching rows, or only its newest matching row with `latest`. */
  const selectPeriods = (period: SymbolPeriodClauses, isLatest: boolean, matching: Statement.Fragment) =>
    sql`
        select lineage_ticker, followed.*
        from ${period.from} cross join lateral (
          ${matching} and ${period.where} ${isLatest ? sql`order by ${order} limit 1` : period.orderAndLimit(order)}
        ) as followed
      `

  /** Selects the symbols to which the request restricts the list or, if it does not, all symbols of the table. */
  const selectRequestedSymbols = (
    tickers: ListStatementParameter | undefined,
    period: SymbolPeriodClauses | undefined,
  ) =>
    period !== undefined
      ? sql`select symbol from ${period.from}`
      : tickers === undefined
      ? sql`select ticker from ${everyTicker} as every`
      : sql`select unnest(${tickers}::text[])`

  const selectFloats = (
    query: ListQueryShape<Query & { readonly today: string }, "latest" | "provenance">,
    { columns, isExport, orderAndLimit, orderBy, period, where }: ListClauses,
  ) => {
    const isFilteredByCap = query.min_market_cap !== undefined || query.max_market_cap !== undefined
    const optionalColumns = sql.literal(
      `${query.provenance === true ? ", source" : ""}${isFilteredByCap ? ", market_cap" : ""}`,
    )
    const matching = selectMatching(sql`${baseColumns}${optionalColumns}`, isFilteredByCap, where)
    const isLatest = query.latest === true
    const selected = period !== undefined
      ? selectPeriods(period, isLatest, matching)
      : isLatest
      ? selectNewest(query.ticker, matching)
      : matching
    const page = sql`select * from (${selected}) as matching ${orderAndLimit(order)}`
    // Ticker changes after today (in Chicago) are not yet in effect (D19).
    const isEligible = makeEligibleChangeCondition(sql, sql`${query.today}::text::date`)
    const defineRowPeriods = (symbols: Statement.Fragment) => makeRowPeriodsSql(sql, isEligible, symbols)
    // `row_periods` must be defined before market_cap is computed. A filter on market_cap computes it while the page is
    // selected, so the page's symbols are not known yet, and the periods of all requested symbols are needed. The same
    // applies to an export: its page is not materialized, because the cursor stores the rows anyway.
    const [tables, rows] = isExport || isFilteredByCap
      ? [defineRowPeriods(selectRequestedSymbols(query.ticker, period)), sql`(${page})`]
      : [sql`page as materialized (${page}), ${defineRowPeriods(sql`select distinct ticker from page`)}`, sql`page`]
    const withMarketCap = isFilteredByCap ? rows : sql`(select *, ${marketCap} as market_cap from ${rows} as filing)`
    return sql`
            with ${tables}
            select ${columns} from ${withMarketCap} as filing
            ${orderBy(order)}
          `
  }

  return {
    list: makeResolvedEndpoint(HistoricalFloatProApiGroup.endpoints.list, HistoricalFloatProQuery, resolve, {
      Query: HistoricalFloatProQuery,
      Row: HistoricalFloat,
      shapedBy: ["latest", "provenance"],
      select: selectFloats,
    }),
  }
})

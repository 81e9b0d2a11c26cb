/**
 * The requests to send to large tables, and alternative SQL statements that might be faster than those of the service.
 */
import { makeTickerSymbol } from "../symbols.ts"
import type { Dataset } from "./tables.ts"

/** A request with its name in the report. */
export interface NamedRequest {
  readonly name: string
  readonly path: string
}

/** A statement to compare with the one that the service sends for the same request. */
export interface Alternative {
  readonly name: string
  readonly sql: string
}

const hundredTickers = (first: number) => Array.from({ length: 100 }, (_, at) => makeTickerSymbol(first + at)).join(",")

/** Returns the query parameters for the page of 100 rows that starts after `rows` rows. */
const pageAfter = (rows: number) => `limit=100&page=${1 + Math.floor(rows / 100)}`

const runners = "/v1/intraday-runners?"
const news = "/v1/news?"
const usage = "/v1/usage?"
const floats = "/v1/historical-float-pro?"
const estimateOf = (path: string) => `/estimate?endpoint=${path.replace("?", "&")}`

/** Returns requests for increasingly deep pages of a list. The last page starts after nine tenths of all rows. */
const listDeepPages = (path: string, rows: number): ReadonlyArray<NamedRequest> =>
  [10_000, 100_000, 1_000_000, 10_000_000, Math.floor(0.9 * rows)].filter((depth) => depth < rows).map((depth) => ({
    name: `100 rows after ${depth.toLocaleString("en")}`,
    path: `${path}${pageAfter(depth)}`,
  }))

/**
 * Returns the requests for a dataset, whose table has `rows` rows: pages near its beginning and deep within it, filters
 * that match many rows, few, or none, estimates, and exports (`limit=all`). Ticker 1 has the most rows; tickers with
 * higher numbers have fewer.
 */
export const listDatasetRequests = (dataset: Dataset, rows: number): ReadonlyArray<NamedRequest> => {
  switch (dataset) {
    case "intraday_runners":
      return [
        { name: "first page", path: runners },
        { name: "first page, 100 rows", path: `${runners}limit=100` },
        ...listDeepPages(runners, rows),
        { name: "one ticker", path: `${runners}ticker=${makeTickerSymbol(1)}` },
        {
          name: "one ticker, its 31st page of 100",
          path: `${runners}ticker=${makeTickerSymbol(2)}&${pageAfter(3000)}`,
        },
        { name: "100 tickers", path: `${runners}ticker=${hundredTickers(500)}&limit=100` },
        { name: "a month ten years ago", path: `${runners}date_from=2016-06-01&date_to=2016-06-30` },
        { name: "a day", path: `${runners}date=2014-03-12&limit=100` },
        { name: "gaps above 140%", path: `${runners}min_gap_percentage=140` },
        { name: "gaps above 151.9%, rare", path: `${runners}min_gap_percentage=151.9` },
        { name: "gaps above 1000%, none", path: `${runners}min_gap_percentage=1000` },
        {
          name: "gaps above 140%, a month",
          path: `${runners}date_from=2016-06-01&date_to=2016-06-30&min_gap_percentage=140`,
        },
        { name: "estimate, one ticker", path: estimateOf(`${runners}ticker=${makeTickerSymbol(3)}`) },
        { name: "estimate, a month", path: estimateOf(`${runners}date_from=2016-06-01&date_to=2016-06-30`) },
        { name: "estimate, everything", path: estimateOf(runners) },
        { name: "limit=all, one ticker", path: `${runners}ticker=${makeTickerSymbol(4)}&limit=all&format=csv` },
        { name: "limit=all, a month", path: `${runners}date_from=2016-06-01&date_to=2016-06-30&limit=all&format=csv` },
        // An export of everything is skipped for large tables, because PostgreSQL would first write all rows to disk.
        ...(rows > 2_000_000 ? [] : [{ name: "limit=all, everything", path: `${runners}limit=all&format=csv` }]),
      ]
    case "news":
      return [
        { name: "first page", path: news },
        { name: "first page, 100 rows", path: `${news}limit=100` },
        ...listDeepPages(news, rows),
        { name: "one ticker", path: `${news}ticker=${makeTickerSymbol(1)}` },
        { name: "a rare ticker", path: `${news}ticker=${makeTickerSymbol(19_000)}` },
        { name: "100 tickers", path: `${news}ticker=${hundredTickers(500)}&limit=100` },
        { name: "a month ten years ago", path: `${news}date_from=2016-06-01&date_to=2016-06-30` },
        { name: "a day", path: `${news}date=2014-03-12&limit=100` },
        { name: "a form", path: `${news}form_type=S-3` },
        { name: "a tag", path: `${news}tag=contract` },
        { name: "a tag of a ticker", path: `${news}tag=contract&ticker=${makeTickerSymbol(1)}` },
        { name: "news alone", path: `${news}hide_filings=true` },
        { name: "filings alone", path: `${news}hide_news=true` },
        { name: "a common word", path: `${news}query=wbc8f` },
        { name: "two words", path: `${news}query=w1791e%20wbc8f` },
        { name: "a word that is not there", path: `${news}query=zzyzx` },
        { name: "estimate, one ticker", path: estimateOf(`${news}ticker=${makeTickerSymbol(1)}`) },
        { name: "estimate, everything", path: estimateOf(news) },
        { name: "limit=all, one ticker", path: `${news}ticker=${makeTickerSymbol(500)}&limit=all&format=csv` },
      ]
    case "historical_float_pro":
      return [
        { name: "first page", path: floats },
        ...listDeepPages(floats, rows),
        { name: "one ticker", path: `${floats}ticker=${makeTickerSymbol(1)}` },
        { name: "newest of each", path: `${floats}latest=true` },
        { name: "market cap above 100,000,000", path: `${floats}min_market_cap=100000000` },
        { name: "market cap, rare", path: `${floats}min_market_cap=8400000000` },
        { name: "market cap, none", path: `${floats}min_market_cap=9000000000000` },
        {
          name: "market cap, none, of a year",
          path: `${floats}min_market_cap=9000000000000&reported_date_from=2020-01-01&reported_date_to=2020-12-31`,
        },
        {
          name: "market cap, none, of a ticker",
          path: `${floats}min_market_cap=9000000000000&ticker=${makeTickerSymbol(1)}`,
        },
        { name: "estimate, everything", path: estimateOf(floats) },
      ]
  }
}

/**
 * Returns the date in New York the given number of days ago, in the format of `requested_at_from` and
 * `requested_at_to`.
 */
const dayBefore = (days: number) => new Date(Date.now() - days * 86_400_000 - 18_000_000).toISOString().slice(0, 10)

const days = (first: number, last: number) =>
  `requested_at_from=${dayBefore(first)}&requested_at_to=${dayBefore(last)}&`

/**
 * Returns the requests for an account's usage. `day` and `hundredThousand` are query parameters that select a range of
 * time: a day, and the days in which the account has sent about 100,000 requests.
 */
const listUsageRequests = (day: string, hundredThousand: string): ReadonlyArray<NamedRequest> => [
  { name: "first page", path: usage },
  { name: "first page, 100 rows", path: `${usage}limit=100` },
  { name: "the 100th page", path: `${usage}page=100` },
  { name: "100 rows after 100,000", path: `${usage}${pageAfter(100_000)}` },
  { name: "a day", path: `${usage}${day}limit=100` },
  { name: "a common endpoint", path: `${usage}endpoint=/v1/intraday-runners` },
  {
    name: "a common endpoint, the 100th page of 100",
    path: `${usage}endpoint=/v1/intraday-runners&${pageAfter(9900)}`,
  },
  { name: "a rare endpoint", path: `${usage}endpoint=/v1/nasdaq-compliance` },
  { name: "a rare status", path: `${usage}status_code=503` },
  { name: "export of 100,000", path: `${usage}${hundredThousand}limit=all&format=csv` },
  { name: "daily sums", path: "/v1/usage/daily?limit=100" },
  { name: "overview", path: "/v1/overview" },
]

/**
 * The accounts for which `usage.sql` generates usage, and the requests to send for each. The newest request of
 * `thousand a second` was sent 12 hours ago.
 */
export const usageAccounts = [
  { name: "a minute", requests: listUsageRequests(days(30, 30), days(75, 6)) },
  { name: "a second", requests: listUsageRequests(days(3, 3), days(3, 2)) },
  { name: "thousand a second", requests: listUsageRequests(days(1, 0), days(1, 0)) },
]

const shown = "anomaly_flagged and daily_volume_ratio > 9"

/**
 * Returns alternative statements for fetching a page of 100 rows after the first million, with one more row, which
 * shows whether there is a next page. Only `intraday_runners` has any.
 */
export const listAlternatives = (dataset: Dataset): ReadonlyArray<Alternative> =>
  dataset !== "intraday_runners" ? [] : [
    {
      name: "offset 1,000,000",
      sql: `select * from intraday_runners where ${shown} order by date desc, ticker limit 101 offset 1000000`,
    },
    {
      name: "offset 1,000,000 within the index, rows looked up after",
      sql: `select r.* from (
        select ticker, date from intraday_runners where ${shown} order by date desc, ticker limit 101 offset 1000000
      ) as page cross join lateral (
        select * from intraday_runners where ticker = page.ticker and date = page.date
      ) as r order by date desc, ticker`,
    },
    {
      name: "after a key (a cursor)",
      sql: `select * from intraday_runners where ${shown} and date <= '2016-06-15'
        and (date < '2016-06-15' or ticker > 'KAAA') order by date desc, ticker limit 101`,
    },
  ]

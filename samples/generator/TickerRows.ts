/** Builds the rows of daily_prices, ticker_changes and historical_tickers. */
import { formatDate, formatNewYorkTimeAsUtc, lastMarketDay, parseDate, toSecondsOfDay } from "./Calendar.ts"
import { getSymbolOn, listSymbolChanges } from "./Companies.ts"
import type { CompanyHistory } from "./CompanyHistory.ts"
import { formatTicksAsDollars } from "./Decimals.ts"
import { listDailyCloses } from "./PriceStatistics.ts"

/**
 * Builds the rows of daily_prices: one for each trading day of the company, with the symbol that it had on that day.
 */
export const buildDailyPricesRows = (history: CompanyHistory) =>
  listDailyCloses(history).map(({ close, day }) => ({
    ticker: getSymbolOn(history.company, day),
    date: formatDate(day),
    close: formatTicksAsDollars(close),
  }))

const source = "made up"

/**
 * Generates symbol changes that the API must ignore, because they are not confirmed (estimated, backfilled, reverted or
 * blocked) or, for every third company, because they take effect in 2099. Returns none for companies with fewer than
 * four symbols.
 */
const makeIneffectiveChanges = ({ company: { number, profile: { symbols } } }: CompanyHistory) => {
  const [first, second, third, fourth] = symbols
  if (second === undefined || third === undefined || fourth === undefined) return []
  const makeChange = (old_ticker: string, new_ticker: string, date: string, status: string) => ({
    old_ticker,
    new_ticker,
    effective_date: date,
    cik: null,
    company_name: null,
    status,
    source,
    recorded_at: formatNewYorkTimeAsUtc(lastMarketDay, toSecondsOfDay(18, 5)),
    source_links: status === "estimated" ? [`https://example.com/tickers/${date}#${first}`] : null,
  })
  return number % 3 === 0 ? [makeChange(fourth, first, "2099-01-05", "confirmed")] : [
    makeChange(fourth, first, "2026-08-03", "estimated"),
    makeChange(third, first, "2025-10-06", "backfill"),
    makeChange(second, first, "2025-07-07", "reverted"),
    makeChange(first, third, "2025-03-03", "blocked"),
  ]
}

/**
 * Builds the rows of ticker_changes: one for each change of the company's symbol (`listSymbolChanges`), from the symbol
 * `former` to the symbol `next`. It is recorded on the evening of the day, New York time. For companies with several
 * changes, also adds changes that the API must ignore.
 */
export const buildTickerChangesRows = (history: CompanyHistory) => {
  const { company } = history
  const events = listSymbolChanges(company).map(({ day, former, next }) => ({
    old_ticker: former,
    new_ticker: next,
    effective_date: formatDate(day),
    cik: company.cik,
    company_name: company.name,
    status: "confirmed",
    source,
    recorded_at: formatNewYorkTimeAsUtc(day, toSecondsOfDay(18, 5)),
    source_links: null,
  }))
  return company.scenario.renames.length > 1 ? [...events, ...makeIneffectiveChanges(history)] : events
}

/**
 * Builds the rows of historical_tickers. Every seventh company has one: a former symbol for which ticker_changes has no
 * row. Half of these rows have a date.
 */
export const buildHistoricalTickersRows = ({ company }: CompanyHistory) => {
  const { number } = company
  if (number % 7 !== 0) return []
  const former_ticker = `H${String(number % 100_000).padStart(3, "0")}`
  const date = number % 2 === 0 ? null : formatDate(parseDate("2019-05-06") + (number % 365))
  return [{ ticker: getSymbolOn(company, lastMarketDay), former_ticker, date }]
}

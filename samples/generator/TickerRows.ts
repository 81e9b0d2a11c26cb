/** Rows of daily_prices, ticker_changes and historical_tickers. */
import { dateOf, dayOf, hour, instant, today } from "./Calendar.ts"
import { renamesOf, symbolOn } from "./Company.ts"
import { price } from "./Decimals.ts"
import { closesOf, type History } from "./Market.ts"

export const dailyPrices = (history: History) =>
  closesOf(history).map(({ close, day }) => ({
    ticker: symbolOn(history.company, day),
    date: dateOf(day),
    close: price(close),
  }))

const source = "made up"

/** Events that move nothing: unconfirmed, taken back, blocked by hand, or not before 2099. */
const idle = ({ company: { number, role: { symbols } } }: History) => {
  const [first, second, third, fourth] = symbols
  if (second === undefined || third === undefined || fourth === undefined) return []
  const event = (old_ticker: string, new_ticker: string, date: string, status: string) => ({
    old_ticker,
    new_ticker,
    effective_date: date,
    cik: null,
    company_name: null,
    status,
    source,
    recorded_at: instant(today, hour(18, 5)),
  })
  return number % 3 === 0 ? [event(fourth, first, "2099-01-05", "confirmed")] : [
    event(fourth, first, "2026-08-03", "estimated"),
    event(third, first, "2025-10-06", "backfill"),
    event(second, first, "2025-07-07", "reverted"),
    event(first, third, "2025-03-03", "blocked"),
  ]
}

export const tickerChanges = (history: History) => {
  const { company } = history
  const events = renamesOf(company).map(({ day, former, next }) => ({
    old_ticker: former,
    new_ticker: next,
    effective_date: dateOf(day),
    cik: company.cik,
    company_name: company.name,
    status: "confirmed",
    source,
    recorded_at: instant(day, hour(18, 5)),
  }))
  return company.plot.renames.length > 1 ? [...events, ...idle(history)] : events
}

/** Names of before the market began, known without an event: some with the day they were given up. */
export const historicalTickers = ({ company }: History) => {
  const { number } = company
  if (number % 7 !== 0) return []
  const former_ticker = `H${String(number % 100_000).padStart(3, "0")}`
  const date = number % 2 === 0 ? null : dateOf(dayOf("2019-05-06") + (number % 365))
  return [{ ticker: symbolOn(company, today), former_ticker, date }]
}

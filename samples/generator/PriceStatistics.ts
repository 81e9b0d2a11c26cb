/** Statistics over closes: market cap, gains and extremes, adjusted for splits. */
import { type Day, dayOfSession, lastMarketDay, sessionOn } from "./Calendar.ts"
import { splitRatioSince } from "./Deals.ts"
import { divideRounded, formatPercentChange, formatPrice, valueInCents } from "./Decimals.ts"
import type { CompanyHistory } from "./Market.ts"

/** Returns the last close on or before `day`, in ticks; null if there is none. */
export const closeOn = ({ company: { scenario }, prices }: CompanyHistory, day: Day = lastMarketDay) => {
  const session = sessionOn(day)
  return scenario.firstSession === null || session < scenario.firstSession || day < 0
    ? null
    : prices.closes[session] ?? null
}

/** Returns the market capitalization in cents; null if the price or the share count is unknown. */
export const marketCapOf = (price: number | null, shares: number | null | undefined) =>
  price === null || shares === null || shares === undefined ? null : valueInCents(price, shares)

/** Returns the trading days with their closes in ticks, not adjusted for splits. */
export const dailyClosesOf = ({ company: { scenario }, prices }: CompanyHistory) =>
  scenario.firstSession === null ? [] : prices.closes.slice(scenario.firstSession).map((close, after) => ({
    day: dayOfSession(after + (scenario.firstSession ?? 0)),
    close,
  }))

const firstTradingDay = ({ company: { scenario } }: CompanyHistory): Day =>
  scenario.firstSession === null ? lastMarketDay + 1 : dayOfSession(scenario.firstSession)

/** Returns the gain in % over a number of days, adjusted for splits; null if there was no price at the start. */
export const percentGainOver = (history: CompanyHistory, days: number) => {
  const day = lastMarketDay - days
  const [latest, earlier] = [closeOn(history), closeOn(history, day)]
  if (latest === null || earlier === null || day < firstTradingDay(history)) return null
  const { from, to } = splitRatioSince(history.company, day)
  return formatPercentChange(latest * to, earlier * from)
}

/** Returns the closes after `since` and up to `until`, in ticks, adjusted to the share count of `until`. */
const splitAdjustedCloses = (history: CompanyHistory, since: Day, until: Day) =>
  dailyClosesOf(history).filter(({ day }) => day > since && day <= until).map(({ close, day }) => {
    const { from, to } = splitRatioSince(history.company, day, until)
    return divideRounded(close * from, to)
  })

/** Returns the highest and the lowest close of the last 365 days. */
export const highLow365Columns = (history: CompanyHistory) => {
  const closes = splitAdjustedCloses(history, lastMarketDay - 365, lastMarketDay)
  return closes.length === 0
    ? { high_365: null, low_365: null }
    : { high_365: formatPrice(Math.max(...closes)), low_365: formatPrice(Math.min(...closes)) }
}

/** Returns the highest close of the 60 days up to `day`, in ticks; null if there is none. */
export const highestClose60Days = (history: CompanyHistory, day: Day) => {
  const closes = splitAdjustedCloses(history, day - 60, day)
  return closes.length === 0 ? null : Math.max(...closes)
}

/** Returns the days on which the close fell by more than half. */
export const findLiquidationDays = (history: CompanyHistory): ReadonlyArray<Day> =>
  dailyClosesOf(history).flatMap(({ close, day }, index, all) => {
    const before = all[index - 1]
    if (before === undefined) return []
    const { from, to } = splitRatioSince(history.company, before.day, day)
    return close * 2 * to < before.close * from ? [day] : []
  })

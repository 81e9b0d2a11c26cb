/**
 * Computes market capitalization, gains, highs and lows from closing prices. Values that span several days are adjusted
 * for splits.
 */
import { type EpochDay, getSessionDay, getSessionNumber, lastMarketDay } from "./Calendar.ts"
import type { CompanyHistory } from "./CompanyHistory.ts"
import { splitRatioSince } from "./Deals.ts"
import { computeValueInCents, divideRounded, formatPercentChange, formatTicksAsDollars } from "./Decimals.ts"

/** Returns the last closing price on or before `day` in ticks of 0.0001 USD, or null if there is none. */
export const findLastCloseOn = ({ company: { scenario }, prices }: CompanyHistory, day: EpochDay = lastMarketDay) => {
  const session = getSessionNumber(day)
  return scenario.firstSession === null || session < scenario.firstSession || day < 0
    ? null
    : prices.closes[session] ?? null
}

/** Returns the market capitalization in cents, or null if the price or the share count is unknown. */
export const computeMarketCap = (price: number | null, shares: number | null | undefined) =>
  price === null || shares === null || shares === undefined ? null : computeValueInCents(price, shares)

/** Returns the company's trading days with their closing prices in ticks, not adjusted for splits. */
export const listDailyCloses = ({ company: { scenario }, prices }: CompanyHistory) =>
  scenario.firstSession === null ? [] : prices.closes.slice(scenario.firstSession).map((close, after) => ({
    day: getSessionDay(after + (scenario.firstSession ?? 0)),
    close,
  }))

const firstTradingDay = ({ company: { scenario } }: CompanyHistory): EpochDay =>
  scenario.firstSession === null ? lastMarketDay + 1 : getSessionDay(scenario.firstSession)

/**
 * Returns the percentage gain over the given number of days, adjusted for splits. Returns null if there was no price at
 * the start.
 */
export const computePercentGain = (history: CompanyHistory, days: number) => {
  const day = lastMarketDay - days
  const [latest, earlier] = [findLastCloseOn(history), findLastCloseOn(history, day)]
  if (latest === null || earlier === null || day < firstTradingDay(history)) return null
  const { from, to } = splitRatioSince(history.company, day)
  return formatPercentChange(latest * to, earlier * from)
}

/**
 * Returns the closing prices in ticks after `since`, up to and including `until`. They are adjusted for splits up to
 * `until`.
 */
const splitAdjustedCloses = (history: CompanyHistory, since: EpochDay, until: EpochDay) =>
  listDailyCloses(history).filter(({ day }) => day > since && day <= until).map(({ close, day }) => {
    const { from, to } = splitRatioSince(history.company, day, until)
    return divideRounded(close * from, to)
  })

/** Returns the columns with the highest and lowest closing prices of the last 365 days. */
export const highLow365Columns = (history: CompanyHistory) => {
  const closes = splitAdjustedCloses(history, lastMarketDay - 365, lastMarketDay)
  return closes.length === 0
    ? { high_365: null, low_365: null }
    : { high_365: formatTicksAsDollars(Math.max(...closes)), low_365: formatTicksAsDollars(Math.min(...closes)) }
}

/** Returns the highest closing price of the 60 days up to `day` in ticks, or null if there is none. */
export const findHighestClose60Days = (history: CompanyHistory, day: EpochDay) => {
  const closes = splitAdjustedCloses(history, day - 60, day)
  return closes.length === 0 ? null : Math.max(...closes)
}

/**
 * Returns the days on which the closing price was less than half of the previous one. A split between the two days is
 * taken into account, because it changes the price without changing the value of a holding.
 */
export const findLiquidationDays = (history: CompanyHistory): ReadonlyArray<EpochDay> =>
  listDailyCloses(history).flatMap(({ close, day }, index, dailyCloses) => {
    const previous = dailyCloses[index - 1]
    if (previous === undefined) return []
    const { from, to } = splitRatioSince(history.company, previous.day, day)
    return close * 2 * to < previous.close * from ? [day] : []
  })

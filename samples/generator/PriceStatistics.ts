/** What became of a price: gains and extremes, counted across splits. */
import { type Day, dayOfSession, sessionOn, today } from "./Calendar.ts"
import { splitRatioSince } from "./Deals.ts"
import { divideRounded, formatPercentChange, formatPrice, valueInCents } from "./Decimals.ts"
import type { CompanyHistory } from "./Market.ts"

/** The last close in ticks on or before a day; null where there is none. */
export const closeOn = ({ company: { scenario }, prices }: CompanyHistory, day: Day = today) => {
  const session = sessionOn(day)
  return scenario.firstSession === null || session < scenario.firstSession || day < 0 ? null : prices.closes[session] ?? null
}

/** Cents, from a price in ticks and a number of shares. */
export const marketCapOf = (price: number | null, shares: number | null | undefined) =>
  price === null || shares === null || shares === undefined ? null : valueInCents(price, shares)

/** Every trading day of a company with its unadjusted close in ticks. */
export const dailyClosesOf = ({ company: { scenario }, prices }: CompanyHistory) =>
  scenario.firstSession === null
    ? []
    : prices.closes.slice(scenario.firstSession).map((close, after) => ({ day: dayOfSession(after + (scenario.firstSession ?? 0)), close }))

const firstTradingDay = ({ company: { scenario } }: CompanyHistory): Day => scenario.firstSession === null ? today + 1 : dayOfSession(scenario.firstSession)

/** The last close over the last one on or before so many days ago, %; null where there was none yet. */
export const formatGainOver = (history: CompanyHistory, days: number) => {
  const day = today - days
  const [now, then] = [closeOn(history), closeOn(history, day)]
  if (now === null || then === null || day < firstTradingDay(history)) return null
  const { from, to } = splitRatioSince(history.company, day)
  return formatPercentChange(now * to, then * from)
}

/** Closes in ticks of the days after `since`, up to `until`, in shares of that last day. */
const splitAdjustedCloses = (history: CompanyHistory, since: Day, until: Day) =>
  dailyClosesOf(history).filter(({ day }) => day > since && day <= until).map(({ close, day }) => {
    const { from, to } = splitRatioSince(history.company, day, until)
    return divideRounded(close * from, to)
  })

/** The highest and the lowest close of 365 days. */
export const highLow365Columns = (history: CompanyHistory) => {
  const closes = splitAdjustedCloses(history, today - 365, today)
  return closes.length === 0
    ? { high_365: null, low_365: null }
    : { high_365: formatPrice(Math.max(...closes)), low_365: formatPrice(Math.min(...closes)) }
}

/** Ticks of the highest close of the 60 days before a day. */
export const highestClose60Days = (history: CompanyHistory, day: Day) => {
  const closes = splitAdjustedCloses(history, day - 60, day)
  return closes.length === 0 ? null : Math.max(...closes)
}

/** The days on which more than half of the price was gone. */
export const findLiquidationDays = (history: CompanyHistory): ReadonlyArray<Day> =>
  dailyClosesOf(history).flatMap(({ close, day }, index, all) => {
    const before = all[index - 1]
    if (before === undefined) return []
    const { from, to } = splitRatioSince(history.company, before.day, day)
    return close * 2 * to < before.close * from ? [day] : []
  })

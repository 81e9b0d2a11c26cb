/** What became of a price: gains and extremes, counted across splits. */
import { type Day, dayAt, today } from "./Calendar.ts"
import { above, price, quotient } from "./Decimals.ts"
import { splitSince } from "./Deals.ts"
import { closeOn, closesOf, type History } from "./Market.ts"

const firstDay = ({ company: { plot } }: History): Day => plot.first === null ? today + 1 : dayAt(plot.first)

/** The last close over the last one on or before so many days ago, %; null where there was none yet. */
export const gainOver = (history: History, days: number) => {
  const day = today - days
  const [now, then] = [closeOn(history), closeOn(history, day)]
  if (now === null || then === null || day < firstDay(history)) return null
  const { from, to } = splitSince(history.company, day)
  return above(now * to, then * from)
}

/** Closes in ticks of the days after `since`, up to `until`, in shares of that last day. */
const adjusted = (history: History, since: Day, until: Day) =>
  closesOf(history).filter(({ day }) => day > since && day <= until).map(({ close, day }) => {
    const { from, to } = splitSince(history.company, day, until)
    return quotient(close * from, to)
  })

/** The highest and the lowest close of 365 days. */
export const extremes = (history: History) => {
  const closes = adjusted(history, today - 365, today)
  return closes.length === 0
    ? { high_365: null, low_365: null }
    : { high_365: price(Math.max(...closes)), low_365: price(Math.min(...closes)) }
}

/** Ticks of the highest close of the 60 days before a day. */
export const high60 = (history: History, day: Day) => {
  const closes = adjusted(history, day - 60, day)
  return closes.length === 0 ? null : Math.max(...closes)
}

/** The days on which more than half of the price was gone. */
export const liquidations = (history: History): ReadonlyArray<Day> =>
  closesOf(history).flatMap(({ close, day }, place, all) => {
    const before = all[place - 1]
    if (before === undefined) return []
    const { from, to } = splitSince(history.company, before.day, day)
    return close * 2 * to < before.close * from ? [day] : []
  })

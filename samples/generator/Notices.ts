/** The letters of the exchange: those about the bid price follow from the closes, the others from the plot. */
import { type Day, dayAt, last, today, tradingDay } from "./Calendar.ts"
import type { Plot, Trouble } from "./Plot.ts"
import type { Prices } from "./Prices.ts"

export interface Notice {
  readonly day: Day
  readonly kind: Trouble["kind"] | "bid_price"
  readonly deadline: Day | null
  readonly regained: Day | null
  /** The board of the exchange hears the company. */
  readonly hearing: Day | null
  readonly status: "active" | "extended" | "appealed" | "resolved" | "delisted"
  /** The day on which the exchange decided to delist; the company appeals. */
  readonly determined: Day | null
}

const dollar = 10_000
const patience = 180

/** The first session from here on that ends `many` closes in a row of which the rule holds; 0 is no close. */
const streak = (closes: ReadonlyArray<number>, from: number, many: number, rule: (close: number) => boolean) => {
  let count = 0
  for (let session = from; session <= last; session++) {
    const close = closes[session] ?? 0
    count = close > 0 && rule(close) ? count + 1 : 0
    if (count === many) return session
  }
  return null
}

const outcome = (day: Day, regained: Day | null, delisted: boolean): Notice => {
  const determined = regained === null && today - day > 2 * patience + 7 ? tradingDay(day + 2 * patience + 1) : null
  const status = regained !== null
    ? "resolved"
    : delisted && determined !== null
    ? "delisted"
    : determined !== null
    ? "appealed"
    : today - day > patience
    ? "extended"
    : "active"
  return {
    day,
    kind: "bid_price",
    deadline: day + ((regained ?? today) - day > patience ? 2 * patience : patience),
    regained,
    hearing: determined === null ? null : determined + 45,
    status,
    determined,
  }
}

/** Thirty closes below a dollar bring a letter on the next session, ten at or above it bring another. */
const bidPrices = (closes: ReadonlyArray<number>, isDelisted: boolean, from = 0): ReadonlyArray<Notice> => {
  const low = streak(closes, from, 30, (close) => close < dollar)
  if (low === null || low >= last) return []
  const well = streak(closes, low + 1, 10, (close) => close >= dollar)
  const regained = well === null || well >= last ? null : dayAt(well + 1)
  const notice = outcome(dayAt(low + 1), regained, isDelisted)
  return well === null ? [notice] : [notice, ...bidPrices(closes, isDelisted, well + 1)]
}

const troubleOf = ({ kind, regained, session }: Trouble, delisted: boolean): Notice => {
  const day = dayAt(session)
  return {
    day,
    kind,
    deadline: kind === "other"
      ? null
      : day + (kind === "late_filing" || kind === "stockholders_equity" ? 60 : patience),
    regained: regained === undefined ? null : dayAt(regained),
    hearing: null,
    status: regained !== undefined ? "resolved" : delisted ? "delisted" : "active",
    determined: null,
  }
}

export const noticesOf = (prices: Prices, plot: Plot): ReadonlyArray<Notice> =>
  plot.exchange !== "NASDAQ" ? [] : [
    ...bidPrices(prices.closes, plot.delisted !== undefined),
    ...plot.troubles.map((trouble) => troubleOf(trouble, plot.delisted !== undefined)),
  ].toSorted((one, other) => one.day - other.day)

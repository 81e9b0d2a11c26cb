/** What the SEC lets a small company sell from its shelf. */
import type { Day } from "./Calendar.ts"
import { soldUntil } from "./Deals.ts"
import { maybe, money, price, quotient, worth } from "./Decimals.ts"
import { knownOn } from "./Floats.ts"
import { high60 } from "./Gains.ts"
import type { History } from "./Market.ts"

/** USD 75 million in cents: a public float of so much frees a shelf from its limit. */
const threshold = 7_500_000_000

/** What may be sold from the shelf: a third of the public float within a year, unless the float is large. */
export const babyShelf = (history: History, day: Day, left: number) => {
  const high = high60(history, day)
  const float = knownOn(history.floats, day)?.float ?? null
  if (high === null || float === null) {
    return {
      high_60_day: maybe(high, price),
      baby_shelf_raisable_amount: null,
      calculated_raisable_amount: null,
      over_baby_shelf: null,
      price_to_exceed_baby_shelf: null,
    }
  }
  const value = worth(high, float)
  const over = value >= threshold
  const third = Math.max(0, quotient(value, 3) - soldUntil(history.deals, day, day - 365))
  return {
    high_60_day: price(high),
    baby_shelf_raisable_amount: over ? null : money(third),
    calculated_raisable_amount: money(over ? left : Math.min(left, third)),
    over_baby_shelf: over,
    price_to_exceed_baby_shelf: over ? null : price(Math.ceil((threshold * 100) / float)),
  }
}

/** What a company got for its new shares, and by which filings it was allowed to sell them. */
import { type Day, dayAt, sessionOn, today, tradingDay } from "./Calendar.ts"
import type { Company } from "./Company.ts"
import { quoted, worth } from "./Decimals.ts"
import { banks } from "./Names.ts"
import type { Raise } from "./Plot.ts"
import type { Prices } from "./Prices.ts"

export interface Deal {
  readonly place: number
  readonly kind: Raise["kind"]
  readonly day: Day
  readonly shares: number
  /** Ticks a share; of a note or a preferred share, the price at which it converts. */
  readonly price: number
  /** Cents. */
  readonly gross: number
  /** Null: the company sold by itself. */
  readonly bank: string | null
  /** Sold from the shelf registration. */
  readonly shelf: boolean
}

export const dealsOf = (company: Company, { closes, outstanding }: Prices): ReadonlyArray<Deal> => {
  const of = company.dice("deals")
  return company.plot.raises.map(({ kind, part, session }, place) => {
    const before = closes[session - 1] ?? 0
    const price = quoted(before * (kind === "atm" ? of.between(0.97, 1.02) : of.between(0.72, 0.9)))
    const held = outstanding[session - 1] ?? 0
    const shares = kind === "note" ? Math.round(held * part) : (outstanding[session] ?? 0) - held
    const bank = kind === "line" || of.chance(0.2) ? null : of.pick(banks)
    const shelf = kind === "atm" || kind === "offering" || kind === "direct"
    return { place, kind, day: dayAt(session), shares, price, gross: worth(price, shares), bank, shelf }
  })
}

/** The registration statement behind everything sold from the shelf. */
export interface Shelf {
  readonly filed: Day
  readonly effective: Day
  /** It ends after three years. */
  readonly expires: Day
  /** Cents. */
  readonly amount: number
}

const sizes = [2_500_000_000, 5_000_000_000, 7_500_000_000, 10_000_000_000, 20_000_000_000, 30_000_000_000]

export const shelfOf = ({ plot }: Company, deals: ReadonlyArray<Deal>): Shelf | null => {
  const sold = deals.filter(({ shelf }) => shelf)
  const from = sold[0]?.day ?? (plot.holders === "institutions" && plot.exchange === "NYSE" ? today - 400 : null)
  if (from === null) return null
  const filed = tradingDay(from - 75)
  const total = sold.reduce((sum, { gross }) => sum + gross, 0)
  const amount = sizes.find((size) => size > total * 1.25) ?? 2 * 50_000_000_000
  return { filed, effective: tradingDay(filed + 21), expires: filed + 21 + 1096, amount: sold.length ? amount : 1e11 }
}

/** Sold from the shelf up to a day, in cents; within a year of it, where asked. */
export const soldUntil = (deals: ReadonlyArray<Deal>, day: Day, since: Day = 0) =>
  deals.filter((deal) => deal.shelf && deal.day <= day && deal.day > since).reduce((sum, { gross }) => sum + gross, 0)

/** What became of a share between two days: `from` of them are `to` by now, 20 and 1 after a reverse split. */
export const splitSince = ({ plot }: Company, day: Day, until: Day = today) => {
  const { split } = plot
  const passed = split?.effective !== undefined && sessionOn(day) < split.effective &&
    sessionOn(until) >= split.effective
  return passed ? { from: split.from, to: split.to } : { from: 1, to: 1 }
}

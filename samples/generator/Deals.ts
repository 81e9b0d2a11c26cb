/** Capital raises, their terms, and the shelf registration behind them. */
import { type Day, dayOfSession, lastMarketDay, sessionOn, toTradingDay } from "./Calendar.ts"
import type { Company } from "./Companies.ts"
import { roundToTick, valueInCents } from "./Decimals.ts"
import { banks } from "./Names.ts"
import type { PriceHistory } from "./PriceSimulation.ts"
import type { PlannedRaise } from "./Scenarios.ts"

/** A completed capital raise. */
export interface Deal {
  /** Position among the deals of the company, from 0. */
  readonly index: number
  readonly kind: PlannedRaise["kind"]
  readonly day: Day
  readonly shares: number
  /** Price per share in ticks. For a note or a preferred share, the conversion price. */
  readonly priceTicks: number
  /** Gross proceeds in cents. */
  readonly grossCents: number
  /** Placement agent or underwriter; null if the company sold the shares itself. */
  readonly bank: string | null
  /** Whether the shares are sold under the shelf registration. */
  readonly isFromShelf: boolean
}

export const simulateDeals = (company: Company, { closes, sharesOutstanding }: PriceHistory): ReadonlyArray<Deal> => {
  const random = company.randomFor("deals")
  return company.scenario.raises.map(({ kind, dilution, session }, index) => {
    const before = closes[session - 1] ?? 0
    const priceTicks = roundToTick(before * (kind === "atm" ? random.between(0.97, 1.02) : random.between(0.72, 0.9)))
    const sharesBefore = sharesOutstanding[session - 1] ?? 0
    const shares = kind === "note"
      ? Math.round(sharesBefore * dilution)
      : (sharesOutstanding[session] ?? 0) - sharesBefore
    const bank = kind === "line" || random.chance(0.2) ? null : random.pick(banks)
    const isFromShelf = kind === "atm" || kind === "offering" || kind === "direct"
    return {
      index,
      kind,
      day: dayOfSession(session),
      shares,
      priceTicks,
      grossCents: valueInCents(priceTicks, shares),
      bank,
      isFromShelf,
    }
  })
}

/** A shelf registration statement. */
export interface ShelfRegistration {
  readonly filedDay: Day
  readonly effectiveDay: Day
  /** Three years after the effective day. */
  readonly expiryDay: Day
  readonly amountCents: number
}

/** Usual shelf sizes in cents. */
const shelfSizes = [2_500_000_000, 5_000_000_000, 7_500_000_000, 10_000_000_000, 20_000_000_000, 30_000_000_000]

/** Returns the shelf registration of a company that sells from one; null for other companies. */
export const makeShelfRegistration = ({ scenario }: Company, deals: ReadonlyArray<Deal>): ShelfRegistration | null => {
  const sales = deals.filter(({ isFromShelf }) => isFromShelf)
  const from = sales[0]?.day ??
    (scenario.ownershipData === "institutions" && scenario.exchange === "NYSE" ? lastMarketDay - 400 : null)
  if (from === null) return null
  const filedDay = toTradingDay(from - 75)
  const total = sales.reduce((sum, { grossCents }) => sum + grossCents, 0)
  const amount = shelfSizes.find((size) => size > total * 1.25) ?? 2 * 50_000_000_000
  return {
    filedDay,
    effectiveDay: toTradingDay(filedDay + 21),
    expiryDay: filedDay + 21 + 1096,
    amountCents: sales.length ? amount : 1e11,
  }
}

/** Returns the gross proceeds of shelf sales after `since` and up to `day`, in cents. */
export const shelfSalesUntil = (deals: ReadonlyArray<Deal>, day: Day, since: Day = 0) =>
  deals.filter((deal) => deal.isFromShelf && deal.day <= day && deal.day > since).reduce(
    (sum, { grossCents }) => sum + grossCents,
    0,
  )

/** Returns the split ratio between two days: `from` shares on `day` are `to` shares on `until`. */
export const splitRatioSince = ({ scenario }: Company, day: Day, until: Day = lastMarketDay) => {
  const { split } = scenario
  const hasSplit = split?.effective !== undefined && sessionOn(day) < split.effective &&
    sessionOn(until) >= split.effective
  return hasSplit ? { from: split.from, to: split.to } : { from: 1, to: 1 }
}

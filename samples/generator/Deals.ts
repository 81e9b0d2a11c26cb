/** Capital raises, their terms, and the shelf registrations under which some of the shares are sold. */
import { type EpochDay, findNextTradingDay, getSessionDay, getSessionNumber, lastMarketDay } from "./Calendar.ts"
import type { FictionalCompany } from "./Companies.ts"
import { computeValueInCents, roundToQuotedPrice } from "./Decimals.ts"
import { bankNames } from "./Names.ts"
import type { PriceHistory } from "./PriceSimulation.ts"
import type { PlannedRaise } from "./Scenarios.ts"

/** A completed capital raise. */
export interface CapitalRaise {
  /** The index of the capital raise among those of the company, starting at 0. */
  readonly index: number
  readonly kind: PlannedRaise["kind"]
  readonly day: EpochDay
  readonly shares: number
  /** The price per share in ticks of 0.0001 USD. For notes and preferred shares, this is the conversion price. */
  readonly priceTicks: number
  /** The gross proceeds in cents. */
  readonly grossCents: number
  /** The placement agent or underwriter, or null if the company sold the shares itself. */
  readonly bank: string | null
  /** Whether the shares are sold under a shelf registration. */
  readonly isFromShelf: boolean
}

/**
 * Determines the terms of the capital raises planned in the scenario, based on the price and the share count of the
 * previous session. The shares are sold at a discount to the previous close, except in an at-the-market program
 * (`atm`), which sells at the market price.
 */
export const simulateCapitalRaises = (
  company: FictionalCompany,
  { closes, sharesOutstanding }: PriceHistory,
): ReadonlyArray<CapitalRaise> => {
  const random = company.randomFor("deals")
  return company.scenario.raises.map(({ kind, dilution, session }, index) => {
    const previousClose = closes[session - 1] ?? 0
    const priceTicks = roundToQuotedPrice(
      previousClose * (kind === "atm" ? random.between(0.97, 1.02) : random.between(0.72, 0.9)),
    )
    const sharesBefore = sharesOutstanding[session - 1] ?? 0
    // The price simulation has already added the new shares to the share count, except for convertible notes, which add
    // shares only when they are converted.
    const shares = kind === "note"
      ? Math.round(sharesBefore * dilution)
      : (sharesOutstanding[session] ?? 0) - sharesBefore
    const bank = kind === "line" || random.chance(0.2) ? null : random.pick(bankNames)
    const isFromShelf = kind === "atm" || kind === "offering" || kind === "direct"
    return {
      index,
      kind,
      day: getSessionDay(session),
      shares,
      priceTicks,
      grossCents: computeValueInCents(priceTicks, shares),
      bank,
      isFromShelf,
    }
  })
}

/** A shelf registration statement, under which a company may sell shares for up to three years. */
export interface ShelfRegistration {
  readonly filedDay: EpochDay
  readonly effectiveDay: EpochDay
  /** The expiry date, three years after the statement becomes effective. */
  readonly expiryDay: EpochDay
  readonly amountCents: number
}

/** Typical amounts of shelf registrations, in cents. */
const shelfSizes = [2_500_000_000, 5_000_000_000, 7_500_000_000, 10_000_000_000, 20_000_000_000, 30_000_000_000]

/** One billion dollars in cents, which is larger than all other amounts. */
const largestShelfSize = 100_000_000_000

/**
 * Returns the shelf registration of a company that sells shares from one, or null for any other company. It is filed 75
 * days before the first sale, for the smallest usual amount that exceeds all sales by a quarter. Large companies on the
 * NYSE also have a shelf registration, of one billion dollars, although they sell nothing.
 */
export const makeShelfRegistration = (
  { scenario }: FictionalCompany,
  deals: ReadonlyArray<CapitalRaise>,
): ShelfRegistration | null => {
  const sales = deals.filter(({ isFromShelf }) => isFromShelf)
  const firstSaleDay = sales[0]?.day ??
    (scenario.ownershipData === "institutions" && scenario.exchange === "NYSE" ? lastMarketDay - 400 : null)
  if (firstSaleDay === null) return null
  const filedDay = findNextTradingDay(firstSaleDay - 75)
  const salesTotal = sales.reduce((sum, { grossCents }) => sum + grossCents, 0)
  const amount = shelfSizes.find((size) => size > salesTotal * 1.25) ?? largestShelfSize
  return {
    filedDay,
    effectiveDay: findNextTradingDay(filedDay + 21),
    expiryDay: filedDay + 21 + 1096,
    amountCents: sales.length > 0 ? amount : largestShelfSize,
  }
}

/** Returns the gross proceeds in cents from shelf sales after `since`, up to and including `day`. */
export const sumShelfSales = (deals: ReadonlyArray<CapitalRaise>, day: EpochDay, since: EpochDay = 0) =>
  deals.filter((deal) => deal.isFromShelf && deal.day <= day && deal.day > since).reduce(
    (sum, { grossCents }) => sum + grossCents,
    0,
  )

/**
 * Returns the ratio of the company's split, if it took effect after `day` and no later than `until`: `from` shares on
 * `day` correspond to `to` shares on `until`. Returns 1 to 1 if there was no split between the two days.
 */
export const splitRatioSince = ({ scenario }: FictionalCompany, day: EpochDay, until: EpochDay = lastMarketDay) => {
  const { split } = scenario
  const hasSplit = split?.effective !== undefined && getSessionNumber(day) < split.effective &&
    getSessionNumber(until) >= split.effective
  return hasSplit ? { from: split.from, to: split.to } : { from: 1, to: 1 }
}

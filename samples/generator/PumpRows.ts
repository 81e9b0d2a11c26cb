/** Rows of pump_and_dump_tracker: small companies, who took them public, and how often they were sold off. */
import { dateOf, dayAt, today } from "./Calendar.ts"
import { evening, symbolOn } from "./Company.ts"
import { maybe, money, quotient } from "./Decimals.ts"
import { ipoDay } from "./Filings.ts"
import { newestOf } from "./Floats.ts"
import { factsOf } from "./FloatRows.ts"
import { gainOver, liquidations } from "./Gains.ts"
import { capOf, closeOn, find, type History } from "./Market.ts"
import { underwriters } from "./Names.ts"
import { splitsDone } from "./SplitRows.ts"

const countryRisk = (country: string) =>
  ["CN", "HK", "MY", "SG"].includes(country) ? "high" : country === "JP" ? "medium" : country === "US" ? "low" : null

const floatRisk = (tradable: number) => tradable < 6_000_000 ? "high" : tradable < 15_000_000 ? "medium" : "low"

/** Holders of before may sell half a year after the first trade; on most of these companies that is still to come. */
const lockUp = ({ company, prices }: History) => {
  const day = ipoDay(company)
  const shares = prices.outstanding[company.plot.first ?? 0] ?? 0
  return {
    lock_up_expiration: day === null ? null : dateOf(day + 180),
    lock_up_shares: day === null ? null : quotient(shares * 3, 5),
  }
}

/** Who took the company public, and what is known of them. */
const listing = (history: History) => {
  const { company } = history
  const underwriter = ipoDay(company) === null ? null : company.dice("underwriter").pick(underwriters)
  return {
    ipo_date: maybe(ipoDay(company), dateOf),
    ...lockUp(history),
    underwriters: underwriter?.name ?? null,
    known_underwriter: underwriter?.known ?? false,
    liquidation_history: underwriter?.history ?? null,
    underwriter_risk: underwriter?.history ?? null,
  }
}

const scam = ({ company: { name, plot } }: History, falls: number, post: string | null) => ({
  scam_risk: plot.first === null ? null : falls > 0 ? "high" : post === null ? "low" : "medium",
  scam_description: falls > 0 ? `${name} lost more than 50% in a day; "tips" in chat groups came before` : null,
})

const prospectus = (history: History) => ({
  document_url: find(history, "ipo")?.url ?? null,
  filed_at: maybe(find(history, "ipo:filed")?.day ?? null, dateOf),
  effective_date: maybe(ipoDay(history.company), (day) => dateOf(day - 1)),
})

/** The day on which the last unsigned praise was seen. */
const lastPost = ({ prices: { sessions } }: History) => {
  const praised = sessions.findLast(({ gap: { topic } }) => topic === "promotion")
  return praised === undefined ? null : dateOf(dayAt(praised.session))
}

const sizeOf = (history: History) => {
  const newest = newestOf(history.floats)
  const tradable = newest?.tradable ?? null
  return {
    tradable_float: tradable,
    outstanding_shares: newest?.outstanding ?? null,
    market_cap: maybe(capOf(closeOn(history), newest?.outstanding), money),
    float_risk: maybe(tradable, floatRisk),
  }
}

/** Small companies only: those that institutions hold are left out. */
export const pumpAndDumpTracker = (history: History) => {
  const { company } = history
  if (company.plot.holders === "institutions") return []
  const falls = liquidations(history)
  const splits = splitsDone(company)
  const post = lastPost(history)
  return [{
    ticker: symbolOn(company, today),
    ...factsOf(company),
    ...listing(history),
    number_liquidations: falls.length,
    last_liquidation_date: maybe(falls.at(-1) ?? null, dateOf),
    ...sizeOf(history),
    is_adr: company.plot.adsRatio !== null,
    gain_1_day: gainOver(history, 1),
    gain_7_day: gainOver(history, 7),
    gain_14_day: gainOver(history, 14),
    gain_30_day: gainOver(history, 30),
    num_splits: splits.length,
    last_split_date: maybe(splits.at(-1) ?? null, dateOf),
    country_risk: countryRisk(company.country),
    ...scam(history, falls.length, post),
    last_post_date: post,
    ...prospectus(history),
    last_updated: evening(today),
  }]
}

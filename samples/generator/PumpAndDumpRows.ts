/** Rows of pump_and_dump_tracker: small companies, who took them public, and how often they were sold off. */
import { dayOfSession, formatDate, today } from "./Calendar.ts"
import { formatEvening, symbolOn } from "./Companies.ts"
import { divideRounded, formatCents, mapNullable } from "./Decimals.ts"
import { findDocument, ipoDay } from "./Documents.ts"
import { companyColumns, newestFloatReport } from "./Floats.ts"
import type { CompanyHistory } from "./Market.ts"
import { underwriters } from "./Names.ts"
import { closeOn, findLiquidationDays, formatGainOver, marketCapOf } from "./PriceStatistics.ts"
import { effectiveSplitDays } from "./SplitRows.ts"

const countryRisk = (country: string) =>
  ["CN", "HK", "MY", "SG"].includes(country) ? "high" : country === "JP" ? "medium" : country === "US" ? "low" : null

const floatRisk = (tradable: number) => tradable < 6_000_000 ? "high" : tradable < 15_000_000 ? "medium" : "low"

/** Holders of before may sell half a year after the first trade; on most of these companies that is still to come. */
const lockUpColumns = ({ company, prices }: CompanyHistory) => {
  const day = ipoDay(company)
  const shares = prices.sharesOutstanding[company.scenario.firstSession ?? 0] ?? 0
  return {
    lock_up_expiration: day === null ? null : formatDate(day + 180),
    lock_up_shares: day === null ? null : divideRounded(shares * 3, 5),
  }
}

/** Who took the company public, and what is known of them. */
const ipoColumns = (history: CompanyHistory) => {
  const { company } = history
  const underwriter = ipoDay(company) === null ? null : company.randomFor("underwriter").pick(underwriters)
  return {
    ipo_date: mapNullable(ipoDay(company), formatDate),
    ...lockUpColumns(history),
    underwriters: underwriter?.name ?? null,
    known_underwriter: underwriter?.known ?? false,
    liquidation_history: underwriter?.history ?? null,
    underwriter_risk: underwriter?.history ?? null,
  }
}

const scamColumns = ({ company: { name, scenario } }: CompanyHistory, falls: number, post: string | null) => ({
  scam_risk: scenario.firstSession === null ? null : falls > 0 ? "high" : post === null ? "low" : "medium",
  scam_description: falls > 0 ? `${name} lost more than 50% in a day; "tips" in chat groups came before` : null,
})

const prospectusColumns = (history: CompanyHistory) => ({
  document_url: findDocument(history, "ipo")?.url ?? null,
  filed_at: mapNullable(findDocument(history, "ipo:filed")?.day ?? null, formatDate),
  effective_date: mapNullable(ipoDay(history.company), (day) => formatDate(day - 1)),
})

/** The day on which the last unsigned praise was seen. */
const lastPromotionDate = ({ prices: { gapDays } }: CompanyHistory) => {
  const praised = gapDays.findLast(({ gap: { topic } }) => topic === "promotion")
  return praised === undefined ? null : formatDate(dayOfSession(praised.session))
}

const sizeColumns = (history: CompanyHistory) => {
  const newest = newestFloatReport(history.floats)
  const tradable = newest?.tradable ?? null
  return {
    tradable_float: tradable,
    outstanding_shares: newest?.outstanding ?? null,
    market_cap: mapNullable(marketCapOf(closeOn(history), newest?.outstanding), formatCents),
    float_risk: mapNullable(tradable, floatRisk),
  }
}

/** Small companies only: those that institutions hold are left out. */
export const buildPumpAndDumpTrackerRows = (history: CompanyHistory) => {
  const { company } = history
  if (company.scenario.ownershipData === "institutions") return []
  const falls = findLiquidationDays(history)
  const splits = effectiveSplitDays(company)
  const post = lastPromotionDate(history)
  return [{
    ticker: symbolOn(company, today),
    ...companyColumns(company),
    ...ipoColumns(history),
    number_liquidations: falls.length,
    last_liquidation_date: mapNullable(falls.at(-1) ?? null, formatDate),
    ...sizeColumns(history),
    is_adr: company.scenario.adsRatio !== null,
    gain_1_day: formatGainOver(history, 1),
    gain_7_day: formatGainOver(history, 7),
    gain_14_day: formatGainOver(history, 14),
    gain_30_day: formatGainOver(history, 30),
    num_splits: splits.length,
    last_split_date: mapNullable(splits.at(-1) ?? null, formatDate),
    country_risk: countryRisk(company.country),
    ...scamColumns(history, falls.length, post),
    last_post_date: post,
    ...prospectusColumns(history),
    last_updated: formatEvening(today),
  }]
}

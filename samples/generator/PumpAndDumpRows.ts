/**
 * Builds the rows of pump_and_dump_tracker: companies without institutional holders, with data on their IPO,
 * liquidations and risks.
 */
import { formatDate, getSessionDay, lastMarketDay } from "./Calendar.ts"
import { formatEveningTime, getSymbolOn } from "./Companies.ts"
import type { CompanyHistory } from "./CompanyHistory.ts"
import { divideRounded, mapNullable } from "./Decimals.ts"
import { findDocument, getIpoDay } from "./Documents.ts"
import { companyColumns, findNewestFloatReport, formatPresentMarketCap } from "./Floats.ts"
import { underwriters } from "./Names.ts"
import { computePercentGain, findLiquidationDays } from "./PriceStatistics.ts"
import { effectiveSplitDays } from "./SplitRows.ts"

const countryRisk = (country: string) =>
  ["CN", "HK", "MY", "SG"].includes(country) ? "high" : country === "JP" ? "medium" : country === "US" ? "low" : null

const floatRisk = (tradable: number) => tradable < 6_000_000 ? "high" : tradable < 15_000_000 ? "medium" : "low"

/**
 * Returns the columns about the lock-up period of 180 days after the IPO, during which existing holders may not sell.
 */
const lockUpColumns = ({ company, prices }: CompanyHistory) => {
  const day = getIpoDay(company)
  const shares = prices.sharesOutstanding[company.scenario.firstSession ?? 0] ?? 0
  return {
    lock_up_expiration: day === null ? null : formatDate(day + 180),
    lock_up_shares: day === null ? null : divideRounded(shares * 3, 5),
  }
}

/** Returns the columns about the IPO, the lock-up period and the underwriter. */
const ipoColumns = (history: CompanyHistory) => {
  const { company } = history
  const underwriter = getIpoDay(company) === null ? null : company.randomFor("underwriter").pick(underwriters)
  return {
    ipo_date: mapNullable(getIpoDay(company), formatDate),
    ...lockUpColumns(history),
    underwriters: underwriter?.name ?? null,
    known_underwriter: underwriter?.isKnown ?? false,
    liquidation_history: underwriter?.liquidationHistory ?? null,
    underwriter_risk: underwriter?.liquidationHistory ?? null,
  }
}

/**
 * Returns the columns that rate the risk of a scam: high if the price has ever halved in a day, medium if the shares
 * were promoted anonymously, low otherwise, and null for a company without prices.
 */
const scamColumns = (
  { company: { name, scenario } }: CompanyHistory,
  liquidationCount: number,
  promotionDate: string | null,
) => ({
  scam_risk: scenario.firstSession === null
    ? null
    : liquidationCount > 0
    ? "high"
    : promotionDate === null
    ? "low"
    : "medium",
  scam_description: liquidationCount > 0
    ? `${name} lost more than 50% in a day; "tips" in chat groups came before`
    : null,
})

const prospectusColumns = (history: CompanyHistory) => ({
  document_url: findDocument(history, "ipo")?.url ?? null,
  filed_at: mapNullable(findDocument(history, "ipo:filed")?.day ?? null, formatDate),
  effective_date: mapNullable(getIpoDay(history.company), (day) => formatDate(day - 1)),
})

/** Returns the date of the last anonymous promotion, or null if there was none. */
const lastPromotionDate = ({ prices: { gapDays } }: CompanyHistory) => {
  const lastPromotion = gapDays.findLast(({ gap: { topic } }) => topic === "promotion")
  return lastPromotion === undefined ? null : formatDate(getSessionDay(lastPromotion.session))
}

const sizeColumns = (history: CompanyHistory) => {
  const newest = findNewestFloatReport(history.floats)
  const tradable = newest?.tradable ?? null
  return {
    tradable_float: tradable,
    outstanding_shares: newest?.outstanding ?? null,
    market_cap: formatPresentMarketCap(history),
    float_risk: mapNullable(tradable, floatRisk),
  }
}

/**
 * Builds the company's row of pump_and_dump_tracker, which describes the company on the last day of the market. Returns
 * no rows if institutions hold the company's shares, because the table only contains companies without institutional
 * holders. A liquidation is a day on which the price lost more than half.
 */
export const buildPumpAndDumpTrackerRows = (history: CompanyHistory) => {
  const { company } = history
  if (company.scenario.ownershipData === "institutions") return []
  const liquidationDays = findLiquidationDays(history)
  const splits = effectiveSplitDays(company)
  const promotionDate = lastPromotionDate(history)
  return [{
    ticker: getSymbolOn(company, lastMarketDay),
    ...companyColumns(company),
    ...ipoColumns(history),
    number_liquidations: liquidationDays.length,
    last_liquidation_date: mapNullable(liquidationDays.at(-1) ?? null, formatDate),
    ...sizeColumns(history),
    is_adr: company.scenario.adsRatio !== null,
    gain_1_day: computePercentGain(history, 1),
    gain_7_day: computePercentGain(history, 7),
    gain_14_day: computePercentGain(history, 14),
    gain_30_day: computePercentGain(history, 30),
    num_splits: splits.length,
    last_split_date: mapNullable(splits.at(-1) ?? null, formatDate),
    country_risk: countryRisk(company.country),
    ...scamColumns(history, liquidationDays.length, promotionDate),
    last_post_date: promotionDate,
    ...prospectusColumns(history),
    last_updated: formatEveningTime(lastMarketDay),
  }]
}

/** Share counts and floats as disclosed in filings, and the rows of float_outstanding and historical_float_pro. */
import { type EpochDay, formatDate, getSessionNumber, lastMarketDay } from "./Calendar.ts"
import { type FictionalCompany, formatEveningTime, getSymbolOn, listSymbolChanges } from "./Companies.ts"
import { divideRounded, formatCentsAsDollars, formatRatio, formatTenThousandths, mapNullable } from "./Decimals.ts"
import type { CompanyDocument, CompanyHistory, FloatReport } from "./CompanyHistory.ts"
import { getIpoDay, makeSource } from "./Documents.ts"
import { listFilingsWithHolders, sumStakesByGroup } from "./Ownership.ts"
import type { PriceHistory } from "./PriceSimulation.ts"
import { findLastCloseOn } from "./PriceStatistics.ts"
import type { RandomSource } from "./Random.ts"

/**
 * Returns whether a document discloses share counts. Periodic reports, IPO prospectuses, shelf sales and effective
 * splits do.
 */
const disclosesShareCount = ({ form, key }: CompanyDocument) =>
  key.startsWith("periodic") || key === "ipo" || key === "split:effective" ||
  (key.startsWith("raise") && form === "424B5")

/**
 * Returns the day to which a document's share counts apply. In periodic reports, this is a few days before the filing,
 * possibly on a weekend, and a few reports do not state it. In other filings, it is the filing date.
 */
const reportedDayOf = (
  random: RandomSource,
  company: FictionalCompany,
  { day, key }: CompanyDocument,
): EpochDay | null => {
  if (!key.startsWith("periodic")) return day
  if (random.chance(0.04)) return null
  const lastRename = listSymbolChanges(company).findLast((rename) => rename.day <= day)?.day ?? 0
  return Math.max(day - random.integer(1, 9), lastRename, getIpoDay(company) ?? 0)
}

/**
 * Generates the share counts that a filing discloses. The float is the shares outstanding without those of insiders and
 * affiliates, and the tradable float also excludes restricted shares. At random, the shares outstanding or the
 * restricted shares are missing, and with them everything that is computed from them.
 */
const makeFloatReport = (
  random: RandomSource,
  company: FictionalCompany,
  { sharesOutstanding }: PriceHistory,
  document: CompanyDocument,
): FloatReport => {
  const reportedDay = reportedDayOf(random, company, document)
  const outstanding = random.chance(0.02)
    ? null
    : sharesOutstanding[getSessionNumber(reportedDay ?? document.day)] ?? null
  const totals = sumStakesByGroup(company)
  /** Converts a stake, in ten-thousandths of the shares outstanding, to a number of shares. */
  const sharesOf = (stake: number | null) =>
    outstanding === null || stake === null ? null : divideRounded(outstanding * stake, 10_000)
  const [insiders, affiliates] = [sharesOf(totals.insiders), sharesOf(totals.affiliates)]
  const float = outstanding === null || insiders === null || affiliates === null
    ? null
    : outstanding - insiders - affiliates
  // For 180 days after an IPO, existing holders may not sell, so more shares are restricted.
  const isLockedUp = getIpoDay(company) !== null && document.day < (getIpoDay(company) ?? 0) + 180
  /** The restricted shares, in ten-thousandths of the float. */
  const restrictedStake = company.scenario.ownershipData === "institutions"
    ? 0
    : isLockedUp
    ? 2500
    : random.integer(0, 800)
  const restricted = float === null || random.chance(0.05) ? null : divideRounded(float * restrictedStake, 10_000)
  const tradable = float === null || restricted === null ? null : float - restricted
  return { document, reportedDay, outstanding, insiders, affiliates, float, restricted, tradable }
}

/** Generates the share counts that each of a company's filings discloses, in the order of filing. */
export const makeFloatReports = (
  company: FictionalCompany,
  prices: PriceHistory,
  documents: ReadonlyArray<CompanyDocument>,
) => {
  const random = company.randomFor("floats")
  return documents.filter(disclosesShareCount).map((document) => makeFloatReport(random, company, prices, document))
}

/**
 * Returns the report with the newest share counts: the one with the latest reported day and, if several have the same
 * reported day, the one that was filed last. Reports without a reported day count as the oldest.
 */
export const findNewestFloatReport = (floats: ReadonlyArray<FloatReport>): FloatReport | undefined =>
  floats.toSorted((one, other) =>
    (other.reportedDay ?? 0) - (one.reportedDay ?? 0) || other.document.day - one.document.day ||
    (other.document.time ?? 0) - (one.document.time ?? 0)
  )[0]

/** Returns the last report filed on or before `day` that contains a share count. */
export const findFloatReportOn = (floats: ReadonlyArray<FloatReport>, day: EpochDay) =>
  floats.findLast(({ document, outstanding }) => document.day <= day && outstanding !== null)

/** Returns the columns with the fraction of the company that insiders, affiliates and institutions each own. */
export const ownershipPercentColumns = (company: FictionalCompany) => {
  const { affiliates, insiders, institutions } = sumStakesByGroup(company)
  return {
    insider_percent: mapNullable(insiders, formatTenThousandths),
    affiliate_percent: mapNullable(affiliates, formatTenThousandths),
    institutions_percent: mapNullable(institutions, formatTenThousandths),
  }
}

/**
 * Returns the depositary share columns. `adsRatio` may be 0.5, so both sides of the division are doubled to make them
 * integers.
 */
const adrColumns = ({ scenario: { adsRatio } }: FictionalCompany) => ({
  is_adr: adsRatio !== null,
  ads_ratio: mapNullable(adsRatio, (shares) => formatRatio(shares * 2, 2)),
})

/** Returns the columns about the company that several tables have in common. */
export const companyColumns = (company: FictionalCompany) => {
  const { country, industry, scenario: { delisted, exchange, firstSession }, sector } = company
  return {
    company: firstSession === null && exchange === null ? null : company.name,
    country: exchange === null ? null : country,
    sector,
    industry,
    exchange: delisted === undefined ? exchange : "OTC",
  }
}

/** Returns the URL of the latest filing that lists holders, or null if there is none. */
export const findOwnershipFilingUrl = (history: CompanyHistory) =>
  listFilingsWithHolders(history).at(-1)?.document.url ?? null

/** The XBRL element in which reports state the shares outstanding. */
const sharesElement = "dei:EntityCommonStockSharesOutstanding"

/**
 * Builds the rows of historical_float_pro: one for each filing that discloses share counts, with the values at the time
 * of filing. Every ninth company has a row without a form type and one without a URL.
 */
export const buildHistoricalFloatProRows = (history: CompanyHistory) => {
  const { company, floats } = history
  return floats.map(({ affiliates, document, float, insiders, outstanding, reportedDay, restricted }, index) => ({
    ticker: getSymbolOn(company, document.day),
    filed_at: formatDate(document.day),
    form_type: index === 2 && company.number % 9 === 0 ? null : document.form,
    document_url: index === 3 && company.number % 9 === 0 ? null : document.url,
    reported_date: mapNullable(reportedDay, formatDate),
    outstanding_shares: outstanding,
    float,
    restricted_shares: restricted,
    affiliate_shares: affiliates,
    insider_shares: insiders,
    ...ownershipPercentColumns(company),
    cik: company.scenario.exchange === null ? null : company.cik,
    ...adrColumns(company),
    details: document.title,
    last_updated: formatEveningTime(document.day),
    source: makeSource([index === 3 && company.number % 9 === 0 ? null : document.url], sharesElement),
  }))
}

/**
 * Returns the market capitalization on the last day of the market (D44), which is the close multiplied by the share
 * count. The close is the price of a depositary share, but the count is of ordinary shares, so the product is divided
 * by `adsRatio`. `adsRatio` may be 0.5, so the product and the divisor are both multiplied by two.
 */
export const formatPresentMarketCap = (history: CompanyHistory) => {
  const { company: { scenario: { adsRatio } }, floats } = history
  const [close, outstanding] = [findLastCloseOn(history), findNewestFloatReport(floats)?.outstanding ?? null]
  return close === null || outstanding === null
    ? null
    : formatCentsAsDollars(divideRounded(close * outstanding * 2, 200 * (adsRatio ?? 1)))
}

/**
 * Builds the company's row of float_outstanding from the filing with the newest share counts. If there is none, the
 * columns that come from a filing are null.
 */
export const buildFloatOutstandingRows = (history: CompanyHistory) => {
  const { company, floats } = history
  const newest = findNewestFloatReport(floats)
  return [{
    ticker: getSymbolOn(company, lastMarketDay),
    ...companyColumns(company),
    float: newest?.float ?? null,
    outstanding: newest?.outstanding ?? null,
    tradable_float: newest?.tradable ?? null,
    market_cap: formatPresentMarketCap(history),
    ...ownershipPercentColumns(company),
    ...adrColumns(company),
    reported_date: mapNullable(newest?.reportedDay ?? null, formatDate),
    filed_at: mapNullable(newest?.document.day ?? null, formatDate),
    ownership_source_url: findOwnershipFilingUrl(history),
    document_url: newest?.document.url ?? null,
    last_updated: formatEveningTime(lastMarketDay),
    source: makeSource([newest?.document.url ?? null], sharesElement),
  }]
}

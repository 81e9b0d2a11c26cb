/** Builds the rows of screener, which describe a company on the last day of the market. */
import { formatDate, lastMarketDay } from "./Calendar.ts"
import { formatEveningTime, getSymbolOn } from "./Companies.ts"
import type { CompanyHistory } from "./CompanyHistory.ts"
import { divideRounded, formatPercentChange, formatRatio, formatTicksAsDollars, mapNullable } from "./Decimals.ts"
import { findDocument, getIpoDay, makeSource } from "./Documents.ts"
import {
  companyColumns,
  findNewestFloatReport,
  findOwnershipFilingUrl,
  formatPresentMarketCap,
  ownershipPercentColumns,
} from "./Floats.ts"
import { buildGapStatsRows, buildIntradayRunnersRows } from "./GapDayRows.ts"
import { computePercentGain, findLastCloseOn, highLow365Columns } from "./PriceStatistics.ts"

const mean = (numbers: ReadonlyArray<number>) =>
  divideRounded(numbers.reduce((sum, one) => sum + one, 0), numbers.length)

/** Returns the median, rounded to an integer. The numbers must not be empty. */
const median = (numbers: ReadonlyArray<number>) => {
  const sorted = numbers.toSorted((one, other) => one - other)
  // The middle number if the count is odd, or the two middle numbers if it is even.
  const [low = 0, high = 0] = sorted.slice(Math.ceil(sorted.length / 2) - 1, Math.floor(sorted.length / 2) + 1)
  return sorted.length % 2 === 1 ? low : divideRounded(low + high, 2)
}

/**
 * Returns the columns about the volume in the last 60 sessions: the average, the median, the volume of the last day,
 * and the percentage by which the latter differs from the average. They are null for a company without prices.
 */
const volumeColumns = ({ company: { scenario }, prices }: CompanyHistory) => {
  const volumes = scenario.firstSession === null
    ? []
    : prices.volumes.slice(Math.max(scenario.firstSession, prices.volumes.length - 60))
  const lastVolume = volumes.at(-1)
  if (lastVolume === undefined) {
    return { average_volume: null, median_volume_60: null, today_volume: null, volume_change_percentage: null }
  }
  return {
    average_volume: mean(volumes),
    median_volume_60: median(volumes),
    today_volume: lastVolume,
    volume_change_percentage: formatPercentChange(lastVolume, mean(volumes)),
  }
}

/**
 * Returns the columns about short interest: the number of shares sold short (up to 22% of the float), its ratio to the
 * float, and the days needed to cover it at the average volume (`average`). They are null if the float or the average
 * volume is unknown.
 */
const shortInterestColumns = ({ company, floats }: CompanyHistory, average: number | null) => {
  const random = company.randomFor("short")
  const float = findNewestFloatReport(floats)?.float ?? null
  const interest = float === null || average === null ? null : divideRounded(float * random.integer(0, 2200), 10_000)
  return {
    short_interest: interest,
    short_float: interest === null || float === null ? null : formatRatio(interest, float),
    days_to_cover: interest === null || average === null || average === 0 ? null : formatRatio(interest, average),
    shares_available: interest === null || random.chance(0.2) ? null : random.integer(0, 400) * 1000,
    fee_rate: interest === null ? null : formatTicksAsDollars(random.integer(25, 2_500_000)),
  }
}

const gainColumns = (history: CompanyHistory) => ({
  gain_1_day: computePercentGain(history, 1),
  gain_2_day: computePercentGain(history, 2),
  gain_3_day: computePercentGain(history, 3),
  gain_7_day: computePercentGain(history, 7),
  gain_14_day: computePercentGain(history, 14),
  gain_30_day: computePercentGain(history, 30),
  gain_60_day: computePercentGain(history, 60),
  gain_90_day: computePercentGain(history, 90),
  gain_180_day: computePercentGain(history, 180),
  gain_365_day: computePercentGain(history, 365),
})

/**
 * Returns the number of gaps and runners, and the average gap. As in `/v1/intraday-runners`, a runner is a flagged day
 * with a volume ratio above 9.
 */
const gapCountColumns = (history: CompanyHistory) => {
  const gaps = buildGapStatsRows(history).map(({ gap_percentage }) => Math.round(Number(gap_percentage) * 10_000))
  const runners = buildIntradayRunnersRows(history).filter((row) =>
    row.anomaly_flagged && Number(row.daily_volume_ratio) > 9
  )
  return {
    num_gaps: gaps.length,
    num_runners: runners.length,
    avg_gap: gaps.length === 0 ? null : formatTicksAsDollars(mean(gaps)),
  }
}

const valuationColumns = (history: CompanyHistory) => {
  const newest = findNewestFloatReport(history.floats)
  const close = findLastCloseOn(history)
  return {
    price: mapNullable(close, formatTicksAsDollars),
    market_cap: formatPresentMarketCap(history),
    ...highLow365Columns(history),
    outstanding: newest?.outstanding ?? null,
    float: newest?.float ?? null,
    tradable_float: newest?.tradable ?? null,
  }
}

/**
 * Builds the company's row of the table `screener`, which describes the company on the last day of the market. The
 * columns that are not listed here come from the functions that are spread into the row.
 */
export const buildScreenerRows = (history: CompanyHistory) => {
  const { company } = history
  const { cik, city, scenario, profile, state } = company
  const random = company.randomFor("screener")
  const volumes = volumeColumns(history)
  return [{
    ticker: getSymbolOn(company, lastMarketDay),
    ...companyColumns(company),
    cik: scenario.exchange === null ? null : cik,
    state,
    city,
    website: random.chance(0.9) ? `https://example.com/${profile.name.toLowerCase().replaceAll(" ", "-")}` : null,
    ipo_date: mapNullable(getIpoDay(company), formatDate),
    is_adr: scenario.adsRatio !== null,
    ...valuationColumns(history),
    ...ownershipPercentColumns(company),
    ownership_source_url: findOwnershipFilingUrl(history),
    ...volumes,
    ...shortInterestColumns(history, volumes.average_volume),
    ...gainColumns(history),
    ...gapCountColumns(history),
    ratio_debt_to_equity: random.chance(0.8) ? formatTicksAsDollars(random.integer(-5000, 42_000)) : null,
    pending_s1: findDocument(history, "pending") !== undefined,
    last_updated: formatEveningTime(lastMarketDay),
    source: makeSource(
      [findNewestFloatReport(history.floats)?.document.url ?? null, findOwnershipFilingUrl(history)],
      "cover",
    ),
  }]
}

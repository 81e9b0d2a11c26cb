/** Rows of screener: the newest of everything about a company. */
import { dateOf, today } from "./Calendar.ts"
import { evening, symbolOn } from "./Company.ts"
import { above, maybe, money, price, quotient, ratio } from "./Decimals.ts"
import { ipoDay } from "./Filings.ts"
import { newestOf } from "./Floats.ts"
import { factsOf, fractionsOf, ownershipSource } from "./FloatRows.ts"
import { extremes, gainOver } from "./Gains.ts"
import { capOf, closeOn, find, type History } from "./Market.ts"
import { gapStats, intradayRunners } from "./SessionRows.ts"

const mean = (numbers: ReadonlyArray<number>) => quotient(numbers.reduce((sum, one) => sum + one, 0), numbers.length)

const median = (numbers: ReadonlyArray<number>) => {
  const sorted = numbers.toSorted((one, other) => one - other)
  const [low = 0, high = 0] = sorted.slice(Math.ceil(sorted.length / 2) - 1, Math.floor(sorted.length / 2) + 1)
  return sorted.length % 2 === 1 ? low : quotient(low + high, 2)
}

/** Shares traded in the last sixty sessions; the last one against the mean, %. */
const volumesOf = ({ company: { plot }, prices }: History) => {
  const volumes = plot.first === null ? [] : prices.volumes.slice(Math.max(plot.first, prices.volumes.length - 60))
  const now = volumes.at(-1)
  if (now === undefined) {
    return { average_volume: null, median_volume_60: null, today_volume: null, volume_change_percentage: null }
  }
  return {
    average_volume: mean(volumes),
    median_volume_60: median(volumes),
    today_volume: now,
    volume_change_percentage: above(now, mean(volumes)),
  }
}

/** Shares sold short against the float, and the days it would take to buy them back. */
const shortOf = ({ company, floats }: History, average: number | null) => {
  const of = company.dice("short")
  const float = newestOf(floats)?.float ?? null
  const interest = float === null || average === null ? null : quotient(float * of.whole(0, 2200), 10_000)
  return {
    short_interest: interest,
    short_float: interest === null || float === null ? null : ratio(interest, float),
    days_to_cover: interest === null || average === null || average === 0 ? null : ratio(interest, average),
    shares_available: interest === null || of.chance(0.2) ? null : of.whole(0, 400) * 1000,
    fee_rate: interest === null ? null : price(of.whole(25, 2_500_000)),
  }
}

const gainsOf = (history: History) => ({
  gain_1_day: gainOver(history, 1),
  gain_2_day: gainOver(history, 2),
  gain_3_day: gainOver(history, 3),
  gain_7_day: gainOver(history, 7),
  gain_14_day: gainOver(history, 14),
  gain_30_day: gainOver(history, 30),
  gain_60_day: gainOver(history, 60),
  gain_90_day: gainOver(history, 90),
  gain_180_day: gainOver(history, 180),
  gain_365_day: gainOver(history, 365),
})

/** The gaps of gap_stats, and the sessions that the endpoint of intraday_runners shows. */
const countsOf = (history: History) => {
  const gaps = gapStats(history).map(({ gap_percentage }) => Math.round(Number(gap_percentage) * 10_000))
  const runners = intradayRunners(history).filter((row) => row.anomaly_flagged && Number(row.daily_volume_ratio) > 9)
  return {
    num_gaps: gaps.length,
    num_runners: runners.length,
    avg_gap: gaps.length === 0 ? null : price(mean(gaps)),
  }
}

const figuresOf = (history: History) => {
  const newest = newestOf(history.floats)
  const close = closeOn(history)
  return {
    price: maybe(close, price),
    market_cap: maybe(capOf(close, newest?.outstanding), money),
    ...extremes(history),
    outstanding: newest?.outstanding ?? null,
    float: newest?.float ?? null,
    tradable_float: newest?.tradable ?? null,
  }
}

export const screener = (history: History) => {
  const { company } = history
  const { cik, city, plot, role, state } = company
  const of = company.dice("screener")
  const volumes = volumesOf(history)
  return [{
    ticker: symbolOn(company, today),
    ...factsOf(company),
    cik: plot.exchange === null ? null : cik,
    state,
    city,
    website: of.chance(0.9) ? `https://example.com/${role.name.toLowerCase().replaceAll(" ", "-")}` : null,
    ipo_date: maybe(ipoDay(company), dateOf),
    is_adr: plot.adsRatio !== null,
    ...figuresOf(history),
    ...fractionsOf(company),
    ownership_source_url: ownershipSource(history),
    ...volumes,
    ...shortOf(history, volumes.average_volume),
    ...gainsOf(history),
    ...countsOf(history),
    ratio_debt_to_equity: of.chance(0.8) ? price(of.whole(-5000, 42_000)) : null,
    pending_s1: find(history, "pending") !== undefined,
    last_updated: evening(today),
  }]
}

/** Builds the rows of gap_stats, intraday_runners, premarket_stats and afterhours_stats from the simulated gap days. */
import {
  type EpochDay,
  formatDate,
  formatLocalTime,
  formatNewYorkTimeAsUtc,
  getSessionDay,
  getSessionNumber,
  toSecondsOfDay,
} from "./Calendar.ts"
import { getSymbolOn } from "./Companies.ts"
import type { CompanyHistory } from "./CompanyHistory.ts"
import {
  formatCentsAsDollars,
  formatPercentChange,
  formatRatio,
  formatTicksAsDollars,
  mapNullable,
} from "./Decimals.ts"
import { isNews } from "./Documents.ts"
import { findFloatReportOn } from "./Floats.ts"
import {
  type GapDayTrading,
  isThinlyTraded,
  sumGapDayDollarVolume,
  sumGapDayVolume,
  type TradingPeriod,
} from "./GapDays.ts"
import { computeMarketCap } from "./PriceStatistics.ts"

/**
 * Returns the columns about documents published from day `from` to day `to`, inclusive: the form types of the filings,
 * and the tags of all documents.
 */
const filingColumns = ({ documents }: CompanyHistory, from: EpochDay, to: EpochDay) => {
  const published = documents.filter(({ day }) => day >= from && day <= to)
  return {
    filing_types: [...new Set(published.filter((document) => !isNews(document)).map(({ form }) => form))],
    all_tags: [...new Set(published.flatMap(({ tags }) => tags ?? []))],
  }
}

/**
 * Returns whether the day's row has times and a market cap. Some rows lack them, so that the sample data contains nulls
 * in every nullable column.
 */
const isFullyRecorded = ({ gap: { session, topic } }: GapDayTrading) => topic !== null || session % 5 !== 0

const formatMarketCapAt = (history: CompanyHistory, session: number, close: number) =>
  mapNullable(computeMarketCap(close, history.prices.sharesOutstanding[session]), formatCentsAsDollars)

const tradableFloatOn = (history: CompanyHistory, day: EpochDay) =>
  findFloatReportOn(history.floats, day)?.tradable ?? null

const percentageColumns = ({ regular: { high, low, open, reference } }: GapDayTrading) => ({
  gap_percentage: formatPercentChange(open, reference),
  percentage_gain: formatPercentChange(high, reference),
  open_to_high_pct: formatPercentChange(high, open),
  open_to_low_pct: formatPercentChange(low, open),
})

const spikeColumns = ({ haltMinutes, spike }: TradingPeriod, day: EpochDay) => ({
  spike_start_time: mapNullable(spike, ({ start }) => formatLocalTime(day, start)),
  spike_start_price: mapNullable(spike, (rise) => formatTicksAsDollars(rise.price)),
  spike_duration_minutes: mapNullable(spike, ({ minutes }) => minutes),
  est_halt_minutes: spike === null ? null : haltMinutes,
})

const premarketColumns = ({ premarket }: GapDayTrading) => ({
  premarket_vwap: mapNullable(premarket, ({ vwap }) => formatTicksAsDollars(vwap)),
  premarket_high: mapNullable(premarket, ({ high }) => formatTicksAsDollars(high)),
  premarket_low: mapNullable(premarket, ({ low }) => formatTicksAsDollars(low)),
})

const afterHoursColumns = ({ afterHours }: GapDayTrading) => ({
  afterhours_close: mapNullable(afterHours, ({ close }) => formatTicksAsDollars(close)),
  afterhours_high: mapNullable(afterHours, ({ high }) => formatTicksAsDollars(high)),
  afterhours_low: mapNullable(afterHours, ({ low }) => formatTicksAsDollars(low)),
  afterhours_volume: mapNullable(afterHours, ({ volume }) => volume),
})

/**
 * Returns the columns that gap_stats and intraday_runners have in common. `gapDay` is the simulated trading of a day
 * with a price gap. Its `regular` session has prices in ticks, with the time of the high and of the low in seconds
 * after midnight, and `reference`, the previous close. Some rows are not fully recorded, so that nullable columns also
 * contain nulls.
 */
const gapDayColumns = (history: CompanyHistory, gapDay: GapDayTrading) => {
  const day = getSessionDay(gapDay.session)
  const { close, high, highTime, low, lowTime, open, reference } = gapDay.regular
  const isRecorded = isFullyRecorded(gapDay)
  return {
    ticker: getSymbolOn(history.company, day),
    date: formatDate(day),
    ...percentageColumns(gapDay),
    previous_day_close: formatTicksAsDollars(reference),
    market_open: formatTicksAsDollars(open),
    high_price: formatTicksAsDollars(high),
    high_time: isRecorded ? formatLocalTime(day, highTime) : null,
    low_price: formatTicksAsDollars(low),
    low_time: isRecorded ? formatLocalTime(day, lowTime) : null,
    market_close: formatTicksAsDollars(close),
    close_under_50pct_of_range: 2 * close < high + low,
    ...spikeColumns(gapDay.regular, day),
    ...premarketColumns(gapDay),
    ...afterHoursColumns(gapDay),
    market_cap: isRecorded ? formatMarketCapAt(history, gapDay.session, close) : null,
    ...filingColumns(history, getSessionDay(gapDay.session - 1), day),
  }
}

/**
 * Returns whether the price returned to the previous close during the day. After an upward gap, the low must reach it;
 * after a downward gap, the high.
 */
const isGapFilled = ({ regular: { high, low, open, reference } }: GapDayTrading) =>
  open > reference ? low <= reference : high >= reference

/**
 * Builds the rows of gap_stats: one for each day with a price gap, with the volumes of premarket and regular trading,
 * and the time at which the price returned to the previous close: that of the day's low if the price had risen at the
 * open, and that of its high if it had fallen.
 */
export const buildGapStatsRows = (history: CompanyHistory) =>
  history.prices.gapDays.map((gapDay) => {
    const { gap, premarket, regular } = gapDay
    const day = getSessionDay(gapDay.session)
    const row = gapDayColumns(history, gapDay)
    return {
      ...row,
      closed_over_vwap: isFullyRecorded(gapDay) ? regular.close > regular.vwap : null,
      volume: sumGapDayVolume(gapDay),
      dollar_volume: formatCentsAsDollars(sumGapDayDollarVolume(gapDay)),
      premarket_volume: premarket?.volume ?? 0,
      premarket_dollar_volume: formatCentsAsDollars(premarket?.dollarVolume ?? 0),
      rth_volume: regular.volume,
      rth_dollar_volume: formatCentsAsDollars(regular.dollarVolume),
      gap_filled: isGapFilled(gapDay),
      gap_fill_time: isGapFilled(gapDay) ? (gap.open > 0 ? row.low_time : row.high_time) : null,
      tradable_float: tradableFloatOn(history, day),
      last_updated: formatNewYorkTimeAsUtc(day, toSecondsOfDay(20, 15) + (gapDay.session % 60)),
    }
  })

/**
 * Returns whether the volume is high enough for the table intraday_runners to contain the day. The anomaly detector
 * whose results it contains has not necessarily flagged the day.
 */
const isRunner = ({ gap: { volumeMultiple } }: GapDayTrading) => volumeMultiple >= 4

/**
 * Builds the rows of intraday_runners: one for each day with a price gap and a high volume. Some rows have no volumes,
 * so that these columns also contain nulls.
 */
export const buildIntradayRunnersRows = (history: CompanyHistory) =>
  history.prices.gapDays.filter(isRunner).map((gapDay) => {
    const { afterHours, gap, premarket, regular, averageVolume } = gapDay
    const { open_to_low_pct: _, ...row } = gapDayColumns(history, gapDay)
    const isRecorded = isFullyRecorded(gapDay)
    return {
      ...row,
      daily_volume_ratio: formatRatio(sumGapDayVolume(gapDay), averageVolume),
      volume: isRecorded ? sumGapDayVolume(gapDay) : null,
      dollar_volume: isRecorded ? formatCentsAsDollars(sumGapDayDollarVolume(gapDay)) : null,
      rth_volume: isRecorded ? regular.volume : null,
      rth_dollar_volume: isRecorded ? formatCentsAsDollars(regular.dollarVolume) : null,
      afterhours_dollar_volume: mapNullable(afterHours, ({ dollarVolume }) => formatCentsAsDollars(dollarVolume)),
      premarket_volume: mapNullable(premarket, ({ volume }) => volume),
      premarket_dollar_volume: mapNullable(premarket, ({ dollarVolume }) => formatCentsAsDollars(dollarVolume)),
      last_updated: formatLocalTime(getSessionDay(gapDay.session), toSecondsOfDay(20, 5) + (gapDay.session % 60)),
      anomaly_flagged: gap.isFlagged,
    }
  })

/**
 * Returns the columns that premarket_stats and afterhours_stats have in common. The filings are those from day `from`
 * to `day`. If there were too few trades, values that depend on them are null.
 */
const extendedHoursColumns = (
  history: CompanyHistory,
  day: EpochDay,
  from: EpochDay,
  trading: TradingPeriod,
  averageVolume: number,
) => {
  const isLiquid = !isThinlyTraded(trading)
  const session = getSessionNumber(day)
  return {
    ticker: getSymbolOn(history.company, day),
    date: formatDate(day),
    reference_close: formatTicksAsDollars(trading.reference),
    open_price: isLiquid ? formatTicksAsDollars(trading.open) : null,
    close_price: isLiquid ? formatTicksAsDollars(trading.close) : null,
    high_price: formatTicksAsDollars(trading.high),
    low_price: formatTicksAsDollars(trading.low),
    high_time: isLiquid ? formatLocalTime(day, trading.highTime) : null,
    low_time: isLiquid ? formatLocalTime(day, trading.lowTime) : null,
    percentage_gain: formatPercentChange(trading.high, trading.reference),
    change_percentage: formatPercentChange(trading.close, trading.reference),
    vwap: isLiquid ? formatTicksAsDollars(trading.vwap) : null,
    volume: trading.volume,
    dollar_volume: formatCentsAsDollars(trading.dollarVolume),
    volume_ratio: isLiquid ? formatRatio(trading.volume, averageVolume) : null,
    trade_count: isLiquid ? trading.trades : null,
    ...spikeColumns(trading, day),
    market_cap: isLiquid ? formatMarketCapAt(history, session, trading.reference) : null,
    tradable_float: tradableFloatOn(history, day),
    ...filingColumns(history, from, day),
  }
}

/** Builds the rows of premarket_stats: one for each day with a price gap and premarket trading. */
export const buildPremarketStatsRows = (history: CompanyHistory) =>
  history.prices.gapDays.flatMap(({ premarket, session, averageVolume }) => {
    if (premarket === null) return []
    const day = getSessionDay(session)
    const row = extendedHoursColumns(history, day, getSessionDay(session - 1), premarket, averageVolume)
    return [{ ...row, last_updated: formatLocalTime(day, toSecondsOfDay(9, 32)) }]
  })

/**
 * Builds the rows of afterhours_stats: one for each day with a price gap and after-hours trading, and one for each
 * evening on which news moved the price before a gap on the next day.
 */
export const buildAfterhoursStatsRows = (history: CompanyHistory) =>
  [
    ...history.prices.eveningRuns,
    ...history.prices.gapDays.flatMap(({ afterHours: trading, session, averageVolume }) =>
      trading === null ? [] : [{ session, trading, averageVolume }]
    ),
  ].map(({ session, trading, averageVolume }) => {
    const day = getSessionDay(session)
    return {
      ...extendedHoursColumns(history, day, day, trading, averageVolume),
      last_updated: formatLocalTime(day, toSecondsOfDay(20, 2)),
    }
  })

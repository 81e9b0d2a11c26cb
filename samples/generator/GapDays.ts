/**
 * Simulates a gap day: premarket, regular and after-hours trading. The resulting numbers are exact integers (see
 * `Decimals.ts`).
 */
import { toSecondsOfDay } from "./Calendar.ts"
import { computeValueInCents, roundToQuotedPrice } from "./Decimals.ts"
import type { RandomSource } from "./Random.ts"
import type { PriceGap } from "./Scenarios.ts"

/** A price rise within minutes. `start` is in seconds since midnight; `price`, at the start, in ticks of 0.0001 USD. */
interface Spike {
  readonly start: number
  readonly price: number
  readonly minutes: number
}

/**
 * Trading in one period of a day, such as premarket. Prices are in ticks of 0.0001 USD, `dollarVolume` is in cents, and
 * times are in seconds since midnight.
 */
export interface TradingPeriod {
  readonly open: number
  readonly close: number
  readonly high: number
  readonly low: number
  readonly highTime: number
  readonly lowTime: number
  readonly spike: Spike | null
  readonly haltMinutes: number
  readonly vwap: number
  readonly volume: number
  readonly dollarVolume: number
  readonly trades: number
  /** The price with which the period's prices are compared to compute gains: the close of the period before. */
  readonly reference: number
}

/** Trading on a day with a price gap. A period without trading is null. */
export interface GapDayTrading {
  readonly session: number
  readonly gap: PriceGap
  readonly regular: TradingPeriod
  readonly premarket: TradingPeriod | null
  readonly afterHours: TradingPeriod | null
  /** The average daily volume of the previous 60 sessions, in shares. */
  readonly averageVolume: number
}

/** After-hours trading on the evening before a price gap, caused by news that is published after the close. */
export interface PreGapEveningTrading {
  readonly session: number
  readonly trading: TradingPeriod
  readonly averageVolume: number
}

/**
 * The values that the simulation of a trading period must produce. Prices are in ticks and times in seconds since
 * midnight.
 */
interface PeriodPlan {
  readonly reference: number
  readonly open: number
  readonly close: number
  /** The intended high of the period. If the open or the close is higher, that is the high. */
  readonly high: number
  readonly volume: number
  readonly from: number
  readonly to: number
}

/**
 * Generates a rapid rise that ends at the period's high. `from` is the time at which the period begins. Returns null if
 * the high is less than 8% above the low.
 */
const makeSpike = (random: RandomSource, low: number, high: number, highTime: number, from: number): Spike | null => {
  if (high * 100 < low * 108) return null
  const minutes = Math.min(Math.floor((highTime - from) / 60), random.integer(3, 80))
  return {
    start: highTime - minutes * 60,
    price: roundToQuotedPrice(low + (high - low) * random.between(0.1, 0.4)),
    minutes,
  }
}

/**
 * Simulates trading in one period. The plan determines its prices and volume; the low, the times of high and low, the
 * volume-weighted average price (`vwap`) and the number of trades are random, but consistent with them.
 */
const simulatePeriod = (
  random: RandomSource,
  { close, from, open, reference, to, volume, ...plan }: PeriodPlan,
): TradingPeriod => {
  const high = Math.max(plan.high, open, close)
  const low = Math.min(open, close, roundToQuotedPrice(Math.min(open, close) * random.between(0.93, 1)))
  const highTime = random.integer(from + 300, to - 60)
  const spike = makeSpike(random, low, high, highTime, from)
  const vwap = Math.round(low + (high - low) * random.between(0.3, 0.7))
  return {
    open,
    close,
    high,
    low,
    highTime,
    lowTime: random.integer(from, to - 60),
    spike,
    haltMinutes: high > 1.5 * low ? 5 * random.integer(0, 5) : 0,
    vwap,
    volume,
    dollarVolume: computeValueInCents(vwap, volume),
    trades: Math.max(1, Math.round(volume / random.between(60, 240))),
    reference,
  }
}

/** Returns whether there are too few trades for the open and the close to be meaningful. */
export const isThinlyTraded = ({ trades }: TradingPeriod) => trades <= 12

/** Simulates after-hours trading on the evening before a gap. The price moves from the close toward the next open. */
export const simulatePreGapEvening = (
  random: RandomSource,
  session: number,
  close: number,
  open: number,
  averageVolume: number,
): PreGapEveningTrading => {
  const target = roundToQuotedPrice(close + (open - close) * random.between(0.5, 0.9))
  const plan = {
    reference: close,
    open: roundToQuotedPrice(close * 1.01),
    close: target,
    volume: Math.round(averageVolume * 1.5),
  }
  const high = roundToQuotedPrice(target * random.between(1, 1.15))
  return {
    session,
    averageVolume,
    trading: simulatePeriod(random, { ...plan, high, from: toSecondsOfDay(16, 5), to: toSecondsOfDay(20) }),
  }
}

const simulatePremarket = (random: RandomSource, reference: number, open: number, volume: number) =>
  simulatePeriod(random, {
    reference,
    open: roundToQuotedPrice(reference + (open - reference) * random.between(0, 0.5)),
    close: roundToQuotedPrice(open * random.between(0.985, 1.015)),
    high: roundToQuotedPrice(open * random.between(1, 1.1)),
    volume,
    from: toSecondsOfDay(4),
    to: toSecondsOfDay(9, 30),
  })

const simulateAfterHours = (random: RandomSource, reference: number, volume: number) =>
  simulatePeriod(random, {
    reference,
    open: reference,
    close: roundToQuotedPrice(reference * random.between(0.94, 1.05)),
    high: roundToQuotedPrice(reference * random.between(1, 1.08)),
    volume,
    from: toSecondsOfDay(16),
    to: toSecondsOfDay(20),
  })

/**
 * Simulates the trading on a day with a price gap. The gap determines the open, high, close and volume, relative to the
 * previous close (in ticks) and the average volume (in shares). The volume is divided among premarket, regular and
 * after-hours trading. Small gaps have no premarket trading, and some days have no after-hours trading.
 */
export const simulateGapDay = (
  random: RandomSource,
  gap: PriceGap,
  previousClose: number,
  averageVolume: number,
): GapDayTrading => {
  const open = roundToQuotedPrice(previousClose * (1 + gap.open))
  const volume = Math.max(1, Math.round(averageVolume * gap.volumeMultiple))
  // A few premarket periods are thinly traded, so that some of their values are missing in the sample data.
  const premarketVolume = Math.abs(gap.open) < 0.06
    ? 0
    : random.chance(0.06)
    ? random.integer(1, 700)
    : Math.floor(volume * random.between(0.08, 0.25))
  const afterHoursVolume = random.chance(0.15) ? 0 : Math.floor(volume * random.between(0.0001, 0.06))
  const close = roundToQuotedPrice(open * (1 + gap.close))
  const regular = simulatePeriod(random, {
    reference: previousClose,
    open,
    close,
    high: roundToQuotedPrice(open * (1 + gap.high)),
    volume: volume - premarketVolume - afterHoursVolume,
    from: toSecondsOfDay(9, 30),
    to: toSecondsOfDay(16),
  })
  return {
    session: gap.session,
    gap,
    regular,
    premarket: premarketVolume === 0 ? null : simulatePremarket(random, previousClose, open, premarketVolume),
    afterHours: afterHoursVolume === 0 ? null : simulateAfterHours(random, close, afterHoursVolume),
    averageVolume,
  }
}

/** Returns the number of shares traded in premarket, regular and after-hours trading together. */
export const sumGapDayVolume = ({ afterHours, premarket, regular }: GapDayTrading) =>
  (premarket?.volume ?? 0) + regular.volume + (afterHours?.volume ?? 0)

/** Returns the value of all shares traded in premarket, regular and after-hours trading together, in cents. */
export const sumGapDayDollarVolume = ({ afterHours, premarket, regular }: GapDayTrading) =>
  (premarket?.dollarVolume ?? 0) + regular.dollarVolume + (afterHours?.dollarVolume ?? 0)

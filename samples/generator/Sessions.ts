/** One remarkable day of one ticker, from before the open to after hours. All numbers are exact (see `Decimals.ts`). */
import { hour } from "./Calendar.ts"
import { quoted, worth } from "./Decimals.ts"
import type { Gap } from "./Plot.ts"
import type { Dice } from "./Random.ts"

/** A rise within minutes. `start` in seconds from midnight, `price` in ticks. */
export interface Spike {
  readonly start: number
  readonly price: number
  readonly minutes: number
}

/** The part of a day in which prices were made: prices in ticks, `dollars` in cents, times in seconds from midnight. */
export interface Trading {
  readonly open: number
  readonly close: number
  readonly high: number
  readonly low: number
  readonly highTime: number
  readonly lowTime: number
  readonly spike: Spike | null
  readonly halts: number
  readonly vwap: number
  readonly volume: number
  readonly dollars: number
  readonly trades: number
  /** The price over which the gain is measured. */
  readonly reference: number
}

export interface Session {
  /** Its place in the list of sessions. */
  readonly session: number
  readonly gap: Gap
  readonly regular: Trading
  readonly premarket: Trading | null
  readonly afterHours: Trading | null
  /** Shares of a usual day: the mean of the sixty sessions before. */
  readonly usual: number
}

/** Trading after hours on the evening before a gap. */
export interface Evening {
  readonly session: number
  readonly trading: Trading
  readonly usual: number
}

interface Plan {
  readonly reference: number
  readonly open: number
  readonly close: number
  /** At least so high, in ticks. */
  readonly high: number
  readonly volume: number
  readonly from: number
  readonly to: number
}

const spikeOf = (dice: Dice, low: number, high: number, highTime: number, from: number): Spike | null => {
  if (high * 100 < low * 108) return null
  const minutes = Math.min(Math.floor((highTime - from) / 60), dice.whole(3, 80))
  return { start: highTime - minutes * 60, price: quoted(low + (high - low) * dice.between(0.1, 0.4)), minutes }
}

const tradingOf = (dice: Dice, { close, from, open, reference, to, volume, ...plan }: Plan): Trading => {
  const high = Math.max(plan.high, open, close)
  const low = Math.min(open, close, quoted(Math.min(open, close) * dice.between(0.93, 1)))
  const highTime = dice.whole(from + 300, to - 60)
  const spike = spikeOf(dice, low, high, highTime, from)
  const vwap = Math.round(low + (high - low) * dice.between(0.3, 0.7))
  return {
    open,
    close,
    high,
    low,
    highTime,
    lowTime: dice.whole(from, to - 60),
    spike,
    halts: high > 1.5 * low ? 5 * dice.whole(0, 5) : 0,
    vwap,
    volume,
    dollars: worth(vwap, volume),
    trades: Math.max(1, Math.round(volume / dice.between(60, 240))),
    reference,
  }
}

/** A few shares, nearly at one price: so thin that nobody names an open or a close. */
export const isThin = ({ trades }: Trading) => trades <= 12

export const eveningOf = (dice: Dice, session: number, close: number, open: number, usual: number): Evening => {
  const target = quoted(close + (open - close) * dice.between(0.5, 0.9))
  const plan = { reference: close, open: quoted(close * 1.01), close: target, volume: Math.round(usual * 1.5) }
  const high = quoted(target * dice.between(1, 1.15))
  return { session, usual, trading: tradingOf(dice, { ...plan, high, from: hour(16, 5), to: hour(20) }) }
}

const premarketOf = (dice: Dice, reference: number, open: number, volume: number) =>
  tradingOf(dice, {
    reference,
    open: quoted(reference + (open - reference) * dice.between(0, 0.5)),
    close: quoted(open * dice.between(0.985, 1.015)),
    high: quoted(open * dice.between(1, 1.1)),
    volume,
    from: hour(4),
    to: hour(9, 30),
  })

const afterHoursOf = (dice: Dice, reference: number, volume: number) =>
  tradingOf(dice, {
    reference,
    open: reference,
    close: quoted(reference * dice.between(0.94, 1.05)),
    high: quoted(reference * dice.between(1, 1.08)),
    volume,
    from: hour(16),
    to: hour(20),
  })

/** The day of a gap: `previous` is the close before it in ticks, `usual` the usual volume in shares. */
export const sessionOf = (dice: Dice, gap: Gap, previous: number, usual: number): Session => {
  const open = quoted(previous * (1 + gap.open))
  const volume = Math.max(1, Math.round(usual * gap.volume))
  const early = Math.abs(gap.open) < 0.06
    ? 0
    : dice.chance(0.06)
    ? dice.whole(1, 700)
    : Math.floor(volume * dice.between(0.08, 0.25))
  const late = dice.chance(0.15) ? 0 : Math.floor(volume * dice.between(0.0001, 0.06))
  const close = quoted(open * (1 + gap.close))
  const regular = tradingOf(dice, {
    reference: previous,
    open,
    close,
    high: quoted(open * (1 + gap.high)),
    volume: volume - early - late,
    from: hour(9, 30),
    to: hour(16),
  })
  return {
    session: gap.session,
    gap,
    regular,
    premarket: early === 0 ? null : premarketOf(dice, previous, open, early),
    afterHours: late === 0 ? null : afterHoursOf(dice, close, late),
    usual,
  }
}

/** Shares of the whole day. */
export const volumeOf = ({ afterHours, premarket, regular }: Session) =>
  (premarket?.volume ?? 0) + regular.volume + (afterHours?.volume ?? 0)

/** Cents of the whole day. */
export const dollarsOf = ({ afterHours, premarket, regular }: Session) =>
  (premarket?.dollars ?? 0) + regular.dollars + (afterHours?.dollars ?? 0)

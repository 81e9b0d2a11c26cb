/** Simulates a company's daily closing prices and volumes, and its gap days. */
import { earlyCloseDays, lastSessionNumber, tradingDays } from "./Calendar.ts"
import { roundToQuotedPrice } from "./Decimals.ts"
import {
  type GapDayTrading,
  type PreGapEveningTrading,
  simulateGapDay,
  simulatePreGapEvening,
  sumGapDayVolume,
} from "./GapDays.ts"
import type { RandomSource } from "./Random.ts"
import type { CompanyScenario, PriceGap } from "./Scenarios.ts"

/** A company's simulated prices. The first three arrays have one element for each session (trading day). */
export interface PriceHistory {
  readonly sharesOutstanding: ReadonlyArray<number>
  /** Closing prices in ticks of 0.0001 USD, not adjusted for splits. 0 means that there is no closing price. */
  readonly closes: ReadonlyArray<number>
  /** The number of shares traded in each session. */
  readonly volumes: ReadonlyArray<number>
  readonly gapDays: ReadonlyArray<GapDayTrading>
  /** Evenings on which the price moved before a gap on the next day. */
  readonly eveningRuns: ReadonlyArray<PreGapEveningTrading>
}

const allSessions = tradingDays.map((_, session) => session)

/**
 * Returns the shares outstanding in each session, taking capital raises and the split into account. Convertible notes
 * add no shares, because the sample data assumes that none of them is converted.
 */
const simulateSharesOutstanding = ({ raises, shares, split }: CompanyScenario): ReadonlyArray<number> => {
  const dilutionBySession = new Map(
    raises.map(({ kind, dilution, session }) => [session, kind === "note" ? 0 : dilution]),
  )
  let count = shares * 1000
  return allSessions.map((session) => {
    count += Math.round(count * (dilutionBySession.get(session) ?? 0))
    if (split?.effective === session) count = Math.floor((count * split.to) / split.from)
    return count
  })
}

/**
 * Returns the price that the scenario's price path specifies for a session, in dollars. Each point of the path is a
 * session and a price. Between two points, the price is interpolated linearly. Before the first point, it is the price
 * of the first point, and after the last one, that of the last.
 */
const interpolatePath = (pricePath: CompanyScenario["pricePath"], session: number) => {
  const nextIndex = pricePath.findIndex(([pointSession]) => pointSession > session)
  const [, firstPrice] = pricePath[0] ?? [0, 1]
  const [, lastPrice] = pricePath.at(-1) ?? [0, 1]
  if (nextIndex < 0) return lastPrice
  if (nextIndex === 0) return firstPrice
  const [fromSession, fromPrice] = pricePath[nextIndex - 1] ?? [0, 1]
  const [toSession, toPrice] = pricePath[nextIndex] ?? [0, 1]
  return fromPrice + ((toPrice - fromPrice) * (session - fromSession)) / (toSession - fromSession)
}

/** Returns the sessions in which the scenario plans a gap, a capital raise, a deficiency, a new symbol or a split. */
const plannedSessions = ({ gaps, raises, renames, split, deficiencies }: CompanyScenario) =>
  [...gaps, ...raises, ...deficiencies].map(({ session }) => session).concat(renames, split?.effective ?? [])

/**
 * Generates the scenario's random gaps: days on which the opening price differs from the previous close. Those that are
 * within three sessions of a planned event, or next to an earlier random gap, are dropped again. Some companies have a
 * gap with exactly nine times the average volume, which just misses the threshold for an intraday runner: more than
 * nine times. Changes are fractions: `open` of the previous close, `high` and `close` of the opening price.
 */
const makeRandomGaps = (random: RandomSource, scenario: CompanyScenario): ReadonlyArray<PriceGap> => {
  const planned = plannedSessions(scenario)
  return Array.from({ length: scenario.randomGaps }, (_, index): PriceGap => {
    const open = random.chance(0.3) ? random.between(-0.18, -0.03) : random.between(0.03, 8 * scenario.volatility)
    const high = random.between(0.01, 6 * scenario.volatility)
    return {
      session: random.integer((scenario.firstSession ?? 0) + 3, lastSessionNumber - 1),
      open,
      high,
      close: random.between(-high, high),
      volumeMultiple: index === 0 && random.chance(0.3) ? 9 : random.between(1.5, 18),
      topic: random.chance(0.25) ? "promotion" : null,
      startsEveningBefore: false,
      isFlagged: random.chance(0.8),
    }
  }).filter(({ session }, index, all) =>
    planned.every((other) => Math.abs(other - session) > 3) &&
    all.findIndex((other) => Math.abs(other.session - session) <= 1) === index
  )
}

/** Returns the session, or the next one if the exchanges close early in this one. */
const skipEarlyCloses = (session: number): number =>
  earlyCloseDays.has(tradingDays[session] ?? 0) ? skipEarlyCloses(session + 1) : session

/**
 * Returns the planned gaps and the random gaps, keyed by session. A gap on a day with an early close is moved to the
 * next session. Gaps in the company's first two sessions are dropped.
 */
const scheduleGaps = (random: RandomSource, scenario: CompanyScenario) =>
  new Map(
    [...scenario.gaps, ...makeRandomGaps(random, scenario)]
      .map((
        gap,
      ): [number, PriceGap] => [skipEarlyCloses(gap.session), { ...gap, session: skipEarlyCloses(gap.session) }])
      .filter(([session]) =>
        scenario.firstSession !== null && session > scenario.firstSession + 1 && session <= lastSessionNumber
      ),
  )

/**
 * Returns the average volume of the previous 60 sessions, in shares. The result is at least 1, because it is used as a
 * divisor.
 */
const meanVolumeBefore = (volumes: ReadonlyArray<number>, firstSession: number, session: number) => {
  const previousVolumes = volumes.slice(Math.max(firstSession, session - 60), session)
  const total = previousVolumes.reduce((sum, volume) => sum + volume, 0)
  return Math.max(1, Math.round(total / Math.max(1, previousVolumes.length)))
}

/**
 * Creates a random walk around the scenario's price path. Every closing price, in ticks, is the product of the price on
 * the path, a small random deviation, and a factor for past events (`eventFactor`). The close of a gap day, which
 * `setClose` states, moves this factor away from 1. So does a capital raise at a discount, by which the price falls by
 * 10%. After that, the distance from 1 shrinks by 10% per session. `nextClose` returns the closing price of a session
 * without a gap, and must be called for these sessions in order.
 */
const makePriceWalk = (random: RandomSource, { pricePath, raises, split, volatility }: CompanyScenario) => {
  const raiseSessions = new Set(
    raises.filter(({ kind }) => kind !== "atm" && kind !== "line").map(({ session }) => session),
  )
  let deviation = 0
  let eventFactor = 1
  /** Returns the price in ticks that the path and the current deviation result in, after the split if there was one. */
  const priceWithoutEvents = (session: number) => {
    const splitFactor = split?.effective !== undefined && session >= split.effective ? split.from / split.to : 1
    return interpolatePath(pricePath, session) * 10_000 * splitFactor * (1 + deviation)
  }
  return {
    nextClose: (session: number) => {
      deviation = 0.8 * deviation + (random.next() - 0.5) * volatility
      eventFactor = 1 + (eventFactor - 1) * 0.9
      if (raiseSessions.has(session)) eventFactor *= 0.9
      return roundToQuotedPrice(priceWithoutEvents(session) * eventFactor)
    },
    setClose: (session: number, close: number) => {
      eventFactor = close / priceWithoutEvents(session)
    },
  }
}

/**
 * Simulates a company's prices and volumes for all sessions, one after the other. In a session without a gap, the price
 * follows the random walk, and a random part of the shares is traded. In a session with a gap, the trading of the day
 * is simulated in detail and determines both. A company without prices has closes and volumes of 0.
 */
export const simulatePrices = (random: RandomSource, scenario: CompanyScenario): PriceHistory => {
  const sharesOutstanding = simulateSharesOutstanding(scenario)
  const closes = allSessions.map(() => 0)
  const volumes = allSessions.map(() => 0)
  const prices = {
    sharesOutstanding,
    closes,
    volumes,
    gapDays: new Array<GapDayTrading>(),
    eveningRuns: new Array<PreGapEveningTrading>(),
  }
  if (scenario.firstSession === null) return prices
  const gaps = scheduleGaps(random, scenario)
  const walk = makePriceWalk(random, scenario)
  for (let session = scenario.firstSession; session <= lastSessionNumber; session++) {
    const gap = gaps.get(session)
    const previousClose = closes[session - 1] ?? 0
    if (gap === undefined) {
      closes[session] = walk.nextClose(session)
      volumes[session] = Math.round((sharesOutstanding[session] ?? 0) * scenario.turnover * random.between(0.4, 1.6))
      continue
    }
    const averageVolume = meanVolumeBefore(volumes, scenario.firstSession, session)
    const gapDay = simulateGapDay(random, gap, previousClose, averageVolume)
    if (gap.startsEveningBefore) {
      const { open } = gapDay.regular
      prices.eveningRuns.push(simulatePreGapEvening(random, session - 1, previousClose, open, averageVolume))
    }
    prices.gapDays.push(gapDay)
    closes[session] = gapDay.regular.close
    volumes[session] = sumGapDayVolume(gapDay)
    walk.setClose(session, gapDay.regular.close)
  }
  return prices
}

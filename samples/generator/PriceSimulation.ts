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

/** A company's simulated prices. The first three arrays have one element per session of the market. */
export interface PriceHistory {
  readonly sharesOutstanding: ReadonlyArray<number>
  /** Closing prices in ticks, not adjusted for splits. 0 means that there is no closing price. */
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
 * add no shares.
 */
const simulateSharesOutstanding = ({ raises, shares, split }: CompanyScenario): ReadonlyArray<number> => {
  const added = new Map(raises.map(({ kind, dilution, session }) => [session, kind === "note" ? 0 : dilution]))
  let count = shares * 1000
  return allSessions.map((session) => {
    count += Math.round(count * (added.get(session) ?? 0))
    if (split?.effective === session) count = Math.floor((count * split.to) / split.from)
    return count
  })
}

/**
 * Returns the price that the scenario's price path specifies for a session, in dollars. Between the points of the path,
 * the price is interpolated linearly.
 */
const interpolatePath = (pricePath: CompanyScenario["pricePath"], session: number) => {
  const after = pricePath.findIndex(([at]) => at > session)
  const [from, start] = pricePath[after < 0 ? pricePath.length - 1 : Math.max(0, after - 1)] ?? [0, 1]
  const [to, end] = pricePath[Math.max(0, after)] ?? [0, 1]
  return after <= 0 ? start : start + ((end - start) * (session - from)) / (to - from)
}

/** Returns the sessions in which the scenario has planned events. */
const plannedSessions = ({ gaps, raises, renames, split, deficiencies }: CompanyScenario) =>
  [...gaps, ...raises, ...deficiencies].map(({ session }) => session).concat(renames, split?.effective ?? [])

/**
 * Generates random gaps that are not close to planned events or to each other. Some of them have exactly nine times the
 * average volume, which just misses the threshold for a runner.
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
  const before = volumes.slice(Math.max(firstSession, session - 60), session)
  return Math.max(1, Math.round(before.reduce((sum, volume) => sum + volume, 0) / Math.max(1, before.length)))
}

/**
 * Creates a random walk around the scenario's price path. A gap moves the price away from the path. After that, the
 * distance shrinks by 10% per session. `nextClose` returns a session's closing price. `setClose` makes the walk
 * continue from the closing price of a gap day.
 */
const makePriceWalk = (random: RandomSource, { pricePath, raises, split, volatility }: CompanyScenario) => {
  const raiseSessions = new Set(
    raises.filter(({ kind }) => kind !== "atm" && kind !== "line").map(({ session }) => session),
  )
  let deviation = 0
  let gapFactor = 1
  const base = (session: number) => {
    const splitFactor = split?.effective !== undefined && session >= split.effective ? split.from / split.to : 1
    return interpolatePath(pricePath, session) * 10_000 * splitFactor * (1 + deviation)
  }
  return {
    nextClose: (session: number) => {
      deviation = 0.8 * deviation + (random.next() - 0.5) * volatility
      gapFactor = 1 + (gapFactor - 1) * 0.9
      if (raiseSessions.has(session)) gapFactor *= 0.9
      return roundToQuotedPrice(base(session) * gapFactor)
    },
    setClose: (session: number, close: number) => {
      gapFactor = close / base(session)
    },
  }
}

/** Simulates a company's prices and volumes for all sessions. */
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
    const previous = closes[session - 1] ?? 0
    if (gap === undefined) {
      closes[session] = walk.nextClose(session)
      volumes[session] = Math.round((sharesOutstanding[session] ?? 0) * scenario.turnover * random.between(0.4, 1.6))
      continue
    }
    const averageVolume = meanVolumeBefore(volumes, scenario.firstSession, session)
    const day = simulateGapDay(random, gap, previous, averageVolume)
    if (gap.startsEveningBefore) {
      prices.eveningRuns.push(simulatePreGapEvening(random, session - 1, previous, day.regular.open, averageVolume))
    }
    prices.gapDays.push(day)
    closes[session] = day.regular.close
    volumes[session] = sumGapDayVolume(day)
    walk.setClose(session, day.regular.close)
  }
  return prices
}

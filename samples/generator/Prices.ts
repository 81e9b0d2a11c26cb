/** The closes and volumes of a company, session by session, and its remarkable days. */
import { last, short, tradingDays } from "./Calendar.ts"
import { quoted } from "./Decimals.ts"
import type { Gap, Plot } from "./Plot.ts"
import type { Dice } from "./Random.ts"
import { type Evening, eveningOf, type Session, sessionOf, volumeOf } from "./Sessions.ts"

export interface Prices {
  /** Shares outstanding, by session. */
  readonly outstanding: ReadonlyArray<number>
  /** Unadjusted closes in ticks, by session; 0 where there is none. */
  readonly closes: ReadonlyArray<number>
  /** Shares traded, by session. */
  readonly volumes: ReadonlyArray<number>
  readonly sessions: ReadonlyArray<Session>
  readonly evenings: ReadonlyArray<Evening>
}

const sessionsOfMarket = tradingDays.map((_, session) => session)

/** Every raise adds shares on its day, a split exchanges them. */
const outstandingOf = ({ raises, shares, split }: Plot): ReadonlyArray<number> => {
  const added = new Map(raises.map(({ kind, part, session }) => [session, kind === "note" ? 0 : part]))
  let count = shares * 1000
  return sessionsOfMarket.map((session) => {
    count += Math.round(count * (added.get(session) ?? 0))
    if (split?.effective === session) count = Math.floor((count * split.to) / split.from)
    return count
  })
}

/** The dollars of the path on a session: straight lines from point to point. */
const pathAt = (path: Plot["path"], session: number) => {
  const after = path.findIndex(([at]) => at > session)
  const [from, start] = path[after < 0 ? path.length - 1 : Math.max(0, after - 1)] ?? [0, 1]
  const [to, end] = path[Math.max(0, after)] ?? [0, 1]
  return after <= 0 ? start : start + ((end - start) * (session - from)) / (to - from)
}

const decided = ({ gaps, raises, renames, split, troubles }: Plot) =>
  [...gaps, ...raises, ...troubles].map(({ session }) => session).concat(renames, split?.effective ?? [])

/** Gaps that no story tells: some fall, some rise, few are noticed. One has a volume of nine times, to the digit. */
const restlessOf = (dice: Dice, plot: Plot): ReadonlyArray<Gap> => {
  const taken = decided(plot)
  return Array.from({ length: plot.restless }, (_, place): Gap => {
    const open = dice.chance(0.3) ? dice.between(-0.18, -0.03) : dice.between(0.03, 8 * plot.swing)
    const high = dice.between(0.01, 6 * plot.swing)
    return {
      session: dice.whole((plot.first ?? 0) + 3, last - 1),
      open,
      high,
      close: dice.between(-high, high),
      volume: place === 0 && dice.chance(0.3) ? 9 : dice.between(1.5, 18),
      topic: dice.chance(0.25) ? "promotion" : null,
      evening: false,
      flagged: dice.chance(0.8),
    }
  }).filter(({ session }, place, all) =>
    taken.every((other) => Math.abs(other - session) > 3) &&
    all.findIndex((other) => Math.abs(other.session - session) <= 1) === place
  )
}

const calm = (session: number): number => short.has(tradingDays[session] ?? 0) ? calm(session + 1) : session

/** What the planned gaps and the others come to, by session; nothing happens on a short day or in the first days. */
const gapsOf = (dice: Dice, plot: Plot) =>
  new Map(
    [...plot.gaps, ...restlessOf(dice, plot)]
      .map((gap): [number, Gap] => [calm(gap.session), { ...gap, session: calm(gap.session) }])
      .filter(([session]) => plot.first !== null && session > plot.first + 1 && session <= last),
  )

const usualVolume = (volumes: ReadonlyArray<number>, first: number, session: number) => {
  const before = volumes.slice(Math.max(first, session - 60), session)
  return Math.max(1, Math.round(before.reduce((sum, volume) => sum + volume, 0) / Math.max(1, before.length)))
}

/** A price that wanders about its path; a gap lifts it off, and the lift wears off over the next weeks. */
const walker = (dice: Dice, { path, raises, split, swing }: Plot) => {
  const raised = new Set(raises.filter(({ kind }) => kind !== "atm" && kind !== "line").map(({ session }) => session))
  let wander = 0
  let lift = 1
  const base = (session: number) => {
    const exchanged = split?.effective !== undefined && session >= split.effective ? split.from / split.to : 1
    return pathAt(path, session) * 10_000 * exchanged * (1 + wander)
  }
  return {
    step: (session: number) => {
      wander = 0.8 * wander + (dice.next() - 0.5) * swing
      lift = 1 + (lift - 1) * 0.9
      if (raised.has(session)) lift *= 0.9
      return quoted(base(session) * lift)
    },
    jump: (session: number, close: number) => {
      lift = close / base(session)
    },
  }
}

export const pricesOf = (dice: Dice, plot: Plot): Prices => {
  const outstanding = outstandingOf(plot)
  const closes = sessionsOfMarket.map(() => 0)
  const volumes = sessionsOfMarket.map(() => 0)
  const prices = { outstanding, closes, volumes, sessions: new Array<Session>(), evenings: new Array<Evening>() }
  if (plot.first === null) return prices
  const gaps = gapsOf(dice, plot)
  const walk = walker(dice, plot)
  for (let session = plot.first; session <= last; session++) {
    const gap = gaps.get(session)
    const previous = closes[session - 1] ?? 0
    if (gap === undefined) {
      closes[session] = walk.step(session)
      volumes[session] = Math.round((outstanding[session] ?? 0) * plot.turnover * dice.between(0.4, 1.6))
      continue
    }
    const usual = usualVolume(volumes, plot.first, session)
    const day = sessionOf(dice, gap, previous, usual)
    if (gap.evening) prices.evenings.push(eveningOf(dice, session - 1, previous, day.regular.open, usual))
    prices.sessions.push(day)
    closes[session] = day.regular.close
    volumes[session] = volumeOf(day)
    walk.jump(session, day.regular.close)
  }
  return prices
}

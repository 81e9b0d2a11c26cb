/** Plots of small companies that run, raise, fall and are warned (see `Plot.ts`). */
import { last } from "./Calendar.ts"
import { gap, plain, type Plot } from "./Plot.ts"
import type { Dice } from "./Random.ts"

/** Runs on news, sells shares into it, sinks below a dollar, is warned, splits, is well again, is renamed. */
export const life = (dice: Dice): Plot => {
  const shift = dice.whole(-12, 12)
  const at = (session: number) => session + shift
  return {
    ...plain,
    path: [[0, dice.between(3.5, 5)], [at(90), 2.6], [at(170), 1.3], [at(205), 0.62], [at(350), 0.34], [last, 0.2]],
    shares: dice.whole(14_000, 22_000),
    gaps: [
      gap(dice, at(60), 0.85, { volume: 74, evening: true, close: 0.12 }),
      gap(dice, at(120), 0.4, { evening: false }),
      gap(dice, at(410), 0.55, { evening: true }),
    ],
    raises: [
      { session: at(61), kind: "offering", part: 0.25 },
      { session: at(121), kind: "direct", part: 0.2 },
      { session: at(190), kind: "note", part: 0.1 },
      { session: at(240), kind: "line", part: 0.15 },
      { session: at(411), kind: "atm", part: 0.3 },
    ],
    split: { from: 20, to: 1, voteFiled: at(262), vote: at(285), effective: at(340) },
    renames: [at(435)],
  }
}

/** A young company that lives from its shelf. */
export const raiser = (dice: Dice): Plot => {
  const at = (session: number) => session + dice.whole(-15, 15)
  const days = [at(55), at(150), at(270), at(380), at(455)]
  return {
    ...plain,
    exchange: dice.pick(["NASDAQ", "NASDAQ", "NYSE American"]),
    path: [[0, dice.between(4, 9)], [200, dice.between(3, 12)], [350, dice.between(2.5, 6)], [
      last,
      dice.between(2, 9),
    ]],
    shares: dice.whole(18_000, 45_000),
    gaps: days.map((day) => gap(dice, day, dice.between(0.2, 0.7))),
    raises: days.map((day, place) => ({
      session: day + 1,
      kind: place % 2 === 0 ? dice.pick(["atm", "offering", "direct"]) : dice.pick(["direct", "preferred", "offering"]),
      part: dice.between(0.06, 0.2),
    })),
    troubles: dice.chance(0.4) ? [{ session: at(300), kind: "stockholders_equity", regained: at(420) }] : [],
  }
}

/** Goes public small, is promoted, and falls in a day. */
export const pump = (dice: Dice): Plot => {
  const first = dice.pick([40, 110, 180, 260, 330, 400, 440, 465])
  const top = first + Math.min(dice.whole(25, 60), last - first - 4)
  const price = dice.between(4, 6)
  const times = dice.between(3, 7)
  return {
    ...plain,
    countries: ["HK", "CN", "SG", "MY", "JP", "US"],
    adsRatio: dice.chance(0.3) ? dice.pick([2, 5, 0.5]) : null,
    first,
    path: [[first, price], [top - 1, price * times], [top, price * times * 0.25], [
      last,
      price * dice.between(0.3, 0.5),
    ]],
    shares: dice.whole(9_000, 16_000),
    gaps: [
      gap(dice, first + 6, 0.35, { topic: null, evening: false }),
      gap(dice, top - 4, 0.3, { topic: "promotion", evening: false }),
      {
        session: top,
        open: -0.12,
        high: 0.04,
        close: -0.72,
        volume: dice.between(40, 120),
        topic: null,
        evening: false,
        flagged: true,
      },
    ],
    restless: 4,
    raises: [],
    holders: dice.pick(["full", "full", "placeholders"]),
  }
}

/** Below a dollar from about this session on: warned by the exchange, and what comes after a warning. */
export const sinking = (low: number, more: Partial<Plot> = {}) => (dice: Dice): Plot => ({
  ...plain,
  path: [[0, 2.2], [low + dice.whole(0, 15), 0.8], [last, dice.between(0.1, 0.4)]],
  swing: 0.04,
  shares: dice.whole(40_000, 90_000),
  turnover: 0.03,
  gaps: [gap(dice, 140, 0.3, { close: -0.2 }), gap(dice, 220, -0.25, { high: 0.05, close: -0.1 })],
  raises: [{ session: 141, kind: "direct", part: 0.2 }, { session: 200, kind: "note", part: 0.08 }],
  troubles: [{ session: 320, kind: dice.pick(["market_value_listed_securities", "market_value_public_shares"]) }],
  ...more,
})

/** Three symbols in two years. */
export const renamer = (dice: Dice): Plot => ({
  ...raiser(dice),
  renames: [120, 260, 430].map((session) => session + dice.whole(-10, 10)),
})

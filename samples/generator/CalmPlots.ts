/** Plots of companies to which less happens, each for a case of its own (see `Plot.ts`). */
import { last } from "./Calendar.ts"
import { gap, plain, type Plot } from "./Plot.ts"
import type { Dice } from "./Random.ts"

/** Large and calm; holders of all kinds, and affiliates that hold nothing at all. */
export const steady = (dice: Dice): Plot => ({
  ...plain,
  exchange: "NYSE",
  path: [[0, dice.between(40, 120)], [250, dice.between(45, 130)], [last, dice.between(50, 150)]],
  swing: 0.015,
  shares: dice.whole(150_000, 900_000),
  turnover: 0.004,
  gaps: [gap(dice, 180 + dice.whole(0, 40), -0.11, { high: 0.03, close: 0.012, topic: "earnings", volume: 5 })],
  restless: 7,
  raises: [],
  holders: "institutions",
})

/** Depositary receipts of a foreign company. */
export const adr = (dice: Dice): Plot => ({
  ...plain,
  countries: ["NO", "DE", "SE", "IE"],
  adsRatio: dice.pick([0.5, 2, 10]),
  path: [[0, dice.between(8, 14)], [300, dice.between(9, 20)], [last, dice.between(9, 18)]],
  swing: 0.03,
  shares: dice.whole(60_000, 120_000),
  gaps: [gap(dice, 330 + dice.whole(0, 30), 0.18, { topic: "contract", volume: 20 })],
  troubles: [{ session: 210, kind: "annual_meeting", regained: 260 }],
})

/** Files its report, but no price is known, and little else. */
export const quiet = (dice: Dice): Plot => ({
  ...plain,
  exchange: "OTC",
  first: null,
  path: [],
  shares: dice.whole(3_000, 90_000),
  restless: 0,
  holders: "placeholders",
})

/** So dear that it makes three shares of one. */
export const forward = (dice: Dice): Plot => ({
  ...plain,
  path: [[0, dice.between(60, 90)], [380, dice.between(240, 300)], [last, dice.between(250, 330)]],
  swing: 0.03,
  shares: dice.whole(30_000, 60_000),
  gaps: [gap(dice, 352, 0.15, { topic: "earnings", volume: 12 })],
  split: { from: 1, to: 3, voteFiled: 360, vote: 376, effective: 395 },
})

export const spac = (dice: Dice): Plot => ({
  ...plain,
  first: dice.whole(60, 140),
  path: [[0, 10], [last, 10.8]],
  swing: 0.002,
  shares: 28_750,
  turnover: 0.002,
  gaps: [],
  restless: 1,
  troubles: [{ session: 410, kind: dice.pick(["public_holders", "other"]) }],
  holders: "institutions",
})

/** Files late; the exchange asks for a plan, and blames the audit committee. */
export const late = (dice: Dice): Plot => ({
  ...plain,
  path: [[0, dice.between(2, 4)], [last, dice.between(1.6, 3)]],
  shares: dice.whole(12_000, 30_000),
  gaps: [gap(dice, 300, 0.25)],
  troubles: [
    { session: 100 + dice.whole(0, 20), kind: "late_filing", regained: 150 },
    { session: 360, kind: "late_filing" },
    { session: 250, kind: "audit_committee", regained: 330 },
  ],
})

/** Its holders are asked for a reverse split, and that is where it stands. */
export const voter = (dice: Dice): Plot => ({
  ...plain,
  exchange: "NYSE American",
  path: [[0, dice.between(1.8, 2.5)], [last, dice.between(1.2, 1.6)]],
  shares: dice.whole(30_000, 60_000),
  gaps: [gap(dice, 444, 0.2)],
  split: { from: 50, to: 1, voteFiled: 470 + dice.whole(0, 10), vote: last + 14 },
})

/** The holders agreed, the board thought better of it. */
export const withdrawn = (dice: Dice): Plot => ({
  ...plain,
  path: [[0, 2], [last, 2.6]],
  shares: dice.whole(30_000, 60_000),
  gaps: [gap(dice, 230, 0.3)],
  split: { from: 10, to: 1, voteFiled: 250, vote: 275, withdrawn: 300 + dice.whole(0, 20) },
})

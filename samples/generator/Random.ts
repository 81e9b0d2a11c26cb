/**
 * Chance that is the same every time and everywhere: whole numbers only, no `Math.random` and none of the functions
 * (`Math.exp`, `Math.sin`, …) whose last digit may differ between engines.
 */

export interface Dice {
  /** From 0 up to, but not, 1. */
  readonly next: () => number
  readonly between: (least: number, most: number) => number
  /** A whole number, both ends included. */
  readonly whole: (least: number, most: number) => number
  readonly chance: (probability: number) => boolean
  readonly pick: <const Items extends readonly [unknown, ...ReadonlyArray<unknown>]>(items: Items) => Items[number]
}

/** FNV-1a over the parts, so that neighbouring seeds share nothing. */
const hash = (parts: ReadonlyArray<number | string>) => {
  let state = 2_166_136_261
  for (const letter of parts.join("\n")) state = Math.imul(state ^ (letter.codePointAt(0) ?? 0), 16_777_619)
  return state
}

/** mulberry32, seeded by what the dice are for: `dice(seed, company, "news")`. */
export const dice = (...purpose: ReadonlyArray<number | string>): Dice => {
  let state = hash(purpose)
  const next = () => {
    state = (state + 0x6d_2b_79_f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
  return {
    next,
    between: (least, most) => least + (most - least) * next(),
    whole: (least, most) => least + Math.floor((most - least + 1) * next()),
    chance: (probability) => next() < probability,
    pick: (items) => items[Math.floor(items.length * next())],
  }
}

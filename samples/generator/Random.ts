/**
 * Reproducible random numbers. They do not use functions such as `Math.exp` and `Math.sin`, whose last digit may differ
 * between JavaScript engines.
 */

/** A random sequence. Each call takes the next number of the sequence. */
export interface RandomSource {
  /** Returns a number that is at least 0 and below 1. */
  readonly next: () => number
  /** Returns a number that is at least `min` and below `max`. */
  readonly between: (min: number, max: number) => number
  /** Returns an integer from `min` to `max`, both included. */
  readonly integer: (min: number, max: number) => number
  /** Returns true with a probability from 0 to 1. */
  readonly chance: (probability: number) => boolean
  /** Returns one of the items, each with the same probability. */
  readonly pick: <const Items extends readonly [unknown, ...ReadonlyArray<unknown>]>(items: Items) => Items[number]
}

/** Returns the 32-bit FNV-1a hash of the parts, so that adjacent seeds give unrelated sequences. */
const hashSeed = (parts: ReadonlyArray<number | string>) => {
  let state = 2_166_136_261
  for (const letter of parts.join("\n")) state = Math.imul(state ^ (letter.codePointAt(0) ?? 0), 16_777_619)
  return state
}

/**
 * Creates a mulberry32 generator that is seeded with what the numbers are for, as in
 * `makeRandomSource(seed, company, "news")`. `Math.imul` and the bit operations keep the state within 32 bits.
 */
export const makeRandomSource = (...purpose: ReadonlyArray<number | string>): RandomSource => {
  let state = hashSeed(purpose)
  const next = () => {
    state = (state + 0x6d_2b_79_f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
  return {
    next,
    between: (min, max) => min + (max - min) * next(),
    integer: (min, max) => min + Math.floor((max - min + 1) * next()),
    chance: (probability) => next() < probability,
    pick: (items) => items[Math.floor(items.length * next())],
  }
}

/**
 * Reproducible random numbers. Functions such as `Math.exp` and `Math.sin` are avoided, because the last digit of their
 * results may differ between JavaScript engines.
 */

/** A sequence of random numbers. Each call consumes the next number. */
export interface RandomSource {
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  readonly next: () => number
  /** Returns a number from `min` (inclusive) to `max` (exclusive). */
  readonly between: (min: number, max: number) => number
  /** Returns an integer from `min` to `max`, inclusive. */
  readonly integer: (min: number, max: number) => number
  /** Returns true with the given probability, which is a number from 0 to 1. */
  readonly chance: (probability: number) => boolean
  /** Returns one of the items. All are equally likely. */
  readonly pick: <const Items extends readonly [unknown, ...ReadonlyArray<unknown>]>(items: Items) => Items[number]
}

/**
 * Returns the 32-bit FNV-1a hash of the parts. Hashing makes the sequences of adjacent seeds independent of each other.
 */
const hashSeed = (parts: ReadonlyArray<number | string>) => {
  let state = 2_166_136_261
  for (const letter of parts.join("\n")) state = Math.imul(state ^ (letter.codePointAt(0) ?? 0), 16_777_619)
  return state
}

/**
 * Creates a random number generator. `purpose` is everything that identifies what the numbers are for, as in
 * `makeRandomSource(seed, company, "news")`, and determines the sequence: the same purpose always gets the same
 * numbers, and different purposes get unrelated ones. `next` is the mulberry32 algorithm with its usual constants.
 * `Math.imul` and bitwise operations keep the state within 32 bits, and the division at the end maps it to the range
 * from 0 to 1.
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

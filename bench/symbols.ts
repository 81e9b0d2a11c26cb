/** Generates the same symbols from numbers as `data.sql`, and random numbers that are reproducible across runs. */

const letters = (mixed: number, length: number) => {
  let symbol = ""
  for (let rest = mixed; symbol.length < length; rest = Math.floor(rest / 26)) {
    symbol += String.fromCharCode(65 + rest % 26)
  }
  return symbol
}

/** Returns the symbol of the nth ticker. These tickers have runners, screener rows, and filings. */
export const makeTickerSymbol = (number: number) => letters(number * 7919 % 26 ** 4, 4)

/** Returns the nth symbol of the ticker change chains. */
export const makeChainSymbol = (number: number) => letters(number * 100_003 % 26 ** 6, 6)

/** The symbol numbers of the chains with three events. Each chain has four symbols. */
export const chainsOf3 = { first: 0, symbols: 200_000 }
/** The symbol numbers of the chains with twelve events. Each chain has thirteen symbols. */
export const chainsOf12 = { first: 200_000, symbols: 650_000 }

/** Creates a generator of random numbers from 0 (inclusive) to 1 (exclusive), using the Mulberry32 algorithm. */
export const makeRandomGenerator = (seed: number) => {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6D2B79F5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Returns the items in random order. */
export const shuffle = <A>(
  items: ReadonlyArray<A>,
  chance: () => number,
): ReadonlyArray<A> =>
  items.map((item) => ({ item, at: chance() })).toSorted((left, right) => left.at - right.at).map(({ item }) => item)

/**
 * Returns random numbers below `size` with a Zipf distribution: the nth number is 1/n times as frequent as the first.
 */
export const makeZipfNumbers = (
  size: number,
  length: number,
  chance: () => number,
): ReadonlyArray<number> => {
  let sum = 0
  const sums = Array.from({ length: size }, (_, at) => sum += 1 / (at + 1))
  return Array.from({ length }, () => {
    const wanted = chance() * sum
    let [low, high] = [0, size - 1]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((sums[middle] ?? sum) < wanted) low = middle + 1
      else high = middle
    }
    return low
  })
}

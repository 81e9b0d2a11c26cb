/** Decides whether two share counts, or other amounts of a company, are so similar that both can be right. */

/** The largest factor between two public floats, or between a price and a close, that are still considered similar. */
export const maxRatio = 10

/**
 * The largest factor between the share counts of two filings that are still considered similar. It is below ten,
 * because a lost or doubled digit makes a factor of about ten, less what the number has changed since.
 */
export const maxCountRatio = 8

/** Returns whether the values differ by at most the factor `ratio`. */
export const areWithinRatio = (a: number, b: number, ratio = maxRatio) => a / b <= ratio && b / a <= ratio

/** The largest factor between two statements of one number of shares with a few weeks in between. */
export const maxRatioOfSameNumber = 1.02

/** Returns whether one of the numbers, without one of its digits, is about the other: 183,847,790 and 82,384,631. */
export const differByDigit = (a: number, b: number) => {
  const [short, long] = [a, b].toSorted((one, other) => one - other)
  if (short === undefined || long === undefined) return false
  const digits = String(long)
  return Array.from(digits, (_, index) => Number(digits.slice(0, index) + digits.slice(index + 1)))
    .some((rest) => areWithinRatio(rest, short, maxRatioOfSameNumber))
}

/** Filings state numbers of shares in these units by mistake, or round them to these units. */
export const roundingUnits = [1_000, 1_000_000]

/**
 * Returns whether `small` is roughly 1,000 or 1,000,000 times smaller than `large`, as if it were stated in thousands
 * or millions.
 */
export const isInThousandsOf = (small: number, large: number) =>
  roundingUnits.some((unit) => large / small >= unit / 2 && large / small <= unit * 2)

/**
 * Returns whether the values could be the same number, one of them rounded to thousands or millions. For example,
 * 25,123,000 is a rounded 25,123,456.
 */
export const differOnlyByRounding = (a: number, b: number) =>
  roundingUnits.some((unit) => Math.abs(a - b) < unit && [a, b].some((one) => one % unit === 0 && one >= unit * 1_000))

export const formatNumber = (value: number) => String(Number(value.toPrecision(5)))

/** Computes the statistics for the benchmark reports. */

/**
 * Returns the quantile for the given share of the values, interpolated between neighboring values. Returns NaN if there
 * are no values.
 */
export const quantile = (values: ReadonlyArray<number>, share: number) => {
  const sorted = values.toSorted((left, right) => left - right)
  const at = (sorted.length - 1) * share
  const below = sorted[Math.floor(at)] ?? Number.NaN
  return below + (at % 1) * ((sorted[Math.ceil(at)] ?? Number.NaN) - below)
}

/** Returns the median. Returns NaN if there are no values. */
export const median = (values: ReadonlyArray<number>) => quantile(values, 0.5)

/** Returns the first and third quartiles. A few outliers do not affect them. */
export const quartiles = (values: ReadonlyArray<number>) => [quantile(values, 0.25), quantile(values, 0.75)] as const

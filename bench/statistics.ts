/** Computes the statistics in the reports. */

/** Returns the value below which this share of the values lies, interpolated between neighbors. NaN without values. */
export const quantile = (values: ReadonlyArray<number>, share: number) => {
  const sorted = values.toSorted((left, right) => left - right)
  const at = (sorted.length - 1) * share
  const below = sorted[Math.floor(at)] ?? Number.NaN
  return below + (at % 1) * ((sorted[Math.ceil(at)] ?? Number.NaN) - below)
}

/** Returns the median. NaN without values. */
export const median = (values: ReadonlyArray<number>) => quantile(values, 0.5)

/** Returns the bounds of the middle half of the values, which a few outliers do not widen. */
export const quartiles = (values: ReadonlyArray<number>) => [quantile(values, 0.25), quantile(values, 0.75)] as const

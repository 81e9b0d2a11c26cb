/** The statistics of the reports. */

/** Returns the value below which this share of the values is, interpolated between neighbors. NaN if there is none. */
export const quantile = (values: ReadonlyArray<number>, share: number) => {
  const sorted = values.toSorted((left, right) => left - right)
  const at = (sorted.length - 1) * share
  const below = sorted[Math.floor(at)] ?? Number.NaN
  return below + (at % 1) * ((sorted[Math.ceil(at)] ?? Number.NaN) - below)
}

export const median = (values: ReadonlyArray<number>) => quantile(values, 0.5)

/** The middle half of the values: a quarter is below, and a quarter above. Outliers of a busy moment do not widen it. */
export const quartiles = (values: ReadonlyArray<number>) => [quantile(values, 0.25), quantile(values, 0.75)] as const

/** The statistics of the reports. */
export const median = (values: ReadonlyArray<number>) => {
  const sorted = values.toSorted((left, right) => left - right)
  const middle = sorted.length / 2
  return ((sorted[Math.ceil(middle) - 1] ?? Number.NaN) +
    (sorted[Math.floor(middle)] ?? Number.NaN)) / 2
}

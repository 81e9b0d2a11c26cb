/** Counts in messages for people. */

/** Formats a count with its noun: `1 row`, `2 rows`. */
export const formatCountWithNoun = (count: number, singular: string, plural = `${singular}s`) =>
  `${count} ${count === 1 ? singular : plural}`

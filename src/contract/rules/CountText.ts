/** Formats counts in messages that people read. */

/** Formats a count with its noun, such as `1 row` or `2 rows`. */
export const formatCountWithNoun = (count: number, singular: string, plural = `${singular}s`) =>
  `${count} ${count === 1 ? singular : plural}`

/** Formats a number together with its noun for messages that people read. */

/** Formats a number together with its noun, such as `1 row` or `2 rows`. */
export const formatCountWithNoun = (count: number, singular: string, plural = `${singular}s`) =>
  `${count} ${count === 1 ? singular : plural}`

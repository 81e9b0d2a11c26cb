/** Formats times of operators' lists. Timestamps of the API have another offset (`rows/Timestamps.ts`). */

/** Returns an SQL expression for a `timestamptz` in UTC, with its name: `2026-03-02T14:30:00Z`. */
export const makeUtcTimeSql = (column: string) => `${formatUtcTimeSql(column)} as ${column}`

export const formatUtcTimeSql = (time: string) => `to_char(${time} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`

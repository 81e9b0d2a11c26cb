/** Names of PostgreSQL advisory locks. */

/** A load of a table holds this lock, so that a second load of the same table waits. */
export const tableLoadLockName = (table: string) => `load ${table}`

/** Names of PostgreSQL advisory locks that coordinate loads with exports (D31: load). */

/** Exports share this lock while PostgreSQL reads the table; `load` takes it exclusively to swap in the new table. */
export const tableSwapLockName = (table: string) => `swap ${table}`

/** A load of a table holds this lock, so that a second load of the same table waits. */
export const tableLoadLockName = (table: string) => `load ${table}`

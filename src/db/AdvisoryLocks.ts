/**
 * Who reads a whole list of a table holds this lock with others, for as long as PostgreSQL reads; a load that is ready
 * to take the table's place holds it alone (D31).
 */
export const swapLockName = (table: string) => `swap ${table}`

/** Held by a load of the table, so that another one waits for it (D31). */
export const loadLockName = (table: string) => `load ${table}`

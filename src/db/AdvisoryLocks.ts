/** Names of PostgreSQL advisory locks. */

/** Returns the name of the lock that a load of the table holds, so that a second load of the same table waits. */
export const formatLoadLockName = (table: string) => `load ${table}`

/** SQL conditions of rows that endpoints show from a day on. `today` is an SQL expression of type `date`. */
import type { SqlClient, Statement } from "effect/sql"

/** Condition of eligible ticker changes (D19). Written exactly as in the indexes, so that PostgreSQL can use them. */
export const isEligibleTickerChange = (sql: SqlClient.SqlClient, today: Statement.Fragment) =>
  sql`status = 'confirmed' and effective_date <= ${today}`

/** Condition of symbols that have been given up (D23, historical tickers). An unknown date is in the past. */
export const isGivenUpTicker = (sql: SqlClient.SqlClient, today: Statement.Fragment) =>
  sql`(date is null or date <= ${today})`

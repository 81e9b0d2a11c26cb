/**
 * SQL conditions for rows that endpoints show only once their date has arrived. `today` is an SQL expression of type
 * `date`.
 */
import type { SqlClient, Statement } from "effect/sql"

/**
 * The condition for eligible ticker changes (D19). It must be written exactly as in the partial indexes, or PostgreSQL
 * does not use them.
 */
export const isEligibleTickerChange = (sql: SqlClient.SqlClient, today: Statement.Fragment) =>
  sql`status = 'confirmed' and effective_date <= ${today}`

/**
 * The condition for symbols that the company no longer uses (D23, historical tickers). An unknown date counts as past.
 */
export const isGivenUpTicker = (sql: SqlClient.SqlClient, today: Statement.Fragment) =>
  sql`(date is null or date <= ${today})`

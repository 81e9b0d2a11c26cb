/** SQL conditions that hide rows until their date has arrived. `today` is an SQL expression of type `date`. */
import type { SqlClient, Statement } from "effect/sql"

/**
 * Returns the SQL condition for eligible ticker changes (D19). It must match the partial indexes' condition exactly, or
 * PostgreSQL cannot use them.
 */
export const makeEligibleChangeCondition = (sql: SqlClient.SqlClient, today: Statement.Fragment) =>
  sql`status = 'confirmed' and effective_date <= ${today}`

/**
 * Returns the SQL condition for symbols that a company has stopped using (D23, historical tickers). If the date is
 * unknown, it counts as past.
 */
export const makeFormerTickerCondition = (sql: SqlClient.SqlClient, today: Statement.Fragment) =>
  sql`(date is null or date <= ${today})`

/**
 * SQL conditions that hide ticker changes until the day on which they take effect. `today` is an SQL expression of type
 * `date`.
 */
import type { SqlClient, Statement } from "effect/sql"

/**
 * Returns the SQL condition for ticker changes that are confirmed and have taken effect (D19). It must match the
 * condition of the partial indexes on `ticker_changes` exactly, or PostgreSQL cannot use them.
 */
export const makeEligibleChangeCondition = (sql: SqlClient.SqlClient, today: Statement.Fragment) =>
  sql`status = 'confirmed' and effective_date <= ${today}`

/**
 * Returns the SQL condition for the rows of `historical_tickers` whose company has already stopped using the symbol
 * (D23, historical tickers). If the date of the change is unknown, the change counts as past.
 */
export const makeFormerTickerCondition = (sql: SqlClient.SqlClient, today: Statement.Fragment) =>
  sql`(date is null or date <= ${today})`

/**
 * Builds the SQL of pages, and makes pages with a large offset fast (D8). To get to page 1,000, PostgreSQL would read
 * all rows of the first 999 pages from the table. The SQL of a deep page makes it skip them in an index, and read only
 * the rows of the page itself from the table, which is about a hundred times faster.
 */
import type { SqlClient, Statement } from "effect/sql"
import type { ListStatementParameter } from "./Conditions.ts"
import type { SymbolPeriodClauses } from "./SymbolPeriodClauses.ts"

/** The smallest offset of a deep page. Below it, looking up each row by its key costs more than it saves. */
export const minDeepPageOffset = 1_000

/** The order and position of a page. */
export interface PageClauses {
  /**
   * Whether the statement is for an export, which returns all rows. Otherwise it returns a page, or counts the rows.
   */
  readonly isExport: boolean
  /** Builds `order by … limit … offset …`. */
  readonly orderAndLimit: (order: Statement.Fragment) => Statement.Fragment
  /**
   * Builds `order by … limit …` for one of several subqueries whose rows are merged. The limit includes the rows of all
   * earlier pages, because the rows of any page may all come from one subquery.
   */
  readonly orderUpToPage: (order: Statement.Fragment) => Statement.Fragment
  /** Builds `order by …`, for a statement whose limit is in a subquery. */
  readonly orderBy: (order: Statement.Fragment) => Statement.Fragment
  /** The number of rows on the page, as SQL. */
  readonly limit: Statement.Fragment
  readonly offset: ListStatementParameter<number>
  /** The number of rows from the start of the list to the end of the page. */
  readonly end: ListStatementParameter<number>
  /** Whether the offset is at least `minDeepPageOffset`. */
  readonly isDeep: boolean
}

/** What the SQL of a page depends on. */
export interface DeepPageOptions {
  readonly table: string
  /**
   * Columns that identify a row. The index that provides the order must contain all of them. Without a key, deep pages
   * are slow.
   */
  readonly key?: ReadonlyArray<string>
  readonly where: Statement.Fragment
  readonly order: Statement.Fragment
  readonly clauses: PageClauses
  /** Set if the query follows lineages. The rows of each period are then read separately. */
  readonly period?: SymbolPeriodClauses | undefined
}

/** Returns a function that builds the SQL after `from`, including the conditions, order and limit of the page. */
export const makePageBuilder = (sql: SqlClient.SqlClient) => {
  const listColumns = (key: ReadonlyArray<string>, prefix: string) =>
    sql.literal(key.map((column) => `${prefix}${column}`).join(", "))
  return ({ clauses, key, order, period, table, where }: DeepPageOptions) => {
    const name = sql.literal(table)
    if (period !== undefined) {
      // Reads as many rows from each period as the page may need, and merges them into one page.
      return sql`
        ${period.from} cross join lateral (
          select * from ${name} where ${period.whereInOrder(order)} and ${where} ${period.orderAndLimit(order)}
        ) as ${name} ${clauses.orderAndLimit(period.mergeOrder(order))}
      `
    }
    if (!clauses.isDeep || key === undefined) return sql`${name} where ${where} ${clauses.orderAndLimit(order)}`
    // The first subquery finds the page's keys in the index alone, and the second one reads each row by its key.
    // Without `offset 0`, PostgreSQL would merge the two, and read the skipped rows from the table after all. The rows
    // are sorted again, because a join guarantees no order.
    return sql`
      (
        select ${listColumns(key, "")} from ${name} where ${where} ${clauses.orderAndLimit(order)}
      ) as page (${listColumns(key, "page_")}) cross join lateral (
        select * from ${name} where (${listColumns(key, "")}) = (${listColumns(key, "page.page_")}) offset 0
      ) as ${name} ${clauses.orderBy(order)}
    `
  }
}

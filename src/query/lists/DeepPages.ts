/**
 * Pages with a large offset (D8). PostgreSQL skips the earlier rows in an index, and reads only the page's own rows
 * from the table, which is about a hundred times faster than reading the earlier rows too.
 */
import type { SqlClient, Statement } from "effect/sql"
import type { ListStatementParameter } from "./Conditions.ts"
import type { SymbolPeriodClauses } from "./SymbolPeriodClauses.ts"

/** The smallest offset of a deep page. Below it, looking up each row by its key costs more than it saves. */
export const minDeepPageOffset = 1_000

/** The order and position of a page. */
export interface PageClauses {
  /** Whether the statement sends all rows. Otherwise it sends a page, or counts the rows with the same SQL. */
  readonly isExport: boolean
  /** Builds `order by … limit … offset …`. */
  readonly orderAndLimit: (order: Statement.Fragment) => Statement.Fragment
  /**
   * Builds `order by … limit …` for one of several subqueries whose rows are merged. The limit includes all earlier
   * pages.
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
   * Columns that identify a row, all of them in the index that provides the order. Without a key, deep pages are slow.
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
      // Reads up to a page of rows from each period, and merges them into one page.
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

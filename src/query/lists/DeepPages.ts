/**
 * Builds the SQL for a page of a list, and makes pages with a large offset fast (D8). To return page 1,000, PostgreSQL
 * would normally read all rows of the first 999 pages from the table. The SQL for a deep page skips those rows in an
 * index and reads only the page's own rows from the table, which is about a hundred times faster.
 */
import type { SqlClient, Statement } from "effect/sql"
import type { ListStatementParameter } from "./FilterConditions.ts"
import type { SymbolPeriodClauses } from "./SymbolPeriodClauses.ts"

/** The smallest offset of a deep page. For smaller offsets, looking up each row by its key costs more than it saves. */
export const minDeepPageOffset = 1_000

/**
 * SQL for the order and position of a page. A list whose statement reads one table uses `orderAndLimit`. A list that
 * merges the rows of several subqueries uses `orderUpToPage` in each subquery, and `orderAndLimit` after the merge.
 */
export interface PageClauses {
  /**
   * Whether the statement is for an export, which returns all rows. Otherwise the statement returns a page or counts
   * rows.
   */
  readonly isExport: boolean
  /** Builds `order by … limit … offset …`. */
  readonly orderAndLimit: (order: Statement.Fragment) => Statement.Fragment
  /**
   * Builds `order by … limit …` for one of several subqueries whose rows are merged. The limit includes the rows of all
   * earlier pages, because all rows up to the end of the page may come from a single subquery.
   */
  readonly orderUpToPage: (order: Statement.Fragment) => Statement.Fragment
  /** Builds `order by …` for a statement whose limit is in a subquery. */
  readonly orderBy: (order: Statement.Fragment) => Statement.Fragment
  /** The maximum number of rows to read for the page, as SQL. */
  readonly limit: Statement.Fragment
  /** The number of rows before the page. */
  readonly offset: ListStatementParameter<number>
  /** The number of rows from the start of the list to the end of the page. */
  readonly end: ListStatementParameter<number>
  /** Whether the offset is at least `minDeepPageOffset`. */
  readonly isDeep: boolean
}

/** What determines the SQL for a page. */
export interface DeepPageOptions {
  readonly table: string
  /**
   * The columns that identify a row. The index that provides the order must contain all of them. Without a key, deep
   * pages are slow.
   */
  readonly key?: ReadonlyArray<string>
  readonly where: Statement.Fragment
  readonly order: Statement.Fragment
  readonly clauses: PageClauses
  /** Set if the query follows lineages. In that case the rows of each period are read separately. */
  readonly period?: SymbolPeriodClauses | undefined
}

/**
 * Creates a function that builds the SQL after `from` for a page: the table, conditions, order and limit. There are
 * three forms: for followed lineages, it reads each period separately and merges the rows; for a deep page with a key,
 * it first finds the keys of the page's rows in an index; otherwise it reads the table directly. In each form, the
 * table name refers to the page's rows, so that the select list is the same.
 *
 * `key` are the columns that identify a row, `clauses` builds `order by`, `limit` and `offset`, and `period` builds the
 * SQL that lists the periods of the lineages (`from`) and limits the rows to one of them.
 */
export const makePageBuilder = (sql: SqlClient.SqlClient) => {
  /** Lists the key columns, each with a prefix, such as `page_ticker, page_date` for the prefix `page_`. */
  const listColumns = (key: ReadonlyArray<string>, prefix: string) =>
    sql.literal(key.map((column) => `${prefix}${column}`).join(", "))
  return ({ clauses, key, order, period, table, where }: DeepPageOptions) => {
    const name = sql.literal(table)
    if (period !== undefined) {
      // Reads as many rows from each period as the page could need (all rows up to the end of the page may come from
      // one period), then merges them into one page.
      return sql`
        ${period.from} cross join lateral (
          select * from ${name} where ${period.whereInOrder(order)} and ${where} ${period.orderAndLimit(order)}
        ) as ${name} ${clauses.orderAndLimit(period.mergeOrder(order))}
      `
    }
    if (!clauses.isDeep || key === undefined) return sql`${name} where ${where} ${clauses.orderAndLimit(order)}`
    // The first subquery finds the page's keys using only the index, and the second one reads each row by its key.
    // Without `offset 0`, PostgreSQL would merge the two subqueries and read the skipped rows from the table after all.
    // The rows are sorted again because a join does not guarantee any order.
    return sql`
      (
        select ${listColumns(key, "")} from ${name} where ${where} ${clauses.orderAndLimit(order)}
      ) as page (${listColumns(key, "page_")}) cross join lateral (
        select * from ${name} where (${listColumns(key, "")}) = (${listColumns(key, "page.page_")}) offset 0
      ) as ${name} ${clauses.orderBy(order)}
    `
  }
}

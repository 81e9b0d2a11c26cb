/**
 * D8: pages far down. All rows before a page are passed over; within the index of the list's order that takes a
 * hundredth of what it takes where each is looked up in the table first, so only those of the page are.
 */
import type { SqlClient, Statement } from "effect/sql"
import type { PageClauses } from "./ListQuery.ts"

/** Below that the look-ups by key cost more than they spare. */
const far = 1_000

export interface PageSource {
  readonly table: string
  /** Columns that name a row, all of them in the indexes of the order. */
  readonly key: ReadonlyArray<string>
  readonly where: Statement.Fragment
  readonly order: Statement.Fragment
  readonly slice: PageClauses
}

/** What stands after `from`, with its conditions, order and page: the rows under the name of their table. */
export const makePageFragment = (sql: SqlClient.SqlClient) => {
  const names = (key: ReadonlyArray<string>, prefix: string) =>
    sql.literal(key.map((column) => `${prefix}${column}`).join(", "))
  return ({ key, order, slice, table, where }: PageSource) => {
    const rows = sql.literal(table)
    return slice.offset < far ? sql`${rows} where ${where} ${slice.orderAndLimit(order)}` : sql`
      (
        select ${names(key, "")} from ${rows} where ${where} ${slice.orderAndLimit(order)}
      ) as page (${names(key, "page_")}) cross join lateral (
        select * from ${rows} where (${names(key, "")}) = (${names(key, "page.page_")})
      ) as ${rows} ${slice.orderBy(order)}
    `
  }
}

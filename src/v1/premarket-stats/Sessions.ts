/** Two tables have one shape: sessions before the open, and `/v1/afterhours-stats`. */
import type { SqlClient } from "effect/sql"
import type { PageClauses } from "../../lists/ListQuery.ts"
import { compileConditions } from "../../lists/Conditions.ts"
import { ExtendedHoursQuery } from "./Api.ts"

/** A page of sessions from either of the two tables of this shape. */
export const makeExtendedHoursSelect = (sql: SqlClient.SqlClient, table: "premarket_stats" | "afterhours_stats") => {
  const wanted = compileConditions(sql, ExtendedHoursQuery, {})
  return (query: typeof ExtendedHoursQuery.Type, slice: PageClauses) =>
    sql`
      select ${slice.columns}
      from ${sql(table)}
      where ${sql.and(wanted(query))}
      ${slice.orderAndLimit(sql`date desc, ticker`)}
    `
}

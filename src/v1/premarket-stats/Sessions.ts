/** Two tables have one shape: sessions before the open, and `/v1/afterhours-stats`. */
import type { SqlClient } from "effect/sql"
import type { Slice } from "../../lists/Listing.ts"
import { conditions } from "../../lists/Conditions.ts"
import { Query } from "./Api.ts"

/** A page of sessions from either of the two tables of this shape. */
export const sessions = (sql: SqlClient.SqlClient, table: "premarket_stats" | "afterhours_stats") => {
  const wanted = conditions(sql, Query, {})
  return (query: typeof Query.Type, slice: Slice) =>
    sql`
      select ${slice.columns}
      from ${sql(table)}
      where ${sql.and(wanted(query))}
      ${slice.page(sql`date desc, ticker`)}
    `
}

/** The statement of `/v1/premarket-stats` and `/v1/afterhours-stats`, whose tables have the same columns. */
import type { SqlClient } from "effect/sql"
import type { ListClauses } from "../../lists/ListQuery.ts"
import type { PageQuery } from "../../rules/Paging.ts"

/** Returns the `select` of a list of trading sessions. */
export const makeExtendedHoursSelect =
  (sql: SqlClient.SqlClient, table: "premarket_stats" | "afterhours_stats") =>
  (_: PageQuery, { columns, orderAndLimit, where }: ListClauses) =>
    sql`
      select ${columns}
      from ${sql(table)}
      where ${where}
      ${orderAndLimit(sql`date desc, ticker`)}
    `

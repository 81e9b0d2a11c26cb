/** The SQL side of the filters: a filter that was not sent adds nothing to the query. */
import type { SqlClient, Statement } from "effect/sql"

type Sent = string | number | undefined

/** A number goes as the text of an exact `numeric`; as a float it would also turn the column into floats. */
const compared = (sql: SqlClient.SqlClient, value: string | number) =>
  typeof value === "number" ? sql`${String(value)}::text::numeric` : sql`${value}`

export const where = (sql: SqlClient.SqlClient) => ({
  in: (column: string, values: ReadonlyArray<string> | undefined): ReadonlyArray<Statement.Fragment> =>
    values === undefined ? [] : [sql.in(column, values)],
  is: (column: string, value: Sent): ReadonlyArray<Statement.Fragment> =>
    value === undefined ? [] : [sql`${sql(column)} = ${compared(sql, value)}`],
  atLeast: (column: string, value: Sent): ReadonlyArray<Statement.Fragment> =>
    value === undefined ? [] : [sql`${sql(column)} >= ${compared(sql, value)}`],
  atMost: (column: string, value: Sent): ReadonlyArray<Statement.Fragment> =>
    value === undefined ? [] : [sql`${sql(column)} <= ${compared(sql, value)}`],
})

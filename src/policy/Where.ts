/** The SQL side of `Filters.ts`: a filter that was not sent adds nothing to the query. */
import type { SqlClient, Statement } from "effect/sql"

type Fragments = ReadonlyArray<Statement.Fragment>
type Query = { readonly [name: string]: unknown }

/** A number goes as the text of an exact `numeric`; as a float it would also turn the column into floats. */
const compared = (sql: SqlClient.SqlClient, value: unknown) =>
  typeof value === "number" ? sql`${String(value)}::text::numeric` : sql`${value}`

/** `%`, `_` and `\` stand for themselves. */
const literally = (text: string) => text.replace(/[%_\\]/g, "\\$&")

export const where = (sql: SqlClient.SqlClient) => {
  const column = (name: string, columns: Query) => sql(String(columns[name] ?? name))
  const bound = (name: string, value: unknown, columns: Query): Fragments => {
    if (value === undefined) return []
    if (name.startsWith("min_")) return [sql`${column(name.slice(4), columns)} >= ${compared(sql, value)}`]
    if (name.startsWith("max_")) return [sql`${column(name.slice(4), columns)} <= ${compared(sql, value)}`]
    if (name.endsWith("_from")) return [sql`${column(name.slice(0, -5), columns)} >= ${value}`]
    if (name.endsWith("_to")) return [sql`${column(name.slice(0, -3), columns)} <= ${value}`]
    return name === "date" ? [sql`${column(name, columns)} = ${value}`] : []
  }

  return {
    /**
     * Every `min_x`, `max_x`, `x_from`, `x_to` and `date` that was sent: by D7 and D9 they name the column x.
     * `columns` tells where a parameter's column has another name.
     */
    ranges: (query: Query, columns: { readonly [name: string]: string } = {}): Fragments =>
      Object.entries(query).flatMap(([name, value]) => bound(name, value, columns)),
    in: (name: string, values: ReadonlyArray<string> | undefined): Fragments =>
      values === undefined ? [] : [sql.in(name, values)],
    is: (name: string, value: string | boolean | undefined): Fragments =>
      value === undefined ? [] : [sql`${sql(name)} = ${value}`],
    part: (name: string, text: string | undefined): Fragments =>
      text === undefined ? [] : [sql`${sql(name)} ilike ${`%${literally(text)}%`}`],
    /** The list holds the word. */
    holds: (name: string, word: string | undefined): Fragments =>
      word === undefined ? [] : [sql`${sql(name)} @> array[${word}]::text[]`],
  }
}

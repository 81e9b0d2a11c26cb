/** The SQL side of `Filters.ts`: a filter that was not sent adds nothing to the query. */
import type { SqlClient, Statement } from "effect/sql"

type Fragments = ReadonlyArray<Statement.Fragment>
type Query = { readonly [name: string]: unknown }

/** The greatest whole number that the bound implies of a column's value, for a lower bound; the least, for an upper. */
const implied = (operator: ">=" | "<=", value: number) =>
  operator === ">="
    ? Math.min(Math.floor(value), Number.MAX_SAFE_INTEGER)
    : Math.max(Math.ceil(value), Number.MIN_SAFE_INTEGER)

/**
 * A number goes as text; as a float it would turn the column into floats. An index on a `bigint` column serves a
 * comparison with a whole number only: what the bound implies in whole numbers finds the rows, the exact `numeric`
 * beside it (where they differ) keeps those that match.
 */
const compared = (
  sql: SqlClient.SqlClient,
  column: Statement.Fragment,
  operator: ">=" | "<=",
  value: unknown,
): Fragments => {
  const is = sql.literal(operator)
  if (typeof value !== "number") return [sql`${column} ${is} ${value}`]
  const whole = implied(operator, value)
  return [
    ...(Number.isSafeInteger(whole) ? [sql`${column} ${is} ${String(whole)}::text::bigint`] : []),
    ...(whole === value ? [] : [sql`${column} ${is} ${String(value)}::text::numeric`]),
  ]
}

/** `%`, `_` and `\` stand for themselves. */
const literally = (text: string) => text.replace(/[%_\\]/g, "\\$&")

export const where = (sql: SqlClient.SqlClient) => {
  const column = (name: string, columns: Query) => sql(String(columns[name] ?? name))
  const bound = (name: string, value: unknown, columns: Query): Fragments => {
    if (value === undefined) return []
    if (name.startsWith("min_")) return compared(sql, column(name.slice(4), columns), ">=", value)
    if (name.startsWith("max_")) return compared(sql, column(name.slice(4), columns), "<=", value)
    if (name.endsWith("_from")) return compared(sql, column(name.slice(0, -5), columns), ">=", value)
    if (name.endsWith("_to")) return compared(sql, column(name.slice(0, -3), columns), "<=", value)
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
    /** A part of a word of the list; the index is on the words joined, which alone would find parts of two words. */
    partOfAny: (name: string, text: string | undefined): Fragments => {
      if (text === undefined) return []
      const pattern = `%${literally(text)}%`
      const word = sql`exists (select from unnest(${sql(name)}) as word where word ilike ${pattern})`
      return [sql`joined(${sql(name)}) ilike ${pattern} and ${word}`]
    },
    /** The list holds the word. */
    holds: (name: string, word: string | undefined): Fragments =>
      word === undefined ? [] : [sql`${sql(name)} @> array[${word}]::text[]`],
  }
}

/** The SQL side of `Filters.ts`: a filter that was not sent adds nothing to the query. */
import { BigDecimal } from "effect"
import type { SqlClient, Statement } from "effect/sql"

type Fragments = ReadonlyArray<Statement.Fragment>
type Query = { readonly [name: string]: unknown }

/** What a `bigint` holds. */
const most = 2n ** 63n - 1n

/** The whole number that the bound implies of a value; none where it lies beyond all of them and implies nothing. */
const implied = (operator: ">=" | "<=", bound: string) => {
  const exact = BigDecimal.fromStringUnsafe(bound)
  const { value: whole } = BigDecimal.scale(operator === ">=" ? BigDecimal.floor(exact) : BigDecimal.ceil(exact), 0)
  if (whole > most) return operator === ">=" ? [most] : []
  if (whole < -most) return operator === ">=" ? [] : [-most]
  return [whole]
}

/**
 * A bound is compared as the exact `numeric` it is written as; as a float it would turn the column into floats. What it
 * implies in whole numbers stands beside it, since an index on a `bigint` column serves no other comparison.
 */
const compared = (sql: SqlClient.SqlClient, column: Statement.Identifier, operator: ">=" | "<=", bound: unknown) => {
  const [is, text] = [sql.literal(operator), String(bound)]
  return [
    ...implied(operator, text).map((whole) => sql`${column} ${is} ${String(whole)}::text::bigint`),
    sql`${column} ${is} ${text}::text::numeric`,
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
    /** `x_from` and `x_to` of an instant x: days on the clock on which it prints (§2.1), midnight to midnight. */
    days: (name: string, from: string | undefined, to: string | undefined): Fragments => [
      ...(from === undefined ? [] : [sql`${sql(name)} >= ${`${from} 00:00:00-05:00`}::timestamptz`]),
      ...(to === undefined ? [] : [sql`${sql(name)} < ${`${to} 00:00:00-05:00`}::timestamptz + interval '24 hours'`]),
    ],
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

/** The SQL side of `Filters.ts`: a filter that was not sent adds nothing to the query. */
import { BigDecimal } from "effect"
import type { SqlClient, Statement } from "effect/sql"

type Fragments = ReadonlyArray<Statement.Fragment>
type Query = { readonly [name: string]: unknown }

/** What a `bigint` holds. */
const most = 2n ** 63n - 1n

type Operator = ">=" | "<=" | "="

/** What the name of a filter says of its column by D7 and D9; nothing where it is no filter of a range. */
const rangeOf = (
  name: string,
): { readonly of: string; readonly is: Operator; readonly kind: "number" | "day" } | undefined =>
  name.startsWith("min_")
    ? { of: name.slice(4), is: ">=", kind: "number" }
    : name.startsWith("max_")
    ? { of: name.slice(4), is: "<=", kind: "number" }
    : name.endsWith("_from")
    ? { of: name.slice(0, -5), is: ">=", kind: "day" }
    : name.endsWith("_to")
    ? { of: name.slice(0, -3), is: "<=", kind: "day" }
    : name === "date"
    ? { of: name, is: "=", kind: "day" }
    : undefined

/** The whole number that the bound implies of a value; none where it lies beyond all of them and implies nothing. */
const implied = (operator: Operator, bound: string) => {
  const exact = BigDecimal.fromStringUnsafe(bound)
  const { value: whole } = BigDecimal.scale(operator === ">=" ? BigDecimal.floor(exact) : BigDecimal.ceil(exact), 0)
  if (whole > most) return operator === ">=" ? [most] : []
  if (whole < -most) return operator === ">=" ? [] : [-most]
  return [whole]
}

/** `%`, `_` and `\` stand for themselves. */
const literally = (text: string) => text.replace(/[%_\\]/g, "\\$&")

export const where = (sql: SqlClient.SqlClient) => {
  /**
   * A number is compared as the exact `numeric` it is written as; as a float it would turn the column into floats. What
   * it implies in whole numbers stands beside it, since an index on a `bigint` column serves no other comparison.
   */
  const bound = (name: string, value: string, columns: Query, isBesideSymbols: boolean): Fragments => {
    const range = rangeOf(name)
    if (range === undefined) return []
    const [column, is] = [sql(String(columns[range.of] ?? range.of)), sql.literal(range.is)]
    const exact = range.kind === "number" ? sql`${value}::text::numeric` : sql`${value}::text::date`
    // The index on the symbols is the way, whatever the bounds are. Behind a `select` PostgreSQL does not look at them
    // while it plans, and so keeps one plan; else it makes one each time, which takes it longer than to execute it.
    if (isBesideSymbols) return [sql`${column} ${is} (select ${exact})`]
    const whole = range.kind === "number" ? implied(range.is, value) : []
    return [
      ...whole.map((number) => sql`${column} ${is} ${String(number)}::text::bigint`),
      sql`${column} ${is} ${exact}`,
    ]
  }

  return {
    /**
     * Every `min_x`, `max_x`, `x_from`, `x_to` and `date` that was sent: by D7 and D9 they name the column x.
     * `columns` tells where a parameter's column has another name.
     */
    ranges: (query: Query, columns: { readonly [name: string]: string } = {}): Fragments =>
      Object.entries(query).flatMap(([name, value]) =>
        value === undefined ? [] : bound(name, String(value), columns, query["ticker"] !== undefined)
      ),
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

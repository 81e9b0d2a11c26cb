/** The SQL side of `Operators.ts`: compiles the parameters of a query to conditions. */
import { BigDecimal, Predicate } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { type ColumnOperator, type CustomFilter, getFilter, type QuerySchema } from "../rules/FilterOperators.ts"
import { PagingParameters } from "../rules/Paging.ts"

type Fragments = ReadonlyArray<Statement.Fragment | string>

/** The greatest `bigint`. */
const most = 2n ** 63n - 1n

type Comparison = ">=" | "<=" | "="

/** The integer bound that the bound implies; none if it lies beyond all integers and implies nothing. */
const implied = (comparison: Comparison, bound: string) => {
  const exact = BigDecimal.fromStringUnsafe(bound)
  const { value: integer } = BigDecimal.scale(comparison === ">=" ? BigDecimal.floor(exact) : BigDecimal.ceil(exact), 0)
  if (integer > most) return comparison === ">=" ? [most] : []
  if (integer < -most) return comparison === ">=" ? [] : [-most]
  return [integer]
}

/** `%`, `_` and `\` stand for themselves. */
const escaped = (text: string) => text.replace(/[%_\\]/g, "\\$&")

/** PostgreSQL refuses more than 32 negations in a row; nine or more dashes are a line that somebody drew. */
const withoutLines = (text: string) => text.replace(/(-[^\p{L}\p{N}"-]*){9,}/gu, " ")

/** The value of a parameter, whose schema has a type that its operator takes. */
const as = <Value>(is: (value: unknown) => value is Value, value: unknown): Value => {
  if (is(value)) return value
  throw new TypeError(`A filter was given ${typeof value}, which its operator does not take`)
}

const isTexts = (value: unknown): value is ReadonlyArray<string> =>
  Array.isArray(value) && value.every(Predicate.isString)

const isTextOrFlag = Predicate.or(Predicate.isString, Predicate.isBoolean)

/** `besideSymbols`: the request names tickers, too. */
type Condition = (column: string, value: unknown, besideSymbols?: boolean) => Fragments

const operators = (sql: SqlClient.SqlClient): Readonly<Record<ColumnOperator, Condition>> => {
  /**
   * The index on the ticker is used whatever the bounds are. PostgreSQL does not plan by a value behind a `select`, so
   * it keeps one plan; otherwise it plans each execution, which takes longer than the execution itself.
   */
  const beside = (
    column: string,
    comparison: Comparison,
    exact: Statement.Fragment,
  ) => [sql`${sql(column)} ${sql.literal(comparison)} (select ${exact})`]

  /** Compared as exact `numeric`. The integer bound beside it can use an index on a `bigint` column. */
  const number = (comparison: Comparison): Condition => (column, value, besideSymbols = false) => {
    const bound = as(Predicate.isString, value)
    const exact = sql`${bound}::text::numeric`
    if (besideSymbols) return beside(column, comparison, exact)
    const is = sql.literal(comparison)
    return [
      ...implied(comparison, bound).map((integer) => sql`${sql(column)} ${is} ${String(integer)}::text::bigint`),
      sql`${sql(column)} ${is} ${exact}`,
    ]
  }

  const day = (comparison: Comparison): Condition => (column, value, besideSymbols = false) => {
    const exact = sql`${as(Predicate.isString, value)}::text::date`
    if (besideSymbols) return beside(column, comparison, exact)
    return [sql`${sql(column)} ${sql.literal(comparison)} ${exact}`]
  }

  const midnight = (value: unknown) => sql`${`${as(Predicate.isString, value)} 00:00:00-05:00`}::timestamptz`
  const pattern = (value: unknown) => `%${escaped(as(Predicate.isString, value))}%`
  const lowered = (text: string) => sql`lower(${text}::text)`

  return {
    equals: (column, value) => [sql`${sql(column)} = ${as(isTextOrFlag, value)}`],
    oneOf: (column, value) => [sql.in(column, as(isTexts, value))],
    oneOfIgnoringCase: (column, value) => [sql`lower(${sql(column)}) in (${sql.csv(as(isTexts, value).map(lowered))})`],
    atLeast: number(">="),
    atMost: number("<="),
    onDay: day("="),
    fromDay: day(">="),
    toDay: day("<="),
    fromDayOfInstant: (column, value) => [sql`${sql(column)} >= ${midnight(value)}`],
    toDayOfInstant: (column, value) => [sql`${sql(column)} < ${midnight(value)} + interval '24 hours'`],
    contains: (column, value) => [sql`${sql(column)} ilike ${pattern(value)}`],
    // The index is on the elements joined, which alone would find parts of two elements.
    elementContains: (column, value) => {
      const part = pattern(value)
      const element = sql`exists (select from unnest(${sql(column)}) as element where element ilike ${part})`
      return [sql`joined(${sql(column)}) ilike ${part} and ${element}`]
    },
    hasElement: (column, value) => [
      sql`lowered(${sql(column)}) @> array[${lowered(as(Predicate.isString, value))}]`,
    ],
    matchesWords: (column, value) => [
      sql`${sql(column)} @@ websearch_to_tsquery('english', ${withoutLines(as(Predicate.isString, value))})`,
    ],
  }
}

type CustomNames<Query extends QuerySchema> = {
  readonly [Name in keyof Query["fields"]]: Query["fields"][Name] extends CustomFilter ? Name : never
}[keyof Query["fields"]]

/** A condition for each parameter of the query that is declared `custom`; called if the parameter was sent. */
type Customs<Query extends QuerySchema> = {
  readonly [Name in CustomNames<Query>]: (query: Query["Type"]) => Fragments
}

/**
 * Compiles a query's schema, once, to a function from a request's query to its conditions. A parameter that declares no
 * filter, or a custom one without its condition, is a defect when the service starts.
 */
export const compileConditions = <Query extends QuerySchema>(
  sql: SqlClient.SqlClient,
  { fields }: Query,
  customs: Customs<Query>,
): (query: Query["Type"]) => Fragments => {
  const conditionOf = operators(sql)
  const given = new Map(Object.entries<(query: Query["Type"]) => Fragments>(customs))
  const compiled = Object.entries(fields).flatMap(([name, field]) => {
    if (name in PagingParameters) return []
    const filter = getFilter(field)
    if (filter === undefined) throw new Error(`The parameter ${name} declares no filter`)
    if (filter.operator === "statement") return []
    if (filter.operator === "custom") {
      const condition = given.get(name)
      if (condition === undefined) throw new Error(`The parameter ${name} has no condition`)
      return [{ name, condition }]
    }
    const { column = name, operator } = filter
    const condition = (query: Query["Type"]) =>
      conditionOf[operator](column, query[name], query["ticker"] !== undefined)
    return [{ name, condition }]
  })
  return (query) => compiled.flatMap(({ condition, name }) => query[name] === undefined ? [] : condition(query))
}

/** Conditions on columns that no parameter is named after. */
export const makeColumnConditions = operators

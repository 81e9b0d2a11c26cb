/** Compiles the filters of a query (`rules/FilterOperators.ts`) to SQL conditions. */
import { BigDecimal, Predicate } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { type ColumnOperator, type DecodedQuery, getFilter, type QuerySchema } from "../rules/FilterOperators.ts"
import { PagingParameters } from "../rules/Paging.ts"

type Fragments = ReadonlyArray<Statement.Fragment | string>

const maxBigint = 2n ** 63n - 1n

type Comparison = ">=" | "<=" | "="

/** Returns the `bigint` bound that follows from a decimal bound, as an array; empty if every `bigint` is valid. */
const getIntegerBound = (comparison: Comparison, bound: string) => {
  const exact = BigDecimal.fromStringUnsafe(bound)
  const { value: integer } = BigDecimal.scale(comparison === ">=" ? BigDecimal.floor(exact) : BigDecimal.ceil(exact), 0)
  if (integer > maxBigint) return comparison === ">=" ? [maxBigint] : []
  if (integer < -maxBigint) return comparison === ">=" ? [] : [-maxBigint]
  return [integer]
}

/** Escapes the wildcards of `like`. */
const escapePattern = (text: string) => text.replace(/[%_\\]/g, "\\$&")

/** Removes runs of nine or more dashes: in a text search a dash means negation, and PostgreSQL rejects more than 32. */
const removeDashRuns = (text: string) => text.replace(/(-[^\p{L}\p{N}"-]*){9,}/gu, " ")

/** Asserts that a decoded value has the type that its operator needs. */
const assertType = <Value>(is: (value: unknown) => value is Value, value: unknown): Value => {
  if (is(value)) return value
  throw new TypeError(`A filter has a value of the type ${typeof value}, which its operator does not support`)
}

const isTextArray = (value: unknown): value is ReadonlyArray<string> =>
  Array.isArray(value) && value.every(Predicate.isString)

const isTextOrBoolean = Predicate.or(Predicate.isString, Predicate.isBoolean)

/** Builds the conditions of a column. `hasTicker`: whether the request also filters by ticker. */
type ConditionBuilder = (column: string, value: unknown, hasTicker?: boolean) => Fragments

/** Returns the condition builders by operator, also for statements that write their own `where` clause. */
export const makeColumnConditions = (
  sql: SqlClient.SqlClient,
): Readonly<Record<ColumnOperator, ConditionBuilder>> => {
  /**
   * Hides the value from the planner in a subquery, so that PostgreSQL reuses one generic plan, which uses the index
   * on the ticker. Planning each execution would take longer than the execution itself.
   */
  const compareUnplanned = (column: string, comparison: Comparison, exact: Statement.Fragment) => [
    sql`${sql(column)} ${sql.literal(comparison)} (select ${exact})`,
  ]

  /** Compares as exact `numeric`. The additional integer bound can use an index on a `bigint` column. */
  const compareNumber = (comparison: Comparison): ConditionBuilder => (column, value, hasTicker = false) => {
    const bound = assertType(Predicate.isString, value)
    const exact = sql`${bound}::text::numeric`
    if (hasTicker) return compareUnplanned(column, comparison, exact)
    const operator = sql.literal(comparison)
    return [
      ...getIntegerBound(comparison, bound).map((integer) =>
        sql`${sql(column)} ${operator} ${String(integer)}::text::bigint`
      ),
      sql`${sql(column)} ${operator} ${exact}`,
    ]
  }

  const compareDate = (comparison: Comparison): ConditionBuilder => (column, value, hasTicker = false) => {
    const exact = sql`${assertType(Predicate.isString, value)}::text::date`
    if (hasTicker) return compareUnplanned(column, comparison, exact)
    return [sql`${sql(column)} ${sql.literal(comparison)} ${exact}`]
  }

  const midnight = (value: unknown) => sql`${`${assertType(Predicate.isString, value)} 00:00:00-05:00`}::timestamptz`
  const pattern = (value: unknown) => `%${escapePattern(assertType(Predicate.isString, value))}%`
  const lower = (text: string) => sql`lower(${text}::text)`

  return {
    equals: (column, value) => [sql`${sql(column)} = ${assertType(isTextOrBoolean, value)}`],
    oneOf: (column, value) => [sql.in(column, assertType(isTextArray, value))],
    oneOfIgnoringCase: (column, value) => [
      sql`lower(${sql(column)}) in (${sql.csv(assertType(isTextArray, value).map(lower))})`,
    ],
    atLeast: compareNumber(">="),
    atMost: compareNumber("<="),
    onDay: compareDate("="),
    fromDay: compareDate(">="),
    toDay: compareDate("<="),
    fromDayOfInstant: (column, value) => [sql`${sql(column)} >= ${midnight(value)}`],
    toDayOfInstant: (column, value) => [sql`${sql(column)} < ${midnight(value)} + interval '24 hours'`],
    contains: (column, value) => [sql`${sql(column)} ilike ${pattern(value)}`],
    // The index contains the joined elements. The second condition excludes matches that span two elements.
    elementContains: (column, value) => {
      const part = pattern(value)
      const element = sql`exists (select from unnest(${sql(column)}) as element where element ilike ${part})`
      return [sql`joined(${sql(column)}) ilike ${part} and ${element}`]
    },
    hasElement: (column, value) => [
      sql`lowered(${sql(column)}) @> array[${lower(assertType(Predicate.isString, value))}]`,
    ],
    matchesWords: (column, value) => [
      sql`${sql(column)} @@ websearch_to_tsquery('english', ${removeDashRuns(assertType(Predicate.isString, value))})`,
    ],
  }
}

interface CompiledFilter {
  /** Name of the parameter. Without the parameter, a request gets no condition. */
  readonly name: string
  readonly build: (query: DecodedQuery) => Fragments
}

/**
 * Compiles a query schema to a function that returns the conditions of a request.
 * Throws during startup if a parameter declares no filter.
 */
export const compileConditions = (
  sql: SqlClient.SqlClient,
  { fields }: Pick<QuerySchema, "fields">,
): (query: object) => Fragments => {
  const operators = makeColumnConditions(sql)
  const compiled = Object.entries(fields).flatMap(([name, field]): ReadonlyArray<CompiledFilter> => {
    if (name in PagingParameters) return []
    const filter = getFilter(field)
    if (filter === undefined) throw new Error(`The parameter ${name} declares no filter`)
    if (filter.operator === "statement") return []
    if (filter.operator === "literal") {
      const { condition } = filter
      return [{ name, build: (query) => [condition(query)].filter(Predicate.isNotUndefined) }]
    }
    const { column = name, operator } = filter
    const condition = operators[operator]
    return [{ name, build: (query) => condition(column, query[name], query["ticker"] !== undefined) }]
  })
  return (query) => {
    const values: DecodedQuery = { ...query }
    return compiled.flatMap(({ build, name }) => values[name] === undefined ? [] : build(values))
  }
}

/** Compiles a query's filters (`contract/rules/FilterDeclarations.ts`) to SQL conditions. */
import { BigDecimal, Predicate } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { StatementParameter } from "../../postgres/CompiledStatement.ts"
import { postgresTypeIds } from "../rows/FieldEncoders.ts"
import { getColumnType } from "../rows/RowEncoder.ts"
import type { RowModels } from "../../contract/rows/RowModel.ts"
import { printedOffset } from "../../contract/rules/Dates.ts"
import {
  type DecodedQuery,
  type FilterOperator,
  getFilterDeclaration,
  type QuerySchema,
} from "../../contract/rules/FilterDeclarations.ts"
import type { WithFollowedPeriods } from "./FollowedPeriods.ts"
import { PagingParameters, type PagingQuery } from "../../contract/rules/Paging.ts"

type Fragments = ReadonlyArray<Statement.Fragment | string>

const [minBigint, maxBigint] = [-(2n ** 63n), 2n ** 63n - 1n]

type Comparison = ">=" | "<=" | "="

/**
 * Returns the smallest or largest `bigint` that satisfies a decimal bound. A bound outside the range of `bigint`
 * becomes the nearest `bigint`. No row can contain that value, because numbers have at most 16 digits (the domains in
 * `10_types.sql`).
 */
const getIntegerBound = (comparison: Comparison, bound: string) => {
  if (/^\d{1,18}$/.test(bound)) return bound
  const exact = BigDecimal.fromStringUnsafe(bound)
  const { value: integer } = BigDecimal.scale(comparison === ">=" ? BigDecimal.ceil(exact) : BigDecimal.floor(exact), 0)
  return String(integer > maxBigint ? maxBigint : integer < minBigint ? minBigint : integer)
}

/** Escapes the wildcard characters of `like`. */
const escapePattern = (text: string) => text.replace(/[%_\\]/g, "\\$&")

/**
 * Removes runs of nine or more dashes. Text search interprets a dash as negation, and PostgreSQL rejects 33 dashes in a
 * row.
 */
const removeDashRuns = (text: string) => text.replace(/(-[^\p{L}\p{N}"-]*){9,}/gu, " ")

/** Checks that a decoded value has the type that its operator expects. */
const assertType = <Value>(is: (value: unknown) => value is Value, value: unknown): Value => {
  if (is(value)) return value
  throw new TypeError(`A filter has a value of the type ${typeof value}, which its operator does not support`)
}

const isTextOrBoolean = Predicate.or(Predicate.isString, Predicate.isBoolean)

const assertText = (value: unknown) => assertType(Predicate.isString, value)
const assertArray = (value: unknown) => assertType(Array.isArray, value)

/** A list's decoded query, with the resolved lineages if the list follows them. */
export type DecodedListQuery = DecodedQuery & PagingQuery & Partial<WithFollowedPeriods>

/** An SQL parameter whose value comes from the decoded query. */
export type ListStatementParameter<Value = unknown> = StatementParameter<DecodedListQuery, Value>

/**
 * Returns the number of SQL parameters to use for a list of values. This is the next power of two, so that lists of 1
 * to 128 values need only eight different statements. The last value is repeated to fill the remaining parameters. A
 * single array parameter would hide the number of values from the planner.
 */
export const countPaddedParameters = (values: ReadonlyArray<unknown>) => 2 ** Math.ceil(Math.log2(values.length))

interface ConditionOptions {
  /** Whether the request also filters by ticker. */
  readonly hasTicker?: boolean
  /** Whether the column is a `bigint`. */
  readonly isInteger?: boolean
  /** The number of SQL parameters for a list of values, as returned by `countPaddedParameters`. The default is 1. */
  readonly listParameters?: number
}

/**
 * Builds the conditions for a column. `parameter` is the SQL parameter for the value, whose value is known only when
 * the statement runs.
 */
type ConditionBuilder = (column: string, parameter: ListStatementParameter, options?: ConditionOptions) => Fragments

/**
 * Returns one SQL parameter for each value of a list. The last value is repeated to fill `listParameters` parameters.
 */
const listElements = (list: ListStatementParameter, { listParameters = 1 }: ConditionOptions = {}) => {
  const values = list.map(assertArray)
  return Array.from(
    { length: listParameters },
    (_, index) => values.map((items) => assertText(items[Math.min(index, items.length - 1)])),
  )
}

/** Returns the timestamp at which a day begins at UTC-05:00, which is the offset of all timestamps in responses. */
export const makeMidnightSql = (sql: SqlClient.SqlClient, day: ListStatementParameter) =>
  sql`${day.map((text) => `${assertText(text)} 00:00:00${printedOffset.text}`)}::timestamptz`

/**
 * Creates the condition builder for each filter operator. Lists that write their own `where` clause also use these
 * builders.
 */
export const makeFilterConditionBuilders = (
  sql: SqlClient.SqlClient,
): Readonly<Record<FilterOperator, ConditionBuilder>> => {
  /**
   * Compares a column with a value. If the request also filters by ticker, the value is put in a subquery, which hides
   * it from the planner. PostgreSQL then reuses one generic plan that uses the index on the ticker. Otherwise
   * PostgreSQL would spend more time planning each execution than executing it.
   */
  const compare = (column: string, comparison: Comparison, exact: Statement.Fragment, hasTicker = false) => [
    sql`${sql(column)} ${sql.literal(comparison)} ${hasTicker ? sql`(select ${exact})` : exact}`,
  ]

  /**
   * Compares a column with a number exactly. PostgreSQL can use an index on the column only if the bound has the
   * column's type.
   */
  const compareNumber =
    (comparison: Comparison): ConditionBuilder => (column, parameter, { hasTicker, isInteger } = {}) => {
      const bound = parameter.map(assertText)
      const exact = isInteger === true
        ? sql`${bound.map((text) => getIntegerBound(comparison, text))}::text::bigint`
        : sql`${bound}::text::numeric`
      return compare(column, comparison, exact, hasTicker)
    }

  const compareDate = (comparison: Comparison): ConditionBuilder => (column, parameter, { hasTicker } = {}) =>
    compare(column, comparison, sql`${parameter.map(assertText)}::text::date`, hasTicker)

  /** A pattern for `like` that matches texts containing the value. */
  const containsPattern = (part: ListStatementParameter) => part.map((text) => `%${escapePattern(assertText(text))}%`)
  const lower = (text: ListStatementParameter<string>) => sql`lower(${text}::text)`

  return {
    equals: (column, value) => [sql`${sql(column)} = ${value.map((exact) => assertType(isTextOrBoolean, exact))}`],
    oneOf: (column, list, options) => [sql.in(column, listElements(list, options))],
    // The column is entirely in upper case or entirely in lower case, so comparing these spellings ignores case without
    // an index on `lower(…)`.
    oneOfCodes: (column, list, options) => {
      const codes = listElements(list, options)
      const variants = [
        codes,
        codes.map((code) => code.map((text) => text.toUpperCase())),
        codes.map((code) => code.map((text) => text.toLowerCase())),
      ]
      return [sql.in(column, variants.flat())]
    },
    oneOfIgnoringCase: (column, list, options) => [
      sql`lower(${sql(column)}) in (${sql.csv(listElements(list, options).map(lower))})`,
    ],
    atLeast: compareNumber(">="),
    atMost: compareNumber("<="),
    onDay: compareDate("="),
    fromDay: compareDate(">="),
    toDay: compareDate("<="),
    fromDayOfInstant: (column, day) => [sql`${sql(column)} >= ${makeMidnightSql(sql, day)}`],
    toDayOfInstant: (column, day) => [sql`${sql(column)} < ${makeMidnightSql(sql, day)} + interval '24 hours'`],
    contains: (column, text) => [sql`${sql(column)} ilike ${containsPattern(text)}`],
    // The index contains all elements of an array, joined to one text. The second condition excludes matches that span
    // two elements.
    elementContains: (column, text) => {
      const pattern = containsPattern(text)
      const hasElement = sql`exists (select from unnest(${sql(column)}) as element where element ilike ${pattern})`
      return [sql`joined(${sql(column)}) ilike ${pattern} and ${hasElement}`]
    },
    hasElement: (column, list, options) => [
      sql`lowered(${sql(column)}) && array[${sql.csv(listElements(list, options).map(lower))}]`,
    ],
    matchesWords: (column, words) => [
      sql`${sql(column)} @@ websearch_to_tsquery('english', ${words.map((text) => removeDashRuns(assertText(text)))})`,
    ],
  }
}

interface CompiledFilters {
  /**
   * Returns the conditions for a request's parameters. Values become SQL parameters, except for values that must be
   * literals.
   */
  readonly buildConditions: (query: DecodedQuery) => Fragments
  /** Returns the literals in the conditions as text, for the key of the compiled statement. */
  readonly describeLiterals: (query: DecodedQuery) => string
}

/**
 * Compiles the filters that the parameters of a list declare in its query schema. Returns a function that builds the
 * SQL conditions for a request, and one that describes their literals. Literals are part of the SQL text, so requests
 * with different literals must not share a compiled statement.
 *
 * Throws at startup if a parameter declares no filter. `models` are the row models, which determine the column types.
 */
export const compileFilters = (
  sql: SqlClient.SqlClient,
  { fields }: QuerySchema,
  models: RowModels = [],
): CompiledFilters => {
  const operators = makeFilterConditionBuilders(sql)
  /** Condition builders by parameter name. A builder is used only if the request contains the parameter. */
  const builders = new Map<string, (query: DecodedQuery) => Fragments>()
  const literals: Array<(query: DecodedQuery) => string | undefined> = []
  for (const [name, field] of Object.entries(fields)) {
    if (name in PagingParameters) continue
    const filter = getFilterDeclaration(field)
    if (filter === undefined) throw new Error(`The parameter ${name} declares no filter`)
    // The list's own statement applies this parameter.
    if (filter.operator === "statement") continue
    if (filter.operator === "literal") {
      const { condition } = filter
      literals.push((query) => query[name] === undefined ? undefined : condition(query))
      builders.set(name, (query) => [condition(query)].filter(Predicate.isNotUndefined))
      continue
    }
    const { column = name, operator } = filter
    const condition = operators[operator]
    const isInteger = getColumnType(models, column) === postgresTypeIds.bigint
    const parameter = new StatementParameter((query: DecodedQuery) => query[name])
    builders.set(name, ({ followed, [name]: value, ticker }) =>
      // If the query follows lineages, their periods already restrict the symbols, so no ticker condition is needed.
      name === "ticker" && followed !== undefined ? [] : condition(column, parameter, {
        hasTicker: ticker !== undefined,
        isInteger,
        // Padding the list to a power of two keeps the number of different statements small.
        listParameters: Array.isArray(value) ? countPaddedParameters(value) : 1,
      }))
  }
  return {
    buildConditions: (query) =>
      Array.from(builders).flatMap(([name, build]) => query[name] === undefined ? [] : build(query)),
    describeLiterals: (query) => literals.length === 0 ? "" : literals.map((describe) => describe(query)).join(";"),
  }
}

/**
 * Determines which of a list's requests can share the text of an SQL statement (D8). Two requests need the same variant
 * of the list's statement if they send the same parameters, whatever the values, for the same purpose: their statements
 * then differ only in the values of the SQL parameters.
 */
import { getPageRowRange, unlimitedRowCount } from "../../contract/rules/Paging.ts"
import { countPaddedParameters, type DecodedListQuery } from "./FilterConditions.ts"
import { minDeepPageOffset } from "./DeepPages.ts"

/**
 * What a statement is for: to read a page or an export, or to count results. `count` counts all results. `outside`
 * counts the omitted results for each company: those on days when none of the requested companies used the symbol.
 */
export type StatementPurpose = "page" | "export" | "count" | "outside"

/** Everything that the SQL text of a list's statement depends on, except the names of the parameters in the query. */
export interface ListStatementVariant {
  /** Identifies the SQL text among the statements of all lists. Contains no text from clients. */
  readonly key: string
  readonly purpose: StatementPurpose
  /** The row limit, which is part of the SQL text, or `"parameter"` if the limit is an SQL parameter. */
  readonly limit: number | "parameter"
  /** Whether the page is not the first one. */
  readonly hasOffset: boolean
  /** Whether the page is a deep page (`minDeepPageOffset`). */
  readonly isDeep: boolean
  /** Whether the page's rows have a column with the counts for the purpose `outside`. */
  readonly countsOutside: boolean
  /** Whether PostgreSQL plans the statement for the parameter values of each request. */
  readonly isPlannedForValues: boolean
  /** Whether the statement usually takes little time (`CompiledStatement.isShort`). */
  readonly isShort: boolean
}

/** The properties of a list that the variants of its statement depend on. */
export interface VariantDescriberOptions {
  /** The list's number. It distinguishes its statements from those of other lists. */
  readonly listId: number
  /** Returns the literals in the query's conditions as text (`compileFilters`). */
  readonly describeLiterals: (query: DecodedListQuery) => string
  /** The parameters whose values change the SQL text (`ListDefinition.shapedBy`). */
  readonly shapedBy: ReadonlySet<PropertyKey>
  /** Whether the list's queries follow lineages. */
  readonly followsLineages: boolean
}

/**
 * Parameters that do not restrict the rows. A statement that has any other parameter but no ticker is planned for the
 * values of each request.
 */
const unfilteredParameters = new Set(["sort", "account_id", "today"])

/** Query properties that are not parameters of the statement, or that its variant represents in another way. */
const otherProperties = new Set([
  "page",
  "limit",
  "format",
  "explain",
  "follow_lineage",
  "provenance",
  "as_of",
  "cik",
  "followed",
])

/** A statement for more rows or symbols than this does not count as short (`CompiledStatement.isShort`). */
const maxShortLimit = 25
const maxShortTickers = 4

/** Returns the names of the parameters that a query sends to its statement. */
const listStatementParameters = (query: DecodedListQuery) =>
  Object.keys(query).filter((name) => query[name] !== undefined && !otherProperties.has(name))

/**
 * Creates a function that returns the variant of the statement for a query and a purpose. For example, the requests
 * `?ticker=A,B,C&min_gap=5` and `?ticker=D,E,F,G&min_gap=10` need the same variant: in both, the list of tickers takes
 * four SQL parameters (`countPaddedParameters`).
 */
export const makeVariantDescriber = (
  { describeLiterals, followsLineages, listId, shapedBy }: VariantDescriberOptions,
) => {
  /**
   * Describes a parameter for the key of the variant: by its name and, if it changes the SQL text, its value or the
   * number of its values, such as ` ticker[4]` or ` sort=-price`.
   */
  const describeParameter = (name: string, value: unknown) => {
    if (shapedBy.has(name)) return ` ${name}=${value}`
    // Followed symbols are passed as arrays of periods, so their number does not affect the SQL.
    const isArrayOfPeriods = followsLineages && name === "ticker"
    return Array.isArray(value) && !isArrayOfPeriods ? ` ${name}[${countPaddedParameters(value)}]` : ` ${name}`
  }

  return (query: DecodedListQuery, purpose: StatementPurpose): ListStatementVariant => {
    const { followed, ticker } = query
    const names = listStatementParameters(query)
    const parameters = names.map((name) => describeParameter(name, query[name])).join("")
    const isPage = purpose === "page"
    const range = isPage ? getPageRowRange(query) : { limit: unlimitedRowCount, offset: 0 }
    const hasOffset = range.offset > 0
    const isDeep = range.offset >= minDeepPageOffset
    // A filtered statement without a ticker is planned for the values of each request. Otherwise PostgreSQL would do
    // so only for the first five executions of a prepared statement. It might then choose a generic plan that scans
    // the whole table for a filter that matches few rows.
    const isPlannedForValues = ticker === undefined && names.some((name) => !unfilteredParameters.has(name))
    const limit = isPage && isPlannedForValues ? "parameter" : range.limit
    const countsOutside = isPage && followed !== undefined && followed.gaps.length > 0
    const isShort = isPage && ticker !== undefined && !isDeep && range.limit <= maxShortLimit &&
      (!Array.isArray(ticker) || ticker.length <= maxShortTickers)
    const key = `${listId} ${purpose} ${limit} ${hasOffset} ${isDeep} ${countsOutside} ` +
      `${describeLiterals(query)}${parameters}`
    return { key, purpose, limit, hasOffset, isDeep, countsOutside, isPlannedForValues, isShort }
  }
}

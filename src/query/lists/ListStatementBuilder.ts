/** Builds the SQL of a list's statements (D8, D28). `ListCompiler.ts` runs them. */
import type { SqlClient, Statement } from "effect/sql"
import { makeArrayParameter, OID, StatementParameter } from "../../postgres/CompiledStatement.ts"
import type { ResultEncoder } from "../rows/ResultWriter.ts"
import type { DecodedQuery } from "../../contract/rules/FilterDeclarations.ts"
import { getPageRowRange, type PagingQuery, unlimitedRowCount } from "../../contract/rules/Paging.ts"
import { compileFilters, type DecodedListQuery, type ListStatementParameter } from "./FilterConditions.ts"
import { makePageBuilder, type PageClauses } from "./DeepPages.ts"
import { maxCountedOmittedRows } from "./FollowedPeriods.ts"
import type { ListClauses, ListDefinition, ListQueryShape, PageOptions } from "./ListDefinition.ts"
import type { ListStatementVariant } from "./ListStatementVariants.ts"
import { makeSymbolPeriodClauses } from "./SymbolPeriodClauses.ts"

// The SQL parameters for the range of rows on a page. `pageEnd` is the number of rows up to the end of the page.
const pageLimit = new StatementParameter((query: DecodedListQuery) => getPageRowRange(query).limit)
const pageOffset = new StatementParameter((query: DecodedListQuery) => getPageRowRange(query).offset)
const pageEnd = new StatementParameter((query: DecodedListQuery) => {
  const { limit, offset } = getPageRowRange(query)
  return offset + limit
})
const noOffset = new StatementParameter(() => 0)
const oneRow = new StatementParameter(() => 1)
const unlimited = new StatementParameter(() => unlimitedRowCount)

// The SQL parameters for followed lineages. `followedCompanies` are the companies' indexes, as text.
const followedPeriods = new StatementParameter(({ followed }: DecodedListQuery) => followed?.periods ?? [])

const followedGaps = new StatementParameter(({ followed }: DecodedListQuery) => followed?.gaps ?? [])

const followedCompanies = new StatementParameter(({ followed }: DecodedListQuery) =>
  makeArrayParameter(followed?.names.map((_, company) => String(company)) ?? [], OID.text)
)

/**
 * Replaces the values in a query with SQL parameters, except for the parameters in `shapedBy`. The type assertion
 * restores the property names.
 */
const makeQueryShape = <Query, ShapedBy extends keyof Query>(query: DecodedQuery, shapedBy: ReadonlySet<PropertyKey>) =>
  Object.fromEntries(
    Object.entries(query).filter(([, value]) => value !== undefined).map(([name, value]) => [
      name,
      shapedBy.has(name) ? value : new StatementParameter((sent: DecodedListQuery) => sent[name]),
    ]),
  ) as ListQueryShape<Query, ShapedBy>

/** Returns the clauses for a statement that only counts rows: it has no order, and counts at most `maxRows` rows. */
const makeCountClauses = (sql: SqlClient.SqlClient, maxRows: Statement.Fragment): PageClauses => {
  const limitOnly = () => sql`limit ${maxRows}`
  return {
    isExport: false,
    orderBy: () => sql.literal(""),
    orderUpToPage: limitOnly,
    orderAndLimit: limitOnly,
    limit: maxRows,
    offset: noOffset,
    end: unlimited,
    isDeep: false,
  }
}

/**
 * Returns the SQL for the limit of a statement that PostgreSQL must plan for the actual values of its parameters,
 * although the statement is prepared. When planning for those values, PostgreSQL replaces the expression with the value
 * of `rows`. A generic plan would have to include the subquery that counts 10^15 rows, which makes the generic plan
 * look too expensive, although the subquery never runs (docs/decisions/0143-planned-for-values-but-prepared.md).
 */
const makeLimitPlannedForValues = (sql: SqlClient.SqlClient, rows: ListStatementParameter<number>) =>
  sql`coalesce(${rows}::bigint, (select count(*) from generate_series(1, 1000000000000000)))`

/**
 * Returns the clauses for the order and limit of a statement's rows: a page has both, an export has only an order, and
 * a count has neither.
 *
 * A statement for which PostgreSQL makes a new plan for each request's values (`isPlannedForValues`) has its limit as
 * an SQL parameter, so that all limits share one statement. In every other statement the limit is a literal, because
 * with a parameter PostgreSQL would plan every execution separately.
 */
const makePageClauses = (sql: SqlClient.SqlClient, variant: ListStatementVariant): PageClauses => {
  const { hasOffset, isDeep, purpose } = variant
  const empty = sql.literal("")
  const isPage = purpose === "page"
  const orderBy = (order: Statement.Fragment) => purpose === "count" ? empty : sql`order by ${order}`
  const rowLimit = variant.limit === "parameter"
    ? makeLimitPlannedForValues(sql, pageLimit)
    : sql.literal(String(variant.limit))
  const limitAndOffset = sql`limit ${rowLimit}${hasOffset ? sql` offset ${pageOffset}` : empty}`
  // For lists that merge several subqueries: all rows up to the end of the page may come from one of them, so each
  // subquery must also return the rows that the offset skips after the merge.
  const limitUpToPage = hasOffset ? sql`limit ${pageOffset}::bigint + ${rowLimit}` : limitAndOffset
  return {
    isExport: purpose === "export",
    orderBy,
    orderUpToPage: (order) => isPage ? sql`${orderBy(order)} ${limitUpToPage}` : empty,
    orderAndLimit: (order) => isPage ? sql`${orderBy(order)} ${limitAndOffset}` : orderBy(order),
    limit: rowLimit,
    offset: hasOffset ? pageOffset : noOffset,
    end: isPage ? pageEnd : unlimited,
    isDeep,
  }
}

/** What the statements of a list have in common. */
export interface ListStatementOptions<Query extends PagingQuery, ShapedBy extends keyof Query> {
  readonly definition: ListDefinition<Query, ShapedBy>
  /** The encoder of the list's results. It determines the columns that the statements select. */
  readonly results: ResultEncoder
  /** Builds the SQL conditions for the filters in a query (`compileFilters`). */
  readonly buildConditions: ReturnType<typeof compileFilters>["buildConditions"]
  /** The parameters whose values change the SQL text (`ListDefinition.shapedBy`). */
  readonly shapedBy: ReadonlySet<PropertyKey>
  /** Whether the list's queries follow lineages. */
  readonly followsLineages: boolean
}

/**
 * Creates a function that builds a list's statement for a query, in the variant that the query needs. A page's rows
 * have up to three columns:
 *
 * 1. the record of the response's columns
 * 2. if the variant has `countsOutside`: an array with the number of omitted results for each company
 * 3. if the list has the parameter `after`: the row's position, as text
 *
 * An export's rows have only the first column. A count has one row, with the number of results. The purpose `outside`
 * has one row, with the array of the second column.
 */
export const makeListStatementBuilder = <Query extends PagingQuery, ShapedBy extends keyof Query>(
  sql: SqlClient.SqlClient,
  { buildConditions, definition, followsLineages, results, shapedBy }: ListStatementOptions<Query, ShapedBy>,
) => {
  const { countedExpression = sql.literal("*"), position, select } = definition
  const recordColumn = sql.literal(results.selection)
  const makeFromPage = makePageBuilder(sql)

  /**
   * Builds a statement that selects rows, by calling the definition's `select` with the SQL clauses for it. `page`
   * contains the order and limit, `period` the periods to follow if there are any, and `columns` is the select list.
   */
  const buildRows = (
    query: DecodedQuery,
    { columns, page, period }: Pick<ListClauses, "columns" | "period"> & { readonly page: PageClauses },
  ) => {
    const conditions = buildConditions(query)
    const where = sql.and(conditions)
    const fromPage = (options: PageOptions) => makeFromPage({ ...options, clauses: page, period })
    return select(makeQueryShape(query, shapedBy), {
      ...page,
      columns,
      conditions,
      where,
      fromPage,
      selectPage: ({ condition, order, ...options }) => {
        const allConditions = condition === undefined ? where : sql.and([condition, ...conditions])
        const page = fromPage({ ...options, where: allConditions, order: sql.literal(order) })
        return sql`select ${columns} from ${page}`
      },
      period,
    })
  }

  /**
   * Builds an SQL array with one count per company, in the order of the companies in `X-Lineage`: the number of results
   * on days when none of the requested companies used the symbol. Stops counting at `maxCountedOmittedRows` plus one,
   * so that the header can report that there are more.
   *
   * The subquery for a company is the list itself, restricted to the company's gaps. `company` is a column of
   * `requested`, and `lineage_ticker` contains the index of the gap's company (`FollowedSymbolPeriod.owner`).
   */
  const buildOutsideCounts = (query: DecodedQuery) => {
    const page = makeCountClauses(sql, sql.literal(String(maxCountedOmittedRows + 1)))
    const rows = buildRows(query, {
      columns: sql.literal("lineage_ticker"),
      page,
      period: makeSymbolPeriodClauses(sql, followedGaps, {
        rowDate: results.rowDate,
        areGaps: true,
        orderAndLimit: page.orderAndLimit,
        selection: "where lineage_ticker = company",
      }),
    })
    return sql`array(
        select (select count(${countedExpression}) from (${rows}) as list)
        from unnest((select ${followedCompanies}::text[])) with ordinality
          as requested (company, position) order by position
      )`
  }

  /** Builds the statement that selects the rows of a page, of an export, or of a count. */
  const buildVariantRows = (query: DecodedQuery, variant: ListStatementVariant) => {
    const page = makePageClauses(sql, variant)
    const columns = [
      recordColumn,
      ...(variant.countsOutside ? [buildOutsideCounts(query)] : []),
      ...(variant.purpose === "page" && position !== undefined ? [position] : []),
    ]
    return buildRows(query, {
      columns: sql.csv(columns),
      page,
      period: !followsLineages ? undefined : makeSymbolPeriodClauses(sql, followedPeriods, {
        rowDate: results.rowDate,
        areGaps: false,
        orderAndLimit: page.orderUpToPage,
        selection: "order by rank",
      }),
    })
  }

  return (query: DecodedQuery, variant: ListStatementVariant) => {
    const { isPlannedForValues, purpose } = variant
    if (purpose === "outside") return sql`select ${buildOutsideCounts(query)}`
    const rows = buildVariantRows(query, variant)
    if (purpose !== "count") return rows
    const count = sql`select count(${countedExpression}) as total from (${rows}) as list`
    // A count has one row, so the limit has no effect other than how the statement is planned.
    return isPlannedForValues ? sql`${count} limit ${makeLimitPlannedForValues(sql, oneRow)}` : count
  }
}

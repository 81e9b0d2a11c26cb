/**
 * Compiles a list's definition to SQL that reads a page or an export, or counts the results for an estimate (D8, D28).
 */
import { Effect } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { LRUCache } from "lru-cache"
import {
  type CompiledStatement,
  compileStatement,
  makeArrayParameter,
  OID,
  StatementParameter,
} from "../../postgres/CompiledStatement.ts"
import type { Rows, StatementReader } from "../../postgres/DatabaseReader.ts"
import type { CompanyLineage } from "../lineage/LineageRules.ts"
import { type BinaryRecord, getRecordColumn } from "../../postgres/BinaryRecord.ts"
import type { OptInColumn } from "../../contract/rows/Columns.ts"
import type { PageFormat } from "../../contract/rows/ListFormats.ts"
import { makeSingleRowResultEncoder, type ResultEncoder } from "../rows/ResultWriter.ts"
import { addOptInColumns, type RowModels } from "../../contract/rows/RowModel.ts"
import { describeEmptyReason, type EmptyReason, formatEmptyReason } from "../../contract/rules/EmptyListReasons.ts"
import type { DatabasePoolTimeout, DataRefreshing } from "../../contract/rules/Errors.ts"
import type { DecodedQuery, QuerySchema } from "../../contract/rules/FilterDeclarations.ts"
import {
  getPageRowRange,
  type PagingQuery,
  type ResponseContent,
  unlimitedRowCount,
} from "../../contract/rules/Paging.ts"
import { encodeListPage } from "../rows/PageEncoder.ts"
import {
  compileFilters,
  countPaddedParameters,
  type DecodedListQuery,
  type ListStatementParameter,
} from "./Conditions.ts"
import { type DeepPageOptions, makePageBuilder, minDeepPageOffset, type PageClauses } from "./DeepPages.ts"
import { listFilterNames, makeEmptyReasonFinder } from "./EmptyReasonFinder.ts"
import {
  followCurrentSymbols,
  type FollowedPeriods,
  followSymbolPeriods,
  formatLineageHeader,
  maxCountedOmittedRows,
  type WithFollowedPeriods,
} from "./FollowedPeriods.ts"
import { makeSymbolPeriodClauses, type SymbolPeriodClauses } from "./SymbolPeriodClauses.ts"

type PageOptions = Omit<DeepPageOptions, "clauses" | "period">

/** SQL fragments from which a list builds its statement. In a statement that only counts rows, the order is empty. */
export interface ListClauses extends PageClauses {
  /** The select list: a single record with all columns of the response. */
  readonly columns: Statement.Fragment
  /** The conditions for the request's filters. */
  readonly conditions: ReadonlyArray<Statement.Fragment | string>
  /** `conditions`, joined with `and`. */
  readonly where: Statement.Fragment
  /**
   * Builds the SQL after `from` for a page of a table. The table must not have an alias. With a key, pages are fast at
   * any offset. If the query follows lineages, the SQL reads each period separately.
   */
  readonly fromPage: (options: PageOptions) => Statement.Fragment
  /** Builds the statement for a list of the rows in one table that satisfy `condition`. */
  readonly selectPage: (
    options: Pick<PageOptions, "table" | "key"> & { readonly condition?: string; readonly order: string },
  ) => Statement.Statement<object>
  /**
   * Set if the query follows lineages. A `select` that does not call `fromPage` must use `period.from` and select
   * `lineage_ticker`.
   */
  readonly period: SymbolPeriodClauses | undefined
}

type AsParameters<Query> = { readonly [Name in keyof Query]: ListStatementParameter<Exclude<Query[Name], undefined>> }

/**
 * A query as seen while its statement is compiled. It shows which parameters were sent but not their values. Only the
 * parameters in `shapedBy` have values, so that no other value can become part of the SQL text.
 */
export type ListQueryShape<Query, ShapedBy extends keyof Query = never> =
  & Pick<Query, ShapedBy>
  & AsParameters<Omit<Query, ShapedBy | Exclude<keyof PagingQuery, "after">>>

/** The model for results that are groups of rows. */
export interface RowGroupModel {
  /** Creates the encoder for groups whose rows have these additional columns. */
  readonly makeEncoder: (added: ReadonlyArray<OptInColumn>) => ResultEncoder
}

/** The definition of a list. */
export interface ListDefinition<Query extends PagingQuery, ShapedBy extends keyof Query = never> {
  /** The query's schema. The filters declared in it become `ListClauses.conditions`. */
  readonly Query?: QuerySchema
  /** The model of a row, or of a result that is a group of rows. */
  readonly Row: RowModels | RowGroupModel
  /**
   * Set if `select` itself compares the rows' dates with the followed periods, because a row has dates in several
   * columns.
   */
  readonly comparesPeriods?: true
  /** Enumerated parameters whose values change the SQL built by `select`. */
  readonly shapedBy?: ReadonlyArray<ShapedBy>
  /** Builds the statement. Called once for each query shape. */
  readonly select: (query: ListQueryShape<Query, ShapedBy>, clauses: ListClauses) => Statement.Statement<object>
  /**
   * The argument of SQL's `count` if results are groups of rows. `select` must return the columns that this expression
   * refers to.
   */
  readonly countedExpression?: Statement.Fragment
  /**
   * SQL that returns a row's position in the list as text, if the query has the parameter `after`. That text is the
   * value of `after` for the next page. `select` must then return only rows after the requested position, so that a
   * page starts where the previous page ended.
   */
  readonly position?: Statement.Fragment
  /** Returns the `message` in the JSON envelope for the rows on a page. */
  readonly message?: (rows: ReadonlyArray<BinaryRecord>) => string | undefined
}

/** A query, plus the periods to follow once the lineages of its symbols have been resolved. */
type FollowableQuery<Query> = Query & Partial<WithFollowedPeriods>

type ReadError = DataRefreshing | DatabasePoolTimeout

/**
 * What a statement is for: to read a page or an export, or to count results. `count` counts all results. `outside`
 * counts the omitted results for each company: those on days when none of the requested companies used the symbol.
 */
type Purpose = "page" | "export" | "count" | "outside"

/**
 * A list that is ready to run queries. The queries can follow lineages if the rows have the column `lineage_ticker`.
 */
export interface CompiledList<Query> {
  /**
   * Returns the statement for a purpose: to read a page (the rows in the range from `getPageRowRange`), to read all
   * rows, or to count all results as a `bigint`.
   */
  readonly compile: (query: FollowableQuery<Query>, purpose: Purpose) => CompiledStatement
  readonly readPage: (
    query: FollowableQuery<Query>,
    format: PageFormat,
    read: StatementReader,
  ) => Effect.Effect<ResponseContent, ReadError>
  /** Counts all of the query's results, for an estimate. */
  readonly countResults: (query: FollowableQuery<Query>, read: StatementReader) => Effect.Effect<number, ReadError>
  /** Reads the response headers that depend on the data. */
  readonly readHeaders: (
    query: FollowableQuery<Query>,
    read: StatementReader,
  ) => Effect.Effect<Readonly<Record<string, string>>, ReadError>
  readonly results: ResultEncoder
  /** Returns the periods to follow for these lineages. */
  readonly follow: (lineages: ReadonlyArray<CompanyLineage>) => FollowedPeriods
}

/**
 * Parameters that do not restrict the rows. A statement that has any other parameter but no ticker is planned for the
 * values of each request.
 */
const unfilteredParameters = new Set(["sort", "account_id", "today"])

const makeResultEncoder = (row: RowModels | RowGroupModel, added: ReadonlyArray<OptInColumn>) =>
  "makeEncoder" in row ? row.makeEncoder(added) : makeSingleRowResultEncoder(addOptInColumns(row, added))

/**
 * The memory for all compiled statements and the maximum for one of them, in bytes. It is enough for about 2,000
 * statements. Clients choose the filters, so the number of different shapes is not naturally limited. A statement with
 * hundreds of parameters exceeds the maximum. It is neither cached nor prepared, but compiled for each request.
 */
const maxStatementBytes = 8_388_608
const maxBytesPerStatement = 65_536
const bytesPerParameter = 256

/** A statement for more rows or symbols than this does not count as short (`CompiledStatement.isShort`). */
const maxShortLimit = 25
const maxShortTickers = 4

const estimateBytes = ({ parameters, text }: CompiledStatement) => text.length + parameters.length * bytesPerParameter

// The SQL parameters for the range of rows on a page. `end` is the number of rows up to the end of the page.
const limit = new StatementParameter((query: DecodedListQuery) => getPageRowRange(query).limit)
const offset = new StatementParameter((query: DecodedListQuery) => getPageRowRange(query).offset)
const end = new StatementParameter((query: DecodedListQuery) => {
  const { limit, offset } = getPageRowRange(query)
  return offset + limit
})
const noOffset = new StatementParameter(() => 0)
const oneRow = new StatementParameter(() => 1)
const unlimited = new StatementParameter(() => unlimitedRowCount)

const toDecodedQuery = (query: FollowableQuery<PagingQuery>): DecodedListQuery => ({ ...query })

/** Query properties that either are not parameters of the statement or are represented in its shape in another way. */
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

// The SQL parameters for followed lineages. `companies` are the companies' indexes, as text.
const periods = new StatementParameter(({ followed }: DecodedListQuery) => followed?.periods ?? [])

const gaps = new StatementParameter(({ followed }: DecodedListQuery) => followed?.gaps ?? [])

const companies = new StatementParameter(({ followed }: DecodedListQuery) =>
  makeArrayParameter(followed?.names.map((_, company) => String(company)) ?? [], OID.text)
)

/**
 * Replaces the values in a query with SQL parameters, except for the parameters in `shapedBy`. The type assertion
 * restores the property names.
 */
const makeShape = <Query, ShapedBy extends keyof Query>(query: DecodedQuery, shapedBy: ReadonlySet<PropertyKey>) =>
  Object.fromEntries(
    Object.entries(query).filter(([, value]) => value !== undefined).map(([name, value]) => [
      name,
      shapedBy.has(name) ? value : new StatementParameter((sent: DecodedListQuery) => sent[name]),
    ]),
  ) as ListQueryShape<Query, ShapedBy>

/**
 * Creates a function that compiles the definition of a list. `added` are columns that a request adds to the rows; with
 * `lineage_ticker`, the queries follow lineages. `filterNames` are the parameters that can be the reason for an empty
 * list.
 *
 * Compiling has two levels. `compileList` runs once for each list. The SQL text of a statement is built once for each
 * shape: the parameters that were sent, without their values, and what the statement is for. All queries of the same
 * shape share the text (`compileDecoded`).
 */
export const makeListCompiler = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const findEmptyReason = makeEmptyReasonFinder(sql)
  const empty = sql.literal("")
  const makeFromPage = makePageBuilder(sql)
  /** For each statement shape, a function that returns the SQL text with a query's parameter values. */
  const shapes = new LRUCache<string, (query: DecodedListQuery) => CompiledStatement>({
    maxSize: maxStatementBytes,
  })
  /** The number of lists compiled so far. It identifies a list in the keys of `shapes`. */
  let listCount = 0

  /**
   * Returns a limit that makes PostgreSQL plan a prepared statement for the actual values of its parameters. When
   * planning for those values, PostgreSQL replaces the expression with the value of `rows`. A generic plan would have
   * to include the subquery that counts 10^15 rows, which makes the generic plan look too expensive, although the
   * subquery never runs (docs/decisions/0143-planned-for-values-but-prepared.md).
   */
  const planForValues = (rows: ListStatementParameter<number>) =>
    sql`coalesce(${rows}::bigint, (select count(*) from generate_series(1, 1000000000000000)))`

  const compileList = <Query extends PagingQuery, ShapedBy extends keyof Query = never>(
    definition: ListDefinition<Query, ShapedBy>,
    added: ReadonlyArray<OptInColumn> = [],
    filterNames = listFilterNames(definition.Query ?? { fields: {} }),
  ): CompiledList<Query> => {
    const { Query = { fields: {} }, Row, countedExpression = sql.literal("*"), message, position, select } = definition
    const listId = listCount++
    const isFollowed = added.includes("lineage_ticker")
    const results = makeResultEncoder(Row, added)
    const columns = sql.literal(results.selection)
    const { buildConditions, describeLiterals } = compileFilters(sql, Query, results.models)
    const shapedBy = new Set<PropertyKey>(definition.shapedBy)

    /**
     * Determines everything that the SQL of a statement depends on, except the values of its parameters.
     * `buildStatement` uses the fields other than these:
     *
     * - `key` identifies the SQL text among all statements of all lists. It contains no text from clients.
     * - `isShort` is whether the statement usually takes little time (`CompiledStatement.isShort`).
     *
     * `limit` is `"parameter"` if the limit is an SQL parameter instead of a literal. `countsOutside` is whether the
     * page's rows have a column with the counts for the purpose `outside`.
     */
    const describeShape = (query: DecodedListQuery, purpose: Purpose) => {
      // `filters` lists the parameters in the query, with the number of values of each list, such as ` ticker[4] sort`.
      let [filters, isFiltered] = [describeLiterals(query), false]
      for (const name of Object.keys(query)) {
        const value = query[name]
        if (value === undefined || otherProperties.has(name)) continue
        isFiltered ||= !unfilteredParameters.has(name)
        filters += ` ${name}`
        if (shapedBy.has(name)) filters += `=${value}`
        // Followed symbols are passed as arrays of periods, so their number does not affect the SQL.
        else if (Array.isArray(value) && !(isFollowed && name === "ticker")) {
          filters += `[${countPaddedParameters(value)}]`
        }
      }
      const range = purpose === "page" ? getPageRowRange(query) : { limit: unlimitedRowCount, offset: 0 }
      const hasOffset = range.offset > 0
      const isDeep = range.offset >= minDeepPageOffset
      // A filtered statement without a ticker is planned for the values of each request. Otherwise PostgreSQL would do
      // so only for the first five executions of a prepared statement. It might then choose a generic plan that scans
      // the whole table for a filter that matches few rows.
      const { ticker } = query
      const isPlannedForValues = isFiltered && ticker === undefined
      const limit = purpose === "page" && isPlannedForValues ? "parameter" : range.limit
      const countsOutside = purpose === "page" && query.followed !== undefined && query.followed.gaps.length > 0
      const isShort = purpose === "page" && ticker !== undefined && !isDeep && range.limit <= maxShortLimit &&
        (!Array.isArray(ticker) || ticker.length <= maxShortTickers)
      const key = `${listId} ${purpose} ${limit} ${hasOffset} ${isDeep} ${countsOutside} ${filters}`
      return { key, purpose, limit, hasOffset, isDeep, countsOutside, isPlannedForValues, isShort }
    }

    /**
     * Builds a statement that selects rows, by calling the definition's `select` with the SQL clauses for it. `page`
     * and `period` are those for the statement's purpose, and `columns` is the select list.
     */
    const buildRows = (
      query: DecodedQuery,
      { columns, page, period }: Pick<ListClauses, "columns" | "period"> & { readonly page: PageClauses },
    ) => {
      const conditions = buildConditions(query)
      const where = sql.and(conditions)
      const fromPage = (options: PageOptions) => makeFromPage({ ...options, clauses: page, period })
      return select(makeShape(query, shapedBy), {
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
     * Builds an SQL array with one count per company, in the order of the companies in `X-Lineage`: the number of
     * results on days when none of the requested companies used the symbol. Stops counting at `maxCountedOmittedRows`
     * plus one, so that the header can report that there are more.
     *
     * The subquery for a company is the list itself, restricted to the company's gaps. `company` is a column of
     * `requested`, and `lineage_ticker` contains the index of the gap's company (`FollowedSymbolPeriod.owner`).
     */
    const buildOutsideCounts = (query: DecodedQuery) => {
      const limit = sql.literal(String(maxCountedOmittedRows + 1))
      // Counting needs no order.
      const limitOnly = () => sql`limit ${limit}`
      const page = { isExport: false, orderBy: () => empty, orderUpToPage: limitOnly, orderAndLimit: limitOnly, limit }
      const rows = buildRows(query, {
        columns: sql.literal("lineage_ticker"),
        page: { ...page, offset: noOffset, end: unlimited, isDeep: false },
        period: makeSymbolPeriodClauses(sql, gaps, {
          rowDate: results.rowDate,
          areGaps: true,
          orderAndLimit: limitOnly,
          selection: "where lineage_ticker = company",
        }),
      })
      return sql`array(
        select (select count(${countedExpression}) from (${rows}) as list)
        from unnest((select ${companies}::text[])) with ordinality as requested (company, position) order by position
      )`
    }

    /**
     * Builds the statement for a purpose. A page has an order and a limit, an export has only an order, and a count has
     * neither. The rows of a page have up to three columns: the record of the response's columns, the counts for the
     * purpose `outside` if the shape has `countsOutside`, and the position for `after` if the list has that parameter.
     */
    const buildStatement = (query: DecodedQuery, shape: ReturnType<typeof describeShape>) => {
      const { countsOutside, hasOffset, isDeep, isPlannedForValues, purpose } = shape
      if (purpose === "outside") return sql`select ${buildOutsideCounts(query)}`
      const [isCount, isPage] = [purpose === "count", purpose === "page"]
      const orderBy = (order: Statement.Fragment) => isCount ? empty : sql`order by ${order}`
      // Unless the statement is planned for its values anyway, the limit is a literal, because with a parameter
      // PostgreSQL would plan every execution separately.
      const rowLimit = shape.limit === "parameter" ? planForValues(limit) : sql.literal(String(shape.limit))
      const limitAndOffset = sql`limit ${rowLimit}${hasOffset ? sql` offset ${offset}` : empty}`
      const limitUpToPage = hasOffset ? sql`limit ${offset}::bigint + ${rowLimit}` : limitAndOffset
      const page: PageClauses = {
        isExport: purpose === "export",
        orderBy,
        orderUpToPage: (order) => isPage ? sql`${orderBy(order)} ${limitUpToPage}` : empty,
        orderAndLimit: (order) => isPage ? sql`${orderBy(order)} ${limitAndOffset}` : orderBy(order),
        limit: rowLimit,
        offset: hasOffset ? offset : noOffset,
        end: isPage ? end : unlimited,
        isDeep,
      }
      const period = !isFollowed ? undefined : makeSymbolPeriodClauses(sql, periods, {
        rowDate: results.rowDate,
        areGaps: false,
        orderAndLimit: page.orderUpToPage,
        selection: "order by rank",
      })
      const rows = buildRows(query, {
        columns: sql.csv([
          columns,
          ...(countsOutside ? [buildOutsideCounts(query)] : []),
          ...(isPage && position !== undefined ? [position] : []),
        ]),
        page,
        period,
      })
      if (!isCount) return rows
      // A count has one row, so the limit has no effect other than how the statement is planned.
      const count = sql`select count(${countedExpression}) as total from (${rows}) as list`
      return isPlannedForValues ? sql`${count} limit ${planForValues(oneRow)}` : count
    }

    /**
     * Returns the statement for a query. Statements of the same shape share their SQL text, which is built only for the
     * first of them.
     */
    const compileDecoded = (query: DecodedListQuery, purpose: Purpose) => {
      const shape = describeShape(query, purpose)
      const cached = shapes.get(shape.key)
      if (cached !== undefined) return cached(query)
      const build = () => buildStatement(query, shape)
      const fill = compileStatement<DecodedListQuery>({ isPrepared: true, isShort: shape.isShort, build })
      const statement = fill(query)
      const size = shape.key.length + estimateBytes(statement)
      if (size > maxBytesPerStatement) return { ...statement, isPrepared: false }
      shapes.set(shape.key, fill, { size })
      return statement
    }

    const compile: CompiledList<Query>["compile"] = (query, purpose) => compileDecoded(toDecodedQuery(query), purpose)

    /**
     * Returns the number of omitted results for each company, or an empty array if the query has no gaps. `counted` is
     * the array of counts from the page's first row. A second statement is needed only if the page has no rows.
     */
    const countOmittedRows = (query: DecodedListQuery, read: StatementReader, counted?: unknown) => {
      const toCounts = (outside: unknown): ReadonlyArray<number> => Array.isArray(outside) ? outside.map(Number) : []
      return counted !== undefined || query.followed === undefined || query.followed.gaps.length === 0
        ? Effect.succeed(toCounts(counted))
        : Effect.map(read(compileDecoded(query, "outside")), ([row]) => toCounts(row?.[0]))
    }

    /** Returns the headers that depend on the data. `empty` is the reason why the list is empty. */
    const makeHeaders = (
      { followed }: FollowableQuery<Query>,
      outside: ReadonlyArray<number>,
      empty?: EmptyReason,
    ) => ({
      ...(followed !== undefined && { "x-lineage": formatLineageHeader(followed, outside) }),
      ...(empty !== undefined && { "x-empty-reason": formatEmptyReason(empty) }),
    })

    /** Determines why the list has no rows. */
    const explain = (query: FollowableQuery<Query>, read: StatementReader) =>
      findEmptyReason({
        query: toDecodedQuery(query),
        filterNames,
        hasOmittedRows: (query) =>
          Effect.map(countOmittedRows(query, read), (outside) => outside.some((count) => count > 0)),
        hasRows: (query) => Effect.map(read(compileDecoded(query, "page")), (rows) => rows.length > 0),
        read,
      })

    const readHeaders = Effect.fnUntraced(function* (query: FollowableQuery<Query>, read: StatementReader) {
      const outside = yield* countOmittedRows(toDecodedQuery(query), read)
      const isEmpty = query.explain === true &&
        (yield* read(compileDecoded({ ...toDecodedQuery(query), page: 1, limit: 1 }, "page"))).length === 0
      return makeHeaders(query, outside, isEmpty ? yield* explain(query, read) : undefined)
    })

    /**
     * Encodes a page and adds the headers that depend on the data: the lineages that the page follows, and the reason
     * if the page is empty. `isTransient` is whether that reason could not be determined in time, so that the response
     * must not be cached.
     */
    const addHeaders = Effect.fnUntraced(function* (
      query: FollowableQuery<Query>,
      read: StatementReader,
      readRows: ReturnType<StatementReader>,
      encode: (rows: Rows, empty?: EmptyReason) => ResponseContent,
    ) {
      const rows = yield* readRows
      // The second column of each row contains the counts (`buildStatement`).
      const outside = yield* countOmittedRows(toDecodedQuery(query), read, rows[0]?.[1])
      const empty = rows.length === 0 && query.explain === true ? yield* explain(query, read) : undefined
      const headers = makeHeaders(query, outside, empty)
      return { ...encode(rows, empty), headers, isTransient: empty?.code === "undetermined" }
    })

    const isDated = definition.comparesPeriods === true || results.rowDate !== undefined
    return {
      compile,
      readPage: (query, format, read) => {
        const readRows = read(compile(query, "page"))
        const encode = (rows: Rows, empty?: EmptyReason) =>
          encodeListPage(query, {
            results,
            format,
            rows: getRecordColumn(rows),
            // The position is the last column of each row (`buildStatement`).
            getRowPosition: position === undefined ? undefined : (row) => String(rows[row]?.at(-1)),
            message: empty === undefined ? message : () => describeEmptyReason(empty),
          })
        return query.followed === undefined && query.explain !== true
          ? Effect.map(readRows, (rows) => encode(rows))
          : addHeaders(query, read, readRows, encode)
      },
      countResults: (query, read) =>
        // The total number does not depend on where the page starts.
        Effect.map(
          read(compileDecoded({ ...toDecodedQuery(query), after: undefined }, "count")),
          ([found]) => Number(found?.[0] ?? 0),
        ),
      readHeaders,
      results,
      follow: isDated ? followSymbolPeriods : followCurrentSymbols,
    }
  }
  return compileList
})

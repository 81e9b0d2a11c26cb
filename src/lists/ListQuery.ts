/** Compiles list definitions to SQL that reads a page or an export, or counts the results for an estimate (D8, D28). */
import { Effect } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { LRUCache } from "lru-cache"
import {
  type CompiledStatement,
  compileStatement,
  makeArrayParameter,
  OID,
  StatementParameter,
} from "../db/CompiledStatement.ts"
import type { Rows, StatementReader } from "../db/Reader.ts"
import type { CompanyLineage } from "../lineage/LineageRules.ts"
import { type BinaryRecord, getRecordColumn } from "../rows/BinaryRecord.ts"
import type { OptInColumn } from "../rows/Columns.ts"
import type { PageFormat } from "../rows/ListFormats.ts"
import { makeSingleRowResultEncoder, type ResultEncoder } from "../rows/ResultWriter.ts"
import { addOptInColumns, type RowModels } from "../rows/RowEncoder.ts"
import type { DatabasePoolTimeout, DataRefreshing } from "../rules/Errors.ts"
import type { DecodedQuery, QuerySchema } from "../rules/FilterDeclarations.ts"
import {
  encodeListPage,
  getPageRowRange,
  type PagingQuery,
  type ResponseContent,
  unlimitedRowCount,
} from "../rules/Paging.ts"
import {
  compileFilterConditions,
  countPaddedParameters,
  type DecodedListQuery,
  type ListStatementParameter,
  makeLiteralConditionDescriber,
} from "./Conditions.ts"
import { type DeepPageOptions, makeDeepPageBuilder, minDeepPageOffset, type PageClauses } from "./DeepPages.ts"
import {
  followCurrentSymbols,
  type FollowedLineages,
  followSymbolPeriods,
  formatLineageHeader,
  maxCountedOmittedRows,
  type WithFollowedLineages,
} from "./FollowedLineages.ts"
import { makeSymbolPeriodClauses, type SymbolPeriodClauses } from "./SymbolPeriodClauses.ts"

/** SQL fragments for the statement of a list. A statement that only counts rows has no order. */
export interface ListClauses extends PageClauses {
  /** The select list: one record with the columns of the JSON. */
  readonly columns: Statement.Fragment
  /** The conditions of the filters in the request. */
  readonly conditions: ReadonlyArray<Statement.Fragment | string>
  /** `conditions`, joined with `and`. */
  readonly where: Statement.Fragment
  /**
   * Builds the SQL after `from` for a page of a table; the table keeps its name. With a key, pages are fast at any
   * offset. If the query follows lineages, the SQL reads each period separately.
   */
  readonly fromPage: (options: Omit<DeepPageOptions, "clauses" | "period">) => Statement.Fragment
  /** Set if the query follows lineages. Without `fromPage`, `select` must use its `from` and add `lineage_ticker`. */
  readonly period: SymbolPeriodClauses | undefined
}

type AsParameters<Query> = { readonly [Name in keyof Query]: ListStatementParameter<Exclude<Query[Name], undefined>> }

/**
 * A query whose statement is being compiled: the parameters that were sent, without their values. Only parameters in
 * `shapedBy` keep their values, so that no other value becomes part of the SQL.
 */
export type ListQueryShape<Query, ShapedBy extends keyof Query = never> =
  & Pick<Query, ShapedBy>
  & AsParameters<Omit<Query, ShapedBy | keyof PagingQuery>>

/** The model of results that are groups of rows. */
export interface RowGroupModel {
  /** Makes the encoder of groups whose rows have additional columns. */
  readonly makeEncoder: (added: ReadonlyArray<OptInColumn>) => ResultEncoder
}

/** The declaration of a list. */
export interface ListDefinition<Query extends PagingQuery, ShapedBy extends keyof Query = never> {
  /** The schema of the query. Its filters become `ListClauses.conditions`. */
  readonly Query?: Pick<QuerySchema, "fields">
  /** The model of a row, or of results that are groups of rows. */
  readonly Row: RowModels | RowGroupModel
  /** Set if `select` itself compares the rows with the periods, because a row has its dates in several columns. */
  readonly comparesPeriods?: true
  /** Enumerated parameters whose value changes the SQL of `select`. */
  readonly shapedBy?: ReadonlyArray<ShapedBy>
  /** Called once per query shape. */
  readonly select: (query: ListQueryShape<Query, ShapedBy>, clauses: ListClauses) => Statement.Statement<object>
  /** The argument of SQL's `count` if results are groups of rows. `select` must return the columns in this argument. */
  readonly countedExpression?: Statement.Fragment
  /** Returns the `message` of the JSON envelope for the rows of a page. */
  readonly message?: (rows: ReadonlyArray<BinaryRecord>) => string | undefined
}

export interface CompiledListQuery<Query> {
  readonly readPage: (
    query: Query,
    format: PageFormat,
    read: StatementReader,
  ) => Effect.Effect<ResponseContent, DataRefreshing | DatabasePoolTimeout>
  /** Counts all results of the query, for an estimate. */
  readonly countResults: (
    query: Query,
    read: StatementReader,
  ) => Effect.Effect<number, DataRefreshing | DatabasePoolTimeout>
  /** The statement that reads the rows in the range from `getPageRowRange`, in order. */
  readonly compilePage: (query: Query) => CompiledStatement
  /** The statement that reads all rows, in order. */
  readonly compileExport: (query: Query) => CompiledStatement
  /** The statement that counts all results. Its only value is a `bigint`. */
  readonly compileCount: (query: Query) => CompiledStatement
  /** Reads the response headers that depend on the data. */
  readonly readHeaders: (
    query: Query,
    read: StatementReader,
  ) => Effect.Effect<Readonly<Record<string, string>>, DataRefreshing | DatabasePoolTimeout>
  readonly results: ResultEncoder
}

/** A list whose queries follow lineages. */
export interface LineageFollowingListQuery<Query> extends CompiledListQuery<Query> {
  readonly follow: (lineages: ReadonlyArray<CompanyLineage>) => FollowedLineages
}

const unfilteredParameters = new Set([
  "page",
  "limit",
  "format",
  "sort",
  "account_id",
  "follow_lineage",
  "provenance",
  "as_of",
])

/**
 * Whether PostgreSQL must plan each execution for its values: true for a query with filters, but none on the ticker.
 * After five executions, a prepared statement gets a generic plan, which may scan the table for a rare value.
 */
const needsCustomPlan = (query: PagingQuery) => {
  const sent = Object.entries(query).flatMap(([name, value]) => value === undefined ? [] : [name])
  return !sent.includes("ticker") && sent.some((name) => !unfilteredParameters.has(name))
}

const makeResultEncoder = (row: RowModels | RowGroupModel, added: ReadonlyArray<OptInColumn>) =>
  "makeEncoder" in row ? row.makeEncoder(added) : makeSingleRowResultEncoder(addOptInColumns(row, added))

/**
 * Memory for compiled statements, about 2,000 of them. Clients choose the filters, so the number of shapes has no
 * natural limit. A statement with hundreds of parameters is neither stored nor prepared, but compiled for each request.
 */
const maxStatementBytes = 8_388_608
const maxBytesPerStatement = 65_536
const bytesPerParameter = 256

const estimateBytes = ({ parameters, text }: CompiledStatement) => text.length + parameters.length * bytesPerParameter

/** `outside` counts, for each company, the results from days when no requested company used the symbol. */
type Purpose = "page" | "export" | "count" | "outside"

/** Properties of a page that its SQL depends on, in addition to the filters. */
interface PageShape {
  readonly purpose: Purpose
  readonly limit: number
  readonly hasOffset: boolean
  readonly isDeep: boolean
  /** Whether the rows of a page have a second column with the counts of `outside`. */
  readonly countsOutside: boolean
}

const maxShortLimit = 25
const maxShortTickers = 4

/** Whether the query reads few rows of few symbols, which takes PostgreSQL less than a millisecond. */
const isShort = ({ ticker }: DecodedListQuery, { isDeep, limit, purpose }: PageShape) =>
  purpose === "page" && ticker !== undefined && !isDeep && limit <= maxShortLimit &&
  (!Array.isArray(ticker) || ticker.length <= maxShortTickers)

const hasGaps = ({ followed }: Partial<WithFollowedLineages>) => followed !== undefined && followed.gaps.length > 0

const getPageShape = (query: PagingQuery & Partial<WithFollowedLineages>, purpose: Purpose): PageShape => {
  const { limit, offset } = getPageRowRange(purpose === "page" ? query : { ...query, limit: "all" })
  const countsOutside = purpose === "page" && hasGaps(query)
  return { purpose, limit, hasOffset: offset > 0, isDeep: offset >= minDeepPageOffset, countsOutside }
}

const offset = new StatementParameter((query: DecodedListQuery) => getPageRowRange(query).offset)
const noOffset = new StatementParameter(() => 0)

const toDecodedQuery = (query: PagingQuery): DecodedListQuery => ({ ...query })

/** Properties of a query that are not parameters of its statement, or that `PageShape` represents. */
const otherProperties = new Set(["page", "limit", "format", "follow_lineage", "provenance", "as_of", "cik", "followed"])

const periods = new StatementParameter(({ followed }: DecodedListQuery) => followed?.periods ?? [])

const gaps = new StatementParameter(({ followed }: DecodedListQuery) => followed?.gaps ?? [])

const companies = new StatementParameter(({ followed }: DecodedListQuery) =>
  makeArrayParameter(followed?.names.map((_, company) => String(company)) ?? [], OID.text)
)

const toCompanyCounts = (counts: unknown) => Array.isArray(counts) ? counts.map(Number) : []

/** Replaces values with parameters, except those in `shapedBy`. The type assertion restores the property names. */
const makeShape = <Query, ShapedBy extends keyof Query>(query: DecodedQuery, shapedBy: ReadonlySet<PropertyKey>) =>
  Object.fromEntries(
    Object.entries(query).filter(([, value]) => value !== undefined).map(([name, value]) => [
      name,
      shapedBy.has(name) ? value : new StatementParameter((sent: DecodedListQuery) => sent[name]),
    ]),
  ) as ListQueryShape<Query, ShapedBy>

const noHeaders = Effect.succeed({})
const noOutsideRows = Effect.succeed<ReadonlyArray<number>>([])

type PlainColumn = Exclude<OptInColumn, "lineage_ticker">

/** Makes the functions that compile list definitions. */
export const makeListQueryCompiler = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const empty = sql.literal("")
  const makeFromPage = makeDeepPageBuilder(sql)
  const shapes = new LRUCache<string, (query: DecodedListQuery) => CompiledStatement>({
    maxSize: maxStatementBytes,
  })
  let listCount = 0

  const compileList = <Query extends PagingQuery, ShapedBy extends keyof Query>(
    definition: ListDefinition<Query, ShapedBy>,
    added: ReadonlyArray<OptInColumn>,
  ) => {
    const { Query = { fields: {} }, Row, countedExpression = sql.literal("*"), message, select } = definition
    const listId = listCount++
    const isFollowed = added.includes("lineage_ticker")
    const results = makeResultEncoder(Row, added)
    const columns = sql.literal(results.selection)
    const getConditions = compileFilterConditions(sql, Query)
    const describeLiterals = makeLiteralConditionDescriber(Query)
    const shapedBy = new Set<PropertyKey>(definition.shapedBy)

    /** Describes everything that the SQL depends on. The result contains no client-supplied text. */
    const describeShape = (query: DecodedQuery, { countsOutside, hasOffset, isDeep, limit, purpose }: PageShape) => {
      let key = `${listId} ${purpose} ${limit} ${hasOffset} ${isDeep} ${countsOutside} ${describeLiterals(query)}`
      for (const name of Object.keys(query)) {
        const value = query[name]
        if (value === undefined || otherProperties.has(name)) continue
        key += ` ${name}`
        if (shapedBy.has(name)) key += `=${value}`
        else if (Array.isArray(value) && !(isFollowed && name === "ticker")) key += `[${countPaddedParameters(value)}]`
      }
      return key
    }

    interface RowClauses {
      readonly columns: Statement.Fragment
      readonly page: PageClauses
      readonly period: SymbolPeriodClauses | undefined
    }

    const buildRows = (query: DecodedQuery, { columns, page, period }: RowClauses) => {
      const conditions = getConditions(query)
      return select(makeShape(query, shapedBy), {
        ...page,
        columns,
        conditions,
        where: sql.and(conditions),
        fromPage: (options) => makeFromPage({ ...options, clauses: page, period }),
        period,
      })
    }

    /**
     * Builds an SQL array: for each company, the number of results from days when no requested company used the symbol.
     * Counts only up to one more than `maxCountedOmittedRows`.
     */
    const buildOutsideCounts = (query: DecodedQuery) => {
      const limit = maxCountedOmittedRows + 1
      const limitOnly = () => sql.literal(`limit ${limit}`)
      const page = { orderBy: () => empty, orderUpToPage: limitOnly, orderAndLimit: limitOnly, limit }
      const rows = buildRows(query, {
        columns: sql.literal("lineage_ticker"),
        page: { ...page, offset: noOffset, isDeep: false },
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

    const buildStatement = (query: DecodedQuery, pageShape: PageShape) => {
      const { countsOutside, hasOffset, isDeep, limit, purpose } = pageShape
      if (purpose === "outside") return sql`select ${buildOutsideCounts(query)}`
      const isCount = purpose === "count"
      const orderBy = (order: Statement.Fragment) => isCount ? empty : sql`order by ${order}`
      // The limit is a literal, because with a parameter PostgreSQL would plan every execution.
      const limitAndOffset = sql`${sql.literal(`limit ${limit}`)}${hasOffset ? sql` offset ${offset}` : empty}`
      const limitUpToPage = hasOffset ? sql`limit ${offset}::bigint + ${sql.literal(String(limit))}` : limitAndOffset
      const page: PageClauses = {
        orderBy,
        orderUpToPage: (order) => limit === unlimitedRowCount ? empty : sql`${orderBy(order)} ${limitUpToPage}`,
        orderAndLimit: (order) =>
          limit === unlimitedRowCount ? orderBy(order) : sql`${orderBy(order)} ${limitAndOffset}`,
        limit,
        offset: hasOffset ? offset : noOffset,
        isDeep,
      }
      const period = !isFollowed ? undefined : makeSymbolPeriodClauses(sql, periods, {
        rowDate: results.rowDate,
        areGaps: false,
        orderAndLimit: page.orderUpToPage,
        selection: "order by rank",
      })
      const rows = buildRows(query, {
        columns: countsOutside ? sql`${columns}, ${buildOutsideCounts(query)}` : columns,
        page,
        period,
      })
      return isCount ? sql`select count(${countedExpression}) as total from (${rows}) as list` : rows
    }

    const compile = (query: Query, purpose: Purpose) => {
      const values = toDecodedQuery(query)
      const pageShape = getPageShape(query, purpose)
      const key = describeShape(values, pageShape)
      const known = shapes.get(key)
      if (known !== undefined) return known(values)
      const fill = compileStatement<DecodedListQuery>({
        isPrepared: !needsCustomPlan(query),
        isShort: isShort(values, pageShape),
        build: () => buildStatement(values, pageShape),
      })
      const statement = fill(values)
      const size = key.length + estimateBytes(statement)
      if (size > maxBytesPerStatement) return { ...statement, isPrepared: false }
      shapes.set(key, fill, { size })
      return statement
    }
    const compilePage = (query: Query) => compile(query, "page")
    const compileCount = (query: Query) => compile(query, "count")

    return {
      readRows: (query: Query, read: StatementReader) => read(compilePage(query)),
      countResults: (query: Query, read: StatementReader) =>
        Effect.map(read(compileCount(query)), ([found]) => Number(found?.[0] ?? 0)),
      encodePage: (query: Query, format: PageFormat, rows: Rows) =>
        encodeListPage(query, { results, format, rows: getRecordColumn(rows), message }),
      compilePage,
      compileExport: (query: Query) => compile(query, "export"),
      compileCount,
      results,
      countOutside: (query: Query, read: StatementReader) =>
        Effect.map(read(compile(query, "outside")), ([row]) => toCompanyCounts(row?.[0])),
    }
  }

  /** Compiles the list for queries that follow no lineages. `added` contains further columns of its rows. */
  const makeListQuery = <Query extends PagingQuery, ShapedBy extends keyof Query = never>(
    definition: ListDefinition<Query, ShapedBy>,
    added: ReadonlyArray<PlainColumn> = [],
  ): CompiledListQuery<Query> => {
    const list = compileList(definition, added)
    return {
      ...list,
      readPage: (query, format, read) =>
        Effect.map(list.readRows(query, read), (rows) => list.encodePage(query, format, rows)),
      readHeaders: () => noHeaders,
    }
  }

  /** Compiles the list for queries that follow lineages. */
  const makeFollowedListQuery = <Query extends PagingQuery, ShapedBy extends keyof Query>(
    definition: ListDefinition<Query, ShapedBy>,
    added: ReadonlyArray<PlainColumn>,
  ): LineageFollowingListQuery<Query & WithFollowedLineages> => {
    type Followed = Query & WithFollowedLineages
    const list = compileList<Followed, ShapedBy>(definition, [...added, "lineage_ticker"])
    const makeHeaders = ({ followed }: Followed, outside: ReadonlyArray<number>) => ({
      "x-lineage": formatLineageHeader(followed, outside),
    })
    const readHeaders = (query: Followed, read: StatementReader) =>
      Effect.map(
        hasGaps(query) ? list.countOutside(query, read) : noOutsideRows,
        (outside) => makeHeaders(query, outside),
      )
    /** Takes the counts of omitted results from the first row. Only a page without rows needs a second statement. */
    const findHeaders = (query: Followed, [row]: Rows, read: StatementReader) =>
      row === undefined || !hasGaps(query)
        ? readHeaders(query, read)
        : Effect.succeed(makeHeaders(query, toCompanyCounts(row[1])))
    const readPage = (query: Followed, format: PageFormat, read: StatementReader) =>
      Effect.flatMap(list.readRows(query, read), (rows) => {
        const content = list.encodePage(query, format, rows)
        return Effect.map(findHeaders(query, rows, read), (headers) => ({ ...content, headers }))
      })
    const isDated = definition.comparesPeriods === true || list.results.rowDate !== undefined
    const follow = isDated ? followSymbolPeriods : followCurrentSymbols
    return { ...list, readPage, readHeaders, follow }
  }
  return { makeListQuery, makeFollowedListQuery }
})

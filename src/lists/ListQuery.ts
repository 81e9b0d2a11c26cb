/** Compiles list definitions to SQL that reads a page or an export, or counts the results for an estimate (D8, D28). */
import { Effect } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { LRUCache } from "lru-cache"
import { type CompiledStatement, compileStatement, Parameter } from "../db/CompiledStatement.ts"
import { Database } from "../db/Database.ts"
import { RequestContext } from "../http/RequestContext.ts"
import type { ListFormat } from "../rows/ListFormats.ts"
import { makeRowResultEncoder, type ResultEncoder } from "../rows/ResultWriter.ts"
import type { RowModels } from "../rows/RowEncoder.ts"
import { type RowRecord, toRecords } from "../rows/RowRecord.ts"
import type { DatabasePoolTimeout, DataRefreshing } from "../rules/Errors.ts"
import type { DecodedQuery, QuerySchema } from "../rules/FilterDeclarations.ts"
import { encodeListPage, getRowRange, type PageQuery, type ResponseContent, unlimitedRows } from "../rules/Paging.ts"
import {
  compileConditions,
  countListParameters,
  type DecodedListQuery,
  makeLiteralDescriber,
  type QueryParameter,
} from "./Conditions.ts"
import { type DeepPageOptions, makeDeepPageBuilder, minDeepOffset, type PageClauses } from "./DeepPages.ts"

/** SQL fragments for the statement of a list. A statement that only counts rows has no order. */
export interface ListClauses extends PageClauses {
  /** The selected record, with the columns of the JSON. */
  readonly columns: Statement.Fragment
  /** The conditions of the filters that were sent. */
  readonly conditions: ReadonlyArray<Statement.Fragment | string>
  /** `conditions`, joined with `and`. */
  readonly where: Statement.Fragment
  /** Builds a `from` clause for a page of a table that is fast at any offset. The alias is the table name. */
  readonly fromPage: (options: Omit<DeepPageOptions, "clauses">) => Statement.Fragment
}

type AsParameters<Query> = { readonly [Name in keyof Query]: QueryParameter<Exclude<Query[Name], undefined>> }

/**
 * A query whose statement is being compiled: parameters that were sent, without their values. Only those in `shapedBy`
 * have a value, so that no other value becomes part of the SQL.
 */
export type QueryShape<Query, ShapedBy extends keyof Query = never> =
  & Pick<Query, ShapedBy>
  & AsParameters<Omit<Query, ShapedBy | keyof PageQuery>>

/** The declaration of a list. */
export interface ListDefinition<Query extends PageQuery, ShapedBy extends keyof Query = never> {
  /** The schema of the query. Its filters become `ListClauses.conditions`. */
  readonly Query?: Pick<QuerySchema, "fields">
  /** The model of a row, or the encoder of results that are groups of rows. */
  readonly Row: RowModels | ResultEncoder
  /** Enumerated parameters whose value changes the SQL of `select`. */
  readonly shapedBy?: ReadonlyArray<ShapedBy>
  /** Called once per query shape. */
  readonly select: (query: QueryShape<Query, ShapedBy>, clauses: ListClauses) => Statement.Statement<object>
  /** The argument of SQL's `count`, if a result is a group of rows. `select` adds its columns after the record. */
  readonly counted?: Statement.Fragment
  /** The `message` of the JSON envelope for the rows of a page. */
  readonly message?: (rows: ReadonlyArray<RowRecord>) => string | undefined
}

export interface ListQuery<Query> {
  readonly readPage: (
    query: Query,
    format: ListFormat,
  ) => Effect.Effect<ResponseContent, DataRefreshing | DatabasePoolTimeout>
  /** The statement that reads the rows in the range from `getRowRange`, in order. */
  readonly compilePage: (query: Query) => CompiledStatement
  /** The statement that reads all rows, in order. */
  readonly compileExport: (query: Query) => CompiledStatement
  /** The statement that counts all results. Its only value is a `bigint`. */
  readonly compileCount: (query: Query) => CompiledStatement
  readonly results: ResultEncoder
}

const unfilteredParameters = new Set(["page", "limit", "format", "sort", "account_id"])

/**
 * Whether PostgreSQL must plan the statement for its specific values: it has filters, but none on the ticker.
 * A prepared statement gets a generic plan after five executions, which may scan the table for a rare value.
 */
const needsCustomPlan = (query: PageQuery) => {
  const sent = Object.entries(query).flatMap(([name, value]) => value === undefined ? [] : [name])
  return !sent.includes("ticker") && sent.some((name) => !unfilteredParameters.has(name))
}

const isResultEncoder = (row: RowModels | ResultEncoder): row is ResultEncoder => "selection" in row

/**
 * Memory for compiled statements, about 2,000 of them. Clients choose the filters, so the number of shapes has no
 * natural limit. A statement with hundreds of parameters is compiled for each request.
 */
const maxStatementBytes = 8_388_608
const maxBytesPerStatement = 65_536
const bytesPerParameter = 256

const estimateBytes = ({ parameters, text }: CompiledStatement) => text.length + parameters.length * bytesPerParameter

type Purpose = "page" | "export" | "count"

/** What the SQL depends on, in addition to the filters. */
interface PageShape {
  readonly purpose: Purpose
  readonly limit: number
  readonly hasOffset: boolean
  readonly isDeep: boolean
}

const getPageShape = (query: PageQuery, purpose: Purpose): PageShape => {
  const { limit, offset } = getRowRange(purpose === "page" ? query : { ...query, limit: "all" })
  return { purpose, limit, hasOffset: offset > 0, isDeep: offset >= minDeepOffset }
}

const offset = new Parameter((query: DecodedListQuery) => getRowRange(query).offset)
const noOffset = new Parameter(() => 0)

const toDecodedQuery = (query: PageQuery): DecodedListQuery => ({ ...query })

const pagingParameters = new Set(["page", "limit", "format"])

/** Replaces values with parameters, except those in `shapedBy`. The cast restores the names. */
const makeShape = <Query, ShapedBy extends keyof Query>(query: DecodedQuery, shapedBy: ReadonlySet<PropertyKey>) =>
  Object.fromEntries(
    Object.entries(query).filter(([, value]) => value !== undefined).map(([name, value]) => [
      name,
      shapedBy.has(name) ? value : new Parameter((sent: DecodedListQuery) => sent[name]),
    ]),
  ) as QueryShape<Query, ShapedBy>

/** Makes the function that compiles list definitions. */
export const makeListQueryCompiler = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { readValues } = yield* Database
  const empty = sql.literal("")
  const makeFromPage = makeDeepPageBuilder(sql)
  const shapes = new LRUCache<string, (query: DecodedListQuery) => CompiledStatement>({
    maxSize: maxStatementBytes,
    maxEntrySize: maxBytesPerStatement,
  })
  let listCount = 0

  return <Query extends PageQuery, ShapedBy extends keyof Query = never>(
    definition: ListDefinition<Query, ShapedBy>,
  ): ListQuery<Query> => {
    const { Query = { fields: {} }, Row, counted = sql.literal("*"), message, select } = definition
    const listId = listCount++
    const results = isResultEncoder(Row) ? Row : makeRowResultEncoder(Row)
    const columns = sql.literal(results.selection)
    const getConditions = compileConditions(sql, Query)
    const describeLiterals = makeLiteralDescriber(Query)
    const shapedBy = new Set<PropertyKey>(definition.shapedBy)

    /** Describes everything that the SQL depends on. The result contains no client-supplied text. */
    const describeShape = (query: DecodedQuery, { hasOffset, isDeep, limit, purpose }: PageShape) => {
      let key = `${listId} ${purpose} ${limit} ${hasOffset} ${isDeep} ${describeLiterals(query)}`
      for (const name of Object.keys(query)) {
        const value = query[name]
        if (value === undefined || pagingParameters.has(name)) continue
        key += ` ${name}`
        if (shapedBy.has(name)) key += `=${value}`
        else if (Array.isArray(value)) key += `[${countListParameters(value)}]`
      }
      return key
    }

    const buildStatement = (query: DecodedQuery, { hasOffset, isDeep, limit, purpose }: PageShape) => {
      const conditions = getConditions(query)
      const orderBy = (order: Statement.Fragment) => purpose === "count" ? empty : sql`order by ${order}`
      // The limit is a literal, because with a parameter PostgreSQL would plan every execution.
      const limitAndOffset = sql`${sql.literal(`limit ${limit}`)}${hasOffset ? sql` offset ${offset}` : empty}`
      const limitUpToPage = hasOffset ? sql`limit ${offset}::bigint + ${sql.literal(String(limit))}` : limitAndOffset
      const page: PageClauses = {
        orderBy,
        orderUpToPage: (order) => limit === unlimitedRows ? empty : sql`${orderBy(order)} ${limitUpToPage}`,
        orderAndLimit: (order) => limit === unlimitedRows ? orderBy(order) : sql`${orderBy(order)} ${limitAndOffset}`,
        limit,
        offset: hasOffset ? offset : noOffset,
        isDeep,
      }
      const rows = select(makeShape(query, shapedBy), {
        ...page,
        columns,
        conditions,
        where: sql.and(conditions),
        fromPage: (options) => makeFromPage({ ...options, clauses: page }),
      })
      return purpose === "count" ? sql`select count(${counted}) as total from (${rows}) as list` : rows
    }

    const compile = (query: Query, purpose: Purpose) => {
      const values = toDecodedQuery(query)
      const pageShape = getPageShape(query, purpose)
      const key = describeShape(values, pageShape)
      const known = shapes.get(key)
      if (known !== undefined) return known(values)
      const fill = compileStatement<DecodedListQuery>({
        isPrepared: !needsCustomPlan(query),
        build: () => buildStatement(values, pageShape),
      })
      const statement = fill(values)
      shapes.set(key, fill, { size: estimateBytes(statement) })
      return statement
    }
    const compilePage = (query: Query) => compile(query, "page")
    const compileCount = (query: Query) => compile(query, "count")

    /** Counts all results of the query, for an estimate. */
    const countResults = (query: Query, { response }: RequestContext) =>
      Effect.map(readValues(compileCount(query)), ([found]) => {
        response.totalRecords = Number(found?.[0] ?? 0)
      })

    const readRows = (query: Query) =>
      Effect.flatMap(RequestContext, (context) => {
        const reading = readValues(compilePage(query))
        return context.purpose === "estimate" ? Effect.andThen(countResults(query, context), reading) : reading
      })

    return {
      readPage: (query, format) =>
        Effect.map(
          readRows(query),
          (rows) => encodeListPage(query, { results, format, rows: toRecords(rows), message }),
        ),
      compilePage,
      compileExport: (query) => compile(query, "export"),
      compileCount,
      results,
    }
  }
})

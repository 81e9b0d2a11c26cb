/**
 * Compiles a list's definition to functions that read a page or an export, or count the results for an estimate (D8).
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { LRUCache } from "lru-cache"
import { type CompiledStatement, compileStatement } from "../../postgres/CompiledStatement.ts"
import type { StatementReader, StatementRows } from "../../postgres/DatabaseReader.ts"
import type { CompanyLineage } from "../lineage/LineageRules.ts"
import { getRecordColumn } from "../../postgres/BinaryRecord.ts"
import type { OptInColumn } from "../../contract/rows/Columns.ts"
import type { PageFormat } from "../../contract/rows/ListFormats.ts"
import { makeSingleRowResultEncoder, type ResultEncoder } from "../rows/ResultWriter.ts"
import { addOptInColumns, type RowModels } from "../../contract/rows/RowModel.ts"
import { describeEmptyReason, type EmptyReason, formatEmptyReason } from "../../contract/rules/EmptyListReasons.ts"
import type { DatabasePoolTimeout, DataRefreshing } from "../../contract/rules/ApiErrors.ts"
import type { PagingQuery, ResponseContent } from "../../contract/rules/Paging.ts"
import { encodeListPage } from "../rows/PageEncoder.ts"
import { compileFilters, type DecodedListQuery } from "./FilterConditions.ts"
import { listFilterNames, makeEmptyReasonFinder } from "./EmptyReasonFinder.ts"
import {
  type FollowedPeriods,
  formatLineageHeader,
  makeFollowedCurrentSymbols,
  makeFollowedPeriods,
  type WithFollowedPeriods,
} from "./FollowedPeriods.ts"
import type { ListDefinition, RowGroupModel } from "./ListDefinition.ts"
import { makeListStatementBuilder } from "./ListStatementBuilder.ts"
import { type ListStatementVariant, makeVariantDescriber, type StatementPurpose } from "./ListStatementVariants.ts"

/** A query, plus the periods to follow once the lineages of its symbols have been resolved. */
type FollowableQuery<Query> = Query & Partial<WithFollowedPeriods>

type ReadError = DataRefreshing | DatabasePoolTimeout

/**
 * A list that is ready to run queries. The queries can follow lineages if the rows have the column `lineage_ticker`.
 */
export interface CompiledList<Query> {
  /**
   * Returns the statement for a purpose: to read a page (the rows in the range from `getPageRowRange`), to read all
   * rows, or to count all results as a `bigint`.
   */
  readonly compile: (query: FollowableQuery<Query>, purpose: StatementPurpose) => CompiledStatement
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

/** Creates the encoder for a list's results, whose rows have the columns of `row` and the `added` ones. */
const makeResultEncoder = (row: RowModels | RowGroupModel, added: ReadonlyArray<OptInColumn>) =>
  "makeEncoder" in row ? row.makeEncoder(added) : makeSingleRowResultEncoder(addOptInColumns(row, added))

/**
 * The memory for all compiled statements and the maximum for one of them, in bytes. It is enough for about 2,000
 * statements. Clients choose the filters, so the number of variants is not naturally limited. A statement with hundreds
 * of parameters exceeds the maximum. It is neither cached nor prepared, but compiled for each request.
 */
const maxStatementBytes = 8_388_608
const maxBytesPerStatement = 65_536
const bytesPerParameter = 256

const estimateBytes = ({ parameters, text }: CompiledStatement) => text.length + parameters.length * bytesPerParameter

const toDecodedQuery = (query: FollowableQuery<PagingQuery>): DecodedListQuery => ({ ...query })

/**
 * Creates a function that returns the statement for a query. Statements of the same variant share their SQL text, which
 * `build` builds only for the first of them. The function that inserts a query's values into the text is cached by
 * `variant.key`.
 */
const makeStatementCompiler = () => {
  const compiledVariants = new LRUCache<string, (query: DecodedListQuery) => CompiledStatement>({
    maxSize: maxStatementBytes,
  })
  return (
    variant: ListStatementVariant,
    query: DecodedListQuery,
    build: ReturnType<typeof makeListStatementBuilder>,
  ): CompiledStatement => {
    const insertCachedValues = compiledVariants.get(variant.key)
    if (insertCachedValues !== undefined) return insertCachedValues(query)
    const insertValues = compileStatement<DecodedListQuery>({
      isPrepared: true,
      isShort: variant.isShort,
      build: () => build(query, variant),
    })
    const statement = insertValues(query)
    const size = variant.key.length + estimateBytes(statement)
    // PostgreSQL would keep a prepared statement in memory, so a statement that is too large is not prepared either.
    if (size > maxBytesPerStatement) return { ...statement, isPrepared: false }
    compiledVariants.set(variant.key, insertValues, { size })
    return statement
  }
}

/** What `makeListReader` needs to know about a list. */
interface ListReaderOptions {
  readonly results: ResultEncoder
  /** The names of the parameters that can be the reason for an empty list. */
  readonly filterNames: ReadonlyArray<string>
  /** Whether the list has the parameter `after`, so that the last column of each row contains the row's position. */
  readonly hasPositions: boolean
  /** Returns the `message` in the JSON envelope for the rows on a page. */
  readonly message: ListDefinition<PagingQuery>["message"]
  readonly compile: (query: DecodedListQuery, purpose: StatementPurpose) => CompiledStatement
  readonly findEmptyReason: ReturnType<typeof makeEmptyReasonFinder>
}

/**
 * Creates the functions that run a list's statements. All of them read with `read`, so from the same source: the
 * current tables, or a past version.
 */
const makeListReader = <Query extends PagingQuery>(
  { compile, filterNames, findEmptyReason, hasPositions, message, results }: ListReaderOptions,
) => {
  /** Converts an array of `bigint` counts from the database to numbers. Without a result row, there is no array. */
  const toCounts = (outside: unknown): ReadonlyArray<number> => Array.isArray(outside) ? outside.map(Number) : []

  /**
   * Returns the number of omitted results for each company, or an empty array if the query has no gaps. `counted` is
   * the array of counts from the page's first row. A second statement is needed only if the page has no rows.
   */
  const countOmittedRows = (query: DecodedListQuery, read: StatementReader, counted?: unknown) =>
    counted !== undefined || query.followed === undefined || query.followed.gaps.length === 0
      ? Effect.succeed(toCounts(counted))
      : Effect.map(read(compile(query, "outside")), ([row]) => toCounts(row?.[0]))

  /**
   * Returns the headers that depend on the data. `outside` is the number of omitted results for each company, and
   * `empty` is the reason why the list is empty.
   */
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
      hasRows: (query) => Effect.map(read(compile(query, "page")), (rows) => rows.length > 0),
      read,
    })

  /** Reads only the headers. An export sends them before it reads its first row. */
  const readHeaders = Effect.fnUntraced(function* (query: FollowableQuery<Query>, read: StatementReader) {
    const outside = yield* countOmittedRows(toDecodedQuery(query), read)
    const firstRow = { ...toDecodedQuery(query), page: 1, limit: 1 }
    const isEmpty = query.explain === true && (yield* read(compile(firstRow, "page"))).length === 0
    return makeHeaders(query, outside, isEmpty ? yield* explain(query, read) : undefined)
  })

  /**
   * Encodes a page and adds the headers that depend on the data: the lineages that the page follows, and the reason if
   * the page is empty. `isTransient` is whether that reason could not be determined in time, so that the response must
   * not be cached.
   */
  const addHeaders = Effect.fnUntraced(function* (
    query: FollowableQuery<Query>,
    read: StatementReader,
    readRows: ReturnType<StatementReader>,
    encode: (rows: StatementRows, empty?: EmptyReason) => ResponseContent,
  ) {
    const rows = yield* readRows
    // The second column of each row contains the counts (`makeListStatementBuilder`).
    const outside = yield* countOmittedRows(toDecodedQuery(query), read, rows[0]?.[1])
    const empty = rows.length === 0 && query.explain === true ? yield* explain(query, read) : undefined
    const headers = makeHeaders(query, outside, empty)
    return { ...encode(rows, empty), headers, isTransient: empty?.code === "undetermined" }
  })

  const readPage: CompiledList<Query>["readPage"] = (query, format, read) => {
    const readRows = read(compile(toDecodedQuery(query), "page"))
    const encode = (rows: StatementRows, empty?: EmptyReason) =>
      encodeListPage(query, {
        results,
        format,
        rows: getRecordColumn(rows),
        getRowPosition: hasPositions ? (row) => String(rows[row]?.at(-1)) : undefined,
        message: empty === undefined ? message : () => describeEmptyReason(empty),
      })
    return query.followed === undefined && query.explain !== true
      ? Effect.map(readRows, (rows) => encode(rows))
      : addHeaders(query, read, readRows, encode)
  }

  const countResults: CompiledList<Query>["countResults"] = (query, read) =>
    // The total number does not depend on where the page starts.
    Effect.map(
      read(compile({ ...toDecodedQuery(query), after: undefined }, "count")),
      ([row]) => Number(row?.[0] ?? 0),
    )

  return { readPage, readHeaders, countResults }
}

/**
 * Creates a function that compiles the definition of a list. `added` are columns that a request adds to the rows; with
 * `lineage_ticker`, the queries follow lineages. `filterNames` are the parameters that can be the reason for an empty
 * list.
 *
 * Compiling has two levels. `compileList` runs once for each list. The SQL text of a statement is built once for each
 * variant: the parameters that were sent, without their values, and what the statement is for. All queries of the same
 * variant share the text.
 */
export const makeListCompiler = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const findEmptyReason = makeEmptyReasonFinder(sql)
  const compileVariant = makeStatementCompiler()
  /** The number of lists compiled so far. It distinguishes the statements of a list from those of other lists. */
  let listCount = 0

  const compileList = <Query extends PagingQuery, ShapedBy extends keyof Query = never>(
    definition: ListDefinition<Query, ShapedBy>,
    added: ReadonlyArray<OptInColumn> = [],
    filterNames = listFilterNames(definition.Query ?? { fields: {} }),
  ): CompiledList<Query> => {
    const { comparesPeriods = false, message, position, Query = { fields: {} }, Row } = definition
    const results = makeResultEncoder(Row, added)
    const { buildConditions, describeLiterals } = compileFilters(sql, Query, results.models)
    const shapedBy = new Set<PropertyKey>(definition.shapedBy)
    const followsLineages = added.includes("lineage_ticker")
    const describeVariant = makeVariantDescriber({ listId: listCount++, describeLiterals, shapedBy, followsLineages })
    const build = makeListStatementBuilder(sql, { definition, results, buildConditions, shapedBy, followsLineages })
    const compile = (query: DecodedListQuery, purpose: StatementPurpose) =>
      compileVariant(describeVariant(query, purpose), query, build)
    // Rows without a date belong to no period, so only the current symbols of their companies are followed.
    const hasDates = comparesPeriods || results.rowDate !== undefined
    return {
      compile: (query, purpose) => compile(toDecodedQuery(query), purpose),
      ...makeListReader<Query>({
        results,
        filterNames,
        hasPositions: position !== undefined,
        message,
        compile,
        findEmptyReason,
      }),
      results,
      follow: hasDates ? makeFollowedPeriods : makeFollowedCurrentSymbols,
    }
  }
  return compileList
})

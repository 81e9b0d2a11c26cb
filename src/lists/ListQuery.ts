/** Reads a list from the database: a page, an export, or the number of results for an estimate (D8, D28). */
import { Effect, Schema } from "effect"
import { SqlClient, SqlSchema, type Statement } from "effect/sql"
import { Database } from "../db/Database.ts"
import { RequestContext } from "../http/RequestContext.ts"
import type { ListFormat } from "../rows/Formats.ts"
import { makeRowResultEncoder, type ResultEncoder } from "../rows/ResultWriter.ts"
import type { RowModels } from "../rows/RowEncoder.ts"
import { type RowRecord, toRecords } from "../rows/RowRecord.ts"
import type { DatabasePoolTimeout, DataRefreshing } from "../rules/Errors.ts"
import type { QuerySchema } from "../rules/FilterOperators.ts"
import { allRows, encodePage, getRowRange, type PageQuery, type ResponseContent } from "../rules/Paging.ts"
import { compileConditions } from "./Conditions.ts"
import { type DeepPageOptions, makeDeepPage, type PageClauses } from "./DeepPages.ts"

/** SQL fragments for the statement of a list. A statement that only counts rows has no order. */
export interface ListClauses extends PageClauses {
  /** The selected record, with the columns of the JSON. */
  readonly columns: Statement.Fragment
  /** The conditions of the filters that were sent. */
  readonly conditions: ReadonlyArray<Statement.Fragment | string>
  /** `conditions`, joined with `and`. */
  readonly where: Statement.Fragment
  /** A page of a table for a `from` clause, fast at any offset. Its rows have the name of the table. */
  readonly fromPage: (options: Omit<DeepPageOptions, "clauses">) => Statement.Fragment
}

/** The declaration of a list. */
export interface ListDefinition<Query extends PageQuery> {
  /** The schema of the query. Its filters become `ListClauses.conditions`. */
  readonly Query?: Pick<QuerySchema, "fields">
  /** The model of a row, or the encoder of results that are groups of rows. */
  readonly Row: RowModels | ResultEncoder
  readonly select: (query: Query, clauses: ListClauses) => Statement.Statement<object>
  /** The argument of `count`, if a result is a group of rows. The statement selects its columns after the record. */
  readonly counted?: Statement.Fragment
  /** The `message` of the JSON envelope for the rows of a page. */
  readonly message?: (rows: ReadonlyArray<RowRecord>) => string | undefined
}

export interface ListQuery<Query> {
  readonly readPage: (
    query: Query,
    format: ListFormat,
  ) => Effect.Effect<ResponseContent, DataRefreshing | DatabasePoolTimeout>
  /** The statement that reads all rows, in order. */
  readonly makeExportStatement: (query: Query) => Statement.Statement<object>
  readonly results: ResultEncoder
}

const Total = Schema.Struct({ total: Schema.BigInt })

const unfilteredParameters = new Set(["page", "limit", "format", "sort", "account_id"])

/**
 * Whether PostgreSQL must plan the statement for its values: it has filters, but not the ticker.
 * A prepared statement gets a generic plan after five executions, which may scan the table for a rare value.
 */
const needsCustomPlan = (query: PageQuery) => {
  const sent = Object.entries(query).flatMap(([name, value]) => value === undefined ? [] : [name])
  return !sent.includes("ticker") && sent.some((name) => !unfilteredParameters.has(name))
}

const isResultEncoder = (row: RowModels | ResultEncoder): row is ResultEncoder => "selection" in row

/** Makes the function that compiles list definitions. */
export const makeListQueryFactory = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { read } = yield* Database
  const empty = sql.literal("")
  const makeFromPage = makeDeepPage(sql)

  return <Query extends PageQuery>(definition: ListDefinition<Query>): ListQuery<Query> => {
    const { Row, counted, message, select } = definition
    const results = isResultEncoder(Row) ? Row : makeRowResultEncoder(Row)
    const columns = sql.literal(results.selection)
    const getConditions = definition.Query === undefined ? () => [] : compileConditions(sql, definition.Query)

    const selectWith = (query: Query, page: PageClauses) => {
      const conditions = getConditions(query)
      const clauses: ListClauses = {
        ...page,
        columns,
        conditions,
        where: sql.and(conditions),
        fromPage: (options) => makeFromPage({ ...options, clauses: page }),
      }
      return select(query, clauses)
    }

    const makeStatement = (query: Query) => {
      const { limit, offset } = getRowRange(query)
      const orderBy = (order: Statement.Fragment) => sql`order by ${order}`
      // As a parameter, the limit would make PostgreSQL plan every execution.
      const limitAndOffset = sql`${sql.literal(`limit ${limit}`)}${offset === 0 ? empty : sql` offset ${offset}`}`
      const orderAndLimit = query.limit === "all"
        ? orderBy
        : (order: Statement.Fragment) => sql`order by ${order} ${limitAndOffset}`
      return selectWith(query, { limit, offset, orderBy, orderAndLimit })
    }

    const count = SqlSchema.findAll({
      Request: Schema.Any,
      Result: Total,
      execute: (query: Query) => {
        const rows = selectWith(query, { limit: allRows, offset: 0, orderBy: () => empty, orderAndLimit: () => empty })
        const counting = sql`select count(${counted ?? sql.literal("*")}) as total from (${rows}) as list`
        return needsCustomPlan(query) ? counting.unprepared : counting
      },
    })

    const readRows = Effect.fnUntraced(function* (query: Query) {
      const context = yield* RequestContext
      if (context.purpose === "estimate") {
        const [found] = yield* read(count(query))
        context.totalRecords = Number(found?.total ?? 0)
      }
      const statement = makeStatement(query)
      return yield* read(needsCustomPlan(query) ? statement.valuesUnprepared : statement.values)
    })

    return {
      readPage: (query, format) =>
        Effect.map(readRows(query), (rows) => encodePage(query, { results, format, rows: toRecords(rows), message })),
      makeExportStatement: makeStatement,
      results,
    }
  }
})

/** D8, D28: how a list is read: a page or all of it and, where an estimate is wanted, how long all pages are. */
import { Effect, Schema } from "effect"
import { SqlClient, SqlSchema, type Statement } from "effect/sql"
import type { DatabasePoolTimeout, DataRefreshing } from "../rules/Errors.ts"
import { RequestContext } from "../http/RequestContext.ts"
import type { ListFormat } from "../rows/Formats.ts"
import { allRows, encodePage, getRowRange, type PageQuery, type ResponseContent } from "../rules/Paging.ts"
import type { RowModels as Kinds, RowValues } from "../rows/RowEncoder.ts"
import { makeRowResultEncoder, type ResultEncoder } from "../rows/ResultWriter.ts"
import { Database } from "../db/Database.ts"

/** What the statement of a list says of columns, order and page; where its rows are only counted, less of it. */
export interface PageClauses {
  /** What the row shows, in its order. */
  readonly columns: Statement.Fragment
  /** `order by … limit … offset …` */
  readonly orderAndLimit: (by: Statement.Fragment) => Statement.Fragment
  /** `order by …`, for a statement that has its page inside. */
  readonly orderBy: (by: Statement.Fragment) => Statement.Fragment
  /** How many rows the page has and how many come before it, for a statement that finds them in another way. */
  readonly limit: number
  readonly offset: number
}

interface Options<Query extends PageQuery> {
  /** What a row is, where each is a result; or what results are made of. */
  readonly Row: Kinds | ResultEncoder
  readonly execute: (query: Query, slice: PageClauses) => Statement.Statement<object>
  /** What is counted, where a result is made of several rows. */
  readonly counted?: Statement.Fragment
  /** What JSON says of the rows of a page. */
  readonly message?: (rows: ReadonlyArray<RowValues>) => string | undefined
}

/** A list that can be answered: a page of it, or all of it. */
export interface ListQuery<Query> {
  readonly readPage: (
    query: Query,
    format: ListFormat,
  ) => Effect.Effect<ResponseContent, DataRefreshing | DatabasePoolTimeout>
  /** The statement that reads all of it, in its order. */
  readonly makeExportStatement: (query: Query) => Statement.Statement<object>
  readonly results: ResultEncoder
}

const Total = Schema.Struct({ total: Schema.BigInt })

const ofEveryList = new Set(["page", "limit", "format", "sort", "account_id"])

/**
 * Whether the values of its filters decide which index is best: where there is no symbol to go by. PostgreSQL looks at
 * the values of a prepared statement five times; then it may keep a plan for no values in particular, which for rare
 * ones reads the whole table in its order.
 */
const dependsOnValues = (query: PageQuery) => {
  const sent = Object.entries(query).flatMap(([name, value]) => value === undefined ? [] : [name])
  return !sent.includes("ticker") && sent.some((name) => !ofEveryList.has(name))
}

const isResults = (rows: Kinds | ResultEncoder): rows is ResultEncoder => "print" in rows

/** `list`: how a list is read, by what its rows are and the statement that finds them. */
export const makeListQueryFactory = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { read } = yield* Database
  const nothing = sql.literal("")

  const sliced = (columns: Statement.Fragment, query: PageQuery): PageClauses => {
    const { rows, skip } = getRowRange(query)
    const order = (by: Statement.Fragment) => sql`order by ${by}`
    return {
      columns,
      limit: rows,
      offset: skip,
      // As parameters they would make PostgreSQL plan anew each time it executes.
      orderAndLimit: query.limit === "all"
        ? order
        : (by) => sql`order by ${by} ${sql.literal(`limit ${rows}`)}${skip === 0 ? nothing : sql` offset ${skip}`}`,
      orderBy: order,
    }
  }

  const list = <Query extends PageQuery>({ Row, counted, execute, message }: Options<Query>): ListQuery<Query> => {
    const results = isResults(Row) ? Row : makeRowResultEncoder(Row)
    const names = sql.literal(results.columns.map((column) => `"${column}"`).join(", "))
    const countable: PageClauses = {
      columns: names,
      orderAndLimit: () => nothing,
      orderBy: () => nothing,
      limit: allRows,
      offset: 0,
    }

    const count = SqlSchema.findAll({
      Request: Schema.Any,
      Result: Total,
      execute: (query: Query) => {
        const counting = sql`
          select count(${counted ?? sql.literal("*")}) as total from (${execute(query, countable)}) as list
        `
        return dependsOnValues(query) ? counting.unprepared : counting
      },
    })

    const find = Effect.fnUntraced(function* (query: Query) {
      const exchange = yield* RequestContext
      if (exchange.purpose === "estimate") {
        const [found] = yield* read(count(query))
        exchange.totalRecords = Number(found?.total ?? 0)
      }
      const statement = execute(query, sliced(names, query))
      return yield* read(dependsOnValues(query) ? statement.valuesUnprepared : statement.values)
    })
    return {
      readPage: (query, format) =>
        Effect.map(find(query), (rows) => encodePage(query, { results, format, rows, message })),
      makeExportStatement: (query) => execute(query, sliced(names, query)),
      results,
    }
  }

  return { list }
})

/** D8, D28: how a list is read: a page or all of it and, where an estimate is wanted, how long all pages are. */
import { Effect, Schema } from "effect"
import { SqlClient, SqlSchema, type Statement } from "effect/sql"
import type { DatabasePoolTimeout, DataRefreshing } from "../rules/Errors.ts"
import { Exchange } from "../http/RequestContext.ts"
import type { Format } from "../rows/Formats.ts"
import { all, type Content, envelope, type Page, span } from "../rules/Paging.ts"
import type { Rows as Kinds, Values } from "../rows/RowEncoder.ts"
import { eachRow, type Results } from "../rows/ResultWriter.ts"
import { Database } from "../db/Database.ts"

/** What the statement of a list says of columns, order and page; where its rows are only counted, less of it. */
export interface Slice {
  /** What the row shows, in its order. */
  readonly columns: Statement.Fragment
  /** `order by … limit … offset …` */
  readonly page: (by: Statement.Fragment) => Statement.Fragment
  /** `order by …`, for a statement that has its page inside. */
  readonly order: (by: Statement.Fragment) => Statement.Fragment
  /** How many rows the page has and how many come before it, for a statement that finds them in another way. */
  readonly rows: number
  readonly skip: number
}

interface Options<Query extends Page> {
  /** What a row is, where each is a result; or what results are made of. */
  readonly Row: Kinds | Results
  readonly execute: (query: Query, slice: Slice) => Statement.Statement<object>
  /** What is counted, where a result is made of several rows. */
  readonly counted?: Statement.Fragment
  /** What JSON says of the rows of a page. */
  readonly message?: (rows: ReadonlyArray<Values>) => string | undefined
}

/** A list that can be answered: a page of it, or all of it. */
export interface List<Query> {
  readonly page: (
    query: Query,
    format: Format,
  ) => Effect.Effect<Content, DataRefreshing | DatabasePoolTimeout>
  /** The statement that reads all of it, in its order. */
  readonly whole: (query: Query) => Statement.Statement<object>
  readonly results: Results
}

const Total = Schema.Struct({ total: Schema.BigInt })

const ofEveryList = new Set(["page", "limit", "format", "sort", "account_id"])

/**
 * Whether the values of its filters decide which index is best: where there is no symbol to go by. PostgreSQL looks at
 * the values of a prepared statement five times; then it may keep a plan for no values in particular, which for rare
 * ones reads the whole table in its order.
 */
const dependsOnValues = (query: Page) => {
  const sent = Object.entries(query).flatMap(([name, value]) => value === undefined ? [] : [name])
  return !sent.includes("ticker") && sent.some((name) => !ofEveryList.has(name))
}

const isResults = (rows: Kinds | Results): rows is Results => "print" in rows

/** `list`: how a list is read, by what its rows are and the statement that finds them. */
export const listing = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { read } = yield* Database
  const nothing = sql.literal("")

  const sliced = (columns: Statement.Fragment, query: Page): Slice => {
    const { rows, skip } = span(query)
    const order = (by: Statement.Fragment) => sql`order by ${by}`
    return {
      columns,
      rows,
      skip,
      // As parameters they would make PostgreSQL plan anew each time it executes.
      page: query.limit === "all"
        ? order
        : (by) => sql`order by ${by} ${sql.literal(`limit ${rows}`)}${skip === 0 ? nothing : sql` offset ${skip}`}`,
      order,
    }
  }

  const list = <Query extends Page>({ Row, counted, execute, message }: Options<Query>): List<Query> => {
    const results = isResults(Row) ? Row : eachRow(Row)
    const names = sql.literal(results.columns.map((column) => `"${column}"`).join(", "))
    const countable: Slice = { columns: names, page: () => nothing, order: () => nothing, rows: all, skip: 0 }

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
      const exchange = yield* Exchange
      if (exchange.purpose === "estimate") {
        const [found] = yield* read(count(query))
        exchange.total = Number(found?.total ?? 0)
      }
      const statement = execute(query, sliced(names, query))
      return yield* read(dependsOnValues(query) ? statement.valuesUnprepared : statement.values)
    })
    return {
      page: (query, format) => Effect.map(find(query), (rows) => envelope(query, { results, format, rows, message })),
      whole: (query) => execute(query, sliced(names, query)),
      results,
    }
  }

  return { list }
})

/** D8, D28: how a list is read: a page of it and, where an estimate is wanted, how long all of it is. */
import { Effect, Schema } from "effect"
import { SqlClient, SqlSchema, type Statement } from "effect/sql"
import { Exchange } from "../policy/Exchange.ts"
import { type Content, envelope, type Page, span } from "../policy/Paging.ts"
import { columnsOf, printer, type Rows as Kinds } from "../policy/Printing.ts"
import { Database } from "./Database.ts"

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

interface Rows<Query extends Page> {
  /** What the rows show. */
  readonly columns: ReadonlyArray<string>
  readonly execute: (query: Query, slice: Slice) => Statement.Statement<object>
  /** What is counted, where a result is made of several rows. */
  readonly counted?: Statement.Fragment
}

interface List<Query extends Page> extends Omit<Rows<Query>, "columns"> {
  readonly Row: Kinds
}

/** More than any table has. */
const all = Number.MAX_SAFE_INTEGER

const Total = Schema.Struct({ total: Schema.BigInt })

/**
 * `rows`: a function of the query that reads the values of its page, and one row more, which tells whether another page
 * follows. `list`: the same, printed.
 */
export const listing = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { read } = yield* Database
  const nothing = sql.literal("")

  const sliced = (columns: Statement.Fragment, query: Page): Slice => {
    const { rows, skip } = span(query)
    return {
      columns,
      rows,
      skip,
      // As parameters they would make PostgreSQL plan anew each time it executes.
      page: (by) => sql`order by ${by} ${sql.literal(`limit ${rows}`)}${skip === 0 ? nothing : sql` offset ${skip}`}`,
      order: (by) => sql`order by ${by}`,
    }
  }

  const rows = <Query extends Page>({ columns, counted, execute }: Rows<Query>) => {
    const names = sql.literal(columns.map((column) => `"${column}"`).join(", "))
    const whole: Slice = { columns: names, page: () => nothing, order: () => nothing, rows: all, skip: 0 }

    const count = SqlSchema.findAll({
      Request: Schema.Any,
      Result: Total,
      execute: (query: Query) =>
        sql`select count(${counted ?? sql.literal("*")}) as total from (${execute(query, whole)}) as list`,
    })

    return Effect.fnUntraced(function* (query: Query) {
      const exchange = yield* Exchange
      if (exchange.purpose === "estimate") {
        const [found] = yield* read(count(query))
        exchange.total = Number(found?.total ?? 0)
      }
      return yield* read(execute(query, sliced(names, query)).values)
    })
  }

  const list = <Query extends Page>({ Row, ...statement }: List<Query>) => {
    const find = rows({ ...statement, columns: columnsOf(Row) })
    const print = printer(Row)
    return (query: Query): Effect.Effect<Content, Effect.Error<ReturnType<typeof find>>> =>
      Effect.map(find(query), (found) => envelope(query, found, print))
  }

  return { rows, list }
})

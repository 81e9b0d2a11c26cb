/** D8, D28: how a list is read: a page of it and, where an estimate is wanted, how long all of it is. */
import { Effect, Schema } from "effect"
import { SqlClient, SqlSchema, type Statement } from "effect/sql"
import { Exchange } from "../policy/Exchange.ts"
import { type Page, span } from "../policy/Paging.ts"
import { Database } from "./Database.ts"

/** What the statement of a list says of order and page; nothing where its rows are only counted. */
export interface Slice {
  /** `order by … limit … offset …` */
  readonly page: (by: Statement.Fragment) => Statement.Fragment
  /** `order by …`, for a statement that has its page inside. */
  readonly order: (by: Statement.Fragment) => Statement.Fragment
}

interface List<Request extends Schema.Constraint, Result extends Schema.Constraint> {
  readonly Request: Request
  readonly Result: Result
  readonly execute: (query: Request["Encoded"], slice: Slice) => Statement.Statement<object>
  /** What is counted, where a result is made of several rows. */
  readonly counted?: Statement.Fragment
}

const Total = Schema.Struct({ total: Schema.BigInt })

/** A function of the query that reads its page, and one row more, which tells whether another page follows. */
export const listing = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { read } = yield* Database
  const nothing = sql.literal("")

  const sliced = (query: Page): Slice => {
    const { rows, skip } = span(query)
    return {
      page: (by) => sql`order by ${by} limit ${rows} offset ${skip}`,
      order: (by) => sql`order by ${by}`,
    }
  }
  const whole: Slice = { page: () => nothing, order: () => nothing }

  return <Request extends Schema.Constraint & { readonly Encoded: Page }, Result extends Schema.Constraint>(
    { Request, Result, counted, execute }: List<Request, Result>,
  ) => {
    const find = SqlSchema.findAll({ Request, Result, execute: (query) => execute(query, sliced(query)) })
    const count = SqlSchema.findAll({
      Request,
      Result: Total,
      execute: (query) =>
        sql`select count(${counted ?? sql.literal("*")}) as total from (${execute(query, whole)}) as list`,
    })

    return Effect.fnUntraced(function* (query: Request["Type"]) {
      const exchange = yield* Exchange
      if (exchange.purpose === "estimate") {
        const [counted] = yield* read(count(query))
        exchange.total = Number(counted?.total ?? 0)
      }
      return yield* read(find(query))
    })
  }
})

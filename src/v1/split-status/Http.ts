import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { makeListQueryFactory } from "../../lists/ListQuery.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { compileConditions } from "../../lists/Conditions.ts"
import { SplitStatus, SplitStatusApiGroup, SplitStatusQuery } from "./Api.ts"

export const splitStatusHandlers = HttpApiBuilder.group(
  Api,
  "splitStatus",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* makeListQueryFactory
    const { makeHandler: from } = yield* ListHandlers
    const wanted = compileConditions(sql, SplitStatusQuery, {})

    const page = from(
      SplitStatusApiGroup.endpoints.list,
      list({
        Row: SplitStatus,
        execute: (query: typeof SplitStatusQuery.Type, slice) =>
          sql`
        select ${slice.columns}
        from split_status
        where ${sql.and(wanted(query))}
        ${slice.orderAndLimit(sql`filed_at desc, id`)}
      `,
      }),
    )

    return handlers.handle("list", ({ query }) => page(query))
  }),
)

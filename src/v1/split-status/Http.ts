import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { SplitStatus, SplitStatusApiGroup, SplitStatusQuery } from "./Api.ts"

export const splitStatusHandlers = HttpApiBuilder.group(
  Api,
  "splitStatus",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { makeHandler } = yield* ListHandlers

    return handlers.handle(
      "list",
      makeHandler(SplitStatusApiGroup.endpoints.list, {
        Query: SplitStatusQuery,
        Row: SplitStatus,
        select: (_, { columns, orderAndLimit, where }) =>
          sql`
            select ${columns}
            from split_status
            where ${where}
            ${orderAndLimit(sql`filed_at desc, id`)}
          `,
      }),
    )
  }),
)

import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../db/Listing.ts"
import { Lists } from "../../lists/Lists.ts"
import { where } from "../../policy/Where.ts"
import { Query, SplitStatus } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "splitStatus",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* listing
    const { from } = yield* Lists
    const { in: oneOf, is, ranges } = where(sql)

    const page = from(
      ["split_status"],
      list({
        Row: SplitStatus,
        execute: (query: typeof Query.Type, slice) =>
          sql`
        select ${slice.columns}
        from split_status
        where ${
            sql.and([
              ...oneOf("ticker", query.ticker),
              ...oneOf("action_type", query.action_type),
              ...is("executed", query.executed),
              ...ranges(query),
            ])
          }
        ${slice.page(sql`filed_at desc, id`)}
      `,
      }),
    )

    return handlers.handle("list", ({ query }) => page(query))
  }),
)

import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../lists/Listing.ts"
import { Lists } from "../../lists/ListResponse.ts"
import { conditions } from "../../lists/Conditions.ts"
import { Query, SplitStatus, SplitStatuses } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "splitStatus",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* listing
    const { from } = yield* Lists
    const wanted = conditions(sql, Query, {})

    const page = from(
      SplitStatuses.endpoints.list,
      list({
        Row: SplitStatus,
        execute: (query: typeof Query.Type, slice) =>
          sql`
        select ${slice.columns}
        from split_status
        where ${sql.and(wanted(query))}
        ${slice.page(sql`filed_at desc, id`)}
      `,
      }),
    )

    return handlers.handle("list", ({ query }) => page(query))
  }),
)

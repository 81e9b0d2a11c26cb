import { Effect, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../db/Listing.ts"
import { envelope } from "../../policy/Paging.ts"
import { where } from "../../policy/Where.ts"
import { Query, SplitStatus } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "splitStatus",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const list = yield* listing
    const { in: oneOf, is, ranges } = where(sql)

    const find = list({
      Request: Schema.toType(Query),
      Result: SplitStatus,
      execute: (query, slice) =>
        sql`
        select id, ticker, action_type, split_from, split_to, split_ratio_min, split_ratio_max, vote_date,
          approved_date, authority_expires_date, effective_date, executed, details, filed_at, form_type, document_url,
          last_updated
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
    })

    return handlers.handle("list", ({ query }) => Effect.flatMap(find(query), (rows) => envelope(query, rows)))
  }),
)

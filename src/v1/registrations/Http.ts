import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../db/Listing.ts"
import { Lists } from "../../lists/Lists.ts"
import { where } from "../../policy/Where.ts"
import { Query, Registration } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "registrations",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* listing
    const { from } = yield* Lists
    const { in: oneOf, is, part, ranges } = where(sql)

    const page = from(
      ["registrations"],
      list({
        Row: Registration,
        execute: (query: typeof Query.Type, slice) =>
          sql`
        select ${slice.columns}
        from registrations
        where ${
            sql.and([
              ...oneOf("ticker", query.ticker),
              ...oneOf("type", query.type),
              ...oneOf("form_type", query.form_type),
              ...oneOf("file_no", query.file_no),
              ...part("bank", query.bank),
              ...is("effective_status", query.effective_status),
              ...is("is_atm", query.is_atm),
              ...is("over_baby_shelf", query.over_baby_shelf),
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

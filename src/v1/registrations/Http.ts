import { Effect, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../db/Listing.ts"
import { envelope } from "../../policy/Paging.ts"
import { where } from "../../policy/Where.ts"
import { Query, Registration } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "registrations",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const list = yield* listing
    const { in: oneOf, is, part, ranges } = where(sql)

    const find = list({
      Request: Schema.toType(Query),
      Result: Registration,
      execute: (query, slice) =>
        sql`
        select id, ticker, headline, type, form_type, file_no, filed_at, effective_date, effective_status,
          expiration_date, offering_amount, shares_registered, is_atm, bank, amount_remaining_atm, total_raised,
          amount_sold_to_date, amount_sold_12_months, high_60_day, baby_shelf_raisable_amount,
          calculated_raisable_amount, over_baby_shelf, price_to_exceed_baby_shelf, details, document_url, last_updated
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
    })

    return handlers.handle("list", ({ query }) => Effect.flatMap(find(query), (rows) => envelope(query, rows)))
  }),
)

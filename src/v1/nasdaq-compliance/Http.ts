import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../db/Listing.ts"
import { Lists } from "../../lists/Lists.ts"
import { where } from "../../policy/Where.ts"
import { ComplianceNotice, Query } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "nasdaqCompliance",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* listing
    const { from } = yield* Lists
    const { in: oneOf, ranges } = where(sql)

    const page = from(
      ["nasdaq_compliance"],
      list({
        Row: ComplianceNotice,
        execute: (query: typeof Query.Type, slice) =>
          sql`
        select ${slice.columns}
        from nasdaq_compliance
        where ${
            sql.and([
              ...oneOf("ticker", query.ticker),
              ...oneOf("deficiency_type", query.deficiency_type),
              ...oneOf("notice_type", query.notice_type),
              ...oneOf("risk", query.risk),
              ...oneOf("status", query.status),
              ...ranges(query),
            ])
          }
        ${slice.page(sql`date desc, id`)}
      `,
      }),
    )

    return handlers.handle("list", ({ query }) => page(query))
  }),
)

import { Effect, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../db/Listing.ts"
import { envelope } from "../../policy/Paging.ts"
import { where } from "../../policy/Where.ts"
import { ComplianceNotice, Query } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "nasdaqCompliance",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const list = yield* listing
    const { in: oneOf, ranges } = where(sql)

    const find = list({
      Request: Schema.toType(Query),
      Result: ComplianceNotice,
      execute: (query, slice) =>
        sql`
        select id, ticker, company, market, date, added_date, deficiency, deficiency_type, rule, notice_type,
          compliance_deadline, hearing_date, regained_date, risk, status, notes, notes_updated, document_url,
          last_updated
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
    })

    return handlers.handle("list", ({ query }) => Effect.flatMap(find(query), (rows) => envelope(query, rows)))
  }),
)

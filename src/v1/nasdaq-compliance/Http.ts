import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../lists/Listing.ts"
import { Lists } from "../../lists/ListResponse.ts"
import { conditions } from "../../lists/Conditions.ts"
import { ComplianceNotice, NasdaqCompliance, Query } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "nasdaqCompliance",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* listing
    const { from } = yield* Lists
    const wanted = conditions(sql, Query, {})

    const page = from(
      NasdaqCompliance.endpoints.list,
      list({
        Row: ComplianceNotice,
        execute: (query: typeof Query.Type, slice) =>
          sql`
        select ${slice.columns}
        from nasdaq_compliance
        where ${sql.and(wanted(query))}
        ${slice.page(sql`date desc, id`)}
      `,
      }),
    )

    return handlers.handle("list", ({ query }) => page(query))
  }),
)

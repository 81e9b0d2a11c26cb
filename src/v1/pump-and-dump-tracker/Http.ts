import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../lists/Listing.ts"
import { Lists } from "../../lists/ListResponse.ts"
import { conditions } from "../../lists/Conditions.ts"
import { PumpAndDumpSuspect, PumpAndDumpTracker, Query } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "pumpAndDumpTracker",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* listing
    const { from } = yield* Lists
    const wanted = conditions(sql, Query, {})

    const page = from(
      PumpAndDumpTracker.endpoints.list,
      list({
        Row: PumpAndDumpSuspect,
        execute: (query: typeof Query.Type, slice) =>
          sql`
        select ${slice.columns}
        from pump_and_dump_tracker
        where ${sql.and(wanted(query))}
        ${slice.page(sql`ipo_date desc nulls last, ticker`)}
      `,
      }),
    )

    return handlers.handle("list", ({ query }) => page(query))
  }),
)

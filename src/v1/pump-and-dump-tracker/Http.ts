import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { makeListQueryFactory } from "../../lists/ListQuery.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { compileConditions } from "../../lists/Conditions.ts"
import { PumpAndDumpSuspect, PumpAndDumpTrackerApiGroup, PumpAndDumpTrackerQuery } from "./Api.ts"

export const pumpAndDumpTrackerHandlers = HttpApiBuilder.group(
  Api,
  "pumpAndDumpTracker",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* makeListQueryFactory
    const { makeHandler: from } = yield* ListHandlers
    const wanted = compileConditions(sql, PumpAndDumpTrackerQuery, {})

    const page = from(
      PumpAndDumpTrackerApiGroup.endpoints.list,
      list({
        Row: PumpAndDumpSuspect,
        execute: (query: typeof PumpAndDumpTrackerQuery.Type, slice) =>
          sql`
        select ${slice.columns}
        from pump_and_dump_tracker
        where ${sql.and(wanted(query))}
        ${slice.orderAndLimit(sql`ipo_date desc nulls last, ticker`)}
      `,
      }),
    )

    return handlers.handle("list", ({ query }) => page(query))
  }),
)

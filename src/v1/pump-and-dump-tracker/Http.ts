import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { PumpAndDumpSuspect, PumpAndDumpTrackerApiGroup, PumpAndDumpTrackerQuery } from "./Api.ts"

export const pumpAndDumpTrackerHandlers = HttpApiBuilder.group(
  Api,
  "pumpAndDumpTracker",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { makeHandler } = yield* ListHandlers

    return handlers.handle(
      "list",
      makeHandler(PumpAndDumpTrackerApiGroup.endpoints.list, {
        Query: PumpAndDumpTrackerQuery,
        Row: PumpAndDumpSuspect,
        select: (_, { columns, orderAndLimit, where }) =>
          sql`
            select ${columns}
            from pump_and_dump_tracker
            where ${where}
            ${orderAndLimit(sql`ipo_date desc nulls last, ticker`)}
          `,
      }),
    )
  }),
)

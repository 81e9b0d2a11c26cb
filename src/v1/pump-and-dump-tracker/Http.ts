/** Handles `GET /v1/pump-and-dump-tracker`. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ListEndpointFactory } from "../../lists/ListEndpoints.ts"
import { PumpAndDumpSuspect, PumpAndDumpTrackerApiGroup, PumpAndDumpTrackerQuery } from "./Api.ts"

export const pumpAndDumpTrackerHandlers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { makeEndpoint } = yield* ListEndpointFactory

  return {
    list: makeEndpoint(PumpAndDumpTrackerApiGroup.endpoints.list, {
      Query: PumpAndDumpTrackerQuery,
      Row: PumpAndDumpSuspect,
      select: (_, { columns, fromPage, where }) =>
        sql`select ${columns} from ${
          fromPage({ table: "pump_and_dump_tracker", where, order: sql`ipo_date desc nulls last, ticker` })
        }`,
    }),
  }
})

/** Handles `GET /v1/pump-and-dump-tracker`. */
import { Effect } from "effect"
import { ListEndpointFactory } from "../../query/lists/ListEndpoints.ts"
import {
  PumpAndDumpSuspect,
  PumpAndDumpTrackerApiGroup,
  PumpAndDumpTrackerQuery,
} from "../../contract/endpoints/pump-and-dump-tracker.ts"

/** Handler for the list of suspected pump-and-dump stocks, newest IPO first. */
export const pumpAndDumpTrackerHandlers = Effect.map(ListEndpointFactory, ({ makeEndpoint }) => ({
  list: makeEndpoint(PumpAndDumpTrackerApiGroup.endpoints.list, {
    Query: PumpAndDumpTrackerQuery,
    Row: PumpAndDumpSuspect,
    select: (_, { selectPage }) =>
      selectPage({ table: "pump_and_dump_tracker", order: "ipo_date desc nulls last, ticker" }),
  }),
}))

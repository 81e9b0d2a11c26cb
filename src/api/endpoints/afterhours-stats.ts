/** Handles `GET /v1/afterhours-stats`. */
import { Effect } from "effect"
import { ListEndpointFactory } from "../../query/lists/ListEndpoints.ts"
import { ExtendedHoursStatsQuery } from "../../contract/endpoints/premarket-stats.ts"
import { AfterhoursStat, AfterhoursStatsApiGroup } from "../../contract/endpoints/afterhours-stats.ts"

/** Handler for the list of after-hours statistics, newest first. */
export const afterhoursStatsHandlers = Effect.map(ListEndpointFactory, ({ makeEndpoint }) => ({
  list: makeEndpoint(AfterhoursStatsApiGroup.endpoints.list, {
    Query: ExtendedHoursStatsQuery,
    Row: AfterhoursStat,
    select: (_, { selectPage }) => selectPage({ table: "afterhours_stats", order: "date desc, ticker" }),
  }),
}))

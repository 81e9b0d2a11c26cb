/** Handles `GET /v1/afterhours-stats`. */
import { Effect } from "effect"
import { ListEndpointFactory } from "../../lists/ListEndpoints.ts"
import { ExtendedHoursStatsQuery } from "../premarket-stats/Api.ts"
import { AfterhoursStat, AfterhoursStatsApiGroup } from "./Api.ts"

export const afterhoursStatsHandlers = Effect.map(ListEndpointFactory, ({ makeEndpoint }) => ({
  list: makeEndpoint(AfterhoursStatsApiGroup.endpoints.list, {
    Query: ExtendedHoursStatsQuery,
    Row: AfterhoursStat,
    select: (_, { selectPage }) => selectPage({ table: "afterhours_stats", order: "date desc, ticker" }),
  }),
}))

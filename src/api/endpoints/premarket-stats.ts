/** Handles `GET /v1/premarket-stats`. */
import { Effect } from "effect"
import { ListEndpointFactory } from "../../query/lists/ListEndpoints.ts"
import {
  ExtendedHoursStatsQuery,
  PremarketStat,
  PremarketStatsApiGroup,
} from "../../contract/endpoints/premarket-stats.ts"

/** Handler for the list of premarket statistics, newest first. */
export const premarketStatsHandlers = Effect.map(ListEndpointFactory, ({ makeEndpoint }) => ({
  list: makeEndpoint(PremarketStatsApiGroup.endpoints.list, {
    Query: ExtendedHoursStatsQuery,
    Row: PremarketStat,
    select: (_, { selectPage }) => selectPage({ table: "premarket_stats", order: "date desc, ticker" }),
  }),
}))

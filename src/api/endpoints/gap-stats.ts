/** Handles `GET /v1/gap-stats` and `GET /v1/gap-stats-advanced`. */
import { Effect } from "effect"
import { ListEndpointFactory } from "../../query/lists/ListEndpoints.ts"
import type { ListClauses } from "../../query/lists/ListDefinition.ts"
import { GapStat, GapStatAdvanced, GapStatsApiGroup, GapStatsQuery } from "../../contract/endpoints/gap-stats.ts"

const select = (_: object, { selectPage }: ListClauses) =>
  selectPage({ table: "gap_stats", order: "date desc, ticker" })

/** Handlers for the two lists of gaps. Both lists read the same rows, but return different columns. */
export const gapStatsHandlers = Effect.map(ListEndpointFactory, ({ makeEndpoint }) => ({
  list: makeEndpoint(GapStatsApiGroup.endpoints.list, { Query: GapStatsQuery, Row: GapStat, select }),
  listAdvanced: makeEndpoint(GapStatsApiGroup.endpoints.listAdvanced, {
    Query: GapStatsQuery,
    Row: GapStatAdvanced,
    select,
  }),
}))

/** Handles `GET /v1/intraday-runners`. */
import { Effect } from "effect"
import { ListEndpointFactory } from "../../query/lists/ListEndpoints.ts"
import {
  IntradayRunner,
  IntradayRunnersApiGroup,
  intradayRunnerSqlCondition,
  IntradayRunnersQuery,
} from "../../contract/endpoints/intraday-runners.ts"

/**
 * Handler for the list of intraday runners. The table also contains rows that are not runners, so a condition excludes
 * them.
 */
export const intradayRunnersHandlers = Effect.map(ListEndpointFactory, ({ makeEndpoint }) => ({
  list: makeEndpoint(IntradayRunnersApiGroup.endpoints.list, {
    Query: IntradayRunnersQuery,
    Row: IntradayRunner,
    select: (_, { selectPage }) =>
      selectPage({
        table: "intraday_runners",
        key: ["ticker", "date"],
        condition: intradayRunnerSqlCondition,
        order: "date desc, ticker",
      }),
  }),
}))

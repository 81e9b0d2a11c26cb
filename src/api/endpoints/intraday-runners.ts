/** Handles `GET /v1/intraday-runners`. */
import { Effect } from "effect"
import { ListEndpointFactory } from "../../query/lists/ListEndpoints.ts"
import {
  IntradayRunner,
  IntradayRunnersApiGroup,
  intradayRunnerSqlCondition,
  IntradayRunnersQuery,
} from "../../contract/endpoints/intraday-runners.ts"

/** The handler of the list of intraday runners. Not every row of the table is one, hence the condition. */
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

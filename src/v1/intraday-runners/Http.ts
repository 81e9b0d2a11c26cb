/** Handles `GET /v1/intraday-runners`. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ListEndpointFactory } from "../../lists/ListEndpoints.ts"
import { IntradayRunner, IntradayRunnersApiGroup, intradayRunnerSqlCondition, IntradayRunnersQuery } from "./Api.ts"

export const intradayRunnersHandlers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { makeEndpoint } = yield* ListEndpointFactory

  return {
    list: makeEndpoint(IntradayRunnersApiGroup.endpoints.list, {
      Query: IntradayRunnersQuery,
      Row: IntradayRunner,
      select: (_, { columns, conditions, fromPage }) => {
        const page = fromPage({
          table: "intraday_runners",
          key: ["ticker", "date"],
          where: sql.and([intradayRunnerSqlCondition, ...conditions]),
          order: sql`date desc, ticker`,
        })
        return sql`select ${columns} from ${page}`
      },
    }),
  }
})

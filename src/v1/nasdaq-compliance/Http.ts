/** Handles `GET /v1/nasdaq-compliance`. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ListEndpointFactory } from "../../lists/ListEndpoints.ts"
import { ComplianceNotice, NasdaqComplianceApiGroup, NasdaqComplianceQuery } from "./Api.ts"

export const nasdaqComplianceHandlers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { makeEndpoint } = yield* ListEndpointFactory

  return {
    list: makeEndpoint(NasdaqComplianceApiGroup.endpoints.list, {
      Query: NasdaqComplianceQuery,
      Row: ComplianceNotice,
      select: (_, { columns, fromPage, where }) =>
        sql`select ${columns} from ${fromPage({ table: "nasdaq_compliance", where, order: sql`date desc, id` })}`,
    }),
  }
})

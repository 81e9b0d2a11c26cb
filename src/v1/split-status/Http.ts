/** Handles `GET /v1/split-status`. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ListEndpointFactory } from "../../lists/ListEndpoints.ts"
import { SplitStatus, SplitStatusApiGroup, SplitStatusQuery } from "./Api.ts"

export const splitStatusHandlers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { makeEndpoint } = yield* ListEndpointFactory

  return {
    list: makeEndpoint(SplitStatusApiGroup.endpoints.list, {
      Query: SplitStatusQuery,
      Row: SplitStatus,
      select: (_, { columns, fromPage, where }) =>
        sql`select ${columns} from ${fromPage({ table: "split_status", where, order: sql`filed_at desc, id` })}`,
    }),
  }
})

/** Handles `GET /v1/registrations`. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ListEndpointFactory } from "../../lists/ListEndpoints.ts"
import { Registration, RegistrationsApiGroup, RegistrationsQuery } from "./Api.ts"

export const registrationsHandlers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { makeEndpoint } = yield* ListEndpointFactory

  return {
    list: makeEndpoint(RegistrationsApiGroup.endpoints.list, {
      Query: RegistrationsQuery,
      Row: Registration,
      select: (_, { columns, fromPage, where }) =>
        sql`select ${columns} from ${fromPage({ table: "registrations", where, order: sql`filed_at desc, id` })}`,
    }),
  }
})

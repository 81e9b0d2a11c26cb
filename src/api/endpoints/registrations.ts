/** Handles `GET /v1/registrations`. */
import { Effect } from "effect"
import { ListEndpointFactory } from "../../query/lists/ListEndpoints.ts"
import { Registration, RegistrationsApiGroup, RegistrationsQuery } from "../../contract/endpoints/registrations.ts"

/** Handler for the list of registration statements, newest first. */
export const registrationsHandlers = Effect.map(ListEndpointFactory, ({ makeEndpoint }) => ({
  list: makeEndpoint(RegistrationsApiGroup.endpoints.list, {
    Query: RegistrationsQuery,
    Row: Registration,
    select: (_, { selectPage }) => selectPage({ table: "registrations", order: "filed_at desc, id" }),
  }),
}))

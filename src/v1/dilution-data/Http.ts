/** Handles `GET /v1/dilution-data` and `GET /v1/dilution-data-advanced`. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { ListClauses } from "../../lists/ListQuery.ts"
import { ListEndpointFactory } from "../../lists/ListEndpoints.ts"
import {
  Convertible,
  ConvertibleWithAdvancedFields,
  DilutionDataAdvancedQuery,
  DilutionDataApiGroup,
  DilutionDataQuery,
  Warrant,
  WarrantWithAdvancedFields,
} from "./Api.ts"

export const dilutionDataHandlers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { makeEndpoint } = yield* ListEndpointFactory

  const select = (_: object, { columns, fromPage, where }: ListClauses) =>
    sql`select ${columns} from ${fromPage({ table: "dilution_data", where, order: sql`filed_at desc, id` })}`

  return {
    list: makeEndpoint(DilutionDataApiGroup.endpoints.list, {
      Query: DilutionDataQuery,
      Row: [Warrant, Convertible],
      select,
    }),
    listAdvanced: makeEndpoint(DilutionDataApiGroup.endpoints.listAdvanced, {
      Query: DilutionDataAdvancedQuery,
      Row: [WarrantWithAdvancedFields, ConvertibleWithAdvancedFields],
      select,
    }),
  }
})

/** Handles `GET /v1/dilution-data` and `GET /v1/dilution-data-advanced`. */
import { Effect } from "effect"
import type { ListClauses } from "../../query/lists/ListDefinition.ts"
import { ListEndpointFactory } from "../../query/lists/ListEndpoints.ts"
import {
  Convertible,
  ConvertibleWithAdvancedFields,
  DilutionDataAdvancedQuery,
  DilutionDataApiGroup,
  DilutionDataQuery,
  Warrant,
  WarrantWithAdvancedFields,
} from "../../contract/endpoints/dilution-data.ts"

const select = (_: object, { selectPage }: ListClauses) =>
  selectPage({ table: "dilution_data", order: "filed_at desc, id" })

/**
 * Handlers for the two lists of warrants and convertibles. Both lists read the same rows, but return different columns.
 */
export const dilutionDataHandlers = Effect.map(ListEndpointFactory, ({ makeEndpoint }) => ({
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
}))

/** Handles `GET /v1/nasdaq-compliance`. */
import { Effect } from "effect"
import { ListEndpointFactory } from "../../query/lists/ListEndpoints.ts"
import {
  ComplianceNotice,
  NasdaqComplianceApiGroup,
  NasdaqComplianceQuery,
} from "../../contract/endpoints/nasdaq-compliance.ts"

/** Handler for the list of compliance notices, newest first. */
export const nasdaqComplianceHandlers = Effect.map(ListEndpointFactory, ({ makeEndpoint }) => ({
  list: makeEndpoint(NasdaqComplianceApiGroup.endpoints.list, {
    Query: NasdaqComplianceQuery,
    Row: ComplianceNotice,
    select: (_, { selectPage }) => selectPage({ table: "nasdaq_compliance", order: "date desc, id" }),
  }),
}))

/** Handles `GET /v1/research-reports` and `GET /v1/research-reports-tldr`. */
import { Effect } from "effect"
import { ListEndpointFactory } from "../../query/lists/ListEndpoints.ts"
import type { ListClauses } from "../../query/lists/ListDefinition.ts"
import {
  ResearchReport,
  ResearchReportsApiGroup,
  ResearchReportsQuery,
  ResearchReportTldr,
} from "../../contract/endpoints/research-reports.ts"

const select = (_: object, { selectPage }: ListClauses) =>
  selectPage({ table: "research_reports", order: "created_at desc, report_id" })

/** Handlers for the two lists of research reports. Both lists read the same rows, but return different columns. */
export const researchReportsHandlers = Effect.map(ListEndpointFactory, ({ makeEndpoint }) => ({
  list: makeEndpoint(ResearchReportsApiGroup.endpoints.list, {
    Query: ResearchReportsQuery,
    Row: ResearchReport,
    select,
  }),
  listTldr: makeEndpoint(ResearchReportsApiGroup.endpoints.listTldr, {
    Query: ResearchReportsQuery,
    Row: ResearchReportTldr,
    select,
  }),
}))

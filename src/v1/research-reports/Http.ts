/** Handles `GET /v1/research-reports` and `GET /v1/research-reports-tldr`. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ListEndpointFactory } from "../../lists/ListEndpoints.ts"
import type { ListClauses } from "../../lists/ListQuery.ts"
import { ResearchReport, ResearchReportsApiGroup, ResearchReportsQuery, ResearchReportTldr } from "./Api.ts"

export const researchReportsHandlers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { makeEndpoint } = yield* ListEndpointFactory

  const select = (_: object, { columns, fromPage, where }: ListClauses) =>
    sql`select ${columns} from ${
      fromPage({ table: "research_reports", where, order: sql`created_at desc, report_id` })
    }`

  return {
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
  }
})

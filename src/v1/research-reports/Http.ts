import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import type { ListClauses } from "../../lists/ListQuery.ts"
import { ResearchReport, ResearchReportsApiGroup, ResearchReportsQuery, ResearchReportTldr } from "./Api.ts"

export const researchReportsHandlers = HttpApiBuilder.group(
  Api,
  "researchReports",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { makeHandler } = yield* ListHandlers

    const select = (_: object, { columns, orderAndLimit, where }: ListClauses) =>
      sql`
        select ${columns}
        from research_reports
        where ${where}
        ${orderAndLimit(sql`created_at desc, report_id`)}
      `

    return handlers
      .handle(
        "list",
        makeHandler(ResearchReportsApiGroup.endpoints.list, {
          Query: ResearchReportsQuery,
          Row: ResearchReport,
          select,
        }),
      )
      .handle(
        "listTldr",
        makeHandler(ResearchReportsApiGroup.endpoints.listTldr, {
          Query: ResearchReportsQuery,
          Row: ResearchReportTldr,
          select,
        }),
      )
  }),
)

import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { makeListQueryFactory, type PageClauses } from "../../lists/ListQuery.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { compileConditions } from "../../lists/Conditions.ts"
import { ResearchReport, ResearchReportsApiGroup, ResearchReportsQuery, ResearchReportTldr } from "./Api.ts"

export const researchReportsHandlers = HttpApiBuilder.group(
  Api,
  "researchReports",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* makeListQueryFactory
    const { makeHandler: from } = yield* ListHandlers
    const wanted = compileConditions(sql, ResearchReportsQuery, {})

    const execute = (query: typeof ResearchReportsQuery.Type, slice: PageClauses) =>
      sql`
        select ${slice.columns}
        from research_reports
        where ${sql.and(wanted(query))}
        ${slice.orderAndLimit(sql`created_at desc, report_id`)}
      `

    const page = from(ResearchReportsApiGroup.endpoints.list, list({ Row: ResearchReport, execute }))
    const pageTldr = from(ResearchReportsApiGroup.endpoints.listTldr, list({ Row: ResearchReportTldr, execute }))

    return handlers
      .handle("list", ({ query }) => page(query))
      .handle("listTldr", ({ query }) => pageTldr(query))
  }),
)

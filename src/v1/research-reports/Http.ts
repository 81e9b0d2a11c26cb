import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing, type Slice } from "../../lists/Listing.ts"
import { Lists } from "../../lists/ListResponse.ts"
import { conditions } from "../../lists/Conditions.ts"
import { Query, ResearchReport, ResearchReports, ResearchReportTldr } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "researchReports",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* listing
    const { from } = yield* Lists
    const wanted = conditions(sql, Query, {})

    const execute = (query: typeof Query.Type, slice: Slice) =>
      sql`
        select ${slice.columns}
        from research_reports
        where ${sql.and(wanted(query))}
        ${slice.page(sql`created_at desc, report_id`)}
      `

    const page = from(ResearchReports.endpoints.list, list({ Row: ResearchReport, execute }))
    const pageTldr = from(ResearchReports.endpoints.listTldr, list({ Row: ResearchReportTldr, execute }))

    return handlers
      .handle("list", ({ query }) => page(query))
      .handle("listTldr", ({ query }) => pageTldr(query))
  }),
)

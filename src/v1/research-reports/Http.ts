import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing, type Slice } from "../../db/Listing.ts"
import { Lists } from "../../lists/Lists.ts"
import { where } from "../../policy/Where.ts"
import { Query, ResearchReport, ResearchReportTldr } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "researchReports",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* listing
    const { from } = yield* Lists
    const { days, in: oneOf, ranges } = where(sql)

    const wanted = ({ created_at_from, created_at_to, ...query }: typeof Query.Type) =>
      sql.and([
        ...oneOf("ticker", query.ticker),
        ...ranges(query),
        ...days("created_at", created_at_from, created_at_to),
      ])

    const execute = (query: typeof Query.Type, slice: Slice) =>
      sql`
        select ${slice.columns}
        from research_reports
        where ${wanted(query)}
        ${slice.page(sql`created_at desc, report_id`)}
      `

    const page = from(["research_reports"], list({ Row: ResearchReport, execute }))
    const pageTldr = from(["research_reports"], list({ Row: ResearchReportTldr, execute }))

    return handlers
      .handle("list", ({ query }) => page(query))
      .handle("listTldr", ({ query }) => pageTldr(query))
  }),
)

import { Effect, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../db/Listing.ts"
import { envelope } from "../../policy/Paging.ts"
import { where } from "../../policy/Where.ts"
import { Query, ResearchReport, ResearchReportTldr } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "researchReports",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const list = yield* listing
    const { days, in: oneOf, ranges } = where(sql)

    const wanted = ({ created_at_from, created_at_to, ...query }: typeof Query.Type) =>
      sql.and([
        ...oneOf("ticker", query.ticker),
        ...ranges(query),
        ...days("created_at", created_at_from, created_at_to),
      ])

    const find = list({
      Request: Schema.toType(Query),
      Result: ResearchReport,
      execute: (query, slice) =>
        sql`
        select report_id, ticker, gain_percentage, report_text, volume, price, market_cap, tradable_float, outstanding,
          country, industry, post_url, created_at, last_updated
        from research_reports
        where ${wanted(query)}
        ${slice.page(sql`created_at desc, report_id`)}
      `,
    })

    const findTldr = list({
      Request: Schema.toType(Query),
      Result: ResearchReportTldr,
      execute: (query, slice) =>
        sql`
        select ticker, gain_percentage, tldr_text, price, market_cap, tradable_float, outstanding, country, industry,
          post_url, created_at, last_updated
        from research_reports
        where ${wanted(query)}
        ${slice.page(sql`created_at desc, report_id`)}
      `,
    })

    return handlers
      .handle("list", ({ query }) => Effect.flatMap(find(query), (rows) => envelope(query, rows)))
      .handle("listTldr", ({ query }) => Effect.flatMap(findTldr(query), (rows) => envelope(query, rows)))
  }),
)

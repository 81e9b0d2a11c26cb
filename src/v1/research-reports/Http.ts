import { Effect, flow, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient, SqlSchema } from "effect/sql"
import { Api } from "../../Api.ts"
import { Database } from "../../db/Database.ts"
import { envelope, span } from "../../policy/Paging.ts"
import { where } from "../../policy/Where.ts"
import { Query, ResearchReport, ResearchReportTldr } from "./Api.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "researchReports",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const database = yield* Database
    const { in: oneOf, ranges } = where(sql)

    // created_at is an instant: a day of it is a day on the clock on which it prints (§2.1), midnight to midnight.
    const wanted = ({ created_at_from, created_at_to, ...query }: typeof Query.Type) =>
      sql.and([
        ...oneOf("ticker", query.ticker),
        ...ranges(query),
        ...(created_at_from === undefined
          ? []
          : [sql`created_at >= ${`${created_at_from} 00:00:00-05:00`}::timestamptz`]),
        ...(created_at_to === undefined
          ? []
          : [sql`created_at < ${`${created_at_to} 00:00:00-05:00`}::timestamptz + interval '24 hours'`]),
      ])

    const find = flow(
      SqlSchema.findAll({
        Request: Schema.toType(Query),
        Result: ResearchReport,
        execute: (query) => {
          const { rows, skip } = span(query)
          return sql`
        select report_id, ticker, gain_percentage, report_text, volume, price, market_cap, tradable_float, outstanding,
          country, industry, post_url, created_at, last_updated
        from research_reports
        where ${wanted(query)}
        order by created_at desc, report_id
        limit ${rows} offset ${skip}
      `
        },
      }),
      database.read,
    )

    const findTldr = flow(
      SqlSchema.findAll({
        Request: Schema.toType(Query),
        Result: ResearchReportTldr,
        execute: (query) => {
          const { rows, skip } = span(query)
          return sql`
        select ticker, gain_percentage, tldr_text, price, market_cap, tradable_float, outstanding, country, industry,
          post_url, created_at, last_updated
        from research_reports
        where ${wanted(query)}
        order by created_at desc, report_id
        limit ${rows} offset ${skip}
      `
        },
      }),
      database.read,
    )

    return handlers
      .handle("list", ({ query }) => Effect.flatMap(find(query), (rows) => envelope(query, rows)))
      .handle("listTldr", ({ query }) => Effect.flatMap(findTldr(query), (rows) => envelope(query, rows)))
  }),
)

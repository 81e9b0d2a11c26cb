import { Effect, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { listing } from "../../db/Listing.ts"
import { envelope } from "../../policy/Paging.ts"
import { where } from "../../policy/Where.ts"
import { FloatOutstanding, Query } from "./Api.ts"

/** §2.5: a reported 0 is a figure like any other. */
const isIncomplete = (row: FloatOutstanding) =>
  row.insider_percent === null || row.affiliate_percent === null || row.institutions_percent === null

const message = "Some ownership figures on this page are missing: where insider_percent, affiliate_percent or " +
  "institutions_percent is null, no figure is known; a reported 0 is shown as 0."

export const layer = HttpApiBuilder.group(
  Api,
  "floatOutstanding",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const list = yield* listing
    const { in: oneOf, is, ranges } = where(sql)

    const find = list({
      Request: Schema.toType(Query),
      Result: FloatOutstanding,
      execute: (query, slice) =>
        sql`
        select ticker, company, "float", outstanding, tradable_float, market_cap, insider_percent, affiliate_percent,
          institutions_percent, is_adr, ads_ratio, country, sector, industry, exchange, reported_date, filed_at,
          ownership_source_url, document_url, last_updated
        from float_outstanding
        where ${
          sql.and([
            ...oneOf("ticker", query.ticker),
            ...oneOf("country", query.country),
            ...oneOf("sector", query.sector),
            ...oneOf("industry", query.industry),
            ...oneOf("exchange", query.exchange),
            ...is("is_adr", query.is_adr),
            ...ranges(query),
          ])
        }
        ${slice.page(sql`ticker`)}
      `,
    })

    return handlers.handle("list", ({ query }) =>
      find(query).pipe(
        Effect.flatMap((rows) => envelope(query, rows)),
        Effect.map((page) => page.results.some(isIncomplete) ? { ...page, message } : page),
      ))
  }),
)

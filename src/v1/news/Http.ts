import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { pageOf } from "../../db/DeepPages.ts"
import { listing, type Slice } from "../../db/Listing.ts"
import { Lists } from "../../lists/Lists.ts"
import { where } from "../../policy/Where.ts"
import { NewsBasicItem, NewsItem, Query } from "./Api.ts"

/** PostgreSQL refuses more than 32 negations in a row; whoever sends nine or more dashes has drawn a line. */
const withoutLines = (text: string) => text.replace(/(-[^\p{L}\p{N}"-]*){9,}/gu, " ")

/** Literals, because the index of filings is a partial one. */
const shown = ({ hide_filings, hide_news }: typeof Query.Type) =>
  hide_news === true
    ? [hide_filings === true ? "false" : "form_type <> 'news'"]
    : hide_filings === true
    ? ["form_type = 'news'"]
    : []

export const layer = HttpApiBuilder.group(
  Api,
  "news",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* listing
    const { from } = yield* Lists
    const { holds, in: oneOf, ranges } = where(sql)
    const rows = pageOf(sql)

    const wanted = (query: typeof Query.Type) =>
      sql.and([
        ...oneOf("ticker", query.ticker),
        ...oneOf("form_type", query.form_type),
        ...holds("tags", query.tag),
        ...ranges(query, { date: "filed_at" }),
        ...shown(query),
        ...(query.query === undefined
          ? []
          : [sql`search @@ websearch_to_tsquery('english', ${withoutLines(query.query)})`]),
      ])

    const execute = (query: typeof Query.Type, slice: Slice) =>
      sql`
        select ${slice.columns}
        from ${
        rows({ table: "news", key: ["created_at", "id"], where: wanted(query), order: sql`created_at desc, id`, slice })
      }
      `

    const page = from(["news"], list({ Row: NewsItem, execute }))
    const pageBasic = from(["news"], list({ Row: NewsBasicItem, execute }))

    return handlers
      .handle("list", ({ query }) => page(query))
      .handle("listBasic", ({ query }) => pageBasic(query))
  }),
)

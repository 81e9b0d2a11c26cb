import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { pageOf } from "../../lists/DeepPages.ts"
import { listing, type Slice } from "../../lists/Listing.ts"
import { Lists } from "../../lists/ListResponse.ts"
import { conditions } from "../../lists/Conditions.ts"
import { News, NewsBasicItem, NewsItem, Query } from "./Api.ts"

/** Literals, because the index of filings is partial; `false`, because for both PostgreSQL would read all news. */
const hides = {
  hide_news: ({ hide_filings, hide_news }: typeof Query.Type) =>
    hide_news === true ? [hide_filings === true ? "false" : "form_type <> 'news'"] : [],
  hide_filings: ({ hide_filings }: typeof Query.Type) => hide_filings === true ? ["form_type = 'news'"] : [],
}

export const layer = HttpApiBuilder.group(
  Api,
  "news",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* listing
    const { from } = yield* Lists
    const wanted = conditions(sql, Query, hides)
    const rows = pageOf(sql)

    const execute = (query: typeof Query.Type, slice: Slice) =>
      sql`
        select ${slice.columns}
        from ${
        rows({
          table: "news",
          key: ["created_at", "id"],
          where: sql.and(wanted(query)),
          order: sql`created_at desc, id`,
          slice,
        })
      }
      `

    const page = from(News.endpoints.list, list({ Row: NewsItem, execute }))
    const pageBasic = from(News.endpoints.listBasic, list({ Row: NewsBasicItem, execute }))

    return handlers
      .handle("list", ({ query }) => page(query))
      .handle("listBasic", ({ query }) => pageBasic(query))
  }),
)

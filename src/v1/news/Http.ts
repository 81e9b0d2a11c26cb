import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import { makePageFragment } from "../../lists/DeepPages.ts"
import { makeListQueryFactory, type PageClauses } from "../../lists/ListQuery.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { compileConditions } from "../../lists/Conditions.ts"
import { NewsApiGroup, NewsBasicItem, NewsItem, NewsQuery } from "./Api.ts"

/** Literals, because the index of filings is partial; `false`, because for both PostgreSQL would read all news. */
const hides = {
  hide_news: ({ hide_filings, hide_news }: typeof NewsQuery.Type) =>
    hide_news === true ? [hide_filings === true ? "false" : "form_type <> 'news'"] : [],
  hide_filings: ({ hide_filings }: typeof NewsQuery.Type) => hide_filings === true ? ["form_type = 'news'"] : [],
}

export const newsHandlers = HttpApiBuilder.group(
  Api,
  "news",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { list } = yield* makeListQueryFactory
    const { makeHandler: from } = yield* ListHandlers
    const wanted = compileConditions(sql, NewsQuery, hides)
    const rows = makePageFragment(sql)

    const execute = (query: typeof NewsQuery.Type, slice: PageClauses) =>
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

    const page = from(NewsApiGroup.endpoints.list, list({ Row: NewsItem, execute }))
    const pageBasic = from(NewsApiGroup.endpoints.listBasic, list({ Row: NewsBasicItem, execute }))

    return handlers
      .handle("list", ({ query }) => page(query))
      .handle("listBasic", ({ query }) => pageBasic(query))
  }),
)

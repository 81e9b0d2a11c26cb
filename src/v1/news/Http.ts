import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../../Api.ts"
import type { ListClauses } from "../../lists/ListQuery.ts"
import { ListHandlers } from "../../lists/ListHandlers.ts"
import { NewsApiGroup, NewsBasicItem, NewsItem, NewsQuery } from "./Api.ts"

export const newsHandlers = HttpApiBuilder.group(
  Api,
  "news",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { makeHandler } = yield* ListHandlers

    const select = (_: object, { columns, fromPage, where }: ListClauses) => {
      const page = fromPage({ table: "news", key: ["created_at", "id"], where, order: sql`created_at desc, id` })
      return sql`select ${columns} from ${page}`
    }

    return handlers
      .handle("list", makeHandler(NewsApiGroup.endpoints.list, { Query: NewsQuery, Row: NewsItem, select }))
      .handle(
        "listBasic",
        makeHandler(NewsApiGroup.endpoints.listBasic, { Query: NewsQuery, Row: NewsBasicItem, select }),
      )
  }),
)

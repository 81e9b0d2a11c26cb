/** Handles `GET /v1/news` and `GET /v1/news-basic`. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { ListClauses } from "../../lists/ListQuery.ts"
import { ListEndpointFactory } from "../../lists/ListEndpoints.ts"
import { NewsApiGroup, NewsBasicItem, NewsItem, NewsQuery } from "./Api.ts"

export const newsHandlers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { makeEndpoint } = yield* ListEndpointFactory

  const select = (_: object, { columns, fromPage, where }: ListClauses) => {
    const page = fromPage({ table: "news", key: ["created_at", "id"], where, order: sql`created_at desc, id` })
    return sql`select ${columns} from ${page}`
  }

  return {
    list: makeEndpoint(NewsApiGroup.endpoints.list, { Query: NewsQuery, Row: NewsItem, select }),
    listBasic: makeEndpoint(NewsApiGroup.endpoints.listBasic, { Query: NewsQuery, Row: NewsBasicItem, select }),
  }
})

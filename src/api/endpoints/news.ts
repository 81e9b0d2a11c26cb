/** Handles `GET /v1/news` and `GET /v1/news-basic`. */
import { Effect } from "effect"
import type { ListClauses } from "../../query/lists/ListDefinition.ts"
import { ListEndpointFactory } from "../../query/lists/ListEndpoints.ts"
import { NewsApiGroup, NewsBasicItem, NewsItem, NewsQuery } from "../../contract/endpoints/news.ts"

const select = (_: object, { selectPage }: ListClauses) =>
  selectPage({ table: "news", key: ["created_at", "id"], order: "created_at desc, id" })

/** Handlers for the two lists of news. Both lists read the same rows, but return different columns. */
export const newsHandlers = Effect.map(ListEndpointFactory, ({ makeEndpoint }) => ({
  list: makeEndpoint(NewsApiGroup.endpoints.list, { Query: NewsQuery, Row: NewsItem, select }),
  listBasic: makeEndpoint(NewsApiGroup.endpoints.listBasic, { Query: NewsQuery, Row: NewsBasicItem, select }),
}))

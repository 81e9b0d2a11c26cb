import { Effect, Layer } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder, HttpApiScalar, OpenApi } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { Api } from "../Api.ts"
import { Database } from "../db/Database.ts"
import { documentation } from "../policy/Lifecycle.ts"
import { endpoints } from "./Endpoints.ts"

/** OpenAPI 3.1, made from the declaration of the endpoints. */
export const openApi = OpenApi.fromApi(Api)

const group = HttpApiBuilder.group(
  Api,
  "Catalogue",
  Effect.fnUntraced(function* (handlers) {
    const sql = yield* SqlClient.SqlClient
    const { read } = yield* Database
    const results = endpoints.map(({ row }) => row)
    const document = HttpServerResponse.jsonUnsafe(openApi)

    return handlers.handleAll({
      endpoints: () => Effect.succeed({ count: results.length, results }),
      openapi: () => Effect.succeed(document),
      live: () => Effect.succeed({ status: "ok" } as const),
      ready: () => Effect.as(read(sql`select 1`), { status: "ok" } as const),
    })
  }),
)

/** The reference, with everything it needs inside the page: it works without the internet. */
const docs = HttpApiScalar.layer(Api, {
  path: documentation,
  scalar: {
    withDefaultFonts: false,
    layout: "modern",
    theme: "default",
    authentication: { preferredSecurityScheme: "apiKey" },
  },
})

export const layer = Layer.merge(group, docs)

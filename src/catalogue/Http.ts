import { Effect, Layer } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder, HttpApiScalar } from "effect/http-api"
import { Api } from "../Api.ts"
import { documentation } from "../policy/Lifecycle.ts"
import { endpoints } from "./Endpoints.ts"
import { estimator } from "./Estimate.ts"
import { document, DocumentedApi } from "./OpenApi.ts"
import { readiness } from "./Readiness.ts"

const group = HttpApiBuilder.group(
  Api,
  "catalogue",
  Effect.fnUntraced(function* (handlers) {
    const ready = yield* readiness
    const results = endpoints.map(({ row }) => row)
    const estimate = yield* estimator
    const openapi = HttpServerResponse.jsonUnsafe(document)

    return handlers.handleAll({
      endpoints: () => Effect.succeed({ count: results.length, results }),
      openapi: () => Effect.succeed(openapi),
      estimate: ({ query, request }) => estimate(query.endpoint, request),
      live: () => Effect.succeed({ status: "ok" } as const),
      ready: () => ready,
    })
  }),
)

/** Three bars, inside the page as everything else: it works without the internet. */
const favicon = "data:image/svg+xml," + encodeURIComponent(
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path stroke="#07c" stroke-width="3" ` +
    `d="M3 15V9M8 15V2M13 15V6"/></svg>`,
)

const docs = HttpApiScalar.layer(DocumentedApi, {
  path: documentation,
  scalar: { favicon, withDefaultFonts: false, authentication: { preferredSecurityScheme: "apiKey" } },
})

export const layer = Layer.merge(group, docs)

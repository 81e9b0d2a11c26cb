import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../Api.ts"
import { makeConditionalResponder, staticCacheHeaders } from "../http/ConditionalRequests.ts"
import { cacheCompressedForms } from "../http/Compression.ts"
import { BaseUrl } from "../http/Middleware.ts"
import { setRecordCount } from "../http/RequestContext.ts"
import { endpoints } from "./Endpoints.ts"
import { makeCostEstimator } from "./CostEstimator.ts"
import { openApiDocumentFor } from "./OpenApiDocument.ts"
import { makeReadinessCheck } from "./Readiness.ts"

/** A document of the release, made and compressed once. */
const released = (document: unknown) =>
  makeConditionalResponder(
    cacheCompressedForms(new TextEncoder().encode(JSON.stringify(document))),
    "application/json",
    staticCacheHeaders,
  )

export const catalogueHandlers = HttpApiBuilder.group(
  Api,
  "catalogue",
  Effect.fnUntraced(function* (handlers) {
    const ready = yield* makeReadinessCheck
    const results = endpoints.map(({ row }) => row)
    const estimate = yield* makeCostEstimator
    const catalogue = released({ count: results.length, results })
    // Without an address, as in tests, the server is the origin from which the document was read.
    const openapi = released(openApiDocumentFor((yield* BaseUrl) || "/"))

    return handlers.handleAll({
      endpoints: ({ request }) => Effect.as(setRecordCount(results.length), catalogue(request)),
      openapi: ({ request }) => Effect.succeed(openapi(request)),
      estimate: ({ query, request }) => estimate(query.endpoint, request),
      live: () => Effect.succeed({ status: "ok" } as const),
      ready: () => ready,
    })
  }),
)

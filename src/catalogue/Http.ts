/** Handles `GET /endpoints`, `/estimate` and `/v1/openapi.json`, and the health checks. */
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { PublicApi } from "../Api.ts"
import { makeStaticBodyResponder, staticCacheHeaders } from "../http/ConditionalRequests.ts"
import { cacheCompressedBodies } from "../http/Compression.ts"
import { BaseUrl } from "../http/BaseUrl.ts"
import { setRecordCount } from "../http/RequestContext.ts"
import { catalogueEndpoints } from "./Endpoints.ts"
import { makeCostEstimator } from "./CostEstimator.ts"
import { makeOpenApiDocument } from "./OpenApiDocument.ts"
import { makeReadinessCheck } from "./Readiness.ts"

/**
 * Returns a function that serves a document, which is encoded and compressed once, because only a release changes it.
 */
const makeStaticResponder = (document: unknown) =>
  makeStaticBodyResponder(
    cacheCompressedBodies(new TextEncoder().encode(JSON.stringify(document))),
    "application/json",
    staticCacheHeaders,
  )

export const catalogueHandlers = HttpApiBuilder.group(
  PublicApi,
  "catalogue",
  Effect.fnUntraced(function* (handlers) {
    const ready = yield* makeReadinessCheck
    const results = catalogueEndpoints.map(({ row }) => row)
    const estimate = yield* makeCostEstimator
    const catalogue = makeStaticResponder({ count: results.length, results })
    // Without BASE_URL, the server in the document is `/`: the origin from which a client fetched the document.
    const baseUrl = (yield* BaseUrl) || "/"
    const openapi = yield* Effect.cached(Effect.sync(() => makeStaticResponder(makeOpenApiDocument(baseUrl))))

    return handlers.handleAll({
      endpoints: ({ request }) => Effect.as(setRecordCount(results.length), catalogue(request)),
      openapi: ({ request }) => Effect.map(openapi, (respond) => respond(request)),
      estimate: ({ query, request }) => estimate(query.endpoint, request),
      live: () => Effect.succeed({ status: "ok" } as const),
      ready: () => ready,
    })
  }),
)

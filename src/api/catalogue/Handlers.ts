/** Handles `GET /endpoints`, `/estimate` and `/v1/openapi.json`, and the health checks. */
import { Effect, Exit } from "effect"
import { makeHandler, makePublicHandler } from "../../query/EndpointHandler.ts"
import { BaseUrl } from "../BaseUrl.ts"
import { cacheCompressedBodies } from "../Compression.ts"
import { makeStaticPage, staticCacheHeaders } from "../StaticPages.ts"
import { makeObjectEncoder } from "../../contract/rules/EndpointResult.ts"
import { AnyParameters, NoParameters } from "../../contract/rules/FilterParameters.ts"
import { CostEstimateQuery, Health, ReadinessReport } from "../../contract/endpoints/catalogue.ts"
import { estimateCost } from "./CostEstimator.ts"
import { catalogueEndpoints } from "./Endpoints.ts"
import { makeOpenApiDocument } from "./OpenApiDocument.ts"
import { makeReadinessCheck } from "./ReadinessCheck.ts"

/**
 * Creates a page from a document. The document is encoded and compressed only once, because it changes only between
 * releases.
 */
const makeDocumentPage = (document: unknown, records = 0) =>
  makeStaticPage(
    cacheCompressedBodies(new TextEncoder().encode(JSON.stringify(document))),
    "application/json",
    staticCacheHeaders,
    records,
  )

const encodeHealth = makeObjectEncoder(Health)
const encodeReadiness = makeObjectEncoder(ReadinessReport)

/** Handlers for the endpoints that describe the API, estimate costs and check the service's health. */
export const catalogueHandlers = Effect.gen(function* () {
  const ready = yield* makeReadinessCheck
  const results = catalogueEndpoints.map(({ row }) => row)
  const catalogue = makeDocumentPage({ count: results.length, results }, results.length)
  // If `BASE_URL` is not set, the server URL in the document is `/`, which means the origin from which the client
  // fetched the document.
  const baseUrl = (yield* BaseUrl) || "/"
  const openapi = yield* Effect.cached(Effect.sync(() => makeDocumentPage(makeOpenApiDocument(baseUrl))))
  const live = Exit.succeed(encodeHealth({ status: "ok" }, 0))

  return {
    endpoints: makePublicHandler(NoParameters, () => Exit.succeed(catalogue)),
    openapi: makePublicHandler(NoParameters, () => openapi),
    estimate: makeHandler(CostEstimateQuery, ({ endpoint }, request) => estimateCost(endpoint, request)),
    live: makePublicHandler(AnyParameters, () => live),
    ready: makePublicHandler(AnyParameters, () => Effect.map(ready, (state) => encodeReadiness(state, 0))),
  }
})

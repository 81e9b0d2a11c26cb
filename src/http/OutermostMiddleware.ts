/** The outermost middleware: adds the request id (D12) and headers (D14) to every response and compresses it. */
import { Clock, Effect, Layer, Option } from "effect"
import { HttpBody, HttpEffect, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { getUncompressedBodySize } from "../accounts/billing/Pricing.ts"
import { makeMonotonicClock } from "../observability/MonotonicTime.ts"
import { RequestMetrics } from "../observability/RequestMetrics.ts"
import * as Deprecation from "../rules/Deprecation.ts"
import { resolveRequestId } from "../rules/RequestIds.ts"
import { BaseUrl } from "./BaseUrl.ts"
import { makeCompressionMiddleware } from "./Compression.ts"
import { addEncodingToEtagAndVary } from "./ConditionalRequests.ts"
import { makeCorsHeaderSetter } from "./Cors.ts"
import { formatLinks, makeRequestContext, RequestContext } from "./RequestContext.ts"
import { ResponseCache } from "./ResponseCache.ts"
import { addExportTrailers } from "./Trailers.ts"
import * as UnroutedResponses from "./UnroutedResponses.ts"

/** Headers that depend on the status (§7.2, errors). */
const statusHeaders: Readonly<Record<number, Readonly<Record<string, string>>>> = {
  401: { "WWW-Authenticate": "Bearer" },
  503: { "Retry-After": "5" },
}

const longTextBytes = 65_536

/** Encodes a long text body once. Node would encode it again for each client, and hold each copy until it is sent. */
const encodeLongText = (response: HttpServerResponse.HttpServerResponse) => {
  const { body } = response
  return body._tag === "Uint8Array" && body.text !== undefined && body.contentLength > longTextBytes
    ? HttpServerResponse.setBody(response, HttpBody.uint8Array(body.body, body.contentType))
    : response
}

/** Returns `Cache-Control` of a response that declares none: an error, or data about an account or this moment. */
const getDefaultCacheControl = ({ response: { account_id } }: RequestContext) =>
  account_id === undefined ? "no-store" : "private, no-store"

const addHeaders = (context: RequestContext, base: string, response: HttpServerResponse.HttpServerResponse) => {
  context.response.bytes ??= getUncompressedBodySize(response)
  const { links } = context.response
  return HttpServerResponse.setHeaders(encodeLongText(response), {
    ...statusHeaders[response.status],
    "Cache-Control": response.headers["cache-control"] ?? getDefaultCacheControl(context),
    ...context.response.headers,
    ...(links.length === 0 ? {} : { Link: formatLinks(base, links) }),
    // A browser must not interpret a response as a page or a script (OWASP API8).
    "X-Content-Type-Options": "nosniff",
    "X-API-Version": "v1",
    "X-Request-Id": context.id,
  })
}

/** Returns the outermost middleware. `pages` contains the documentation paths. */
export const makeOutermostMiddleware = Effect.fnUntraced(function* (pages: ReadonlySet<string>) {
  const base = yield* BaseUrl
  const addCorsHeaders = yield* makeCorsHeaderSetter
  const compress = yield* makeCompressionMiddleware
  const responseCache = yield* ResponseCache
  const metrics = yield* RequestMetrics
  const clock = yield* Clock.Clock
  const monotonicNow = yield* makeMonotonicClock
  Option.map(yield* Deprecation.ApiVersionDeprecation, Deprecation.validateDeprecation)

  const makeContext = (request: HttpServerRequest.HttpServerRequest) =>
    makeRequestContext({
      id: resolveRequestId(request.headers["x-request-id"]),
      target: request.url,
      startedAt: clock.currentTimeMillisUnsafe(),
    })

  /** Adds the headers and the trailers, and records the request in the metrics. */
  const complete = (
    request: HttpServerRequest.HttpServerRequest,
    response: HttpServerResponse.HttpServerResponse,
    context: RequestContext,
    arrivedAt: number,
  ) => {
    const completed = addCorsHeaders(request, addHeaders(context, base, response))
    const record = (status: number) =>
      metrics.recordFromContext(request.method, status, context, monotonicNow() - arrivedAt)
    if (context.response.streamedExport === undefined) record(completed.status)
    else context.response.streamedExport.endListeners.push(record)
    return addExportTrailers(request, completed, context)
  }

  return <E, R>(httpApp: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
    Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
      Effect.flatMap(RequestContext, (provided) => {
        const arrivedAt = monotonicNow()
        // A request from inside the process already has its context.
        const isInternal = provided.purpose === "estimate" || provided.via !== null
        const context = isInternal ? provided : makeContext(request)
        return UnroutedResponses.respondOrRoute(request, pages, httpApp).pipe(
          // The handlers below run in reverse order: first `complete`, then the compression, then the response cache.
          HttpEffect.withPreResponseHandler((_, response) =>
            Effect.sync(() => responseCache.store(request, addEncodingToEtagAndVary(response), context))
          ),
          compress,
          HttpEffect.withPreResponseHandler((_, response) =>
            Effect.sync(() => complete(request, response, context, arrivedAt))
          ),
          Effect.provideService(RequestContext, context),
        )
      }))
})

const middleware = HttpRouter.middleware(
  Effect.map(
    Effect.flatMap(UnroutedResponses.DocumentationPaths, makeOutermostMiddleware),
    (wrap) => (httpApp) => wrap(httpApp),
  ),
  { global: true },
)

export const layer = Layer.merge(middleware, UnroutedResponses.layer)

/** The outermost middleware: the request id (D12), the headers (D14) and the compression of every response. */
import { Clock, Context, Effect, Layer, Option } from "effect"
import { HttpBody, HttpEffect, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { getBodyBytes } from "../accounts/billing/Pricing.ts"
import { monotonicMillis } from "../observability/MonotonicTime.ts"
import { RequestMetrics } from "../observability/RequestMetrics.ts"
import * as Lifecycle from "../rules/Lifecycle.ts"
import { resolveRequestId } from "../rules/RequestIds.ts"
import { BaseUrl } from "./BaseUrl.ts"
import { makeCompressionMiddleware } from "./Compression.ts"
import { addEncodingToValidators } from "./ConditionalRequests.ts"
import { allowedMethods, makeCorsHeaderSetter } from "./Cors.ts"
import { makeRequestContext, RequestContext } from "./RequestContext.ts"
import { decodePath } from "./RequestTarget.ts"
import { ResponseCache } from "./ResponseCache.ts"
import { withTrailers } from "./Trailers.ts"
import * as UnroutedResponses from "./UnroutedResponses.ts"

/** Paths of the documentation pages, which accept the same methods as endpoints (D10). */
export const DocumentationPaths = Context.Reference<ReadonlySet<string>>("tickerline/http/DocumentationPaths", {
  defaultValue: () => new Set(),
})

/** Headers that depend on the status (§7.2, errors). */
const statusHeaders: Readonly<Record<number, Readonly<Record<string, string>>>> = {
  401: { "WWW-Authenticate": "Bearer" },
  405: { Allow: allowedMethods },
  503: { "Retry-After": "5" },
}

const longTextBytes = 65_536

/** Turns a long text into bytes once. Node would encode a text for each client and hold the copy until it is sent. */
const encodeLongText = (response: HttpServerResponse.HttpServerResponse) => {
  const { body } = response
  return body._tag === "Uint8Array" && body.text !== undefined && body.contentLength > longTextBytes
    ? HttpServerResponse.setBody(response, HttpBody.uint8Array(body.body, body.contentType))
    : response
}

const addHeaders = (context: RequestContext, base: string, response: HttpServerResponse.HttpServerResponse) => {
  context.bytes ??= getBodyBytes(response)
  const links = context.links.map(({ attributes, path }) => `<${base}${path}>; ${attributes}`)
  return HttpServerResponse.setHeaders(encodeLongText(response), {
    ...statusHeaders[response.status],
    ...context.headers,
    ...(links.length === 0 ? {} : { Link: links.join(", ") }),
    // A browser must not interpret a response as a page or a script (OWASP API8).
    "X-Content-Type-Options": "nosniff",
    "X-API-Version": "v1",
    "X-Request-Id": context.id,
  })
}

/** Makes the context of a request. For an estimate, it returns the context that the caller has provided. */
const resolveContext = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
  const provided = yield* RequestContext
  if (provided.purpose === "estimate") return provided
  return makeRequestContext({
    id: resolveRequestId(request.headers["x-request-id"]),
    target: request.url,
    startedAt: yield* Clock.currentTimeMillis,
  })
})

const middleware = HttpRouter.middleware(
  Effect.gen(function* () {
    const base = yield* BaseUrl
    const pages = yield* DocumentationPaths
    const addCorsHeaders = yield* makeCorsHeaderSetter
    const compress = yield* makeCompressionMiddleware
    const responseCache = yield* ResponseCache
    const metrics = yield* RequestMetrics
    const monotonicNow = yield* monotonicMillis
    Option.map(yield* Lifecycle.VersionDeprecation, Lifecycle.validateDeprecation)
    return (httpApp) =>
      Effect.gen(function* () {
        const arrivedAt = monotonicNow()
        const request = yield* HttpServerRequest.HttpServerRequest
        const context = yield* resolveContext(request)
        const path = decodePath(request.url)
        const responding = Effect.flatMap(UnroutedResponses.checkVersion(path), (removed) =>
          Option.match(UnroutedResponses.respondBeforeRouting(request, path, pages), {
            onSome: (response) =>
              Effect.andThen(UnroutedResponses.addEndpointDeprecation(path), response),
            onNone: () => Option.getOrElse(removed, () => httpApp),
          }))
        // These handlers run from the last to the first: add the headers, compress the body, store the response.
        return yield* responding.pipe(
          HttpEffect.withPreResponseHandler((_, response) =>
            Effect.sync(() =>
              responseCache.store(request, addEncodingToValidators(response), context)
            )
          ),
          compress,
          HttpEffect.withPreResponseHandler((_, response) =>
            Effect.sync(() => {
              const complete = addCorsHeaders(request, addHeaders(context, base, response))
              const record = (status: number) =>
                metrics.recordFromContext(request.method, status, context, monotonicNow() - arrivedAt)
              if (context.streamedExport === undefined) record(complete.status)
              else context.streamedExport.endListeners.push(record)
              return withTrailers(request, complete, context)
            })
          ),
          Effect.provideService(RequestContext, context),
        )
      })
  }),
  { global: true },
)

export const layer = Layer.merge(middleware, UnroutedResponses.layer)

/**
 * What surrounds every response, whoever produced it (D12, D14): request id, version, the headers gathered in the
 * exchange; and the answers that no endpoint gives: 301, 400, 404, 405, preflight.
 */
import { Clock, Context, Effect, Layer, Option, Predicate, Schema } from "effect"
import { HttpBody, HttpEffect, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { getBasePath } from "./BaseUrl.ts"
import { ResponseCache } from "./ResponseCache.ts"
import * as Endpoints from "../catalogue/Endpoints.ts"
import { addEncodingToValidators, makeCompressionMiddleware } from "./Compression.ts"
import * as Cors from "./Cors.ts"
import { getBodyBytes } from "../accounts/billing/Pricing.ts"
import { RequestMetrics } from "../observability/RequestMetrics.ts"
import { BadRequest, EndpointRemoved, MethodNotAllowed, NotFound } from "../rules/Errors.ts"
import * as Exchange from "./RequestContext.ts"
import { resolveRequestId } from "../rules/RequestIds.ts"
import * as Lifecycle from "../rules/Lifecycle.ts"
import { decodePath, isDecodable, isLegacyTarget, legacyPrefix } from "./RequestTarget.ts"
import { withTrailers } from "./Trailers.ts"

type Answer = Effect.Effect<HttpServerResponse.HttpServerResponse>

/** Where clients reach the service: what `Link` headers start with. */
export const BaseUrl = Context.Reference<string>("tickerline/Edge/BaseUrl", { defaultValue: () => "" })

/** The addresses of pages, which answer the same methods as endpoints (D10). */
export const DocumentationPaths = Context.Reference<ReadonlySet<string>>("tickerline/Edge/Pages", {
  defaultValue: () => new Set(),
})

const { allowedMethods } = Cors

/** What a status always comes with (§7.2, D2, D10). */
const ofStatus: Readonly<Record<number, Readonly<Record<string, string>>>> = {
  401: { "WWW-Authenticate": "Bearer" },
  405: { Allow: allowedMethods },
  503: { "Retry-After": "5" },
}

const longText = 65_536

/** A long text becomes bytes once; Node would make them for each client, and hold them until it has taken them. */
const asBytes = (response: HttpServerResponse.HttpServerResponse) => {
  const { body } = response
  return body._tag === "Uint8Array" && body.text !== undefined && body.contentLength > longText
    ? HttpServerResponse.setBody(response, HttpBody.uint8Array(body.body, body.contentType))
    : response
}

const gathered = (exchange: Exchange.RequestContext, base: string, response: HttpServerResponse.HttpServerResponse) => {
  exchange.bytes ??= getBodyBytes(response)
  const links = exchange.links.map(({ attributes, path }) => `<${base}${path}>; ${attributes}`)
  return HttpServerResponse.setHeaders(asBytes(response), {
    ...ofStatus[response.status],
    ...exchange.headers,
    ...(links.length === 0 ? {} : { Link: links.join(", ") }),
    // A browser shall not take an answer for a page or a script (OWASP API8).
    "X-Content-Type-Options": "nosniff",
    "X-API-Version": "v1",
    "X-Request-Id": exchange.id,
  })
}

const answer = <S extends Schema.Codec<unknown, unknown>>(error: S) => {
  const encode = Schema.encodeUnknownEffect(error)
  return (body: S["Type"], status: number): Answer =>
    Effect.orDie(Effect.map(encode(body), (json) => HttpServerResponse.jsonUnsafe(json, { status })))
}

const badRequest = answer(BadRequest)
const notFound = answer(NotFound)
const methodNotAllowed = answer(MethodNotAllowed)
const removed = answer(EndpointRemoved)

export const respondNotFound = (path: string) =>
  notFound(
    new NotFound({
      error: {
        message: `There is no endpoint at ${path.slice(0, 200)}.${
          Endpoints.suggestEndpoint(path)
        } GET /endpoints lists them all.`,
      },
    }),
    404,
  )

const wrongMethod = (method: string, target: string, path: string, pages: ReadonlySet<string>): Answer => {
  const known = isLegacyTarget(target)
    ? `${legacyPrefix}*`
    : pages.has(path)
    ? path
    : Option.getOrUndefined(Endpoints.findEndpoint(path))?.row.path
  if (known === undefined) return respondNotFound(path)
  const message = `${known} answers ${allowedMethods}, not ${method}.`
  return methodNotAllowed(new MethodNotAllowed({ error: { message } }), 405)
}

const preflight = HttpServerResponse.empty({ status: 204, headers: { Allow: allowedMethods } })

const unreadable = (message: string) => Option.some(badRequest(new BadRequest({ error: { message } }), 400))

/** RFC 9112: HTTP/1.1 names a host, 1.0 need not. */
const lacksHost = ({ headers, source }: HttpServerRequest.HttpServerRequest) =>
  headers["host"] === undefined && Predicate.hasProperty(source, "httpVersion") && source.httpVersion === "1.1"

/** The answer to a request that must not reach an endpoint. */
const early = (request: HttpServerRequest.HttpServerRequest, path: string, pages: ReadonlySet<string>) => {
  const { method, url } = request
  if (lacksHost(request)) return unreadable("The request names no Host.")
  if (!isDecodable(url)) return unreadable("The URL cannot be decoded: a % must be followed by two digits of UTF-8.")
  if (method === "OPTIONS") return Option.some(Effect.succeed(preflight))
  // The router would take what follows for the query.
  if (/[;#]/.test(path) && !isLegacyTarget(url)) return Option.some(respondNotFound(path))
  return method === "GET" || method === "HEAD" ? Option.none() : Option.some(wrongMethod(method, url, path, pages))
}

/** An endpoint that is deprecated says so before it is reached, too (D14). */
const announceEndpoint = (path: string) =>
  Option.match(Option.flatMap(Endpoints.findEndpoint(path), ({ deprecation: life }) => life), {
    onNone: () => Effect.void,
    onSome: Lifecycle.addDeprecationHeaders,
  })

/** D26: a retired version says so on every response, and is gone after its sunset. */
const version = Effect.fnUntraced(function* (path: string) {
  const life = yield* Lifecycle.VersionDeprecation
  if (Option.isNone(life) || !path.startsWith("/v1/")) return Option.none<Answer>()
  yield* Lifecycle.addDeprecationHeaders(life.value)
  return Option.map(
    yield* Effect.option(Effect.flip(Lifecycle.failIfRemoved(life.value, "Version v1"))),
    (error) => removed(error, 410),
  )
})

/** A request that is run through for an estimate brings its exchange along. */
const begin = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
  const given = yield* Exchange.RequestContext
  if (given.purpose === "estimate") return given
  return Exchange.makeRequestContext({
    id: resolveRequestId(request.headers["x-request-id"]),
    target: request.url,
    began: yield* Clock.currentTimeMillis,
  })
})

const Surroundings = HttpRouter.middleware(
  Effect.gen(function* () {
    const base = yield* BaseUrl
    const pages = yield* DocumentationPaths
    const shared = yield* Cors.makeCorsHeaderSetter
    const compressed = yield* makeCompressionMiddleware
    const sent = yield* ResponseCache
    const requests = yield* RequestMetrics
    Option.map(yield* Lifecycle.VersionDeprecation, Lifecycle.validateDeprecation)
    return (served) =>
      Effect.gen(function* () {
        const arrived = performance.now()
        const request = yield* HttpServerRequest.HttpServerRequest
        const exchange = yield* begin(request)
        const path = decodePath(request.url)
        const answered = Effect.flatMap(version(path), (gone) =>
          Option.match(early(request, path, pages), {
            onSome: (answer) => Effect.andThen(announceEndpoint(path), answer),
            onNone: () => Option.getOrElse(gone, () => served),
          }))
        // The first to be said is the first to be done with the response.
        return yield* answered.pipe(
          HttpEffect.withPreResponseHandler((_, response) =>
            Effect.sync(() => sent.store(request, addEncodingToValidators(response), exchange))
          ),
          compressed,
          HttpEffect.withPreResponseHandler((_, response) =>
            Effect.sync(() => {
              const whole = shared(request, gathered(exchange, base, response))
              const answered = (status: number) =>
                requests.recordFromContext(request.method, status, exchange, performance.now() - arrived)
              if (exchange.streamedExport === undefined) answered(whole.status)
              else exchange.streamedExport.endListeners.push(answered)
              return withTrailers(request, whole, exchange)
            })
          ),
          Effect.provideService(Exchange.RequestContext, exchange),
        )
      })
  }),
  { global: true },
)

/** §9.1: a permanent redirect, which keeps path and query; a proxy may serve the API below a path of `BASE_URL`. */
const Legacy = Layer.unwrap(Effect.map(BaseUrl, (base) => {
  const prefix = getBasePath(base)
  return HttpRouter.add(
    "GET",
    `${legacyPrefix}*`,
    ({ url }) =>
      isLegacyTarget(url)
        ? Effect.succeed(HttpServerResponse.redirect(prefix + url.replace(legacyPrefix, "/v1/"), { status: 301 }))
        : respondNotFound(decodePath(url)),
  )
}))

const Nowhere = HttpRouter.add("GET", "/*", (request) => respondNotFound(decodePath(request.url)))

export const layer = Layer.mergeAll(Surroundings, Legacy, Nowhere)

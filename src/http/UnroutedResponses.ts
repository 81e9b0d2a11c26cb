/** Responses that no endpoint produces: 301, 400, 404, 405, 410 for a removed API version, and responses to OPTIONS. */
import { Effect, Layer, Option, Predicate } from "effect"
import { HttpRouter, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { findEndpoint, formatEndpointSuggestion } from "../catalogue/Endpoints.ts"
import { BadRequest, MethodNotAllowed, NotFound } from "../rules/Errors.ts"
import * as Deprecation from "../rules/Deprecation.ts"
import { BaseUrl, getBasePath } from "./BaseUrl.ts"
import { staticCacheHeaders } from "./ConditionalRequests.ts"
import { allowedEndpointMethods } from "./Cors.ts"
import { respondWithError } from "./ErrorResponses.ts"
import { decodePath, isDecodableUrl, isLegacyRequestTarget, legacyPathPrefix, mcpPath } from "./RequestTarget.ts"

type HttpApp<E, R> = Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
type ErrorResponse = HttpApp<never, never>

/** Returns the 404 for an unknown path. It suggests the most similar path, if there is one. */
export const makeUnknownPathError = (path: string) => {
  const message = `There is no endpoint at ${path.slice(0, 200)}.${
    formatEndpointSuggestion(path)
  } GET /endpoints lists them all.`
  return new NotFound({ error: { message } })
}

export const respondToUnknownPath = (path: string) => respondWithError(makeUnknownPathError(path))

const refuseMethod = (method: string, target: string, path: string, pages: ReadonlySet<string>): ErrorResponse => {
  const knownPath = isLegacyRequestTarget(target)
    ? `${legacyPathPrefix}*`
    : pages.has(path)
    ? path
    : Option.getOrUndefined(findEndpoint(path))?.row.path
  if (knownPath === undefined) return respondToUnknownPath(path)
  const message = `${knownPath} supports ${allowedEndpointMethods}, not ${method}.`
  return respondWithError(new MethodNotAllowed({ error: { message } }))
}

const preflightResponse = HttpServerResponse.empty({ status: 204, headers: { Allow: allowedEndpointMethods } })

const refuseRequest = (message: string) => Option.some(respondWithError(new BadRequest({ error: { message } })))

/** Whether the required `Host` header is missing. HTTP/1.0 does not require it (RFC 9112, 3.2). */
const lacksHost = ({ headers, source }: HttpServerRequest.HttpServerRequest) =>
  headers["host"] === undefined && Predicate.hasProperty(source, "httpVersion") && source.httpVersion === "1.1"

/** Returns the response to a request that must not be routed; none for all others. `pages`: the documentation paths. */
const respondBeforeRouting = (
  request: HttpServerRequest.HttpServerRequest,
  path: string,
  pages: ReadonlySet<string>,
): Option.Option<ErrorResponse> => {
  const { method, url } = request
  if (lacksHost(request)) return refuseRequest("The header Host is missing.")
  if (!isDecodableUrl(url)) {
    return refuseRequest("The URL cannot be decoded: a % must be followed by two hexadecimal digits of valid UTF-8.")
  }
  // The MCP server responds to every method itself.
  if (path === mcpPath) return Option.none()
  if (method === "OPTIONS") return Option.some(Effect.succeed(preflightResponse))
  // No known path contains `;` or `#`. The router would treat the text after them as the query, and find an endpoint.
  if (/[;#]/.test(path) && !isLegacyRequestTarget(url)) return Option.some(respondToUnknownPath(path))
  return method === "GET" || method === "HEAD" ? Option.none() : Option.some(refuseMethod(method, url, path, pages))
}

/** Adds the deprecation headers of the endpoint at `path` to a response such as a 405 (D14, headers). */
const addEndpointDeprecation = (path: string) =>
  Option.match(Option.flatMap(findEndpoint(path), ({ deprecation }) => deprecation), {
    onNone: () => Effect.void,
    onSome: Deprecation.addDeprecationHeaders,
  })

/** Continues with `httpApp` until the sunset of the API version; then responds with 410 (D26, version retirement). */
const respondUnlessRemoved = <E, R>(deprecation: Deprecation.Deprecation, httpApp: HttpApp<E, R>) =>
  Effect.matchEffect(Deprecation.failAfterSunset(deprecation, "Version v1"), {
    onFailure: respondWithError,
    onSuccess: (): HttpApp<E, R> => httpApp,
  })

/** Responds to a request that must not be routed; otherwise continues with `httpApp`. */
export const respondOrRoute = <E, R>(
  request: HttpServerRequest.HttpServerRequest,
  pages: ReadonlySet<string>,
  httpApp: HttpApp<E, R>,
): HttpApp<E, R> =>
  Effect.flatMap(Deprecation.ApiVersionDeprecation, (versionDeprecation) => {
    const path = decodePath(request.url)
    const unrouted = respondBeforeRouting(request, path, pages)
    const response = Option.isSome(unrouted) ? Effect.andThen(addEndpointDeprecation(path), unrouted.value) : undefined
    if (Option.isNone(versionDeprecation) || !path.startsWith("/v1/")) return response ?? httpApp
    return Effect.andThen(
      Deprecation.addDeprecationHeaders(versionDeprecation.value),
      response ?? respondUnlessRemoved(versionDeprecation.value, httpApp),
    )
  })

/** Permanently redirects a legacy path to `/v1/` below the path of `BASE_URL`. Keeps the query (§9.1, redirects). */
const legacyRedirect = Layer.unwrap(Effect.map(BaseUrl, (base) => {
  const basePath = getBasePath(base)
  return HttpRouter.add(
    "GET",
    `${legacyPathPrefix}*`,
    ({ url }) =>
      isLegacyRequestTarget(url)
        ? Effect.succeed(HttpServerResponse.redirect(basePath + url.replace(legacyPathPrefix, "/v1/"), {
          status: 301,
          headers: staticCacheHeaders,
        }))
        : respondToUnknownPath(decodePath(url)),
  )
}))

const unknownPaths = HttpRouter.add("GET", "/*", (request) => respondToUnknownPath(decodePath(request.url)))

/** The routes for the legacy prefix and for all unknown paths. */
export const layer = Layer.merge(legacyRedirect, unknownPaths)

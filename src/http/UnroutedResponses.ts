/** Responses that no endpoint produces: 301, 400, 404, 405, 410 for a removed API version, and responses to OPTIONS. */
import { Context, Effect, Layer, Option, Predicate } from "effect"
import { HttpRouter, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { findEndpoint, formatEndpointSuggestion } from "../catalogue/Endpoints.ts"
import { BadRequest, MethodNotAllowed, NotFound, redactApiKeys } from "../rules/Errors.ts"
import * as Deprecation from "../rules/Deprecation.ts"
import { BaseUrl, getBasePath } from "./BaseUrl.ts"
import { staticCacheHeaders } from "./ConditionalRequests.ts"
import { allowedEndpointMethods } from "./Cors.ts"
import { respondWithError } from "./ErrorResponses.ts"
import { type ProtocolError, protocolErrorMessages, type Rejection } from "./ProtocolErrors.ts"
import { formatLinks, setResponseHeaders } from "./RequestContext.ts"
import {
  decodePath,
  isDecodableUrl,
  isLegacyRequestTarget,
  legacyPathPrefix,
  mcpPath,
  parseTarget,
} from "./RequestTarget.ts"

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

/** Paths of the documentation pages, which accept the same methods as endpoints (D10). */
export const DocumentationPaths = Context.Reference<ReadonlySet<string>>("tickerline/http/DocumentationPaths", {
  defaultValue: () => new Set(),
})

const maxShownMethod = 100

/** Returns the error of a method that the path does not support, with `Allow`; the 404 if the path is unknown (D10). */
const makeMethodError = (method: string, target: string, pages: ReadonlySet<string>) => {
  const path = decodePath(target)
  const knownPath = isLegacyRequestTarget(target)
    ? `${legacyPathPrefix}*`
    : pages.has(path) || path === mcpPath
    ? path
    : Option.getOrUndefined(findEndpoint(path))?.row.path
  if (knownPath === undefined) return { error: makeUnknownPathError(path), headers: {} }
  const allowed = knownPath === mcpPath ? "POST" : allowedEndpointMethods
  const message = `${knownPath} supports ${allowed}, not ${method.slice(0, maxShownMethod)}.`
  return { error: new MethodNotAllowed({ error: { message } }), headers: { Allow: allowed } }
}

export const refuseMethod = (method: string, target: string, pages: ReadonlySet<string>): ErrorResponse => {
  const { error, headers } = makeMethodError(method, target, pages)
  return Effect.andThen(setResponseHeaders(headers), respondWithError(error))
}

const preflightResponse = HttpServerResponse.empty({ status: 204, headers: { Allow: allowedEndpointMethods } })

const refuseRequest = (message: string) => Option.some(respondWithError(new BadRequest({ error: { message } })))

/** Returns the method as the client sent it. Methods are case-sensitive, but Effect writes them in upper case. */
const getSentMethod = ({ method, source }: HttpServerRequest.HttpServerRequest): string =>
  Predicate.hasProperty(source, "method") && Predicate.isString(source.method) ? source.method : method

/** Whether the required `Host` header is missing. HTTP/1.0 does not require it (RFC 9112, 3.2). */
const lacksHost = ({ headers, source }: HttpServerRequest.HttpServerRequest) =>
  headers["host"] === undefined && Predicate.hasProperty(source, "httpVersion") && source.httpVersion === "1.1"

/** Methods for which the MCP server has a route. It refuses most of them, but checks the origin first. */
const mcpRouteMethods: ReadonlySet<string> = new Set(["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"])

/** Returns the response to a request that must not be routed; none for all others. `pages`: the documentation paths. */
const respondBeforeRouting = (
  request: HttpServerRequest.HttpServerRequest,
  path: string,
  pages: ReadonlySet<string>,
): Option.Option<ErrorResponse> => {
  const { url } = request
  const method = getSentMethod(request)
  if (lacksHost(request)) return refuseRequest("The header Host is missing.")
  if (!isDecodableUrl(url)) {
    return refuseRequest("The URL cannot be decoded: a % must be followed by two hexadecimal digits of valid UTF-8.")
  }
  if (path === mcpPath && mcpRouteMethods.has(method)) return Option.none()
  if (method === "OPTIONS") return Option.some(Effect.succeed(preflightResponse))
  // No known path contains `;` or `#`. The router would treat the text after them as the query, and find an endpoint.
  if (/[;#]/.test(path) && !isLegacyRequestTarget(url)) return Option.some(respondToUnknownPath(path))
  const isRouted = path !== mcpPath && (method === "GET" || method === "HEAD")
  return isRouted ? Option.none() : Option.some(refuseMethod(method, url, pages))
}

const findDeprecation = (path: string) => Option.flatMap(findEndpoint(path), ({ deprecation }) => deprecation)

/** Adds the deprecation headers of the endpoint at `path` to a response such as a 405 (D14, headers). */
const addEndpointDeprecation = (path: string) =>
  Option.match(findDeprecation(path), {
    onNone: () => Effect.void,
    onSome: Deprecation.addDeprecationHeaders,
  })

/** Describes the responses to requests that do not reach the application. They have the headers of their path. */
export class ProtocolErrorDescriber extends Context.Service<ProtocolErrorDescriber, {
  readonly describe: (rejection: Rejection) => ProtocolError
}>()("tickerline/http/ProtocolErrorDescriber") {
  static readonly layer = Layer.effect(
    ProtocolErrorDescriber,
    Effect.gen(function* () {
      const base = yield* BaseUrl
      const pages = yield* DocumentationPaths
      const versionDeprecation = yield* Deprecation.ApiVersionDeprecation

      const makeDeprecationHeaders = (path: string) => {
        const version = path.startsWith("/v1/") ? Option.toArray(versionDeprecation) : []
        const deprecations = [...version, ...Option.toArray(findDeprecation(path))]
        const links = formatLinks(base, deprecations.flatMap(Deprecation.makeDeprecationLinks))
        return Object.assign(
          links === "" ? {} : { Link: links },
          ...deprecations.map(Deprecation.makeDeprecationHeaders),
        )
      }

      const describe = ({ request, status }: Rejection): ProtocolError => {
        const target = request === undefined ? undefined : parseTarget(request.method, request.target)?.target
        const headers = target === undefined ? {} : makeDeprecationHeaders(decodePath(target))
        if (status === "unknown method" && request !== undefined && target !== undefined && isDecodableUrl(target)) {
          const { error, headers: allow } = makeMethodError(request.method, target, pages)
          const { code, message } = error.error
          const status = code === "not_found" ? 404 : 405
          return { status, code, message: redactApiKeys(message), headers: { ...headers, ...allow } }
        }
        const known = status === "unknown method" ? 400 : status
        return { status: known, code: "bad_request", message: protocolErrorMessages[known], headers }
      }
      return ProtocolErrorDescriber.of({ describe })
    }),
  )
}

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

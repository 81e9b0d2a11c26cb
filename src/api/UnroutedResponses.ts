/**
 * Creates the responses that do not come from an endpoint: 301, 400, 404, 405, 410 for a removed API version, and
 * responses to OPTIONS.
 */
import { Context, Effect, Option } from "effect"
import type { PlainResponse } from "../contract/rules/EndpointResult.ts"
import { type ApiRequest, getHeader } from "../contract/rules/ApiRequest.ts"
import * as Deprecation from "../contract/rules/Deprecation.ts"
import { BadRequest, MethodNotAllowed, NotFound, redactApiKeys } from "../contract/rules/ApiErrors.ts"
import { formatLinks } from "../contract/rules/LinkHeader.ts"
import { BaseUrl, getBasePath } from "./BaseUrl.ts"
import { staticCacheHeaders } from "./StaticPages.ts"
import { allowedEndpointMethods } from "./Cors.ts"
import { type ErrorResult, toErrorResult } from "./ErrorResponses.ts"
import { DocumentationPages } from "./SiteRoutes.ts"
import { type ProtocolError, protocolErrorMessages, type ProtocolRejection } from "./ProtocolErrors.ts"
import {
  decodePath,
  hasLegacyPathPrefix,
  isDecodableUrl,
  legacyPathPrefix,
  mcpPath,
  parseRequestTarget,
} from "./RequestTarget.ts"

/** Looks up endpoints by path. Implemented by functions in `api/catalogue/Endpoints.ts`. */
export class EndpointDirectory extends Context.Service<EndpointDirectory, {
  /** Finds the endpoint at a path, with or without a trailing slash. */
  readonly find: (path: string) => Option.Option<{
    readonly row: { readonly path: string }
    readonly deprecation: Option.Option<Deprecation.Deprecation>
  }>
  /** Returns a sentence such as ` Did you mean /v1/news?`, or an empty string if there is no similar path. */
  readonly suggest: (path: string) => string
}>()("tickerline/api/EndpointDirectory") {}

type Directory = EndpointDirectory["Service"]

/** Creates the 404 error for an unknown path. It suggests the most similar path, if there is one. */
export const makeUnknownPathError = ({ suggest }: Directory, path: string) => {
  const message = `There is no endpoint at ${path.slice(0, 200)}.${suggest(path)} GET /endpoints lists them all.`
  return new NotFound({ error: { message } })
}

/** Returns the 404 error from `makeUnknownPathError` as a request result. */
export const makeUnknownPathResult = (directory: Directory, path: string) =>
  toErrorResult(makeUnknownPathError(directory, path))

/** An error message quotes at most this many characters of an unsupported method. */
const maxShownMethod = 100

/**
 * Returns the path that the message of a 405 names, or undefined if there is no such path. `pages` contains the
 * documentation paths.
 */
const findKnownPath = (directory: Directory, target: string, pages: ReadonlySet<string>) => {
  if (hasLegacyPathPrefix(target)) return `${legacyPathPrefix}*`
  const path = decodePath(target)
  if (pages.has(path) || path === mcpPath) return path
  return Option.getOrUndefined(directory.find(path))?.row.path
}

/** Returns a 405 with `Allow` for a method that the path does not support, or a 404 if the path is unknown (D10). */
export const refuseMethod = (
  directory: Directory,
  method: string,
  target: string,
  pages: ReadonlySet<string>,
): ErrorResult => {
  const knownPath = findKnownPath(directory, target, pages)
  if (knownPath === undefined) return makeUnknownPathResult(directory, decodePath(target))
  const allowed = knownPath === mcpPath ? "POST" : allowedEndpointMethods
  // HEAD gets the same message as GET, because both must have the same `Content-Length` (RFC 9110, 9.3.2).
  const shown = method === "HEAD" ? "GET" : method.slice(0, maxShownMethod)
  const message = `${knownPath} supports ${allowed}, not ${shown}.`
  return { _tag: "Error", error: new MethodNotAllowed({ error: { message } }), headers: { allow: allowed } }
}

/** Creates a response without a body. */
export const makeEmptyResponse = (status: number, headers: Readonly<Record<string, string>>): PlainResponse => ({
  _tag: "Plain",
  status,
  headers,
  contentType: undefined,
  body: undefined,
})

const preflightResponse = makeEmptyResponse(204, { allow: allowedEndpointMethods })

/** Message of the 400 for a URL that cannot be decoded (D13). */
export const undecodableUrlMessage =
  "The URL cannot be decoded: a % must be followed by two hexadecimal digits of valid UTF-8."

const refuseRequest = (message: string) => toErrorResult(new BadRequest({ error: { message } }))

/** Returns whether a required `Host` header is missing. HTTP/1.0 does not require it (RFC 9112, 3.2). */
const lacksHost = (request: ApiRequest) => request.httpVersion === "1.1" && getHeader(request, "host") === undefined

/** Methods that are passed to the MCP server. It refuses all of them except POST, but checks the origin first. */
const mcpMethods: ReadonlySet<string> = new Set(["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"])

/** Returns whether the MCP server handles the request. `path` is the request's decoded path. */
export const isMcpRequest = ({ method }: ApiRequest, path: string) => path === mcpPath && mcpMethods.has(method)

/**
 * Returns the response to a request that must not be routed, such as one whose URL cannot be decoded. Returns undefined
 * for all others. `path` is the request's decoded path, and `pages` contains the documentation paths.
 */
export const respondBeforeRouting = (
  directory: Directory,
  request: ApiRequest,
  path: string,
  pages: ReadonlySet<string>,
): PlainResponse | ErrorResult | undefined => {
  const { method, target } = request
  if (lacksHost(request)) return refuseRequest("The header Host is missing.")
  if (!isDecodableUrl(target)) return refuseRequest(undecodableUrlMessage)
  if (isMcpRequest(request, path)) return undefined
  if (method === "OPTIONS") return preflightResponse
  // No known path contains `;` or `#`. The router would treat the text after either character as the query, and would
  // find an endpoint.
  if (/[;#]/.test(path) && !hasLegacyPathPrefix(target)) return makeUnknownPathResult(directory, path)
  const isRouted = path !== mcpPath && (method === "GET" || method === "HEAD")
  return isRouted ? undefined : refuseMethod(directory, method, target, pages)
}

/**
 * Permanently redirects a path with the former prefix `/enterprise/v1/` to `/v1/` under the path of `BASE_URL`. The
 * query is preserved (§9.1, redirects).
 */
export const redirectLegacyPath = (
  directory: Directory,
  { target }: ApiRequest,
  base: string,
): PlainResponse | ErrorResult =>
  hasLegacyPathPrefix(target)
    ? makeEmptyResponse(301, {
      location: getBasePath(base) + target.replace(legacyPathPrefix, "/v1/"),
      ...staticCacheHeaders,
    })
    : makeUnknownPathResult(directory, decodePath(target))

/**
 * Returns whether the path belongs to API version v1. Once v1 is deprecated, responses from these paths announce the
 * deprecation (D26).
 */
export const isVersionedPath = (path: string) => path === "/v1" || path.startsWith("/v1/")

/** Returns the deprecations that responses from the path announce: the API version's and the endpoint's (D14, D26). */
export const listDeprecations = (
  directory: Directory,
  path: string,
  versionDeprecation: Option.Option<Deprecation.Deprecation>,
): ReadonlyArray<Deprecation.Deprecation> => [
  ...(isVersionedPath(path) ? Option.toArray(versionDeprecation) : []),
  ...Option.toArray(Option.flatMap(directory.find(path), ({ deprecation }) => deprecation)),
]

/** Returns the response headers and links that announce the given deprecations. */
export const announceDeprecations = (deprecations: ReadonlyArray<Deprecation.Deprecation>) => ({
  headers: Object.fromEntries(
    deprecations.flatMap((deprecation) => Object.entries(Deprecation.makeDeprecationHeaders(deprecation))),
  ),
  links: deprecations.flatMap(Deprecation.makeDeprecationLinks),
})

/**
 * Builds the function that describes the error response to a `ProtocolRejection`, a request that is refused before it
 * can be routed. The description consists of the status, error code, message and headers.
 *
 * For a method unknown to Node.js, such as `BREW`, the response is the same as for a method that Node.js knows but the
 * path does not support: 405 with `Allow`, or 404 if there is no such path. All other rejections keep their status.
 */
export const makeProtocolErrorDescriber = Effect.gen(function* () {
  const base = yield* BaseUrl
  const { paths: pages } = yield* DocumentationPages
  const directory = yield* EndpointDirectory
  const versionDeprecation = yield* Deprecation.ApiVersionDeprecation

  /** Returns the headers that announce the path's deprecations. Every response has them, even to an invalid request. */
  const makeDeprecationHeaders = (path: string) => {
    const { headers, links } = announceDeprecations(listDeprecations(directory, path, versionDeprecation))
    return links.length === 0 ? headers : { Link: formatLinks(base, links), ...headers }
  }

  return ({ request, status }: ProtocolRejection): ProtocolError => {
    // The request is undefined if the bytes received contain no plausible request line.
    const target = request === undefined ? undefined : parseRequestTarget(request.method, request.target)?.target
    const headers = target === undefined ? {} : makeDeprecationHeaders(decodePath(target))
    if (status === "unknown method" && request !== undefined && target !== undefined && isDecodableUrl(target)) {
      const { error, headers: allow } = refuseMethod(directory, request.method, target, pages)
      const { code, message } = error.error
      const methodErrorStatus = code === "not_found" ? 404 : 405
      return { status: methodErrorStatus, code, message: redactApiKeys(message), headers: { ...headers, ...allow } }
    }
    // Without a readable URL, there is no path to look up, so a request with an unknown method counts as invalid HTTP.
    const errorStatus = status === "unknown method" ? 400 : status
    return { status: errorStatus, code: "bad_request", message: protocolErrorMessages[errorStatus], headers }
  }
})

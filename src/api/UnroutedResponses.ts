/** Answers that no endpoint gives: 301, 400, 404, 405, 410 for a removed API version, and answers to OPTIONS. */
import { Context, Effect, Option } from "effect"
import type { PlainAnswer } from "../contract/rules/Answer.ts"
import { type ApiRequest, getHeader } from "../contract/rules/ApiRequest.ts"
import * as Deprecation from "../contract/rules/Deprecation.ts"
import { BadRequest, MethodNotAllowed, NotFound, redactApiKeys } from "../contract/rules/Errors.ts"
import { formatLinks } from "../contract/rules/Links.ts"
import { BaseUrl, getBasePath } from "./BaseUrl.ts"
import { staticCacheHeaders } from "./StaticPages.ts"
import { allowedEndpointMethods } from "./Cors.ts"
import { type ErrorAnswer, toErrorAnswer } from "./ErrorResponses.ts"
import { DocumentationPages } from "./OtherRoutes.ts"
import { type ProtocolError, protocolErrorMessages, type Rejection } from "./ProtocolErrors.ts"
import {
  decodePath,
  isDecodableUrl,
  isLegacyRequestTarget,
  legacyPathPrefix,
  mcpPath,
  parseTarget,
} from "./RequestTarget.ts"

/** The paths of all endpoints. `api/catalogue/Endpoints.ts` implements it. */
export class EndpointDirectory extends Context.Service<EndpointDirectory, {
  /** Finds the endpoint at a path, with or without a trailing slash. */
  readonly find: (path: string) => Option.Option<{
    readonly row: { readonly path: string }
    readonly deprecation: Option.Option<Deprecation.Deprecation>
  }>
  /** Returns a sentence such as ` Did you mean /v1/news?`, or an empty string if no path is similar. */
  readonly suggest: (path: string) => string
}>()("tickerline/api/EndpointDirectory") {}

type Directory = EndpointDirectory["Service"]

/** Returns the 404 for an unknown path. It suggests the most similar path, if there is one. */
export const makeUnknownPathError = ({ suggest }: Directory, path: string) => {
  const message = `There is no endpoint at ${path.slice(0, 200)}.${suggest(path)} GET /endpoints lists them all.`
  return new NotFound({ error: { message } })
}

export const answerUnknownPath = (directory: Directory, path: string) =>
  toErrorAnswer(makeUnknownPathError(directory, path))

const maxShownMethod = 100

/** Makes the error of a method that the path does not support, with `allow`; the 404 if the path is unknown (D10). */
export const refuseMethod = (
  directory: Directory,
  method: string,
  target: string,
  pages: ReadonlySet<string>,
): ErrorAnswer => {
  const path = decodePath(target)
  const knownPath = isLegacyRequestTarget(target)
    ? `${legacyPathPrefix}*`
    : pages.has(path) || path === mcpPath
    ? path
    : Option.getOrUndefined(directory.find(path))?.row.path
  if (knownPath === undefined) return answerUnknownPath(directory, path)
  const allowed = knownPath === mcpPath ? "POST" : allowedEndpointMethods
  // A HEAD gets the message of its GET, whose length is a header.
  const shown = method === "HEAD" ? "GET" : method.slice(0, maxShownMethod)
  const message = `${knownPath} supports ${allowed}, not ${shown}.`
  return { _tag: "Error", error: new MethodNotAllowed({ error: { message } }), headers: { allow: allowed } }
}

/** Makes an answer without a body. */
export const makeEmptyAnswer = (status: number, headers: Readonly<Record<string, string>>): PlainAnswer => ({
  _tag: "Plain",
  status,
  headers,
  contentType: undefined,
  body: undefined,
})

const preflightAnswer = makeEmptyAnswer(204, { allow: allowedEndpointMethods })

/** The message of the 400 to a URL that cannot be decoded (D13). */
export const undecodableUrlMessage =
  "The URL cannot be decoded: a % must be followed by two hexadecimal digits of valid UTF-8."

const refuseRequest = (message: string) => toErrorAnswer(new BadRequest({ error: { message } }))

/** Whether the required `Host` header is missing. HTTP/1.0 does not require it (RFC 9112, 3.2). */
const lacksHost = (request: ApiRequest) => request.httpVersion === "1.1" && getHeader(request, "host") === undefined

/** Methods that the MCP server answers itself. It refuses most of them, but checks the origin first. */
const mcpMethods: ReadonlySet<string> = new Set(["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"])

export const isMcpRequest = ({ method }: ApiRequest, path: string) => path === mcpPath && mcpMethods.has(method)

/** Returns the answer to a request that must not be routed; undefined for all others. `pages`: the documentation. */
export const answerBeforeRouting = (
  directory: Directory,
  request: ApiRequest,
  path: string,
  pages: ReadonlySet<string>,
): PlainAnswer | ErrorAnswer | undefined => {
  const { method, target } = request
  if (lacksHost(request)) return refuseRequest("The header Host is missing.")
  if (!isDecodableUrl(target)) return refuseRequest(undecodableUrlMessage)
  if (isMcpRequest(request, path)) return undefined
  if (method === "OPTIONS") return preflightAnswer
  // No known path contains `;` or `#`. The router would treat the text after them as the query, and find an endpoint.
  if (/[;#]/.test(path) && !isLegacyRequestTarget(target)) return answerUnknownPath(directory, path)
  const isRouted = path !== mcpPath && (method === "GET" || method === "HEAD")
  return isRouted ? undefined : refuseMethod(directory, method, target, pages)
}

/** Permanently redirects a legacy path to `/v1/` below the path of `BASE_URL`. Keeps the query (§9.1, redirects). */
export const answerLegacyPath = (
  directory: Directory,
  { target }: ApiRequest,
  base: string,
): PlainAnswer | ErrorAnswer =>
  isLegacyRequestTarget(target)
    ? makeEmptyAnswer(301, {
      location: getBasePath(base) + target.replace(legacyPathPrefix, "/v1/"),
      ...staticCacheHeaders,
    })
    : answerUnknownPath(directory, decodePath(target))

/** Whether the path belongs to the API version, whose retirement its responses then announce (D26). */
export const isVersionedPath = (path: string) => path === "/v1" || path.startsWith("/v1/")

/** Returns the deprecations that the path announces: of its API version, and of its endpoint (D14, D26). */
export const listDeprecations = (
  directory: Directory,
  path: string,
  versionDeprecation: Option.Option<Deprecation.Deprecation>,
): ReadonlyArray<Deprecation.Deprecation> => [
  ...(isVersionedPath(path) ? Option.toArray(versionDeprecation) : []),
  ...Option.toArray(Option.flatMap(directory.find(path), ({ deprecation }) => deprecation)),
]

/** Returns the headers and links that announce deprecations. */
export const announceDeprecations = (deprecations: ReadonlyArray<Deprecation.Deprecation>) => ({
  headers: Object.fromEntries(
    deprecations.flatMap((deprecation) => Object.entries(Deprecation.makeDeprecationHeaders(deprecation))),
  ),
  links: deprecations.flatMap(Deprecation.makeDeprecationLinks),
})

/** Makes the function that describes the response to a request that does not reach the application. */
export const makeProtocolErrorDescriber = Effect.gen(function* () {
  const base = yield* BaseUrl
  const { paths: pages } = yield* DocumentationPages
  const directory = yield* EndpointDirectory
  const versionDeprecation = yield* Deprecation.ApiVersionDeprecation

  /** Every response announces the deprecations of its path. */
  const makeDeprecationHeaders = (path: string) => {
    const { headers, links } = announceDeprecations(listDeprecations(directory, path, versionDeprecation))
    return links.length === 0 ? headers : { Link: formatLinks(base, links), ...headers }
  }

  return ({ request, status }: Rejection): ProtocolError => {
    const target = request === undefined ? undefined : parseTarget(request.method, request.target)?.target
    const headers = target === undefined ? {} : makeDeprecationHeaders(decodePath(target))
    if (status === "unknown method" && request !== undefined && target !== undefined && isDecodableUrl(target)) {
      const { error, headers: allow } = refuseMethod(directory, request.method, target, pages)
      const { code, message } = error.error
      const status = code === "not_found" ? 404 : 405
      return { status, code, message: redactApiKeys(message), headers: { ...headers, ...allow } }
    }
    const known = status === "unknown method" ? 400 : status
    return { status: known, code: "bad_request", message: protocolErrorMessages[known], headers }
  }
})

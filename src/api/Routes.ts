/**
 * Finds what answers a request: an endpoint of the contract, the MCP server, or any other route (§9.1, §9.4). Endpoints
 * are paired with their handlers by type, so that a missing handler does not compile.
 */
import { Context, Effect, Option } from "effect"
import { FindMyWay } from "effect/http"
import { HttpApi, type HttpApiEndpoint, type HttpApiGroup } from "effect/http-api"
import type { AdmissionRules } from "../accounts/Admission.ts"
import { PriceLookup } from "../accounts/billing/Pricing.ts"
import { AuthenticationMiddleware } from "../contract/Authentication.ts"
import { BillingMiddleware } from "../contract/Authorization.ts"
import type { Answer } from "../contract/rules/Answer.ts"
import { type ApiRequest, getHeader } from "../contract/rules/ApiRequest.ts"
import {
  ApiVersionDeprecation,
  type Deprecation,
  findSunsetError,
  getEndpointDeprecation,
  validateDeprecation,
} from "../contract/rules/Deprecation.ts"
import { RequiredTier, TablesReadByEndpoint } from "../contract/rules/EndpointAnnotations.ts"
import type { KeyedHandler, PublicHandler } from "../query/EndpointHandler.ts"
import { BaseUrl } from "./BaseUrl.ts"
import type { ApiFailure, ErrorAnswer } from "./ErrorResponses.ts"
import { DocumentationPages } from "./OtherRoutes.ts"
import { decodePath, legacyPathPrefix, maxParamLength } from "./RequestTarget.ts"
import {
  answerBeforeRouting,
  answerLegacyPath,
  answerUnknownPath,
  EndpointDirectory,
  isMcpRequest,
  isVersionedPath,
} from "./UnroutedResponses.ts"

export type AnyHandler = KeyedHandler<ApiFailure> | PublicHandler<ApiFailure>

/** The handlers of a contract's endpoints, by group and endpoint. */
export type Handlers = Readonly<Record<string, Readonly<Record<string, AnyHandler>>>>

/** An endpoint that needs a key may have any handler; any other must have one that needs no account. */
type HandlerOf<Endpoint extends HttpApiEndpoint.Top> = AuthenticationMiddleware extends
  HttpApiEndpoint.Middleware<Endpoint> ? AnyHandler : PublicHandler<ApiFailure>

/** The handlers that the groups of a contract need. */
export type HandlersOf<Groups> = {
  readonly [Group in keyof Groups]: Groups[Group] extends { readonly endpoints: infer Endpoints } ? {
      readonly [Name in keyof Endpoints]: Endpoints[Name] extends HttpApiEndpoint.Top ? HandlerOf<Endpoints[Name]>
        : never
    }
    : never
}

/** An endpoint of the contract. */
export interface EndpointRoute {
  readonly _tag: "Endpoint"
  readonly path: string
  /** Undefined if the endpoint needs no key. */
  readonly rules: AdmissionRules | undefined
  readonly deprecation: Deprecation | undefined
  readonly tables: ReadonlyArray<string>
  readonly handler: AnyHandler
}

/** What answers without a key, such as a page of the documentation, or the 404 for an unknown path. */
interface OpenRoute {
  readonly _tag: "Open"
  readonly answer: (request: ApiRequest) => Effect.Effect<Answer | ErrorAnswer, ApiFailure>
}

/** A message to the MCP server. */
interface McpRoute {
  readonly _tag: "Mcp"
}

export type Route = EndpointRoute | OpenRoute | McpRoute

/** A route, and the parameters of the request's query. */
export type Match = Pick<FindMyWay.FindResult<Route>, "handler" | "searchParams">

/** Lists the endpoints of the contract with their handlers. */
const listEndpointRoutes = <Groups extends HttpApiGroup.Constraint>(
  api: HttpApi.HttpApi<string, Groups>,
  handlers: Handlers,
  getPrice: (path: string) => number,
) => {
  const routes: Array<EndpointRoute> = []
  HttpApi.reflect(api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, group, mergedAnnotations, middleware }) => {
      const handler = handlers[group.identifier]?.[endpoint.identifier]
      if (handler === undefined) throw new Error(`Nothing handles the endpoint ${endpoint.path}`)
      const keys = new Set(Array.from(middleware, ({ key }) => key))
      const access = { path: endpoint.path, required_tier: Context.get(mergedAnnotations, RequiredTier) }
      const needsKey = keys.has(AuthenticationMiddleware.key)
      if (handler.needsKey && !needsKey) throw new Error(`The handler of ${endpoint.path} needs a key`)
      routes.push({
        _tag: "Endpoint",
        path: endpoint.path,
        rules: needsKey
          ? { access, price: keys.has(BillingMiddleware.key) ? getPrice(endpoint.path) : undefined }
          : undefined,
        deprecation: Option.getOrUndefined(getEndpointDeprecation(endpoint.annotations)),
        tables: Context.get(mergedAnnotations, TablesReadByEndpoint),
        handler,
      })
    },
  })
  return routes
}

/** A match whose answer is known, or fails, whatever the query is. */
const matchAnswer = (answer: Effect.Effect<Answer | ErrorAnswer, ApiFailure>): Match => ({
  handler: { _tag: "Open", answer: () => answer },
  searchParams: {},
})

const mcpMatch: Match = { handler: { _tag: "Mcp" }, searchParams: {} }

/** Makes the function that finds what answers a request. `handlers` has the handler of every endpoint of `api`. */
export const makeMatch = Effect.fnUntraced(function* <Groups extends HttpApiGroup.Constraint>(
  api: HttpApi.HttpApi<string, Groups>,
  handlers: Handlers,
) {
  const { getPricePerGigabyte } = yield* PriceLookup
  const directory = yield* EndpointDirectory
  const documentation = yield* DocumentationPages
  const base = yield* BaseUrl
  const versionDeprecation = Option.getOrUndefined(Option.map(yield* ApiVersionDeprecation, validateDeprecation))

  const router = FindMyWay.make<Route>({ maxParamLength, caseSensitive: true, ignoreDuplicateSlashes: false })
  const addOpenRoute = (path: FindMyWay.PathInput, answer: OpenRoute["answer"]) => {
    router.on("GET", path, { _tag: "Open", answer })
    if (path.endsWith("/*")) addOpenRoute(`/${path.slice(1, -2)}`, answer)
  }
  for (const route of listEndpointRoutes(api, handlers, getPricePerGigabyte)) {
    router.on("GET", `/${route.path.slice(1)}`, route)
  }
  for (const { answer, path } of documentation.routes) addOpenRoute(path, answer)
  addOpenRoute(`${legacyPathPrefix}*`, (request) => Effect.sync(() => answerLegacyPath(directory, request, base)))

  /**
   * Whether no rule about the request itself can apply: `matchBeforeRouting` would find nothing. Most requests are
   * plain, and their paths need not be decoded.
   */
  const isPlain = (request: ApiRequest) =>
    (request.method === "GET" || request.method === "HEAD") && getHeader(request, "host") !== undefined &&
    !/[%;#]/.test(request.target) && versionDeprecation === undefined

  /** Returns the answer to a request that must not be routed, whatever its path is. */
  const matchBeforeRouting = (request: ApiRequest) => {
    const path = decodePath(request.target)
    const unrouted = answerBeforeRouting(directory, request, path, documentation.paths)
    if (unrouted !== undefined) return matchAnswer(Effect.succeed(unrouted))
    // The documentation stays, because the 410 names it.
    if (versionDeprecation === undefined || !isVersionedPath(path) || documentation.paths.has(path)) return undefined
    const removed = findSunsetError(versionDeprecation, "Version v1", request.startedAt)
    return removed === undefined ? undefined : matchAnswer(Effect.fail(removed))
  }

  const matchWithoutRoute = (request: ApiRequest) => {
    const path = decodePath(request.target)
    return isMcpRequest(request, path) ? mcpMatch : matchAnswer(Effect.succeed(answerUnknownPath(directory, path)))
  }

  return (request: ApiRequest): Match =>
    (isPlain(request) ? undefined : matchBeforeRouting(request)) ?? router.find("GET", request.target) ??
      matchWithoutRoute(request)
})

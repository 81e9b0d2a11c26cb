/**
 * Finds the route for a request: an endpoint in the contract, the MCP server, or another route (§9.1, redirects; §9.4,
 * headers). The types require a handler for each endpoint, so code without one does not compile.
 */
import { Context, Effect, Option } from "effect"
import { FindMyWay } from "effect/http"
import { HttpApi, type HttpApiEndpoint, type HttpApiGroup } from "effect/http-api"
import type { AdmissionRules } from "../accounts/RequestAdmission.ts"
import { PriceLookup } from "../accounts/billing/Pricing.ts"
import { AuthenticationMiddleware } from "../contract/Authentication.ts"
import { BillingMiddleware } from "../contract/Authorization.ts"
import type { EndpointResult } from "../contract/rules/EndpointResult.ts"
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
import type { ApiFailure, ErrorResult } from "./ErrorResponses.ts"
import { DocumentationPages } from "./SiteRoutes.ts"
import { decodePath, legacyPathPrefix, maxParamLength } from "./RequestTarget.ts"
import {
  EndpointDirectory,
  isMcpRequest,
  isVersionedPath,
  makeUnknownPathResult,
  redirectLegacyPath,
  respondBeforeRouting,
} from "./UnroutedResponses.ts"

/** An endpoint handler, whether or not the endpoint needs a key. */
export type AnyHandler = KeyedHandler<ApiFailure> | PublicHandler<ApiFailure>

/** A contract's endpoint handlers, by group and endpoint name. */
export type EndpointHandlers = Readonly<Record<string, Readonly<Record<string, AnyHandler>>>>

/**
 * The type of an endpoint's handler. An endpoint that needs a key may have any handler. Other endpoints need a handler
 * that does not use an account.
 */
type HandlerOf<Endpoint extends HttpApiEndpoint.Top> = AuthenticationMiddleware extends
  HttpApiEndpoint.Middleware<Endpoint> ? AnyHandler : PublicHandler<ApiFailure>

/** The handlers required by the groups of a contract. */
export type HandlersOf<Groups> = {
  readonly [Group in keyof Groups]: Groups[Group] extends { readonly endpoints: infer Endpoints } ? {
      readonly [Name in keyof Endpoints]: Endpoints[Name] extends HttpApiEndpoint.Top ? HandlerOf<Endpoints[Name]>
        : never
    }
    : never
}

/** The route of an endpoint in the contract. */
export interface EndpointRoute {
  readonly _tag: "Endpoint"
  readonly path: string
  /** Undefined if the endpoint does not need a key. */
  readonly rules: AdmissionRules | undefined
  readonly deprecation: Deprecation | undefined
  /** The database tables that the endpoint reads. */
  readonly tables: ReadonlyArray<string>
  readonly handler: AnyHandler
}

/**
 * A route outside the contract that does not need a key. Examples are a documentation page and the 404 for an unknown
 * path.
 */
interface OpenRoute {
  readonly _tag: "Open"
  readonly respond: (request: ApiRequest) => Effect.Effect<EndpointResult | ErrorResult, ApiFailure>
}

/** The route of a message to the MCP server. */
interface McpRoute {
  readonly _tag: "Mcp"
}

/** The route that handles a request. */
export type Route = EndpointRoute | OpenRoute | McpRoute

/** The route for a request, and the query parameters before they are decoded. */
export type RouteMatch = Pick<FindMyWay.FindResult<Route>, "handler" | "searchParams">

/**
 * Lists a route for each of the contract's endpoints, with its handler and its admission rules. Throws if an endpoint
 * has no handler, or if its handler needs a key although the endpoint does not.
 */
const listEndpointRoutes = <Groups extends HttpApiGroup.Constraint>(
  api: HttpApi.HttpApi<string, Groups>,
  handlers: EndpointHandlers,
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

/** Creates a match that responds with a fixed result, without a route in the router. */
const makeOpenMatch = (result: Effect.Effect<EndpointResult | ErrorResult, ApiFailure>): RouteMatch => ({
  handler: { _tag: "Open", respond: () => result },
  searchParams: {},
})

const mcpMatch: RouteMatch = { handler: { _tag: "Mcp" }, searchParams: {} }

/**
 * Builds the function that finds the route for a request. `handlers` contains the handlers of all endpoints of `api`.
 * Called once, at startup.
 */
export const makeRouteMatcher = Effect.fnUntraced(function* <Groups extends HttpApiGroup.Constraint>(
  api: HttpApi.HttpApi<string, Groups>,
  handlers: EndpointHandlers,
) {
  const { getPricePerGigabyte } = yield* PriceLookup
  const directory = yield* EndpointDirectory
  const documentation = yield* DocumentationPages
  const base = yield* BaseUrl
  const versionDeprecation = Option.getOrUndefined(Option.map(yield* ApiVersionDeprecation, validateDeprecation))

  // The router contains only GET routes. HEAD requests use the same routes.
  const router = FindMyWay.make<Route>({ maxParamLength, caseSensitive: true, ignoreDuplicateSlashes: false })
  const addOpenRoute = (path: FindMyWay.PathInput, respond: OpenRoute["respond"]) => {
    router.on("GET", path, { _tag: "Open", respond })
    // A pattern such as `/docs/*` does not match `/docs`, so the path without `/*` is added as well.
    if (path.endsWith("/*")) addOpenRoute(`/${path.slice(1, -2)}`, respond)
  }
  for (const route of listEndpointRoutes(api, handlers, getPricePerGigabyte)) {
    // The template string tells the compiler that the path begins with a slash.
    router.on("GET", `/${route.path.slice(1)}`, route)
  }
  for (const { respond, path } of documentation.routes) addOpenRoute(path, respond)
  addOpenRoute(`${legacyPathPrefix}*`, (request) => Effect.sync(() => redirectLegacyPath(directory, request, base)))

  /**
   * Returns whether `matchBeforeRouting` would certainly return undefined. The check is cheaper than decoding the path,
   * and most requests pass it.
   */
  const isCertainlyRouted = (request: ApiRequest) =>
    (request.method === "GET" || request.method === "HEAD") && getHeader(request, "host") !== undefined &&
    !/[%;#]/.test(request.target) && versionDeprecation === undefined

  /** Returns a match for a request that must not be routed, such as one without `Host`. Otherwise returns undefined. */
  const matchBeforeRouting = (request: ApiRequest) => {
    const path = decodePath(request.target)
    const unrouted = respondBeforeRouting(directory, request, path, documentation.paths)
    if (unrouted !== undefined) return makeOpenMatch(Effect.succeed(unrouted))
    // The documentation remains available after the version has been removed, because the message of the 410 links to
    // it.
    if (versionDeprecation === undefined || !isVersionedPath(path) || documentation.paths.has(path)) return undefined
    const removed = findSunsetError(versionDeprecation, "Version v1", request.startedAt)
    return removed === undefined ? undefined : makeOpenMatch(Effect.fail(removed))
  }

  /** Returns the match for a request that the router does not know: the MCP server or a 404. */
  const matchWithoutRoute = (request: ApiRequest) => {
    const path = decodePath(request.target)
    return isMcpRequest(request, path)
      ? mcpMatch
      : makeOpenMatch(Effect.succeed(makeUnknownPathResult(directory, path)))
  }

  return (request: ApiRequest): RouteMatch => {
    const unrouted = isCertainlyRouted(request) ? undefined : matchBeforeRouting(request)
    return unrouted ?? router.find("GET", request.target) ?? matchWithoutRoute(request)
  }
})

/**
 * Caches finished responses by request target, and looks them up before a request is routed or decoded (D17, caching).
 * See docs/decisions/0032-response-cache-before-effect.md.
 */
import { Clock, Data, Effect, Tracer } from "effect"
import type { AdmissionRules } from "../accounts/RequestAdmission.ts"
import { computeDataCost } from "../accounts/billing/Pricing.ts"
import { canAccountUseEndpoint, type CurrentAccount } from "../contract/Authentication.ts"
import { type CacheEntry, CacheMemory } from "../query/lists/CacheMemory.ts"
import { negotiatePageFormat } from "../contract/rows/ListFormats.ts"
import {
  areDependenciesUnchanged,
  type FinishedResponse,
  type Page,
  type VersionDependency,
} from "../contract/rules/EndpointResult.ts"
import { type ApiRequest, getHeader } from "../contract/rules/ApiRequest.ts"
import { getNextMidnight } from "../contract/rules/Dates.ts"
import { accountIndependentHeaderNames, perRequestHeaderNames } from "../contract/rules/ResponseHeaders.ts"
import type { RequestInProgress } from "./RequestInProgress.ts"
import { costHeader } from "./ResponseBuilder.ts"

type Headers = Readonly<Record<string, string>>

/** A cached response, and the information that determines who may get it and for how long. */
interface StoredResponse {
  readonly route: string
  readonly rules: AdmissionRules
  /**
   * Access rules of other endpoints whose rows are in the response. Only accounts that may use all of these endpoints
   * may get the response.
   */
  readonly sources: Page["sources"]
  /** Versions of the data from which the response was built. The response is valid only while they are unchanged. */
  readonly dependencies: ReadonlyArray<VersionDependency>
  /** The next midnight in New York or Chicago, whichever is earlier (Unix time in milliseconds). */
  readonly expiresAt: number
  readonly etag: string
  /**
   * The headers in the order of the original response. Headers that differ for each request are stored with empty
   * values. The order must be preserved. Otherwise a client could tell whether another account has sent the same
   * request before.
   */
  readonly headers: Headers
  /** The headers of a 304, which omits those that describe the body. */
  readonly notModifiedHeaders: Headers
  /** Number of rows in the response. */
  readonly records: number
  /** Size of the body before compression, which determines the cost. */
  readonly bytes: number
  /** Undefined if the original response was a 304. */
  readonly body: Uint8Array | undefined
}

/**
 * Estimated memory of a cached response in bytes, excluding its key, body and header values. All entries share the same
 * header names.
 */
const entryOverheadBytes = 800

/** A cached response, stored in the memory shared by all caches. */
export class CachedResponse extends Data.Class<StoredResponse> implements CacheEntry {
  readonly _tag = "Cached"
  readonly part = "responses"
  readonly size = entryOverheadBytes + Object.values(this.headers).join("").length + (this.body?.length ?? 0)
}

/** Returns whether the account may use all other endpoints whose rows are in the response. */
export const canGetResponse = (account: typeof CurrentAccount.Service, { sources }: CachedResponse) =>
  sources.every((source) => canAccountUseEndpoint(account, source))

/**
 * Returns whether all of the response's headers are known to be safe to cache. An unknown header might be specific to
 * an account.
 */
const isStorable = (headers: Headers) =>
  Object.keys(headers).every((name) => accountIndependentHeaderNames.has(name) || perRequestHeaderNames.has(name))

/** Headers of a full response that a 304 omits. */
const bodyHeader = /^(content-.*|x-row-count|unencoded-digest)$/

/**
 * Selects the headers to cache. Headers that differ for each request are stored with empty values to preserve the
 * order.
 */
const selectHeaders = (headers: Headers, isIncluded: (name: string) => boolean): Headers =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      isIncluded(name) ? [[name, accountIndependentHeaderNames.has(name) ? value : ""]] : []
    ),
  )

/**
 * Returns a request's cache key, which consists of the accepted encodings, the negotiated format, and the exact request
 * target.
 */
const makeKey = (request: ApiRequest) => {
  const format = negotiatePageFormat(getHeader(request, "accept"))
  return `${getHeader(request, "accept-encoding") ?? ""} ${format === "json" ? "" : format}${request.target}`
}

/**
 * Returns whether the request can be served from the cache. Requests with `Origin`, `Expect` or a body always go to the
 * router.
 */
const isCacheable = ({ headers, method, purpose, via }: ApiRequest) =>
  method === "GET" && purpose === "response" && via === null && headers["host"] !== undefined &&
  headers["origin"] === undefined && headers["expect"] === undefined && headers["content-length"] === undefined &&
  headers["transfer-encoding"] === undefined

/**
 * Creates the response cache. A response is valid while the underlying query result is current, and until midnight at
 * most.
 */
export const makeResponseCache = Effect.gen(function* () {
  const context = yield* Effect.context<never>()
  // Cached responses have no spans, so nothing is cached while tracing is enabled.
  const isTraced = context.mapUnsafe.has(Tracer.Tracer.key)
  const memory = yield* CacheMemory
  const clock = yield* Clock.Clock

  // The last result of `getNextMidnight`, which is the same for all times from `from` on and before `midnight`.
  let cachedMidnight = { from: 0, midnight: 0 }
  const getMidnightAfter = (time: number) => {
    if (time < cachedMidnight.from || time >= cachedMidnight.midnight) {
      cachedMidnight = { from: time, midnight: getNextMidnight(time) }
    }
    return cachedMidnight.midnight
  }

  /** Caches the response if its result came from the query cache. Returns the response unchanged. */
  const store = (
    { headers: headersOfSteps, request, route }: RequestInProgress,
    rules: AdmissionRules,
    { dependencies, etag, sources }: Page,
    response: FinishedResponse,
  ) => {
    const { body, bytes, headers, records, status } = response
    if (isTraced || rules.price === undefined || route === undefined || etag === undefined) return response
    // Without dependencies, the cache could not notice that the data has changed.
    if (dependencies === undefined) return response
    // A step has set `cache-control` if the response must not be cached, such as with `as_of=now`.
    if ((status !== 200 && status !== 304) || headersOfSteps["cache-control"] !== undefined) return response
    if (!isCacheable(request) || !isStorable(headers)) return response
    const key = makeKey(request)
    // A 304 has no body, so it must not replace a valid entry, which may have one.
    const existing = status === 304 ? memory.peek(key) : undefined
    if (
      existing instanceof CachedResponse && areDependenciesUnchanged(existing.dependencies) &&
      request.startedAt < existing.expiresAt
    ) {
      return response
    }
    const cached = new CachedResponse({
      route,
      rules,
      sources,
      dependencies,
      etag: headers["etag"] ?? etag,
      // A response to a request that began before midnight expires at that midnight, even if the request ended later.
      expiresAt: getMidnightAfter(request.startedAt),
      headers: selectHeaders(headers, () => true),
      notModifiedHeaders: selectHeaders(headers, (name) => !bodyHeader.test(name)),
      records,
      bytes,
      body: body instanceof Uint8Array ? body : undefined,
    })
    memory.set(key, cached)
    return response
  }

  /**
   * Returns the cached response for the request if it is still valid and can be sent, either as a 304 if
   * `If-None-Match` equals its ETag, or in full.
   */
  const find = (request: ApiRequest): CachedResponse | undefined => {
    if (memory.size === 0 || !isCacheable(request)) return undefined
    const cached = memory.get(makeKey(request))
    if (
      !(cached instanceof CachedResponse) || !areDependenciesUnchanged(cached.dependencies) ||
      clock.currentTimeMillisUnsafe() >= cached.expiresAt
    ) {
      return undefined
    }
    const ifNoneMatch = request.headers["if-none-match"]
    const canRespond = ifNoneMatch === undefined ? cached.body !== undefined : ifNoneMatch === cached.etag
    return canRespond ? cached : undefined
  }
  return { store, find }
})

/**
 * Builds the response to a request from a cached response, either in full or as a 304 if the client has the same body.
 * A 304 has no body, so it costs nothing.
 */
export const finishCachedResponse = (
  { headers, price, request }: RequestInProgress,
  cached: CachedResponse,
): FinishedResponse => {
  // A request with `If-None-Match` gets here only if the header contains the ETag of the cached response.
  const isFull = getHeader(request, "if-none-match") === undefined
  const bytes = isFull ? cached.bytes : 0
  const cost = isFull ? computeDataCost(bytes, price) : 0
  return {
    status: isFull ? 200 : 304,
    headers: {
      ...(isFull ? cached.headers : cached.notModifiedHeaders),
      ...headers,
      "x-request-id": request.id,
      [costHeader]: String(cost),
    },
    body: isFull ? cached.body : undefined,
    trailers: undefined,
    isEndless: false,
    records: cached.records,
    bytes,
    cost,
    price,
    total: undefined,
    isCached: true,
  }
}

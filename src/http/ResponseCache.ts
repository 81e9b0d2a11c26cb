/**
 * The fast path: responds to repeated requests before they reach Effect, after the same checks as in the regular
 * middleware (D17, caching): docs/decisions/0032-response-cache-before-effect.md.
 */
import { Clock, Context, Effect, Layer, Tracer } from "effect"
import type { HttpServerRequest, HttpServerResponse } from "effect/http"
import { LRUCache } from "lru-cache"
import type { IncomingMessage, ServerResponse } from "node:http"
import { PrepaidBalances } from "../accounts/billing/PrepaidBalances.ts"
import { UsageMetering } from "../accounts/billing/UsageMetering.ts"
import { computeDataCost } from "../accounts/billing/Pricing.ts"
import { canAccountUseEndpoint, type CurrentAccount } from "../accounts/keys/Authentication.ts"
import { conflictingCredentials, parseCredential } from "../accounts/keys/Credentials.ts"
import { ApiKeyCache } from "../accounts/keys/ApiKeyCache.ts"
import { AccountRateLimiter, type RateLimitResult } from "../accounts/limits/AccountRateLimiter.ts"
import { MaxCacheBytesConfig } from "../lists/QueryCache.ts"
import { registerGauge } from "../observability/CallbackMetrics.ts"
import { getMonotonicMillis } from "../observability/MonotonicTime.ts"
import { RequestMetrics } from "../observability/RequestMetrics.ts"
import { negotiatePageFormat } from "../rows/ListFormats.ts"
import { getNextDateChange } from "../rules/Dates.ts"
import type { EndpointAccess } from "../rules/EndpointAnnotations.ts"
import { resolveRequestId } from "../rules/RequestIds.ts"
import { accountIndependentHeaderNames, perRequestHeaderNames } from "../rules/ResponseHeaders.ts"
import type { RequestContext } from "./RequestContext.ts"

type AuthenticatedAccount = typeof CurrentAccount.Service

/**
 * Names and values of headers in the order of the original response. A per-request header has the value undefined. The
 * order stays the same, because it would tell whether another account has sent the request before.
 */
type HeaderTemplate = ReadonlyArray<readonly [name: string, value: string | undefined]>

export interface CachedResponse extends EndpointAccess {
  /** Whether the query result in the response is still current. */
  readonly isCurrent: () => boolean
  /** The next midnight in New York or Chicago, whichever is earlier, ms since 1970. */
  readonly expiresAt: number
  readonly sources: ReadonlyArray<EndpointAccess>
  readonly etag: string
  readonly headers: HeaderTemplate
  readonly notModifiedHeaders: HeaderTemplate
  readonly records: number
  readonly bytes: number
  /** Microdollars per gigabyte. */
  readonly price: number
  readonly deprecated: boolean
  /** Undefined if the original response was a 304. */
  readonly body: Uint8Array | undefined
}

/** Whether all headers of the response are known to be safe to cache. Unknown headers may be specific to an account. */
const isStorable = ({ headers }: HttpServerResponse.HttpServerResponse) =>
  Object.keys(headers).every((name) => accountIndependentHeaderNames.has(name) || perRequestHeaderNames.has(name))

/** Headers that a 304 omits. */
const bodyHeader = /^(content-.*|x-row-count|unencoded-digest)$/

const selectHeaders = (
  { headers }: HttpServerResponse.HttpServerResponse,
  isIncluded: (name: string) => boolean,
): HeaderTemplate =>
  Object.entries(headers).flatMap(([name, value]) =>
    isIncluded(name) ? [[name, accountIndependentHeaderNames.has(name) ? value : undefined] as const] : []
  )

/** Returns alternating names and values. Per-request headers that the template lacks come last. */
const fillTemplate = (template: HeaderTemplate, perRequest: Readonly<Record<string, string>>) => {
  const values = new Map(Object.entries(perRequest).map(([name, value]) => [name.toLowerCase(), value]))
  const headers: Array<string> = []
  for (const [name, stored] of template) {
    const value = stored ?? values.get(name)
    if (value !== undefined) headers.push(name, value)
    values.delete(name)
  }
  for (const [name, value] of values) headers.push(name, value)
  return headers
}

/** The cache key: the accepted encodings, the negotiated format, and the target byte for byte. */
const makeKey = (target: string, acceptEncoding: string | undefined, accept: string | undefined) => {
  const format = negotiatePageFormat(accept)
  return `${acceptEncoding ?? ""} ${format === "json" ? "" : format}${target}`
}

const estimateSize = ({ body, headers }: CachedResponse, key: string) =>
  1024 + key.length + JSON.stringify(headers).length * 2 + (body?.length ?? 0)

/** Whether the cache may respond. A request with `Origin`, `Expect` or a body always goes to the router. */
const isCacheable = ({ headers, method }: IncomingMessage) =>
  method === "GET" && headers.host !== undefined && headers.origin === undefined && headers.expect === undefined &&
  headers["content-length"] === undefined && headers["transfer-encoding"] === undefined

/** Makes a store of responses. Each is valid while its query result is current, but at most until midnight. */
export const makeCachedResponseStore = Effect.gen(function* () {
  const context = yield* Effect.context<never>()
  // The fast path creates no spans, so nothing is stored while tracing is on.
  const isTraced = context.mapUnsafe.has(Tracer.Tracer.key)
  const responses = new LRUCache<string, CachedResponse>({
    maxSize: yield* MaxCacheBytesConfig,
    sizeCalculation: estimateSize,
  })
  yield* registerGauge({
    name: "tickerline_cache_bytes",
    description: "Memory used by the query cache (asked) and the response cache (sent).",
    attributes: { part: "sent" },
    read: () => responses.calculatedSize,
  })
  const clock = yield* Clock.Clock

  let date = { begins: 0, ends: 0 }
  const getEndOfDate = (time: number) => {
    if (time < date.begins || time >= date.ends) date = { begins: time, ends: getNextDateChange(time) }
    return date.ends
  }

  /** Stores the response if its result came from the query cache. Returns the response unchanged. */
  const store = (
    request: HttpServerRequest.HttpServerRequest,
    response: HttpServerResponse.HttpServerResponse,
    context: RequestContext,
  ) => {
    const { body, headers: { etag } } = response
    const { endpoint, isCurrent, sources } = context.response
    const isEligible = request.method === "GET" && request.headers["origin"] === undefined &&
      context.purpose === "answer" && !isTraced && isStorable(response)
    if (!isEligible || etag === undefined || endpoint === undefined || isCurrent === undefined) return response
    const key = makeKey(context.target, request.headers["accept-encoding"], request.headers["accept"])
    if (response.status === 304 && responses.peek(key)?.isCurrent() === true) return response
    responses.set(key, {
      ...endpoint,
      sources,
      isCurrent,
      etag,
      // A response whose request started before midnight expires at that midnight, even if the request ended later.
      expiresAt: getEndOfDate(context.startedAt),
      headers: selectHeaders(response, () => true),
      notModifiedHeaders: selectHeaders(response, (name) => !bodyHeader.test(name)),
      records: context.response.records,
      bytes: context.response.bytes ?? 0,
      price: context.response.price,
      deprecated: "Deprecation" in context.response.headers,
      body: body._tag === "Uint8Array" ? body.body : undefined,
    })
    return response
  }

  /** Returns the valid stored response, if it can be sent: as a 304 if `If-None-Match` is its ETag, or in full. */
  const find = (request: IncomingMessage): CachedResponse | undefined => {
    if (!isCacheable(request)) return undefined
    const { headers, url = "" } = request
    const acceptEncoding = headers["accept-encoding"]
    const key = makeKey(url, typeof acceptEncoding === "string" ? acceptEncoding : undefined, headers.accept)
    const found = responses.get(key)
    if (found === undefined || !found.isCurrent() || clock.currentTimeMillisUnsafe() >= found.expiresAt) {
      return undefined
    }
    const condition = headers["if-none-match"]
    const canAnswer = condition === undefined ? found.body !== undefined : condition === found.etag
    return canAnswer ? found : undefined
  }
  return { store, find }
})

export class ResponseCache extends Context.Service<ResponseCache, {
  /** Stores the response if its result came from the query cache. Returns the response unchanged. */
  readonly store: Effect.Success<typeof makeCachedResponseStore>["store"]
  /** Sends a stored response, or calls `next`. */
  readonly respond: (request: IncomingMessage, response: ServerResponse, next: () => void) => void
}>()("tickerline/http/ResponseCache") {
  static readonly layer = Layer.effect(
    ResponseCache,
    Effect.gen(function* () {
      const recentKeys = yield* ApiKeyCache
      const { find, store } = yield* makeCachedResponseStore
      const metering = yield* UsageMetering
      const balances = yield* PrepaidBalances
      const rateLimit = yield* AccountRateLimiter
      const metrics = yield* RequestMetrics
      const context = yield* Effect.context<never>()
      const clock = yield* Clock.Clock
      const now = () => clock.currentTimeMillisUnsafe()
      const monotonicNow = () => getMonotonicMillis(clock)

      /** Returns the account of the key, if it is cached and may get the response. If not, the router responds. */
      const authorize = (request: IncomingMessage, cached: CachedResponse) => {
        const key = parseCredential(request.rawHeaders)
        const account = key === conflictingCredentials ? undefined : recentKeys.find(key)
        if (account === undefined || !metering.hasCapacity()) return undefined
        const isAuthorized = [cached, ...cached.sources].every((endpoint) => canAccountUseEndpoint(account, endpoint))
        return isAuthorized && balances.getRemaining(account) > 0 ? account : undefined
      }

      const send = (
        { headers: { "if-none-match": condition, "x-request-id": id }, url = "" }: IncomingMessage,
        response: ServerResponse,
        cached: CachedResponse,
        { account_id, key_id }: AuthenticatedAccount,
        rateLimitHeaders: RateLimitResult["headers"],
        startedAt: number,
        arrivedAt: number,
      ) => {
        const isFull = condition === undefined
        const status = isFull ? 200 : 304
        const bytes = isFull ? cached.bytes : 0
        const cost_microdollars = isFull ? computeDataCost(bytes, cached.price) : 0
        const request_id = resolveRequestId(typeof id === "string" ? id : undefined)
        metering.record({
          requested_at: startedAt,
          account_id,
          key_id,
          request_id,
          endpoint: cached.path,
          status_code: status,
          records_returned: isFull ? cached.records : 0,
          bytes,
          cost_microdollars,
          duration_ms: now() - startedAt,
          cached: !isFull,
          deprecated: cached.deprecated,
          via: null,
          reservation_id: null,
        })
        const headers = fillTemplate(isFull ? cached.headers : cached.notModifiedHeaders, {
          ...rateLimitHeaders,
          "x-request-id": request_id,
          "x-cost-microdollars": String(cost_microdollars),
        })
        response.writeHead(status, headers)
        response.end(isFull ? cached.body : undefined)
        metrics.record({
          request_id,
          method: "GET",
          target: url,
          endpoint: cached.path,
          account_id,
          status,
          bytes,
          cached: true,
          milliseconds: monotonicNow() - arrivedAt,
        })
      }

      const respond = (request: IncomingMessage, response: ServerResponse, next: () => void) => {
        const arrivedAt = monotonicNow()
        const cached = find(request)
        const account = cached === undefined ? undefined : authorize(request, cached)
        if (cached === undefined || account === undefined) return next()
        const startedAt = now()
        // Checks the balance again, because other requests may have spent it while this one was counted.
        const proceed = ({ headers, refusal }: RateLimitResult) =>
          refusal === undefined && balances.getRemaining(account) > 0
            ? send(request, response, cached, account, headers, startedAt, arrivedAt)
            : next()
        const counted = rateLimit.countRequestNow(account)
        if (counted !== undefined) return proceed(counted)
        Effect.runForkWith(context)(rateLimit.countRequest(account)).addObserver((exit) =>
          exit._tag === "Failure" ? next() : proceed(exit.value)
        )
      }
      return ResponseCache.of({ store, respond })
    }),
  )
}

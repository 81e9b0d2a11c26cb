/**
 * D17: responses as they were sent, by what was sent: the way from the same request to the same bytes again. Each is
 * good while the answer in it holds, and until the end of the day in which it was begun.
 */
import { Clock, Context, Effect, Layer, Tracer } from "effect"
import type { HttpServerRequest, HttpServerResponse } from "effect/http"
import { LRUCache } from "lru-cache"
import type { IncomingMessage } from "node:http"
import { registerGauge } from "../observability/CallbackMetrics.ts"
import type { Tier } from "../rules/EndpointAnnotations.ts"
import { getNextDateChange } from "../rules/Dates.ts"
import type { RequestContext } from "./RequestContext.ts"
import { negotiateFormat } from "../rows/Formats.ts"
import { CacheBytesConfig } from "../lists/QueryCache.ts"

export interface CachedResponse {
  readonly holds: () => boolean
  readonly until: number
  readonly path: string
  readonly required_tier: Tier
  readonly etag: string
  /** Names and values, one after the other. */
  readonly headers: ReadonlyArray<string>
  readonly headersUnmodified: ReadonlyArray<string>
  readonly records: number
  readonly bytes: number
  /** Microdollars a gigabyte. */
  readonly price: number
  readonly deprecated: boolean
  /** None where it was 304. */
  readonly body: Uint8Array | undefined
}

/** Headers that are the same for every account. */
const shared = new Set([
  "cache-control",
  "content-disposition",
  "content-encoding",
  "content-length",
  "content-type",
  "deprecation",
  "etag",
  "link",
  "sunset",
  "unencoded-digest",
  "vary",
  "x-api-version",
  "x-content-type-options",
  "x-dropped-tickers",
  "x-row-count",
])

/** Headers that `Shortcut.ts` makes for each request. */
const ofRequest = new Set([
  "x-cost-microdollars",
  "x-ratelimit-limit",
  "x-ratelimit-remaining",
  "x-ratelimit-reset",
  "x-request-id",
])

/** A response with any other header may belong to one account alone, so it is not kept. */
const isKeepable = ({ headers }: HttpServerResponse.HttpServerResponse) =>
  Object.keys(headers).every((name) => shared.has(name) || ofRequest.has(name))

const ofBody = /^(content-.*|x-row-count|unencoded-digest)$/

const headersOf = ({ headers }: HttpServerResponse.HttpServerResponse, left: (name: string) => boolean) =>
  Object.entries(headers).flatMap(([name, value]) => shared.has(name) && !left(name) ? [name, value] : [])

/** One request as it was sent; the format and the encodings that a client takes are part of what it asked for. */
const keyOf = (url: string, encodings: string | undefined, accepted: string | undefined) => {
  const format = negotiateFormat(accepted)
  return `${encodings ?? ""} ${format === "json" ? "" : format}${url}`
}

const sizeOf = ({ body, headers }: CachedResponse, key: string) =>
  1024 + key.length + headers.join("").length * 2 + (body?.length ?? 0)

/** Nothing that others than the client itself have to look at: another origin, a body, an expectation. */
const isUsual = ({ headers, method }: IncomingMessage) =>
  method === "GET" && headers.host !== undefined && headers.origin === undefined && headers.expect === undefined &&
  headers["content-length"] === undefined && headers["transfer-encoding"] === undefined

export class ResponseCache extends Context.Service<ResponseCache, {
  /** Keeps a response that was answered from memory, for the next such request; the response itself, unchanged. */
  readonly store: (
    request: HttpServerRequest.HttpServerRequest,
    response: HttpServerResponse.HttpServerResponse,
    exchange: RequestContext,
  ) => HttpServerResponse.HttpServerResponse
  /** What was answered to such a request, where it still holds and the request has nothing unusual. */
  readonly find: (request: IncomingMessage) => CachedResponse | undefined
}>()("tickerline/cache/Sent") {
  static readonly layer = Layer.effect(
    ResponseCache,
    Effect.gen(function* () {
      const context = yield* Effect.context<never>()
      // Spans are made on the long way.
      const traced = context.mapUnsafe.has(Tracer.Tracer.key)
      const sent = new LRUCache<string, CachedResponse>({ maxSize: yield* CacheBytesConfig, sizeCalculation: sizeOf })
      yield* registerGauge({
        name: "tickerline_cache_bytes",
        description: "What memory holds of answers: as they were asked for, and as they were sent.",
        attributes: { part: "sent" },
        read: () => sent.calculatedSize,
      })
      const clock = yield* Clock.Clock

      let day = { since: 0, ends: 0 }
      /** Of the day to which the moment belongs; the calendar is asked once for each. */
      const endOfDay = (moment: number) => {
        if (moment < day.since || moment >= day.ends) day = { since: moment, ends: getNextDateChange(moment) }
        return day.ends
      }

      const remember = (
        request: HttpServerRequest.HttpServerRequest,
        response: HttpServerResponse.HttpServerResponse,
        exchange: RequestContext,
      ) => {
        const { body, headers: { etag } } = response
        const { endpoint, isCurrent: holds } = exchange
        const usual = request.method === "GET" && request.headers["origin"] === undefined &&
          exchange.purpose === "answer" && !traced && isKeepable(response)
        if (!usual || etag === undefined || endpoint === undefined || holds === undefined) return response
        const key = keyOf(exchange.target, request.headers["accept-encoding"], request.headers["accept"])
        if (response.status === 304 && sent.peek(key)?.holds() === true) return response
        sent.set(key, {
          ...endpoint,
          holds,
          etag,
          // What began before midnight belongs to the day before, whenever it ended.
          until: endOfDay(exchange.began),
          headers: headersOf(response, () => false),
          headersUnmodified: headersOf(response, (name) => ofBody.test(name)),
          records: exchange.records,
          bytes: exchange.bytes ?? 0,
          price: exchange.price,
          deprecated: "Deprecation" in exchange.headers,
          body: body._tag === "Uint8Array" ? body.body : undefined,
        })
        return response
      }

      const find = (request: IncomingMessage): CachedResponse | undefined => {
        if (!isUsual(request)) return undefined
        const { headers, url = "" } = request
        const accepted = headers["accept-encoding"]
        const found = sent.get(keyOf(url, typeof accepted === "string" ? accepted : undefined, headers.accept))
        if (found === undefined || !found.holds() || clock.currentTimeMillisUnsafe() >= found.until) return undefined
        const condition = headers["if-none-match"]
        const isKnown = condition === undefined ? found.body !== undefined : condition === found.etag
        return isKnown ? found : undefined
      }
      return ResponseCache.of({ store: remember, find })
    }),
  )
}

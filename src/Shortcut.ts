/**
 * D17: what was answered before is answered again without a detour, while the same request would be answered the same:
 * by a listener of Node that takes what every request has to pass from the very places where others pass it (key, tier,
 * balance, limit, usage), and leaves whatever is unusual to the long way.
 */
import { Clock, Context, Effect, type Exit, Layer, Tracer } from "effect"
import type { HttpServerRequest, HttpServerResponse } from "effect/http"
import { LRUCache } from "lru-cache"
import type { IncomingMessage, ServerResponse } from "node:http"
import { Account, hasCredit, opens } from "./account/Authentication.ts"
import { Metering } from "./account/Metering.ts"
import { costOf } from "./account/Prices.ts"
import { type Counted, RateLimit } from "./account/RateLimit.ts"
import { RecentKeys } from "./account/RecentKeys.ts"
import { CacheBytes } from "./cache/Answers.ts"
import { includes, type Tier } from "./policy/Access.ts"
import { dayEnds } from "./policy/Dates.ts"
import type { Exchange } from "./policy/Exchange.ts"
import { requestId } from "./policy/Ids.ts"

type Who = typeof Account.Service

/** A response, as it was sent. */
interface Sent {
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
  readonly cost: number
  readonly deprecated: boolean
  /** None where it was 304. */
  readonly body: Uint8Array | undefined
}

/** What each answer has of its own. */
const own = /^(x-request-id|x-ratelimit-.*|x-cost-microdollars|retry-after)$/
const ofBody = /^content-/

const headersOf = (response: HttpServerResponse.HttpServerResponse, left: (name: string) => boolean) =>
  Object.entries(response.headers).flatMap(([name, value]) => own.test(name) || left(name) ? [] : [name, value])

/** One request as it was sent; the encodings that a client takes are part of what it asked for. */
const keyOf = (url: string, encodings: string | undefined) => `${encodings ?? ""} ${url}`

const bearer = "Bearer "

/** The one key that was sent, where it was sent in the usual way. */
const credentialOf = ({ authorization, "x-api-key": apiKey }: IncomingMessage["headers"]) =>
  authorization === undefined
    ? (typeof apiKey === "string" ? apiKey : undefined)
    : apiKey === undefined && authorization.startsWith(bearer)
    ? authorization.slice(bearer.length)
    : undefined

export class Shortcut extends Context.Service<Shortcut, {
  /** Keeps a response that was answered from memory, for the next such request; the response itself, unchanged. */
  readonly remember: (
    request: HttpServerRequest.HttpServerRequest,
    response: HttpServerResponse.HttpServerResponse,
    exchange: Exchange,
  ) => HttpServerResponse.HttpServerResponse
  /** Answers, or hands on to `others`. */
  readonly serve: (request: IncomingMessage, response: ServerResponse, others: () => void) => void
}>()("tickerline/Shortcut") {
  static readonly layer = Layer.effect(
    Shortcut,
    Effect.gen(function* () {
      const metering = yield* Metering
      const limit = yield* RateLimit
      const recent = yield* RecentKeys
      const context = yield* Effect.context<never>()
      // Spans are made on the long way.
      const traced = context.mapUnsafe.has(Tracer.Tracer.key)
      const sent = new LRUCache<string, Sent>({
        maxSize: yield* CacheBytes,
        sizeCalculation: ({ body, headers }, key) =>
          1024 + key.length + headers.join("").length * 2 + (body?.length ?? 0),
      })

      const clock = yield* Clock.Clock
      const time = () => clock.currentTimeMillisUnsafe()

      let day = { since: 0, ends: 0 }
      /** Of the day to which the moment belongs; the calendar is asked once for each. */
      const endOfDay = (moment: number) => {
        if (moment < day.since || moment >= day.ends) day = { since: moment, ends: dayEnds(moment) }
        return day.ends
      }

      const remember = (
        request: HttpServerRequest.HttpServerRequest,
        response: HttpServerResponse.HttpServerResponse,
        exchange: Exchange,
      ) => {
        const { body, headers: { etag } } = response
        const { endpoint, holds } = exchange
        const usual = request.method === "GET" && request.headers["origin"] === undefined &&
          exchange.purpose === "answer" && !traced
        if (!usual || etag === undefined || endpoint === undefined || holds === undefined) return response
        const key = keyOf(exchange.target, request.headers["accept-encoding"])
        if (response.status === 304 && sent.peek(key)?.holds() === true) return response
        const bytes = exchange.bytes ?? 0
        sent.set(key, {
          ...endpoint,
          holds,
          etag,
          // What began before midnight belongs to the day before, whenever it ended.
          until: endOfDay(exchange.began),
          headers: headersOf(response, () => false),
          headersUnmodified: headersOf(response, (name) => ofBody.test(name)),
          records: exchange.records,
          bytes,
          cost: costOf(bytes, exchange.price),
          deprecated: "Deprecation" in exchange.headers,
          body: body._tag === "Uint8Array" ? body.body : undefined,
        })
        return response
      }

      /** What was answered to such a request, where it still holds and the request has nothing unusual. */
      const find = ({ headers, method, url = "" }: IncomingMessage): Sent | undefined => {
        const usual = method === "GET" && headers.host !== undefined && headers.origin === undefined &&
          headers.expect === undefined && headers["content-length"] === undefined &&
          headers["transfer-encoding"] === undefined
        if (!usual) return undefined
        const accepted = headers["accept-encoding"]
        const found = sent.get(keyOf(url, typeof accepted === "string" ? accepted : undefined))
        if (found === undefined || !found.holds() || time() >= found.until) return undefined
        const condition = headers["if-none-match"]
        const isKnown = condition === undefined ? found.body !== undefined : condition === found.etag
        return isKnown ? found : undefined
      }

      /** Whose request it is, where nothing stands against answering it. */
      const admitted = (request: IncomingMessage, { path, required_tier }: Sent): Who | undefined => {
        const key = credentialOf(request.headers)
        const account = key === undefined ? undefined : recent.find(key)
        if (account === undefined || !metering.hasRoom()) return undefined
        return includes(account.tier, required_tier) && opens(account, path) && hasCredit(account) ? account : undefined
      }

      const answer = (
        { headers: { "if-none-match": condition, "x-request-id": id } }: IncomingMessage,
        response: ServerResponse,
        found: Sent,
        who: Who,
        counted: Counted,
        began: number,
      ) => {
        const fresh = condition === undefined
        const status_code = fresh ? 200 : 304
        const cost_microdollars = fresh ? found.cost : 0
        const request_id = requestId(typeof id === "string" ? id : undefined)
        metering.record({
          requested_at: began,
          account_id: who.account_id,
          key_id: who.key_id,
          request_id,
          endpoint: found.path,
          status_code,
          records_returned: fresh ? found.records : 0,
          bytes: fresh ? found.bytes : 0,
          cost_microdollars,
          duration_ms: time() - began,
          cached: true,
          deprecated: found.deprecated,
        })
        const headers = [...(fresh ? found.headers : found.headersUnmodified)]
        for (const name in counted.headers) headers.push(name, counted.headers[name] ?? "")
        headers.push("x-cost-microdollars", String(cost_microdollars), "x-request-id", request_id)
        response.writeHead(status_code, headers)
        response.end(fresh ? found.body : undefined)
      }

      const serve = (request: IncomingMessage, response: ServerResponse, others: () => void) => {
        const found = find(request)
        const who = found === undefined ? undefined : admitted(request, found)
        if (found === undefined || who === undefined) return others()
        const began = time()
        const proceed = (exit: Exit.Exit<Counted>) =>
          exit._tag === "Failure" || exit.value.refusal !== undefined
            ? others()
            : answer(request, response, found, who, exit.value, began)
        const counting = Effect.runForkWith(context)(limit.count(who))
        const counted = counting.pollUnsafe()
        if (counted === undefined) counting.addObserver(proceed)
        else proceed(counted)
      }
      return { remember, serve }
    }),
  )
}

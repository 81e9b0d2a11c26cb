/**
 * D17: what was answered before is answered again without a detour, while the same request would be answered the same:
 * by a listener of Node that takes what every request has to pass from the very places where others pass it (key, tier,
 * balance, limit, usage), and leaves whatever is unusual to the long way.
 */
import { Clock, Context, Effect, type Exit, Layer } from "effect"
import type { IncomingMessage, ServerResponse } from "node:http"
import { Account, hasCredit, isPathAllowed } from "../accounts/keys/Authentication.ts"
import { conflictingCredentials, parseCredential } from "../accounts/keys/Credentials.ts"
import { Metering } from "../accounts/billing/Metering.ts"
import { computeCost } from "../accounts/billing/Pricing.ts"
import { RateLimit, type RateLimitResult } from "../accounts/limits/RateLimit.ts"
import { RecentKeys } from "./RecentKeys.ts"
import { type CachedResponse, ResponseCache } from "./ResponseCache.ts"
import { RequestMetrics } from "../observability/RequestMetrics.ts"
import { meetsTier } from "../rules/EndpointAnnotations.ts"
import { resolveRequestId } from "../rules/RequestIds.ts"

type Who = typeof Account.Service

export class FastPath extends Context.Service<FastPath, {
  /** Answers, or hands on to `others`. */
  readonly serve: (request: IncomingMessage, response: ServerResponse, others: () => void) => void
}>()("tickerline/Shortcut") {
  static readonly layer = Layer.effect(
    FastPath,
    Effect.gen(function* () {
      const sent = yield* ResponseCache
      const metering = yield* Metering
      const limit = yield* RateLimit
      const recent = yield* RecentKeys
      const requests = yield* RequestMetrics
      const context = yield* Effect.context<never>()
      const clock = yield* Clock.Clock
      const time = () => clock.currentTimeMillisUnsafe()

      /** Whose request it is, where nothing stands against answering it. */
      const admitted = (request: IncomingMessage, { path, required_tier }: CachedResponse): Who | undefined => {
        const key = parseCredential(request.rawHeaders)
        const account = key === conflictingCredentials ? undefined : recent.find(key)
        if (account === undefined || !metering.hasCapacity()) return undefined
        return meetsTier(account.tier, required_tier) && isPathAllowed(account, path) && hasCredit(account)
          ? account
          : undefined
      }

      const answer = (
        { headers: { "if-none-match": condition, "x-request-id": id }, url = "" }: IncomingMessage,
        response: ServerResponse,
        found: CachedResponse,
        { account_id, key_id }: Who,
        counted: RateLimitResult,
        began: number,
        arrived: number,
      ) => {
        const fresh = condition === undefined
        const status = fresh ? 200 : 304
        const bytes = fresh ? found.bytes : 0
        const cost_microdollars = fresh ? computeCost(bytes, found.price) : 0
        const request_id = resolveRequestId(typeof id === "string" ? id : undefined)
        metering.record({
          requested_at: began,
          account_id,
          key_id,
          request_id,
          endpoint: found.path,
          status_code: status,
          records_returned: fresh ? found.records : 0,
          bytes,
          cost_microdollars,
          duration_ms: time() - began,
          cached: true,
          deprecated: found.deprecated,
        })
        const headers = [...(fresh ? found.headers : found.headersUnmodified)]
        for (const name in counted.headers) headers.push(name, counted.headers[name] ?? "")
        headers.push("x-cost-microdollars", String(cost_microdollars), "x-request-id", request_id)
        response.writeHead(status, headers)
        response.end(fresh ? found.body : undefined)
        requests.record({
          request_id,
          method: "GET",
          target: url,
          endpoint: found.path,
          account_id,
          status,
          bytes,
          cached: true,
          milliseconds: performance.now() - arrived,
        })
      }

      const serve = (request: IncomingMessage, response: ServerResponse, others: () => void) => {
        const arrived = performance.now()
        const found = sent.find(request)
        const who = found === undefined ? undefined : admitted(request, found)
        if (found === undefined || who === undefined) return others()
        const began = time()
        const proceed = (exit: Exit.Exit<RateLimitResult>) =>
          exit._tag === "Failure" || exit.value.refusal !== undefined
            ? others()
            : answer(request, response, found, who, exit.value, began, arrived)
        const counting = Effect.runForkWith(context)(limit.count(who))
        const counted = counting.pollUnsafe()
        if (counted === undefined) counting.addObserver(proceed)
        else proceed(counted)
      }
      return { serve }
    }),
  )
}

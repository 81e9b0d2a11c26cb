/** D3, D13, D18, D27, D29: the server side of `Admission` and `Charged`. */
import { Clock, Context, Effect, Layer } from "effect"
import { HttpEffect, HttpServerResponse } from "effect/http"
import type { HttpApiEndpoint } from "effect/http-api"
import { meetsTier, RequiredTier } from "../rules/EndpointAnnotations.ts"
import { RequestContext, setResponseHeaders, type StreamedExport } from "../http/RequestContext.ts"
import { Authorization, Billing } from "./Authorization.ts"
import { Account, hasCredit, isPathAllowed } from "./keys/Authentication.ts"
import { EndpointNotAllowed, InsufficientCredits, InsufficientTier } from "./AccountErrors.ts"
import { Metering } from "./billing/Metering.ts"
import { computeAffordableBytes, computeCost, PriceLookup } from "./billing/Pricing.ts"
import { RateLimit } from "./limits/RateLimit.ts"

type Who = typeof Account.Service

/** D3, and the key's own list. */
const allowed = (account: Who, { annotations, path }: HttpApiEndpoint.Top) => {
  const { endpoints, tier } = account
  const required_tier = Context.get(annotations, RequiredTier)
  if (!meetsTier(tier, required_tier)) {
    const message = `This endpoint needs the tier ${required_tier}; the account has ${tier}.`
    return Effect.fail(new InsufficientTier({ error: { message, details: { required_tier, tier } } }))
  }
  if (endpoints !== null && !isPathAllowed(account, path)) {
    const message = `This API key does not open ${path}. It opens: ${endpoints.join(", ")}.`
    return Effect.fail(
      new EndpointNotAllowed({ error: { message, details: { endpoint: path, allowed: endpoints } } }),
    )
  }
  return Effect.void
}

const cost = "X-Cost-Microdollars"

export const authorizationLayer = Layer.effect(
  Authorization,
  Effect.gen(function* () {
    const metering = yield* Metering
    const limit = yield* RateLimit
    const clock = yield* Clock.Clock

    /** When all else is known of the answer it is told its cost, and remembered: a whole list at its end. */
    const recorded = (exchange: RequestContext, { account_id, key_id }: Who, endpoint: string) => {
      const record = (status_code: number, bytes: number, cost_microdollars: number, records_returned: number) =>
        metering.record({
          requested_at: exchange.began,
          account_id,
          key_id,
          request_id: exchange.id,
          endpoint,
          status_code,
          records_returned,
          bytes,
          cost_microdollars,
          duration_ms: clock.currentTimeMillisUnsafe() - exchange.began,
          cached: exchange.cached,
          deprecated: "Deprecation" in exchange.headers,
        })

      const atItsEnd = (whole: StreamedExport) => {
        whole.endListeners.push((status) => {
          const bytes = exchange.bytes ?? 0
          const cost_microdollars = status < 500 ? computeCost(bytes, exchange.price) : 0
          whole.trailers[cost] = String(cost_microdollars)
          record(status, bytes, cost_microdollars, exchange.records)
        })
      }

      return HttpEffect.appendPreResponseHandler((request, response) => {
        if (exchange.streamedExport !== undefined && response.status === 200) {
          atItsEnd(exchange.streamedExport)
          return Effect.succeed(response)
        }
        // HEAD is answered without a body.
        const bytes = request.method === "HEAD" ? 0 : exchange.bytes ?? 0
        const cost_microdollars = response.status === 200 ? computeCost(bytes, exchange.price) : 0
        record(response.status, bytes, cost_microdollars, response.status === 200 ? exchange.records : 0)
        return Effect.succeed(HttpServerResponse.setHeader(response, cost, String(cost_microdollars)))
      })
    }

    return Authorization.of((served, { endpoint }) =>
      Effect.gen(function* () {
        const account = yield* Account
        const exchange = yield* RequestContext
        exchange.account_id = account.account_id
        if (exchange.purpose === "answer") {
          yield* metering.requireCapacity
          yield* recorded(exchange, account, endpoint.path)
          const { headers, refusal } = yield* limit.count(account)
          yield* setResponseHeaders(headers)
          if (refusal !== undefined) return yield* refusal
        }
        yield* allowed(account, endpoint)
        return yield* served
      })
    )
  }),
)

/**
 * A whole list that may cost more than half of the balance is measured first, and refused by its exact price, which is
 * that of `/estimate`. A shorter one is cut off if it proves too long, so no single list takes a balance below zero.
 */
const affordable = Effect.fnUntraced(function* (whole: StreamedExport, balance_microdollars: number, price: number) {
  if (computeCost(whole.expected, price) > balance_microdollars / 2) {
    const cost = computeCost(yield* whole.measured, price)
    if (cost > balance_microdollars) {
      const message = `The whole list costs ${cost} microdollars, more than is left of the prepaid balance. ` +
        "Add credit, or ask for less of it."
      return yield* new InsufficientCredits({ error: { message, details: { balance_microdollars } } })
    }
  }
  whole.maxBytes = computeAffordableBytes(balance_microdollars, price)
})

/** The balance is that of half a second ago at most, and without what is not recorded yet; so it may go below zero. */
export const billingLayer = Layer.effect(
  Billing,
  Effect.gen(function* () {
    const prices = yield* PriceLookup
    return Billing.of((served, { endpoint }) =>
      Effect.gen(function* () {
        const account = yield* Account
        const { balance_microdollars } = account
        const exchange = yield* RequestContext
        exchange.price = prices.getPricePerGigabyte(endpoint.path)
        const required_tier = Context.get(endpoint.annotations, RequiredTier)
        exchange.endpoint = { path: endpoint.path, required_tier }
        if (exchange.purpose === "answer" && balance_microdollars !== null && !hasCredit(account)) {
          const message = "The account's prepaid balance is used up. Add credit, and try again."
          return yield* new InsufficientCredits({ error: { message, details: { balance_microdollars } } })
        }
        const response = yield* served
        if (exchange.streamedExport !== undefined && exchange.purpose === "answer" && balance_microdollars !== null) {
          yield* affordable(exchange.streamedExport, balance_microdollars, exchange.price)
        }
        return response
      })
    )
  }),
)

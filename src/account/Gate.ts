/** D3, D13, D18, D27, D29: the server side of `Admission` and `Charged`. */
import { Context, DateTime, Effect, Layer } from "effect"
import { HttpEffect, HttpServerResponse } from "effect/http"
import type { HttpApiEndpoint } from "effect/http-api"
import { includes, RequiredTier } from "../policy/Access.ts"
import { Exchange, setHeaders } from "../policy/Exchange.ts"
import { Admission, Charged } from "./Admission.ts"
import { Account, hasCredit, opens } from "./Authentication.ts"
import { EndpointNotAllowed, InsufficientCredits, InsufficientTier } from "./Errors.ts"
import { Metering } from "./Metering.ts"
import { costOf, Prices } from "./Prices.ts"
import { RateLimit } from "./RateLimit.ts"

type Who = typeof Account.Service

/** D3, and the key's own list. */
const allowed = (account: Who, { annotations, path }: HttpApiEndpoint.Top) => {
  const { endpoints, tier } = account
  const required_tier = Context.get(annotations, RequiredTier)
  if (!includes(tier, required_tier)) {
    const message = `This endpoint needs the tier ${required_tier}; the account has ${tier}.`
    return Effect.fail(new InsufficientTier({ error: { message, details: { required_tier, tier } } }))
  }
  if (endpoints !== null && !opens(account, path)) {
    const message = `This API key does not open ${path}. It opens: ${endpoints.join(", ")}.`
    return Effect.fail(
      new EndpointNotAllowed({ error: { message, details: { endpoint: path, allowed: endpoints } } }),
    )
  }
  return Effect.void
}

export const admission = Layer.effect(
  Admission,
  Effect.gen(function* () {
    const metering = yield* Metering
    const limit = yield* RateLimit

    /** When all else is known of the answer it is told its cost, and remembered. */
    const recorded = (exchange: Exchange, { account_id, key_id }: Who, endpoint: string) =>
      HttpEffect.appendPreResponseHandler((request, response) =>
        Effect.map(DateTime.now, (now) => {
          // HEAD is answered without a body.
          const bytes = request.method === "HEAD" ? 0 : exchange.bytes ?? 0
          const cost_microdollars = response.status === 200 ? costOf(bytes, exchange.price) : 0
          metering.record({
            requested_at: exchange.began,
            account_id,
            key_id,
            request_id: exchange.id,
            endpoint,
            status_code: response.status,
            records_returned: response.status === 200 ? exchange.records : 0,
            bytes,
            cost_microdollars,
            duration_ms: DateTime.toEpochMillis(now) - exchange.began,
            cached: exchange.cached,
            deprecated: "Deprecation" in exchange.headers,
          })
          return HttpServerResponse.setHeader(response, "X-Cost-Microdollars", String(cost_microdollars))
        })
      )

    return Admission.of((served, { endpoint }) =>
      Effect.gen(function* () {
        const account = yield* Account
        const exchange = yield* Exchange
        exchange.account_id = account.account_id
        if (exchange.purpose === "answer") {
          yield* metering.admit
          yield* recorded(exchange, account, endpoint.path)
          const { headers, refusal } = yield* limit.count(account)
          yield* setHeaders(headers)
          if (refusal !== undefined) return yield* refusal
        }
        yield* allowed(account, endpoint)
        return yield* served
      })
    )
  }),
)

/** The balance is that of half a second ago at most, and without what is not recorded yet; so it may go below zero. */
export const charged = Layer.effect(
  Charged,
  Effect.gen(function* () {
    const prices = yield* Prices
    return Charged.of((served, { endpoint }) =>
      Effect.gen(function* () {
        const account = yield* Account
        const { balance_microdollars } = account
        const exchange = yield* Exchange
        exchange.price = prices.of(endpoint.path)
        const required_tier = Context.get(endpoint.annotations, RequiredTier)
        exchange.endpoint = { path: endpoint.path, required_tier }
        if (exchange.purpose === "answer" && balance_microdollars !== null && !hasCredit(account)) {
          const message = "The account's prepaid balance is used up. Add credit, and try again."
          return yield* new InsufficientCredits({ error: { message, details: { balance_microdollars } } })
        }
        return yield* served
      })
    )
  }),
)

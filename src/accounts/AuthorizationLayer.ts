/**
 * The implementation of `AuthorizationMiddleware` and `BillingMiddleware` (D3, tiers; D13, balances; D18, rate limits;
 * D29, usage).
 */
import { Clock, Context, Effect, Layer } from "effect"
import { HttpEffect, type HttpServerRequest, HttpServerResponse } from "effect/http"
import type { HttpApiEndpoint } from "effect/http-api"
import { type EndpointAccess, isTierSufficient, RequiredTier } from "../rules/EndpointAnnotations.ts"
import { RequestContext, type StreamedExport, type StreamUsageRecorder } from "../http/RequestContext.ts"
import { AuthorizationMiddleware } from "./Authorization.ts"
import { canKeyAccessPath, CurrentAccount, hasRemainingCredit } from "./keys/Authentication.ts"
import type { DatabasePoolTimeout } from "../rules/Errors.ts"
import { EndpointNotAllowed, InsufficientCredits, InsufficientTier, type RateLimitExceeded } from "./AccountErrors.ts"
import { UsageMetering } from "./billing/UsageMetering.ts"
import { computeAffordableBytes, computeDataCost, PriceLookup } from "./billing/Pricing.ts"
import { AccountRateLimiter } from "./limits/AccountRateLimiter.ts"

/** Fails with 403 if the account's tier does not include the endpoint (D3), or the key is limited to other paths. */
export const checkEndpointAccess = (
  account: typeof CurrentAccount.Service,
  { path, required_tier }: EndpointAccess,
): Effect.Effect<void, InsufficientTier | EndpointNotAllowed> => {
  const { endpoints, tier } = account
  if (!isTierSufficient(tier, required_tier)) {
    const message = `This endpoint requires the tier ${required_tier}; the account has ${tier}.`
    return Effect.fail(new InsufficientTier({ error: { message, details: { required_tier, tier } } }))
  }
  if (endpoints !== null && !canKeyAccessPath(account, path)) {
    const message = `This API key is not allowed to use ${path}. It may use: ${endpoints.join(", ")}.`
    return Effect.fail(
      new EndpointNotAllowed({ error: { message, details: { endpoint: path, allowed: endpoints } } }),
    )
  }
  return Effect.void
}

/** Returns the access rules of an endpoint. The path is the declared one, with the version, such as `/v1/news`. */
const getRoutedAccess = ({ annotations, path }: HttpApiEndpoint.Top): EndpointAccess => ({
  path,
  required_tier: Context.get(annotations, RequiredTier),
})

const costHeader = "X-Cost-Microdollars"

type Refusal = DatabasePoolTimeout | EndpointNotAllowed | InsufficientTier | RateLimitExceeded

/** Makes the function that admits an authenticated request to an endpoint. */
export const makeRequestAuthorizer = Effect.gen(function* () {
  const metering = yield* UsageMetering
  const rateLimit = yield* AccountRateLimiter
  const clock = yield* Clock.Clock

  /**
   * Makes the handler that records a request and adds the cost header just before the response is sent. An export is
   * recorded when it ends, and an endless stream in installments; neither has the header.
   */
  const makeUsageRecorder = (
    context: RequestContext,
    { account_id, key_id }: typeof CurrentAccount.Service,
    endpoint: string,
  ): HttpEffect.PreResponseHandler => {
    const record = (
      status_code: number,
      bytes: number,
      cost_microdollars: number,
      records_returned: number,
      requested_at = context.startedAt,
    ) =>
      metering.record({
        requested_at,
        account_id,
        key_id,
        request_id: context.id,
        endpoint,
        status_code,
        records_returned,
        bytes,
        cost_microdollars,
        duration_ms: clock.currentTimeMillisUnsafe() - requested_at,
        cached: context.response.cached,
        deprecated: "Deprecation" in context.response.headers,
        via: context.via,
      })

    const recordAtEnd = (streamed: StreamedExport) => {
      streamed.endListeners.push((status) => {
        const bytes = context.response.bytes ?? 0
        const cost_microdollars = status < 500 ? computeDataCost(bytes, context.response.price) : 0
        streamed.trailers[costHeader] = String(cost_microdollars)
        record(status, bytes, cost_microdollars, context.response.records)
      })
    }

    /** Records an endless stream in installments, whose costs add up to the cost of all bytes sent. */
    const recordInstallments = (stream: StreamUsageRecorder) => {
      const { price } = context.response
      stream.recordUsage = ({ from, startedAt, to }) => {
        const cost = computeDataCost(to.bytes, price) - computeDataCost(from.bytes, price)
        record(200, to.bytes - from.bytes, cost, to.records - from.records, startedAt)
      }
    }

    return (request, response) => {
      if (context.response.endlessStream !== undefined && response.status === 200) {
        recordInstallments(context.response.endlessStream)
        return Effect.succeed(response)
      }
      if (context.response.streamedExport !== undefined && response.status === 200) {
        recordAtEnd(context.response.streamedExport)
        return Effect.succeed(response)
      }
      // A response to HEAD has no body, so it costs nothing.
      const bytes = request.method === "HEAD" ? 0 : context.response.bytes ?? 0
      const cost_microdollars = response.status === 200 ? computeDataCost(bytes, context.response.price) : 0
      record(response.status, bytes, cost_microdollars, response.status === 200 ? context.response.records : 0)
      return Effect.succeed(HttpServerResponse.setHeader(response, costHeader, String(cost_microdollars)))
    }
  }

  /** Checks access to the endpoint. Unless the request is an estimate, also counts and records it. */
  return (
    account: typeof CurrentAccount.Service,
    endpoint: HttpApiEndpoint.Top,
  ): Effect.Effect<void, Refusal, HttpServerRequest.HttpServerRequest> =>
    Effect.flatMap(RequestContext, (context) => {
      context.response.account_id = account.account_id
      const access = checkEndpointAccess(account, getRoutedAccess(endpoint))
      if (context.purpose === "estimate") return access
      const count = Effect.flatMap(
        rateLimit.countRequest(account),
        ({ headers, refusal }): Effect.Effect<void, Refusal> => {
          Object.assign(context.response.headers, headers)
          return refusal === undefined ? access : Effect.fail(refusal)
        },
      )
      return Effect.andThen(
        metering.requireCapacity,
        HttpEffect.withPreResponseHandler(count, makeUsageRecorder(context, account, endpoint.path)),
      )
    })
})

export const authorizationLayer = Layer.effect(
  AuthorizationMiddleware,
  Effect.map(
    makeRequestAuthorizer,
    (authorize) =>
      AuthorizationMiddleware.of((next, { endpoint }) =>
        Effect.flatMap(CurrentAccount, (account) => Effect.andThen(authorize(account, endpoint), next))
      ),
  ),
)

/**
 * Limits an export to the bytes that the balance covers, so that the balance does not fall below zero. If the expected
 * cost exceeds half the balance, the export is measured first, and refused if the balance is too small.
 */
const limitToBalance = Effect.fnUntraced(
  function* (streamed: StreamedExport, balance_microdollars: number, price: number) {
    if (computeDataCost(streamed.expectedBytes, price) > balance_microdollars / 2) {
      const cost = computeDataCost(yield* streamed.measureBytes, price)
      if (cost > balance_microdollars) {
        const message = `The export costs ${cost} microdollars, more than the remaining prepaid balance. ` +
          "Add credit, or reduce the export."
        return yield* new InsufficientCredits({ error: { message, details: { balance_microdollars } } })
      }
    }
    streamed.maxBytes = computeAffordableBytes(balance_microdollars, price)
  },
)

/** Makes the checks for priced endpoints. */
export const makeBillingChecks = Effect.gen(function* () {
  const prices = yield* PriceLookup

  /**
   * Sets the price, and fails with 402 if the account has no credit left. The balance is up to half a second old and
   * excludes unrecorded requests, so requests may take it below zero.
   */
  const requireCredit = (account: typeof CurrentAccount.Service, endpoint: HttpApiEndpoint.Top) =>
    Effect.flatMap(RequestContext, (context) => {
      const { balance_microdollars } = account
      context.response.price = prices.getPricePerGigabyte(endpoint.path)
      context.response.endpoint = getRoutedAccess(endpoint)
      if (context.purpose === "estimate" || balance_microdollars === null || hasRemainingCredit(account)) {
        return Effect.void
      }
      const message = "The account's prepaid balance is used up. Add credit, and try again."
      return Effect.fail(new InsufficientCredits({ error: { message, details: { balance_microdollars } } }))
    })

  /** If the response is an export, limits it to the bytes that the balance covers. */
  const limitExport = ({ balance_microdollars }: typeof CurrentAccount.Service) =>
    Effect.flatMap(
      RequestContext,
      ({ purpose, response: { price, streamedExport } }) =>
        streamedExport === undefined || purpose === "estimate" || balance_microdollars === null
          ? Effect.void
          : limitToBalance(streamedExport, balance_microdollars, price),
    )

  return { requireCredit, limitExport }
})

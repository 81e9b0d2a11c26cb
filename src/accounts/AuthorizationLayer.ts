/**
 * The implementation of `AuthorizationMiddleware` and `BillingMiddleware` (D3, tiers; D13, balances; D18, rate limits;
 * D29, usage).
 */
import { Clock, Context, Effect, Layer, type Scope } from "effect"
import { HttpEffect, type HttpServerRequest, HttpServerResponse } from "effect/http"
import type { HttpApiEndpoint } from "effect/http-api"
import { type EndpointAccess, isTierSufficient, RequiredTier } from "../rules/EndpointAnnotations.ts"
import {
  type ExportBudget,
  RequestContext,
  type ResponseBuilder,
  type StreamedAmount,
  type StreamedExport,
  type StreamUsageRecorder,
} from "../http/RequestContext.ts"
import { AuthorizationMiddleware } from "./Authorization.ts"
import { canAccountUseEndpoint, canKeyAccessPath, CurrentAccount } from "./keys/Authentication.ts"
import { KeyWatcher } from "./keys/KeyWatcher.ts"
import type { DatabasePoolTimeout, DataRefreshing } from "../rules/Errors.ts"
import { EndpointNotAllowed, InsufficientCredits, InsufficientTier, type RateLimitExceeded } from "./AccountErrors.ts"
import { type BalanceReservation, PrepaidBalances } from "./billing/PrepaidBalances.ts"
import { UsageMetering } from "./billing/UsageMetering.ts"
import { computeAffordableBytes, computeDataCost, getUncompressedBodySize, PriceLookup } from "./billing/Pricing.ts"
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

export const costHeader = "X-Cost-Microdollars"

type Refusal = DatabasePoolTimeout | EndpointNotAllowed | InsufficientTier | RateLimitExceeded

/** Makes the functions that admit an authenticated request. */
export const makeRequestAuthorizer = Effect.gen(function* () {
  const metering = yield* UsageMetering
  const { spend } = yield* PrepaidBalances
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
    ) => {
      // `metering` subtracts the cost itself.
      spend(account_id, -context.response.heldCost)
      context.response.heldCost = 0
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
        // Only a 304 counts, because a hit in the shared cache would tell what other accounts have requested.
        cached: status_code === 304,
        deprecated: "Deprecation" in context.response.headers,
        via: context.via,
        reservation_id: context.response.streamedExport?.budget?.reservation_id ?? null,
      })
    }

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
      const { response } = context
      const computeCost = (from: StreamedAmount, to: StreamedAmount) =>
        computeDataCost(to.bytes, response.price) - computeDataCost(from.bytes, response.price)
      stream.countSent = (from, to) => {
        const cost = computeCost(from, to)
        response.heldCost += cost
        spend(account_id, cost)
      }
      stream.recordUsage = ({ from, startedAt, to }) =>
        record(200, to.bytes - from.bytes, computeCost(from, to), to.records - from.records, startedAt)
    }

    return (request, response) => {
      if (context.response.isRecorded) return Effect.succeed(response)
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
      const { recordedStatus = response.status, records } = context.response
      record(recordedStatus, bytes, cost_microdollars, response.status === 200 ? records : 0)
      return Effect.succeed(HttpServerResponse.setHeader(response, costHeader, String(cost_microdollars)))
    }
  }

  /**
   * Counts a request against the rate limit, and records it when it is answered. Succeeds with the refusal if the limit
   * is exceeded.
   */
  const countAndRecord = (
    account: typeof CurrentAccount.Service,
    path: string,
  ): Effect.Effect<RateLimitExceeded | undefined, DatabasePoolTimeout, HttpServerRequest.HttpServerRequest> =>
    Effect.flatMap(RequestContext, (context) => {
      context.response.account_id = account.account_id
      const count = Effect.map(rateLimit.countRequest(account), ({ headers, refusal }) => {
        Object.assign(context.response.headers, headers)
        return refusal
      })
      return Effect.andThen(
        metering.requireCapacity,
        HttpEffect.withPreResponseHandler(
          context.via === "mcp" ? Effect.undefined : count,
          makeUsageRecorder(context, account, path),
        ),
      )
    })

  /** Checks access to the endpoint. Unless the request is an estimate, also counts and records it. */
  const authorize = (
    account: typeof CurrentAccount.Service,
    endpoint: HttpApiEndpoint.Top,
  ): Effect.Effect<void, Refusal, HttpServerRequest.HttpServerRequest> =>
    Effect.flatMap(RequestContext, (context) => {
      context.response.account_id = account.account_id
      const access = checkEndpointAccess(account, getRoutedAccess(endpoint))
      if (context.purpose === "estimate") return access
      return Effect.flatMap(
        countAndRecord(account, endpoint.path),
        (refusal): Effect.Effect<void, Refusal> => refusal === undefined ? access : Effect.fail(refusal),
      )
    })

  return { authorize, countAndRecord }
})

const revokedKey = { status: 401, reason: "its key was revoked or disabled, or has expired." }
const lostAccess = { status: 403, reason: "the account or the key may no longer use its endpoint." }

/** Makes the function that aborts an export once its key is revoked or may no longer use the endpoint. */
export const makeExportWatcher = Effect.map(
  KeyWatcher,
  ({ watch }) => (account: typeof CurrentAccount.Service, endpoint: HttpApiEndpoint.Top) =>
    Effect.flatMap(RequestContext, ({ purpose, response: { streamedExport } }) => {
      if (streamedExport === undefined || purpose === "estimate") return Effect.void
      const access = getRoutedAccess(endpoint)
      return watch(account, (current) => {
        if (current === undefined) streamedExport.refusal = revokedKey
        else if (!canAccountUseEndpoint(current, access)) streamedExport.refusal = lostAccess
      })
    }),
)

export const authorizationLayer = Layer.effect(
  AuthorizationMiddleware,
  Effect.map(
    makeRequestAuthorizer,
    ({ authorize }) =>
      AuthorizationMiddleware.of((next, { endpoint }) =>
        Effect.flatMap(CurrentAccount, (account) => Effect.andThen(authorize(account, endpoint), next))
      ),
  ),
)

const makeNoCreditError = (balance_microdollars: number, isReserved: boolean) =>
  new InsufficientCredits({
    error: {
      message: isReserved
        ? "The account's prepaid balance is reserved by exports in progress. Wait until they end, or add credit."
        : "The account's prepaid balance is used up. Add credit, and try again.",
      details: { balance_microdollars },
    },
  })

type Attempt = Effect.Success<ReturnType<BalanceReservation["reserve"]>>

const makeExportCostError = (cost: number, { balance_microdollars, reserved_microdollars }: Attempt) => {
  const [remaining, alternative] = reserved_microdollars > 0
    ? [
      `${balance_microdollars} microdollars, of which other exports in progress have reserved ${reserved_microdollars}`,
      ", reduce the export, or wait until the others end.",
    ]
    : [`${balance_microdollars} microdollars`, ", or reduce the export."]
  const message = `The export costs ${cost} microdollars, more than the remaining prepaid balance: ${remaining}. ` +
    `Add credit${alternative}`
  return new InsufficientCredits({ error: { message, details: { balance_microdollars } } })
}

const makeBudget = (reservation: BalanceReservation, price: number): ExportBudget => ({
  reservation_id: reservation.id,
  covers: (bytes) => {
    if (bytes <= computeAffordableBytes(reservation.getAmount(), price)) return Effect.succeed(true)
    const cost = computeDataCost(bytes, price)
    // Reserves a quarter more than needed, so that it is rarely repeated.
    return Effect.map(reservation.reserve(cost, Math.ceil(cost * 1.25)), ({ isGranted }) => isGranted)
  },
})

/** Makes the checks for priced endpoints. */
export const makeBillingChecks = Effect.gen(function* () {
  const prices = yield* PriceLookup
  const { getRemaining, isReserved, open, spend } = yield* PrepaidBalances

  /** Sets the price, and fails with 402 if the account has no credit left. */
  const requireCredit = (account: typeof CurrentAccount.Service, endpoint: HttpApiEndpoint.Top) =>
    Effect.flatMap(RequestContext, (context) => {
      const { balance_microdollars } = account
      context.response.price = prices.getPricePerGigabyte(endpoint.path)
      context.response.endpoint = getRoutedAccess(endpoint)
      return context.purpose === "estimate" || balance_microdollars === null || getRemaining(account) > 0
        ? Effect.void
        : Effect.fail(makeNoCreditError(balance_microdollars, isReserved(account)))
    })

  /**
   * Reserves the expected cost of an export, or its exact cost if the expected one is more than half of what remains.
   * Fails with 402 if the balance does not cover the exact cost.
   */
  const reserveForExport = Effect.fnUntraced(
    function* (streamed: StreamedExport, account: typeof CurrentAccount.Service, price: number) {
      const reservation = yield* open(account.account_id)
      streamed.budget = makeBudget(reservation, price)
      const expected = computeDataCost(streamed.expectedBytes, price)
      if (expected === 0) return
      if (expected <= getRemaining(account) / 2 && (yield* reservation.reserve(expected, expected)).isGranted) return
      const cost = computeDataCost(yield* streamed.measureBytes, price)
      const attempt = yield* reservation.reserve(cost, cost)
      if (!attempt.isGranted) return yield* makeExportCostError(cost, attempt)
    },
  )

  /**
   * Subtracts the cost of a page before it is sent, so that concurrent requests do not spend the same money. Fails with
   * 402 if they have used up the balance in the meantime.
   */
  const holdCost = Effect.fnUntraced(
    function* (
      response: ResponseBuilder,
      account: typeof CurrentAccount.Service,
      balance_microdollars: number,
      bytes: number,
    ) {
      if (getRemaining(account) <= 0) {
        // The error replaces the page.
        response.bytes = undefined
        response.cached = false
        response.links.splice(0, Infinity, ...response.links.filter(({ attributes }) => attributes !== `rel="next"`))
        return yield* makeNoCreditError(balance_microdollars, isReserved(account))
      }
      response.heldCost = computeDataCost(bytes, response.price)
      spend(account.account_id, response.heldCost)
      // Recording the request sets `heldCost` to 0. This applies if the request fails before that.
      yield* Effect.addFinalizer(() => Effect.sync(() => spend(account.account_id, -response.heldCost)))
    },
  )

  /** Makes sure that the prepaid balance of the account, if it has one, pays for the response. */
  const requireCreditFor = (
    account: typeof CurrentAccount.Service,
    { method }: HttpServerRequest.HttpServerRequest,
    sent: HttpServerResponse.HttpServerResponse,
  ) =>
    Effect.flatMap(
      RequestContext,
      ({ purpose, response }): Effect.Effect<
        void,
        InsufficientCredits | DatabasePoolTimeout | DataRefreshing,
        Scope.Scope
      > => {
        const { balance_microdollars } = account
        if (balance_microdollars === null || purpose === "estimate" || sent.status !== 200) return Effect.void
        if (response.streamedExport !== undefined) {
          return reserveForExport(response.streamedExport, account, response.price)
        }
        if (method === "HEAD" || response.endlessStream !== undefined) return Effect.void
        return holdCost(response, account, balance_microdollars, response.bytes ?? getUncompressedBodySize(sent))
      },
    )

  return { requireCredit, requireCreditFor }
})

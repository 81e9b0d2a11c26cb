/**
 * Estimates the cost of a request: D28 (estimates). Runs the request like any other, with router, validation, SQL and
 * encoders, but marks it as an estimate, so that it is not counted, charged or recorded.
 */
import { Effect, Schema } from "effect"
import { Headers, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { checkEndpointAccess } from "../accounts/AuthorizationLayer.ts"
import { computeDataCost } from "../accounts/billing/Pricing.ts"
import { CurrentAccount, estimatePath } from "../accounts/keys/Authentication.ts"
import { ValidationError } from "../rules/Errors.ts"
import { makeInternalRequester } from "../http/InternalRequests.ts"
import { makeRequestContext, RequestContext, type ResponseBuilder, setRecordCount } from "../http/RequestContext.ts"
import { TickerListParameter } from "../rules/Tickers.ts"
import { findEndpoint, formatEndpointSuggestion } from "./Endpoints.ts"

const makeEndpointError = (reason: string) =>
  new ValidationError({
    error: { message: `endpoint ${reason}`, details: { fields: [{ field: "endpoint", reason }] } },
  })

const makeUnknownEndpointError = (path: string) =>
  makeEndpointError(`is not in the catalogue.${formatEndpointSuggestion(path)} GET /endpoints lists all paths.`)

const endlessStreamReason =
  "is a stream, whose cost is not known in advance. It is charged by the byte, as /v1/changes is"

const selfParametersReason = "is /estimate itself, which is free and whose estimate takes no other parameters"

const getQueryString = (target: string) => target.split(/\?(.*)/s)[1] ?? ""

/** Returns the query string without the parameter `endpoint`, otherwise unchanged. */
const removeEndpointParameter = (target: string) => {
  const isForwarded = (parameter: string) => !new URLSearchParams(`&${parameter}`).has("endpoint")
  return getQueryString(target).split("&").filter(isForwarded).join("&")
}

const countSymbols = Effect.fnUntraced(function* (target: string) {
  const ticker = new URLSearchParams(getQueryString(target)).get("ticker")
  if (ticker === null) return 0
  // Some free endpoints ignore parameters, so `ticker` may be invalid. It then counts as zero symbols.
  return (yield* Effect.orElseSucceed(Schema.decodeEffect(TickerListParameter)(ticker), () => [])).length
})

/** The fixed response to an estimate of `/estimate` itself, which is not run. */
const selfEstimate = {
  count: 1,
  results: [{
    endpoint: estimatePath,
    unit: "row",
    ticker_count: 0,
    records_returned: 1,
    records_total: 1,
    rows_sampled: 0,
    estimated_bytes: 0,
    estimated_cost_microdollars: 0,
    price_per_gb_microdollars: 0,
  }],
  message: "An estimate is free.",
} as const

const getMessage = (isPriced: boolean, { isTotalPartial, totalRecords }: ResponseBuilder) =>
  isTotalPartial
    ? { message: `There are more than ${totalRecords} records. Counting all of them would take too long.` }
    : isPriced
    ? {}
    : { message: "This endpoint is free." }

export const makeCostEstimator = Effect.gen(function* () {
  const runRequest = yield* makeInternalRequester

  return Effect.fnUntraced(function* (path: string, request: HttpServerRequest.HttpServerRequest) {
    const endpoint = yield* Effect.mapError(Effect.fromOption(findEndpoint(path)), () => makeUnknownEndpointError(path))
    const parameters = removeEndpointParameter(request.url)
    if (endpoint.row.path === estimatePath) {
      if (parameters !== "") return yield* makeEndpointError(selfParametersReason)
      return yield* Effect.as(setRecordCount(1), selfEstimate)
    }
    if (endpoint.isEndless) {
      const access = { path: endpoint.row.path, required_tier: endpoint.row.tier ?? "basic" }
      yield* checkEndpointAccess(yield* CurrentAccount, access)
      return yield* makeEndpointError(endlessStreamReason)
    }
    const { id, startedAt } = yield* RequestContext
    const target = `${endpoint.row.path}?${parameters}`
    const context = makeRequestContext({ id, target, startedAt, purpose: "estimate" })
    // Without these headers, the response has the complete, uncompressed body, which determines the cost.
    const headers = Headers.removeMany(request.headers, ["accept-encoding", "if-none-match"])
    const response = yield* runRequest(request.modify({ headers }), context)
    if (response.status !== 200) {
      return HttpServerResponse.setBody(HttpServerResponse.empty({ status: response.status }), response.body)
    }
    const estimated_bytes = context.response.bytes ?? 0
    const records_returned = context.response.records
    yield* setRecordCount(1)
    return {
      count: 1,
      results: [{
        endpoint: endpoint.row.path,
        unit: endpoint.unit,
        ticker_count: yield* countSymbols(target),
        records_returned,
        records_total: context.response.totalRecords ?? records_returned,
        rows_sampled: records_returned,
        estimated_bytes,
        estimated_cost_microdollars: computeDataCost(estimated_bytes, context.response.price),
        price_per_gb_microdollars: context.response.price,
      }] as const,
      ...getMessage(endpoint.isPriced, context.response),
    }
  })
})

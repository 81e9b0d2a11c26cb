/**
 * Estimates the cost of a request (D28, estimates). The request runs through the entire pipeline, but is marked as an
 * estimate, so that it is not counted, charged or recorded.
 */
import { Effect, Option, Schema } from "effect"
import { findAccessError } from "../../accounts/RequestAdmission.ts"
import { computeDataCost } from "../../accounts/billing/Pricing.ts"
import type { AdmittedRequest } from "../../query/EndpointHandler.ts"
import { estimatePath } from "../../contract/Authentication.ts"
import { makeObjectEncoder } from "../../contract/rules/EndpointResult.ts"
import type { FinishedResponse, PlainResponse, Total } from "../../contract/rules/EndpointResult.ts"
import { makeFieldError } from "../../contract/rules/ApiErrors.ts"
import { TickerListParameter } from "../../contract/rules/Tickers.ts"
import { CostEstimates } from "../../contract/endpoints/catalogue.ts"
import { findEndpoint, formatEndpointSuggestion } from "./Endpoints.ts"

const makeUnknownEndpointError = (path: string) =>
  makeFieldError(
    "endpoint",
    `is not in the catalogue.${formatEndpointSuggestion(path)} GET /endpoints lists all paths.`,
  )

const endlessStreamReason =
  "is a stream, whose cost is not known in advance. It is charged by the byte, as /v1/changes is"

const selfParametersReason = "is /estimate itself, which is free and whose estimate takes no other parameters"

const getQueryString = (target: string) => target.split(/\?(.*)/s)[1] ?? ""

/** Returns the query string without the `endpoint` parameter. All other parameters are unchanged. */
const removeEndpointParameter = (target: string) => {
  const isForwarded = (parameter: string) => !new URLSearchParams(`&${parameter}`).has("endpoint")
  return getQueryString(target).split("&").filter(isForwarded).join("&")
}

const decodeTickers = Schema.decodeOption(TickerListParameter)

/** Counts the symbols in the query parameter `ticker`. */
const countSymbols = (target: string) => {
  const ticker = new URLSearchParams(getQueryString(target)).get("ticker")
  // `ticker` may be invalid, because some free endpoints ignore parameters. An invalid value counts as zero symbols.
  return ticker === null ? 0 : Option.match(decodeTickers(ticker), { onNone: () => 0, onSome: ({ length }) => length })
}

/** The fixed estimate for `/estimate` itself, which is not run. */
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

/** Returns the response to `/estimate` if the estimated request has failed: the same status and error body. */
const makeErrorResponse = ({ body, headers, status }: FinishedResponse): PlainResponse => ({
  _tag: "Plain",
  status,
  headers: headers["retry-after"] === undefined ? {} : { "retry-after": headers["retry-after"] },
  contentType: "application/json",
  body,
})

/** Returns the property `message` of an estimate, if it has one. `total` counts the records on all pages. */
const makeMessage = (isPriced: boolean, total: Total | undefined) => {
  if (total?.isPartial === true) {
    return { message: `There are more than ${total.records} records. Counting all of them would take too long.` }
  }
  return isPriced ? {} : { message: "This endpoint is free." }
}

const encode = makeObjectEncoder(CostEstimates)

/**
 * Handles `GET /estimate`. `path` is the path of the endpoint whose cost is estimated. The request's other parameters
 * are passed on to that endpoint: the request is run (`run`) without being charged or sent, and the size of its
 * response determines the cost. `/estimate` itself gets a fixed estimate, and a stream without an end cannot have one.
 */
export const estimateCost = Effect.fnUntraced(function* (path: string, { account, request, run }: AdmittedRequest) {
  const endpoint = yield* Effect.mapError(Effect.fromOption(findEndpoint(path)), () => makeUnknownEndpointError(path))
  const parameters = removeEndpointParameter(request.target)
  if (endpoint.row.path === estimatePath) {
    return parameters === "" ? encode(selfEstimate) : yield* makeFieldError("endpoint", selfParametersReason)
  }
  if (endpoint.isEndless) {
    const access = { path: endpoint.row.path, required_tier: endpoint.row.tier ?? "basic" }
    return yield* findAccessError(account, access) ?? makeFieldError("endpoint", endlessStreamReason)
  }
  const target = `${endpoint.row.path}?${parameters}`
  // Without these headers, the response has the complete, uncompressed body, whose size determines the cost.
  const { "accept-encoding": _, "if-none-match": __, ...headers } = request.headers
  const response = yield* run({ ...request, method: "GET", target, headers, purpose: "estimate" })
  if (response.status !== 200) return makeErrorResponse(response)
  const { bytes, headers: responseHeaders, price, records, total } = response
  const estimate = encode({
    count: 1,
    results: [{
      endpoint: endpoint.row.path,
      unit: endpoint.unit,
      ticker_count: countSymbols(target),
      records_returned: records,
      records_total: total?.records ?? records,
      rows_sampled: records,
      estimated_bytes: bytes,
      estimated_cost_microdollars: computeDataCost(bytes, price),
      price_per_gb_microdollars: price,
    }],
    ...makeMessage(endpoint.isPriced, total),
  })
  const dropped = responseHeaders["x-dropped-tickers"]
  return dropped === undefined ? estimate : { ...estimate, headers: { "x-dropped-tickers": dropped } }
})

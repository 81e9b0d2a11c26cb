/**
 * Explains a recorded request, for example when a customer disputes it: how its cost was computed (D27), and how to
 * repeat the request (docs/operations/disputes.md).
 */
import { Effect, Option, Schema } from "effect"
import { computeDataCost } from "../../accounts/billing/Pricing.ts"
import { formatUsd } from "../../accounts/billing/Usd.ts"
import { findRequests, FoundRequest, type UsageSearch } from "../../accounts/billing/UsageSearch.ts"
import { findEndpoint } from "../../api/catalogue/Endpoints.ts"
import { findResponseTimestamps } from "../../query/history/ResponseReproduction.ts"
import { getParameterNames } from "../../contract/rules/QueryValidation.ts"
import { errorCodeReference } from "../../site/ReferenceTables.ts"

/** A recorded request with its explanations. */
export const ExplainedRequest = Schema.Struct({
  ...FoundRequest.fields,
  usage_month: Schema.String.annotate({ description: "The month in New York whose budget the request uses." }),
  status_explanation: Schema.String,
  cost_explanation: Schema.String,
  as_of: Schema.Array(Schema.String).annotate({
    description: "Moments with which the request can be repeated; several if the data changed at that time.",
  }),
  as_of_explanation: Schema.String,
}).annotate({ identifier: "ExplainedRequest" })
/** A recorded request with its explanations. */
export type ExplainedRequest = typeof ExplainedRequest.Type

/**
 * Explains the recorded status code of a request in one or more sentences. For an error, lists the meanings of all
 * error codes with this status, because the error code itself is not recorded. A row with status 429 may stand for
 * several requests (`request_count`).
 */
const explainStatus = ({ endpoint, request_count, status_code }: FoundRequest) => {
  if (status_code === 200) {
    return Option.exists(findEndpoint(endpoint), ({ isEndless }) => isEndless)
      ? "A stream is recorded in installments, which have the same id. This one began at the given time. To find the " +
        "others, search the account by day."
      : "The response was sent."
  }
  if (status_code === 304) return "The data were the same as those that the client had, so no body was sent."
  if (status_code === 499) return "The client disconnected before the end of the response. It pays for what was sent."
  const codes = errorCodeReference.filter(({ status }) => status === status_code)
  const meanings = codes.map(({ code, description }) => `${code}: ${description}`).join(" ")
  if (status_code === 429 && request_count > 1) {
    return `${meanings} The row counts ${request_count} requests to this endpoint that were refused within a minute. ` +
      "The id, the key and the time are those of the first."
  }
  return codes.length > 1 ? `One of these, which is not recorded: ${meanings}` : meanings
}

/**
 * Formats an amount in microdollars without rounding, such as `12.5`. `product` is the amount multiplied by a billion,
 * so its last nine digits are the decimals.
 */
const formatExactCost = (product: bigint) => {
  const digits = String(product).padStart(10, "0")
  return `${digits.slice(0, -9)}.${digits.slice(-9)}`.replace(/\.?0+$/, "")
}

/** Explains in a sentence how the cost was computed from the bytes sent and the price. */
const explainCost = (request: FoundRequest) => {
  const { bytes, cost_microdollars: cost, price_per_gb_microdollars: price, status_code } = request
  if (cost === 0) {
    if (status_code !== 200 && status_code !== 499) return "Free: errors and 304 cost nothing."
    return bytes === 0 ? "Free: no body was sent." : "Free: the endpoint had no price."
  }
  const calculation = `${bytes} bytes at ${price} microdollars per 1,000,000,000 bytes are ${
    formatExactCost(BigInt(bytes) * BigInt(price))
  } microdollars`
  return computeDataCost(bytes, price) === cost
    ? `${calculation}, rounded up to ${cost}.`
    : `${calculation}. The row is an installment of a stream: the cost of all bytes that the stream has sent so far ` +
      "is rounded up, and the earlier installments are subtracted."
}

/** Status codes of responses that depend on data. A response with any other status is sent before any data is read. */
const dataStatuses = new Set([200, 304, 404, 409, 499])

const parametersAdvice =
  "The parameters of the request are not recorded: add those that the client sent. If they had " +
  "an as_of of their own, use that one."

/**
 * Determines which values of `as_of` reproduce the response of a recorded request. Returns them in `as_of`, with a
 * sentence about them in `as_of_explanation`. If the response cannot be reproduced, `as_of` is empty, and the sentence
 * says why. There are several values if the data changed around the time of the request, because it is not recorded
 * which of the states the request has read.
 */
const explainRepetition = Effect.fnUntraced(function* (request: FoundRequest) {
  const { cost_microdollars, duration_ms, endpoint: path, requested_at, status_code } = request
  const endpoint = Option.getOrUndefined(findEndpoint(path))
  const makeImpossible = (as_of_explanation: string) => ({ as_of: [], as_of_explanation })
  if (endpoint?.query === undefined || !getParameterNames(endpoint.query).includes("as_of")) {
    return makeImpossible(`${path} has no parameter as_of, so the response cannot be repeated.`)
  }
  // An export that ended early was charged, whatever its status code.
  if (!dataStatuses.has(status_code) && cost_microdollars === 0) {
    return makeImpossible("No data were read, so there is nothing to repeat.")
  }
  const startedAt = Date.parse(requested_at)
  const found = yield* findResponseTimestamps({ startedAt, endedAt: startedAt + duration_ms }, endpoint.tables)
  if (found.isTooEarly) {
    return makeImpossible(
      `The history begins at ${found.earliest}, so the data that the response had are not known any more.`,
    )
  }
  if (found.untracked.length > 0) {
    return makeImpossible(`${found.untracked.join(", ")} has no history of its rows.`)
  }
  if (found.timestamps.length === 1) {
    return {
      as_of: found.timestamps,
      as_of_explanation:
        `The data did not change in the second before the request or while it ran. ${parametersAdvice}`,
    }
  }
  return {
    as_of: found.timestamps,
    as_of_explanation: "The data changed in the second before the request or while it ran, so the response had the " +
      `data of one of these moments${found.omitted === 0 ? "" : `, or of ${found.omitted} later ones`}. ` +
      parametersAdvice,
  }
})

const explainRequest = (request: FoundRequest) =>
  Effect.map(explainRepetition(request), (repetition): ExplainedRequest => ({
    ...request,
    usage_month: request.usage_day.slice(0, 7),
    status_explanation: explainStatus(request),
    cost_explanation: explainCost(request),
    ...repetition,
  }))

/** Finds the requests with an ID, and explains each of them. Fails in the same cases as `findRequests`. */
export const explainRequests = Effect.fnUntraced(function* (search: UsageSearch) {
  const { requests, searchedBackTo } = yield* findRequests(search)
  return { requests: yield* Effect.forEach(requests, explainRequest), searchedBackTo }
})

const formatKey = ({ key_hint, key_id, key_name, key_status }: ExplainedRequest) =>
  key_name === null ? `${key_id}, which does not exist any more` : `${key_id} ${key_name} (${key_hint}), ${key_status}`

const formatPrice = ({ cost_microdollars, price_per_gb_microdollars: price }: ExplainedRequest) =>
  cost_microdollars === 0 ? "free" : `${formatUsd(BigInt(price))} USD per GB`

const formatUsage = ({ is_settled, usage_day, usage_month }: ExplainedRequest) =>
  `${usage_day}, budget of ${usage_month} (New York), ` +
  (is_settled ? "settled" : "not settled yet: it is charged within seconds, and balances and sums already include it")

/** Formats a request as readable facts: each has a label, followed by one or more lines of text. */
export const formatExplanation = (
  request: ExplainedRequest,
): ReadonlyArray<readonly [string, ...ReadonlyArray<string>]> => [
  ["request", request.request_id],
  ["account", `${request.account} (${request.account_id})`],
  ["key", formatKey(request)],
  ["time", request.requested_at],
  ["endpoint", request.endpoint],
  ["status", String(request.status_code), request.status_explanation],
  ["records", String(request.records_returned)],
  ["bytes", String(request.bytes)],
  ["price", formatPrice(request)],
  ["cost", `${formatUsd(BigInt(request.cost_microdollars))} USD`, request.cost_explanation],
  ["counts for", formatUsage(request)],
  ["duration", `${request.duration_ms} ms`],
  ["cached", request.cached ? "yes, the response was a 304" : "no"],
  ["deprecated", request.deprecated ? "yes" : "no"],
  ["via", request.via ?? "HTTP"],
  ["repeat", ...request.as_of.map((moment) => `as_of=${moment}`), request.as_of_explanation],
]

/**
 * Errors related to the API key (D2), the tier (D3), the balance (D13) and the rate limit (D18). All other errors are
 * in `rules/ApiErrors.ts`.
 */
import { Data, Schema } from "effect"
import { Tier } from "./rules/EndpointAnnotations.ts"
import {
  describeError,
  makeErrorFields,
  makeErrorFieldsWithDetails,
  type TooManyExports,
  type ValidationError,
} from "./rules/ApiErrors.ts"
import { NonNegativeInt } from "./rules/NonNegativeInt.ts"

/** 401: the request has no API key (D2). */
export class MissingApiKey extends Schema.Error<MissingApiKey>("MissingApiKey")(
  makeErrorFields("missing_api_key"),
  describeError(401, "No API key was sent."),
) {
  readonly _tag = "MissingApiKey"
}

/** 401: the API key is unknown, or the request contains two different credentials (D2). */
export class InvalidApiKey extends Schema.Error<InvalidApiKey>("InvalidApiKey")(
  makeErrorFields("invalid_api_key"),
  describeError(401, "The API key is unknown, or two different credentials were sent."),
) {
  readonly _tag = "InvalidApiKey"
}

/** 401: the API key has been revoked or disabled, or has expired (D2). */
export class ApiKeyDisabled extends Schema.Error<ApiKeyDisabled>("ApiKeyDisabled")(
  makeErrorFields("api_key_disabled"),
  describeError(401, "The API key was revoked or disabled, or has expired."),
) {
  readonly _tag = "ApiKeyDisabled"
}

/** 403: the account's tier does not include the endpoint (D3). */
export class InsufficientTier extends Schema.Error<InsufficientTier>("InsufficientTier")(
  makeErrorFieldsWithDetails("insufficient_tier", Schema.Struct({ required_tier: Tier, tier: Tier })),
  describeError(403, "The account's tier does not include this endpoint."),
) {
  readonly _tag = "InsufficientTier"
}

/** 403: the API key is restricted to other endpoints (D2). */
export class EndpointNotAllowed extends Schema.Error<EndpointNotAllowed>("EndpointNotAllowed")(
  makeErrorFieldsWithDetails(
    "endpoint_not_allowed",
    Schema.Struct({ endpoint: Schema.String, allowed: Schema.Array(Schema.String) }),
  ),
  describeError(403, "The API key is limited to other endpoints."),
) {
  readonly _tag = "EndpointNotAllowed"
}

/**
 * 403: the API key may not be used from the client's IP address (D2). The error details never list the allowed
 * networks, because that would reveal them to someone who has stolen the key.
 */
export class AddressNotAllowed extends Schema.Error<AddressNotAllowed>("AddressNotAllowed")(
  makeErrorFieldsWithDetails(
    "address_not_allowed",
    Schema.Struct({
      address: Schema.NullOr(Schema.String).annotate({
        description: "The address from which the request came. Null: it is not known.",
      }),
    }),
  ),
  describeError(403, "The API key may not be used from this IP address."),
) {
  readonly _tag = "AddressNotAllowed"
}

const CreditDetails = Schema.Struct({
  reason: Schema.Literals(["balance_exhausted", "budget_exhausted"]).annotate({
    identifier: "InsufficientCreditsReason",
    description: "Whether the prepaid balance or the account's budget for this month does not cover the request.",
  }),
  balance_microdollars: Schema.Int.annotate({
    description: "What the account can still spend: the prepaid balance, or the rest of the budget if that is less, " +
      "without what exports in progress have reserved.",
  }),
})

/**
 * Builds the details of an `InsufficientCredits` error. `balance_microdollars` is the amount the account can still
 * spend.
 */
export const makeCreditDetails = (
  isLimitedByBudget: boolean,
  balance_microdollars: number,
): typeof CreditDetails.Type => ({
  reason: isLimitedByBudget ? "budget_exhausted" : "balance_exhausted",
  balance_microdollars,
})

/** 402: the prepaid balance or the monthly budget is used up, or does not cover the cost of an export (D13). */
export class InsufficientCredits extends Schema.Error<InsufficientCredits>("InsufficientCredits")(
  makeErrorFieldsWithDetails("insufficient_credits", CreditDetails),
  describeError(402, "The account's prepaid balance, or its budget for this month, is used up."),
) {
  readonly _tag = "InsufficientCredits"
}

/**
 * 429 with `Retry-After`: the account has exceeded its rate limit, or the client's IP address has sent too many invalid
 * keys (D18).
 */
export class RateLimitExceeded extends Schema.Error<RateLimitExceeded>("RateLimitExceeded")(
  makeErrorFields("rate_limit_exceeded"),
  describeError(429, "Too many requests; try again after `Retry-After` seconds."),
) {
  readonly _tag = "RateLimitExceeded"
}

/** 429: the account has too many open streams. */
export class TooManyStreams extends Schema.Error<TooManyStreams>("TooManyStreams")(
  makeErrorFieldsWithDetails("too_many_streams", Schema.Struct({ limit: NonNegativeInt })),
  describeError(429, "The account has too many open streams; close one of them."),
) {
  readonly _tag = "TooManyStreams"
}

/** An error, plus the response headers to send for this particular occurrence, such as `retry-after`. */
export class ErrorWithHeaders extends Data.TaggedError("ErrorWithHeaders")<{
  readonly error: RateLimitExceeded | TooManyExports | TooManyStreams | ValidationError
  /** Header values, keyed by lower-case header name. */
  readonly headers: Readonly<Record<string, string>>
}> {}

/** Errors about the key (D2), tier (D3), balance (D13) or rate limit (D18). Others are in `rules/Errors.ts`. */
import { ErrorReporter, Schema } from "effect"
import { Tier } from "../rules/EndpointAnnotations.ts"
import { makeErrorFields, makeErrorFieldsWithDetails } from "../rules/Errors.ts"

/** 401 without a key (D2). */
export class MissingApiKey extends Schema.Error<MissingApiKey>("MissingApiKey")(makeErrorFields("missing_api_key"), {
  httpApiStatus: 401,
  description: "No API key was sent.",
}) {
  readonly _tag = "MissingApiKey"
  override readonly [ErrorReporter.ignore] = true
}

/** 401 for an unknown key, or for two different credentials (D2). */
export class InvalidApiKey extends Schema.Error<InvalidApiKey>("InvalidApiKey")(makeErrorFields("invalid_api_key"), {
  httpApiStatus: 401,
  description: "The API key is unknown, or two different credentials were sent.",
}) {
  readonly _tag = "InvalidApiKey"
  override readonly [ErrorReporter.ignore] = true
}

/** 401 for a key that was revoked or disabled, or has expired (D2). */
export class ApiKeyDisabled
  extends Schema.Error<ApiKeyDisabled>("ApiKeyDisabled")(makeErrorFields("api_key_disabled"), {
    httpApiStatus: 401,
    description: "The API key was revoked or disabled, or has expired.",
  }) {
  readonly _tag = "ApiKeyDisabled"
  override readonly [ErrorReporter.ignore] = true
}

/** 403 for an endpoint outside the account's tier (D3). */
export class InsufficientTier extends Schema.Error<InsufficientTier>("InsufficientTier")(
  makeErrorFieldsWithDetails("insufficient_tier", Schema.Struct({ required_tier: Tier, tier: Tier })),
  { httpApiStatus: 403, description: "The account's tier does not include this endpoint." },
) {
  readonly _tag = "InsufficientTier"
  override readonly [ErrorReporter.ignore] = true
}

/** 403 for a key that is limited to other endpoints. */
export class EndpointNotAllowed extends Schema.Error<EndpointNotAllowed>("EndpointNotAllowed")(
  makeErrorFieldsWithDetails(
    "endpoint_not_allowed",
    Schema.Struct({ endpoint: Schema.String, allowed: Schema.Array(Schema.String) }),
  ),
  { httpApiStatus: 403, description: "The API key is limited to other endpoints." },
) {
  readonly _tag = "EndpointNotAllowed"
  override readonly [ErrorReporter.ignore] = true
}

/** 402 for a prepaid balance that is used up, before any data is read (D13). */
export class InsufficientCredits extends Schema.Error<InsufficientCredits>("InsufficientCredits")(
  makeErrorFieldsWithDetails("insufficient_credits", Schema.Struct({ balance_microdollars: Schema.Int })),
  { httpApiStatus: 402, description: "The account's prepaid balance is used up." },
) {
  readonly _tag = "InsufficientCredits"
  override readonly [ErrorReporter.ignore] = true
}

/** 429 with `Retry-After`, for an account over its limit or an address with too many wrong keys (D18). */
export class RateLimitExceeded extends Schema.Error<RateLimitExceeded>("RateLimitExceeded")(
  makeErrorFields("rate_limit_exceeded"),
  { httpApiStatus: 429, description: "Too many requests; try again after `Retry-After` seconds." },
) {
  readonly _tag = "RateLimitExceeded"
  override readonly [ErrorReporter.ignore] = true
}

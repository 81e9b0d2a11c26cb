/**
 * Declares the errors that tiers (D3), balances (D13), rate limits (D18) and prices (D27) can cause.
 * `accounts/Admission.ts` does the checks.
 */
import { HttpApiMiddleware } from "effect/http-api"
import { DatabasePoolTimeout } from "./rules/Errors.ts"
import type { CurrentAccount } from "./Authentication.ts"
import {
  AddressNotAllowed,
  EndpointNotAllowed,
  InsufficientCredits,
  InsufficientTier,
  RateLimitExceeded,
} from "./AccountErrors.ts"

/**
 * Declares the errors of endpoints that require a key: about the rate limit, client address, tier and allowed paths.
 */
export class AuthorizationMiddleware
  extends HttpApiMiddleware.Service<AuthorizationMiddleware, { requires: CurrentAccount }>()(
    "tickerline/contract/AuthorizationMiddleware",
    { error: [RateLimitExceeded, AddressNotAllowed, InsufficientTier, EndpointNotAllowed, DatabasePoolTimeout] },
  ) {}

/** Declares the error of priced endpoints. Endpoints without this middleware are free (D27). */
export class BillingMiddleware extends HttpApiMiddleware.Service<BillingMiddleware, { requires: CurrentAccount }>()(
  "tickerline/contract/BillingMiddleware",
  { error: InsufficientCredits },
) {}

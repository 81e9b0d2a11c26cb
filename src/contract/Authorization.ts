/**
 * Declares the errors that result from tiers (D3), balances (D13), rate limits (D18) and prices (D27).
 * `accounts/RequestAdmission.ts` performs the checks.
 */
import { HttpApiMiddleware } from "effect/http-api"
import { DatabasePoolTimeout } from "./rules/ApiErrors.ts"
import type { CurrentAccount } from "./Authentication.ts"
import {
  AddressNotAllowed,
  EndpointNotAllowed,
  InsufficientCredits,
  InsufficientTier,
  RateLimitExceeded,
} from "./AccountErrors.ts"

/**
 * Declares the errors of endpoints that require a key. They concern the rate limit, the client's IP address, the tier
 * and the key's allowed paths.
 */
export class AuthorizationMiddleware
  extends HttpApiMiddleware.Service<AuthorizationMiddleware, { requires: CurrentAccount }>()(
    "tickerline/contract/AuthorizationMiddleware",
    { error: [RateLimitExceeded, AddressNotAllowed, InsufficientTier, EndpointNotAllowed, DatabasePoolTimeout] },
  ) {}

/** Declares the error of billed endpoints. Endpoints without this middleware are free (D27). */
export class BillingMiddleware extends HttpApiMiddleware.Service<BillingMiddleware, { requires: CurrentAccount }>()(
  "tickerline/contract/BillingMiddleware",
  { error: InsufficientCredits },
) {}

/**
 * Declares the middleware for tiers (D3), balances (D13), rate limits (D18) and prices (D27).
 * `AuthorizationLayer.ts` implements it.
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

/** For endpoints that require a key: records the request, and checks rate limit, address, tier and allowed paths. */
export class AuthorizationMiddleware
  extends HttpApiMiddleware.Service<AuthorizationMiddleware, { requires: CurrentAccount }>()(
    "tickerline/contract/AuthorizationMiddleware",
    { error: [RateLimitExceeded, AddressNotAllowed, InsufficientTier, EndpointNotAllowed, DatabasePoolTimeout] },
  ) {}

/** For priced endpoints: checks the balance and sets the price. Endpoints without this middleware are free (D27). */
export class BillingMiddleware extends HttpApiMiddleware.Service<BillingMiddleware, { requires: CurrentAccount }>()(
  "tickerline/contract/BillingMiddleware",
  { error: InsufficientCredits },
) {}

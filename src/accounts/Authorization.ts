/** D3, D13, D18, D27: what an account must meet once it is known. The contract; `Gate.ts` is what checks. */
import { HttpApiMiddleware } from "effect/http-api"
import { DatabasePoolTimeout } from "../rules/Errors.ts"
import type { Account } from "./keys/Authentication.ts"
import { EndpointNotAllowed, InsufficientCredits, InsufficientTier, RateLimitExceeded } from "./AccountErrors.ts"

/** On every endpoint that needs a key: the request is recorded, counted against the limit, and allowed or refused. */
export class Authorization extends HttpApiMiddleware.Service<Authorization, { requires: Account }>()(
  "tickerline/account/Admission",
  { error: [RateLimitExceeded, InsufficientTier, EndpointNotAllowed, DatabasePoolTimeout] },
) {}

/** On every endpoint whose data have a price: without it an endpoint is free (D27). */
export class Billing extends HttpApiMiddleware.Service<Billing, { requires: Account }>()(
  "tickerline/account/Charged",
  { error: InsufficientCredits },
) {}

/**
 * Declares the errors that any endpoint may return. The middleware classes never run; they only make the errors part of
 * the contract.
 */
import { HttpApiMiddleware } from "effect/http-api"
import { EndpointRemoved, InternalError, ValidationError } from "./ApiErrors.ts"

/** Declares the 422 error for an invalid parameter (D4, D11). */
export class ValidationMiddleware extends HttpApiMiddleware.Service<ValidationMiddleware>()(
  "tickerline/contract/ValidationMiddleware",
  { error: ValidationError },
) {}

/** Declares the 500 error for an unexpected failure (§7.2, errors). */
export class UnexpectedErrorMiddleware extends HttpApiMiddleware.Service<UnexpectedErrorMiddleware>()(
  "tickerline/contract/UnexpectedErrorMiddleware",
  { error: InternalError },
) {}

/** Declares the 410 error for an endpoint or API version that has been removed (§9.4, D26). */
export class DeprecationMiddleware extends HttpApiMiddleware.Service<DeprecationMiddleware>()(
  "tickerline/contract/DeprecationMiddleware",
  { error: EndpointRemoved },
) {}

/**
 * Declares the errors that every endpoint may return. The middlewares are never run; they only show clients the errors.
 */
import { HttpApiMiddleware } from "effect/http-api"
import { EndpointRemoved, InternalError, ValidationError } from "./Errors.ts"

/** 422: a parameter is invalid (D4, D11). */
export class ValidationMiddleware extends HttpApiMiddleware.Service<ValidationMiddleware>()(
  "tickerline/contract/ValidationMiddleware",
  { error: ValidationError },
) {}

/** 500: an unexpected failure (§7.2, errors). */
export class UnexpectedErrorMiddleware extends HttpApiMiddleware.Service<UnexpectedErrorMiddleware>()(
  "tickerline/contract/UnexpectedErrorMiddleware",
  { error: InternalError },
) {}

/** 410: the endpoint or its API version has been removed (§9.4, D26). */
export class DeprecationMiddleware extends HttpApiMiddleware.Service<DeprecationMiddleware>()(
  "tickerline/contract/DeprecationMiddleware",
  { error: EndpointRemoved },
) {}

/** Turns API errors into responses (§7.2, errors). */
import { Effect, Schema, SchemaAST } from "effect"
import { HttpServerResponse } from "effect/http"
import * as AccountErrors from "../accounts/AccountErrors.ts"
import * as Errors from "../rules/Errors.ts"
import { logDefectAsInternalError } from "../rules/Validation.ts"

const errorClasses = {
  AmbiguousTickerLineage: Errors.AmbiguousTickerLineage,
  ApiKeyDisabled: AccountErrors.ApiKeyDisabled,
  AsOfTooEarly: Errors.AsOfTooEarly,
  BadRequest: Errors.BadRequest,
  CursorExpired: Errors.CursorExpired,
  DatabasePoolTimeout: Errors.DatabasePoolTimeout,
  DataRefreshing: Errors.DataRefreshing,
  EndpointNotAllowed: AccountErrors.EndpointNotAllowed,
  EndpointRemoved: Errors.EndpointRemoved,
  InsufficientCredits: AccountErrors.InsufficientCredits,
  InsufficientTier: AccountErrors.InsufficientTier,
  InternalError: Errors.InternalError,
  InvalidApiKey: AccountErrors.InvalidApiKey,
  MethodNotAllowed: Errors.MethodNotAllowed,
  MissingApiKey: AccountErrors.MissingApiKey,
  NotFound: Errors.NotFound,
  RateLimitExceeded: AccountErrors.RateLimitExceeded,
  TooManyStreams: AccountErrors.TooManyStreams,
  ValidationError: Errors.ValidationError,
}

/** Every error that a response can report. */
export type ApiError = InstanceType<typeof errorClasses[keyof typeof errorClasses]>

const makeResponder = (schema: Schema.Codec<unknown, unknown>) => {
  const encode = Schema.encodeUnknownEffect(schema)
  const status = SchemaAST.resolve(schema.ast)?.["httpApiStatus"]
  if (typeof status !== "number") throw new Error("An error class has no HTTP status")
  return (error: ApiError) =>
    Effect.orDie(Effect.map(encode(error), (json) => HttpServerResponse.jsonUnsafe(json, { status })))
}

const responders = Object.fromEntries(
  Object.entries(errorClasses).map(([tag, schema]) => [tag, makeResponder(schema)]),
)

/** Responds with the error's JSON and status. */
export const respondWithError = (error: ApiError) =>
  responders[error._tag]?.(error) ?? Effect.die(new Error(`There is no response for ${error._tag}`))

/** Turns failures into error responses. A defect becomes a 500 and a log entry. */
export const respondToFailures = <R>(effect: Effect.Effect<HttpServerResponse.HttpServerResponse, ApiError, R>) =>
  effect.pipe(
    Effect.catchDefect((defect) => Effect.flatMap(logDefectAsInternalError(defect), Effect.fail)),
    Effect.catch(respondWithError),
  )

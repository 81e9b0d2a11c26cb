/** Encodes API errors (§7.2, errors). */
import { Record, Schema, SchemaAST } from "effect"
import * as AccountErrors from "../contract/AccountErrors.ts"
import * as Errors from "../contract/rules/ApiErrors.ts"
import { NotReadyError } from "../contract/rules/NotReadyError.ts"

const errorClasses = {
  AddressNotAllowed: AccountErrors.AddressNotAllowed,
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
  NotReady: NotReadyError,
  RateLimitExceeded: AccountErrors.RateLimitExceeded,
  TooManyExports: Errors.TooManyExports,
  TooManyStreams: AccountErrors.TooManyStreams,
  ValidationError: Errors.ValidationError,
}

/** All errors that a response can report. */
export type ApiError = InstanceType<typeof errorClasses[keyof typeof errorClasses]>

const encoder = new TextEncoder()

/** Builds the function that returns the HTTP status and the JSON body for errors of one class. */
const makeEncoder = (schema: Schema.Codec<unknown, object>) => {
  const encode = Schema.encodeUnknownSync(schema)
  const status = SchemaAST.resolve(schema.ast)?.["httpApiStatus"]
  if (typeof status !== "number") throw new Error("An error class has no HTTP status")
  return (error: ApiError, request_id: string) => ({
    status,
    body: encoder.encode(JSON.stringify({ ...encode(error), request_id })),
  })
}

const encoders = Record.map(errorClasses, (schema) => makeEncoder(schema))

/** Returns an error's HTTP status and JSON body. */
export const encodeError = (error: ApiError, request_id: string) => encoders[error._tag](error, request_id)

/** An error with additional response headers, keyed by lowercase name. */
export interface ErrorResult {
  readonly _tag: "Error"
  readonly error: ApiError
  readonly headers: Readonly<Record<string, string>>
}

const noHeaders = {}

/**
 * The errors with which the steps of a request can fail. An `ErrorWithHeaders` consists of an error and additional
 * response headers.
 */
export type ApiFailure = ApiError | AccountErrors.ErrorWithHeaders

/** Converts a failure to a request result. */
export const toErrorResult = (failure: ApiFailure): ErrorResult =>
  failure._tag === "ErrorWithHeaders"
    ? { _tag: "Error", error: failure.error, headers: failure.headers }
    : { _tag: "Error", error: failure, headers: noHeaders }

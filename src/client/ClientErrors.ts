/**
 * Errors that the client itself detects. The errors that the API declares are the classes in
 * `contract/rules/Errors.ts` and `contract/AccountErrors.ts`. A program catches both kinds by tag:
 * `Effect.catchTag("AmbiguousTickerLineage", …)`.
 */
import { Data } from "effect"

/** The options of the client are invalid. The message names the option and never contains the key. */
export class InvalidOptions extends Data.TaggedError("InvalidOptions")<{ readonly message: string }> {}

/** No complete response arrived: the connection failed or was lost, or the last attempt exceeded `timeout`. */
export class NoAnswer extends Data.TaggedError("NoAnswer")<{
  readonly message: string
  readonly reason: "connection" | "timeout"
  /** `X-Request-Id` of the last attempt. If the request arrived, `/v1/usage` lists it with this id. */
  readonly request_id: string
  readonly attempts: number
  readonly cause?: unknown
}> {}

/**
 * An error that a newer version of the service sent: this version of the client cannot decode its code or its details.
 */
export class UnknownCode extends Data.TaggedError("UnknownCode")<{
  readonly message: string
  readonly code: string
  readonly status: number
  /** The details as received, not decoded. */
  readonly details: unknown
  readonly request_id: string
}> {}

/** A response that did not come from the service, but from a load balancer, a login page or another program. */
export class UnreadableAnswer extends Data.TaggedError("UnreadableAnswer")<{
  readonly message: string
  readonly status: number
  readonly request_id: string
  /** The first 1,000 characters of the body. */
  readonly body: string
}> {}

/** The errors that any call can fail with, whatever the endpoint declares. */
export type CallFailure = NoAnswer | UnknownCode | UnreadableAnswer

/**
 * Errors that the client itself detects. Errors declared by the API are defined in `contract/rules/ApiErrors.ts` and
 * `contract/AccountErrors.ts`. Programs can catch both kinds by tag: `Effect.catchTag("AmbiguousTickerLineage", …)`.
 */
import { Data } from "effect"

/** A client option is invalid. The message states which option, but never contains the API key. */
export class InvalidOptions extends Data.TaggedError("InvalidOptions")<{ readonly message: string }> {}

/**
 * No complete response was received. The connection failed or was lost, or the last attempt took longer than `timeout`.
 */
export class NoAnswer extends Data.TaggedError("NoAnswer")<{
  readonly message: string
  readonly reason: "connection" | "timeout"
  /**
   * The `X-Request-Id` of the last attempt. If the service received the request, `/v1/usage` lists it under this id.
   */
  readonly request_id: string
  readonly attempts: number
  readonly cause?: unknown
}> {}

/**
 * An error from a newer version of the service. This version of the client does not know its code or cannot decode its
 * details.
 */
export class UnknownCode extends Data.TaggedError("UnknownCode")<{
  readonly message: string
  readonly code: string
  readonly status: number
  /** The undecoded details, as received. */
  readonly details: unknown
  readonly request_id: string
}> {}

/** A response that came from something other than the service, such as a load balancer or a login page. */
export class UnreadableAnswer extends Data.TaggedError("UnreadableAnswer")<{
  readonly message: string
  readonly status: number
  readonly request_id: string
  /** The first 1,000 characters of the response body. */
  readonly body: string
}> {}

/** Errors that a call to any endpoint can fail with, in addition to those that the endpoint declares. */
export type CallFailure = NoAnswer | UnknownCode | UnreadableAnswer

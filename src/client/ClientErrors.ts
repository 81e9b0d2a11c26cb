/**
 * What a call can end in beside the errors of the contract. Those are the classes of `rules/Errors.ts` and
 * `accounts/AccountErrors.ts`: `Effect.catchTag("AmbiguousTickerLineage", …)`.
 */
import { Data } from "effect"

/** The client was made with something that no request can be sent with; the message says what, and never the key. */
export class InvalidOptions extends Data.TaggedError("InvalidOptions")<{ readonly message: string }> {}

/** No whole answer came: the connection failed or was lost, or the answer took longer than `timeout`. */
export class NoAnswer extends Data.TaggedError("NoAnswer")<{
  readonly message: string
  readonly reason: "connection" | "timeout"
  /** The `X-Request-Id` that the last attempt was sent with: what `/v1/usage` lists it under, if it arrived. */
  readonly request_id: string
  readonly attempts: number
  readonly cause?: unknown
}> {}

/** An error of the service that this client does not know, or whose details it cannot read: it is a newer one. */
export class UnknownCode extends Data.TaggedError("UnknownCode")<{
  readonly message: string
  readonly code: string
  readonly status: number
  /** As sent. */
  readonly details: unknown
  readonly request_id: string
}> {}

/** An answer that is not the service's: of a balancer, of a login page, of another program at that address. */
export class UnreadableAnswer extends Data.TaggedError("UnreadableAnswer")<{
  readonly message: string
  readonly status: number
  readonly request_id: string
  /** The first 1,000 characters of its body. */
  readonly body: string
}> {}

export type CallFailure = NoAnswer | UnknownCode | UnreadableAnswer

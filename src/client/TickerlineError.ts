/** The error that Promise client calls reject with. */
import { Predicate } from "effect"
import type { DetailsOf, ErrorCode } from "./PromiseContract.ts"
import type { ResponseMetadata } from "./ResponseMetadata.ts"

/**
 * An error from the Promise client, identified by `code`. `TickerlineError.is(error, code)` checks the code and also
 * narrows the type of `details`. The codes are:
 *
 * - the API's error codes, such as `ambiguous_ticker_lineage`; newer versions of the service may add codes
 * - `no_answer`: the connection failed or was lost, or the last attempt took longer than `timeoutMs`
 * - `unreadable_answer`: the response did not come from the service; `details.body` contains the beginning of its body
 * - `invalid_options`: thrown by `createClient`
 */
export class TickerlineError<Details = unknown> extends Error {
  override readonly name = "TickerlineError"
  readonly code: string
  /** The HTTP status, or null if there was no response. */
  readonly status: number | null
  /** The request id, for use in `/v1/usage` and when contacting support. Null if no request was sent. */
  readonly request_id: string | null
  readonly details: Details
  /** The minimum delay before a retry, or null if the response does not specify one. */
  readonly retry_after_seconds: number | null

  constructor(
    { cause, code, details, message, request_id, retry_after_seconds, status }: {
      readonly message: string
      readonly code: string
      readonly status: number | null
      readonly request_id: string | null
      readonly details: Details
      readonly retry_after_seconds: number | null
      readonly cause?: unknown
    },
  ) {
    super(message, cause === undefined ? {} : { cause })
    this.code = code
    this.status = status
    this.request_id = request_id
    this.details = details
    this.retry_after_seconds = retry_after_seconds
  }

  /** Returns whether the error is a `TickerlineError` with the given code, and narrows the type of `details`. */
  static is<Code extends ErrorCode>(
    error: unknown,
    code: Code,
  ): error is TickerlineError<DetailsOf<Code>> & { readonly code: Code } {
    return error instanceof TickerlineError && error.code === code
  }
}

/** Returns a property of any value, or undefined if the value does not have it. */
const field = (value: unknown, name: string): unknown => Predicate.hasProperty(value, name) ? value[name] : undefined

const textOrNull = (value: unknown) => typeof value === "string" ? value : null

/** The codes of the errors that the client itself detects, by the errors' tags. */
const clientCodes: Readonly<Record<string, ErrorCode>> = {
  NoAnswer: "no_answer",
  UnreadableAnswer: "unreadable_answer",
  InvalidOptions: "invalid_options",
}

/**
 * Converts an error declared by the API or detected by the client itself, both of which have a `_tag`, to a
 * `TickerlineError`. Returns any other value, such as an unexpected exception, unchanged.
 *
 * @internal
 */
export const toTickerlineError = (failure: unknown, metadata: ResponseMetadata | null): unknown => {
  const tag = textOrNull(field(failure, "_tag"))
  if (tag === null) return failure
  // Errors of the API have the fields of their JSON, `{ error: { code, message, details? }, request_id }`. Errors that
  // the client detects have no `error`; their fields are those of the classes in `ClientErrors.ts`.
  const error = field(failure, "error") ?? failure
  const bodyStart = field(failure, "body")
  return new TickerlineError({
    message: textOrNull(field(error, "message")) ?? tag,
    code: clientCodes[tag] ?? textOrNull(field(error, "code")) ?? tag,
    status: metadata?.status ?? null,
    request_id: textOrNull(field(failure, "request_id")),
    details: bodyStart === undefined ? field(error, "details") : { body: bodyStart },
    retry_after_seconds: metadata?.retry_after_seconds ?? null,
    cause: field(failure, "cause"),
  })
}

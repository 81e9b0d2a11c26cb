/** The error that calls of the Promise client are rejected with. */
import { Predicate } from "effect"
import type { DetailsOf, ErrorCode } from "./PromiseContract.ts"
import type { ResponseMetadata } from "./ResponseMetadata.ts"

export type { DetailsOf, ErrorCode } from "./PromiseContract.ts"

/**
 * Tells what went wrong by its `code`; `TickerlineError.is(error, code)` knows the details that come with it.
 *
 * - a code of the service, such as `ambiguous_ticker_lineage`; a newer service may have others
 * - `no_answer`: the connection failed or was lost, or the answer took longer than `timeoutMs`
 * - `unreadable_answer`: something else answered at that address; `details.body` begins what it said
 * - `invalid_options`: thrown by `createClient`
 */
export class TickerlineError<Details = unknown> extends Error {
  override readonly name = "TickerlineError"
  readonly code: string
  /** Null: there was no answer. */
  readonly status: number | null
  /** Quote it to support. Null: nothing was sent. */
  readonly request_id: string | null
  readonly details: Details
  /** After how many seconds to ask again, where the answer said so. */
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

  /** Whether it is this error; then its details have their type. */
  static is<Of extends ErrorCode>(
    error: unknown,
    code: Of,
  ): error is TickerlineError<DetailsOf<Of>> & { readonly code: Of } {
    return error instanceof TickerlineError && error.code === code
  }
}

const field = (value: unknown, name: string): unknown => Predicate.hasProperty(value, name) ? value[name] : undefined

const text = (value: unknown) => typeof value === "string" ? value : null

const clientCodes: Readonly<Record<string, ErrorCode>> = {
  NoAnswer: "no_answer",
  UnreadableAnswer: "unreadable_answer",
  InvalidOptions: "invalid_options",
}

/**
 * From what an answer was read as, or why there is none.
 *
 * @internal
 */
export const toTickerlineError = (failure: unknown, told: ResponseMetadata | null): unknown => {
  const tag = text(field(failure, "_tag"))
  if (tag === null) return failure
  const body = field(failure, "error") ?? failure
  const excerpt = field(failure, "body")
  return new TickerlineError({
    message: text(field(body, "message")) ?? tag,
    code: clientCodes[tag] ?? text(field(body, "code")) ?? tag,
    status: told?.status ?? null,
    request_id: text(field(failure, "request_id")),
    details: excerpt === undefined ? field(body, "details") : { body: excerpt },
    retry_after_seconds: told?.retry_after_seconds ?? null,
    cause: field(failure, "cause"),
  })
}

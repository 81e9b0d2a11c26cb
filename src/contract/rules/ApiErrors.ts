/**
 * The API's error classes (§7, D11, D13), except for errors related to accounts, which are in
 * `contract/AccountErrors.ts`. Each class declares its HTTP status. The JSON format is `{ error: { code, message,
 * details? }, request_id }`.
 */
import { Effect, Schema, SchemaGetter } from "effect"
import { NonNegativeInt } from "./NonNegativeInt.ts"

/** `api/ErrorResponses.ts` sets the id when it encodes an error, so handlers do not have to. */
const request_id = Schema.String.annotate({
  description: "The same value as the header X-Request-Id; quote it to support.",
}).pipe(Schema.withConstructorDefault(Effect.succeed("")))

/** Returns the source of a regular expression that matches the text, even if some characters are percent-encoded. */
const makeEncodedPattern = (text: string) =>
  Array.from(text, (letter) => `(?:${letter}|%${letter.charCodeAt(0).toString(16)})`).join("")

const secretPrefixes = ["tl_live_", "tl_admin_", "tl_session_", "tl_invite_"]
const secretPattern = new RegExp(
  `(${secretPrefixes.map(makeEncodedPattern).join("|")})(?:[0-9A-Za-z]|%[0-9A-Fa-f]{2})*`,
  "gi",
)

/** Masks API keys and administrators' secrets, which clients may send in a parameter by mistake. */
export const redactApiKeys = (text: string) => text.replace(secretPattern, "$1…")

/** A string in which API keys are masked when it is encoded. */
const redactedText = (annotations: { readonly description?: string }) =>
  Schema.String.pipe(Schema.encodeTo(Schema.String.annotate(annotations), {
    decode: SchemaGetter.passthrough(),
    encode: SchemaGetter.transform(redactApiKeys),
  }))

const Message = redactedText({ description: "For people; programs read `code`." })

/** Returns the annotations of an error class: its HTTP status, and its description in OpenAPI. */
export const describeError = (httpApiStatus: number, description: string) => ({ httpApiStatus, description })

/**
 * Returns the fields of an error class whose JSON has no `details`: `error`, with `code` and `message`, and
 * `request_id`.
 */
export const makeErrorFields = <const Code extends string>(code: Code) => ({
  error: Schema.Struct({ code: Schema.tag(code), message: Message }),
  request_id,
})

/**
 * Returns the fields of an error class whose JSON has `details`: `error`, with `code`, `message` and `details`, and
 * `request_id`.
 */
export const makeErrorFieldsWithDetails = <const Code extends string, Details extends Schema.Top>(
  code: Code,
  details: Details,
) => ({
  error: Schema.Struct({ code: Schema.tag(code), message: Message, details }),
  request_id,
})

/** 400: the URL cannot be decoded (D13). */
export class BadRequest extends Schema.Error<BadRequest>("BadRequest")(
  makeErrorFields("bad_request"),
  describeError(400, "The URL cannot be decoded."),
) {
  readonly _tag = "BadRequest"
}

/** 404: the path does not exist, or there is no data for the ticker. */
export class NotFound extends Schema.Error<NotFound>("NotFound")(
  makeErrorFields("not_found"),
  describeError(404, "There is no such endpoint, or no record for the ticker."),
) {
  readonly _tag = "NotFound"
}

/** 405: the endpoint does not support the HTTP method (D10). */
export class MethodNotAllowed extends Schema.Error<MethodNotAllowed>("MethodNotAllowed")(
  makeErrorFields("method_not_allowed"),
  describeError(405, "Endpoints support GET and HEAD only."),
) {
  readonly _tag = "MethodNotAllowed"
}

/** The reasons why a symbol's changes do not form a single chain (§4.1, D21: lineage). */
export const LineageReason = Schema.Literals([
  "multiple_cik_lineages",
  "same_date_events",
  "competing_destinations",
  "broken_chain",
  "max_hops_exceeded",
]).annotate({ identifier: "LineageReason" })

/** The decoded type of the `LineageReason` schema. */
export type LineageReason = typeof LineageReason.Type

/** A ticker change (§2.2). */
export const ChangeEvent = Schema.Struct({
  old_ticker: Schema.String.annotate({ description: "The former symbol." }),
  new_ticker: Schema.String.annotate({ description: "The new symbol." }),
  effective_date: Schema.String.annotate({ description: "The first day of the new symbol, YYYY-MM-DD." }),
}).annotate({ identifier: "ChangeEvent" })

/**
 * One of the companies that an ambiguous symbol may stand for, with the company's chain of ticker changes (§4.1,
 * lineage).
 */
const LineageCandidate = Schema.Struct({
  cik: Schema.String,
  company_name: Schema.NullOr(Schema.String),
  history: Schema.Array(ChangeEvent),
  current_ticker: Schema.String,
}).annotate({ identifier: "LineageCandidate" })

/** A ticker change, with the company that it belongs to and the reasons why it makes the chain ambiguous. */
export const LineageEvent = Schema.Struct({
  ...ChangeEvent.fields,
  cik: Schema.NullOr(Schema.String),
  company_name: Schema.NullOr(Schema.String),
  reasons: Schema.Array(LineageReason).annotate({ description: "The reasons that involve this event." }),
}).annotate({ identifier: "LineageEvent" })

const ambiguousSymbolFields = {
  query_ticker: Schema.String,
  reason: LineageReason.annotateKey({ description: "The first reason that applies." }),
  reasons: Schema.Array(LineageReason).annotate({ description: "All reasons that apply." }),
  tickers: Schema.Array(Schema.String).annotate({
    description: "The symbols involved, sorted; the first 100 if the request has several symbols.",
  }),
  ticker_count: NonNegativeInt.annotate({ description: "The number of symbols, including those that are not listed." }),
  candidates: Schema.Array(LineageCandidate).annotate({
    description: "One chain per issuer, at most 100, sorted by first date. Empty unless the chain of every issuer is " +
      "unambiguous.",
  }),
  candidate_count: NonNegativeInt.annotate({
    description: "The number of candidates, including those that are not listed.",
  }),
  events: Schema.Array(LineageEvent).annotate({
    description: "The first 100 events, by date.",
  }),
  event_count: NonNegativeInt.annotate({
    description: "The number of events. The search stops at 25,000.",
  }),
}

/** 409: the ticker's history cannot be resolved to a single unambiguous chain (§4.1, D21: lineage). */
export class AmbiguousTickerLineage extends Schema.Error<AmbiguousTickerLineage>("AmbiguousTickerLineage")(
  makeErrorFieldsWithDetails(
    "ambiguous_ticker_lineage",
    Schema.Struct({
      ...ambiguousSymbolFields,
      symbols: Schema.optionalKey(
        Schema.Array(
          Schema.Struct({
            ...ambiguousSymbolFields,
            same_history_as: Schema.optionalKey(Schema.String.annotate({
              description:
                "An earlier entry whose symbol has the same history. Its lists are not repeated, so those of " +
                "this entry are empty; the counts are not.",
            })),
          }).annotate({ identifier: "AmbiguousSymbol" }),
        ).annotate({
          description: "If several symbols were requested: the same details of each ambiguous one, with at most 500 " +
            "symbols, candidates and events in total.",
        }),
      ),
    }),
  ),
  describeError(409, "A symbol's history cannot be resolved to one unambiguous chain."),
) {
  readonly _tag = "AmbiguousTickerLineage"
}

/** 410: the endpoint's sunset date has passed (§3, D24: lifecycle). */
export class EndpointRemoved extends Schema.Error<EndpointRemoved>("EndpointRemoved")(
  makeErrorFieldsWithDetails(
    "endpoint_removed",
    Schema.Struct({ successor: Schema.String, documentation: Schema.String, sunset: Schema.String }),
  ),
  describeError(410, "The endpoint was removed; the message says what changed."),
) {
  readonly _tag = "EndpointRemoved"
}

/**
 * 410: the changes that follow a change feed cursor are no longer available. They were deleted because of their age, or
 * lost when the database was restored or failed over.
 */
export class CursorExpired extends Schema.Error<CursorExpired>("CursorExpired")(
  makeErrorFieldsWithDetails(
    "cursor_expired",
    Schema.Struct({
      earliest: Schema.String.annotate({
        description: "All changes after this time are known. With six decimals; `after` accepts it.",
      }),
      restart: Schema.String.annotate({ description: "The request that returns a cursor from which to start again." }),
    }),
  ),
  describeError(410, "The cursor of a change feed has expired; download the datasets again."),
) {
  readonly _tag = "CursorExpired"
}

const FieldError = Schema.Struct({
  field: redactedText({ description: "The name of the parameter." }),
  reason: redactedText({ description: "What is wrong with it; completes a sentence that begins with the name." }),
}).annotate({ identifier: "FieldError" })

/** 422: parameters are missing, unknown, repeated or invalid; `details.fields` lists them (D11). */
export class ValidationError extends Schema.Error<ValidationError>("ValidationError")(
  makeErrorFieldsWithDetails(
    "validation_error",
    Schema.Struct({ fields: Schema.Array(FieldError) }),
  ),
  describeError(422, "A parameter is missing, unknown, repeated or wrong."),
) {
  readonly _tag = "ValidationError"
}

/**
 * Creates the error for a single invalid parameter. The message consists of the parameter name followed by `reason`.
 */
export const makeFieldError = (field: string, reason: string) =>
  new ValidationError({ error: { message: `${field} ${reason}`, details: { fields: [{ field, reason }] } } })

/** 422: `as_of` is earlier than the first time for which history is available. */
export class AsOfTooEarly extends Schema.Error<AsOfTooEarly>("AsOfTooEarly")(
  makeErrorFieldsWithDetails(
    "as_of_too_early",
    Schema.Struct({
      earliest: Schema.String.annotate({ description: "The earliest moment for `as_of`, with six decimals." }),
    }),
  ),
  describeError(422, "`as_of` is before the earliest moment whose state is known."),
) {
  readonly _tag = "AsOfTooEarly"
}

/** 500: an unexpected failure. The cause and the request id are logged; the response does not reveal the cause. */
export class InternalError extends Schema.Error<InternalError>("InternalError")(
  makeErrorFields("internal_error"),
  describeError(500, "Unexpected failure."),
) {
  readonly _tag = "InternalError"
}

/** 503, `Retry-After: 5`: a table is locked, or a query ran for 30 seconds (§7.2, errors). */
export class DataRefreshing extends Schema.Error<DataRefreshing>("DataRefreshing")(
  makeErrorFields("data_refreshing"),
  describeError(503, "Data is being refreshed; safe to retry after `Retry-After` seconds."),
) {
  readonly _tag = "DataRefreshing"
}

/** 503, `Retry-After: 5`: no database connection became available in time (§7.2, errors). */
export class DatabasePoolTimeout extends Schema.Error<DatabasePoolTimeout>("DatabasePoolTimeout")(
  makeErrorFields("database_pool_timeout"),
  describeError(503, "No database connection in time; safe to retry after `Retry-After` seconds."),
) {
  readonly _tag = "DatabasePoolTimeout"
}

/** Creates the error to return whenever data is temporarily unreadable, regardless of the cause (§7.2, errors). */
export const makeDataRefreshingError = () =>
  new DataRefreshing({ error: { message: "Data is being refreshed. Retry in a few seconds." } })

/** 429 with `Retry-After`: the account has too many exports in progress. */
export class TooManyExports extends Schema.Error<TooManyExports>("TooManyExports")(
  makeErrorFieldsWithDetails(
    "too_many_exports",
    Schema.Struct({
      limit: NonNegativeInt.annotate({ description: "How many exports of an account a server sends at once." }),
    }),
  ),
  describeError(429, "The account has too many exports in progress; wait until one has ended."),
) {
  readonly _tag = "TooManyExports"
}

/** The errors of endpoints that resolve symbol histories. */
export const lineageErrors = [AmbiguousTickerLineage, AsOfTooEarly, DataRefreshing, DatabasePoolTimeout] as const

/**
 * The errors of list endpoints that cost nothing and whose rows have no symbol. All lists can be exported, so the
 * errors of exports are included.
 */
export const freeEndpointListErrors = [DataRefreshing, DatabasePoolTimeout, TooManyExports] as const

/** The errors of lists whose rows have a symbol. */
export const listErrors = [...lineageErrors, TooManyExports] as const

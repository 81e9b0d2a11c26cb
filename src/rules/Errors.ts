/**
 * §7, D11, D13: the errors of all requests. Errors about accounts and keys are in `accounts/AccountErrors.ts`.
 * Each is a tagged class (`Effect.catchTag`, in handlers and in the typed client) that knows its status and prints as
 * `{ error: { code, message, details? }, request_id }`, without tag.
 */
import { Effect, ErrorReporter, Schema, SchemaGetter } from "effect"
import { RequestContext } from "../http/RequestContext.ts"

/** Filled in while printing, so that no handler carries the id around. */
const request_id = Schema.String.pipe(
  Schema.encodeTo(
    Schema.String.annotate({ description: "The same value as the header X-Request-Id; quote it to support." }),
    {
      decode: SchemaGetter.passthrough(),
      encode: SchemaGetter.transformEffect(() => Effect.map(RequestContext, (exchange) => exchange.id)),
    },
  ),
  Schema.withConstructorDefault(Effect.succeed("")),
)

/** As clients write it in a URL, a letter may be its code. */
const start = Array.from("tl_live_", (letter) => `(?:${letter}|%${letter.charCodeAt(0).toString(16)})`).join("")
const keys = new RegExp(`${start}(?:[0-9A-Za-z]|%[0-9A-Fa-f]{2})*`, "gi")

/** A key that a client put where it does not belong is not repeated to whoever reads answers or traces. */
export const redactKeys = (text: string) => text.replace(keys, "tl_live_…")

const text = (annotations: { readonly description?: string }) =>
  Schema.String.pipe(Schema.encodeTo(Schema.String.annotate(annotations), {
    decode: SchemaGetter.passthrough(),
    encode: SchemaGetter.transform(redactKeys),
  }))

const Message = text({ description: "For people; programs read `code`." })

/** What the class of an error is made of; `fieldsWith` for one with details. */
export const makeErrorFields = <const Code extends string>(code: Code) => ({
  error: Schema.Struct({ code: Schema.tag(code), message: Message }),
  request_id,
})

export const makeErrorFieldsWithDetails = <const Code extends string, Details extends Schema.Top>(
  code: Code,
  details: Details,
) => ({
  error: Schema.Struct({ code: Schema.tag(code), message: Message, details }),
  request_id,
})

/** 400: the URL itself cannot be decoded (D13). */
export class BadRequest extends Schema.Error<BadRequest>("BadRequest")(makeErrorFields("bad_request"), {
  httpApiStatus: 400,
  description: "The URL cannot be decoded.",
}) {
  readonly _tag = "BadRequest"
  override readonly [ErrorReporter.ignore] = true
}

/** 404: no such path, or nothing is known of what was asked for. */
export class NotFound extends Schema.Error<NotFound>("NotFound")(makeErrorFields("not_found"), {
  httpApiStatus: 404,
  description: "Nothing is here.",
}) {
  readonly _tag = "NotFound"
  override readonly [ErrorReporter.ignore] = true
}

/** 405: every endpoint answers GET and HEAD (D10). */
export class MethodNotAllowed
  extends Schema.Error<MethodNotAllowed>("MethodNotAllowed")(makeErrorFields("method_not_allowed"), {
    httpApiStatus: 405,
    description: "Endpoints answer GET and HEAD.",
  }) {
  readonly _tag = "MethodNotAllowed"
  override readonly [ErrorReporter.ignore] = true
}

/** §4.1, D21: why a ticker's record is not one chain. */
export const LineageReason = Schema.Literals([
  "multiple_cik_lineages",
  "same_date_events",
  "competing_destinations",
  "broken_chain",
  "max_hops_exceeded",
]).annotate({ identifier: "LineageReason" })
export type LineageReason = typeof LineageReason.Type

/** §2.2: one symbol change. */
export const ChangeEvent = Schema.Struct({
  old_ticker: Schema.String.annotate({ description: "The symbol given up." }),
  new_ticker: Schema.String.annotate({ description: "The symbol taken." }),
  effective_date: Schema.String.annotate({ description: "YYYY-MM-DD." }),
}).annotate({ identifier: "ChangeEvent" })

/** §4.1: the chain of one issuer. */
const LineageCandidate = Schema.Struct({
  cik: Schema.String,
  company_name: Schema.NullOr(Schema.String),
  history: Schema.Array(ChangeEvent),
  current_ticker: Schema.String,
}).annotate({ identifier: "LineageCandidate" })

/** A symbol change with its issuer, and why it is part of no chain. */
const LineageEvent = Schema.Struct({
  ...ChangeEvent.fields,
  cik: Schema.NullOr(Schema.String),
  company_name: Schema.NullOr(Schema.String),
  reasons: Schema.Array(LineageReason).annotate({ description: "Those that this event is a part of." }),
}).annotate({ identifier: "LineageEvent" })

/** 409: the symbol's history is not one unambiguous chain (§4.1, D21). */
export class AmbiguousTickerLineage extends Schema.Error<AmbiguousTickerLineage>("AmbiguousTickerLineage")(
  makeErrorFieldsWithDetails(
    "ambiguous_ticker_lineage",
    Schema.Struct({
      query_ticker: Schema.String,
      reason: LineageReason.annotateKey({ description: "The first that holds." }),
      reasons: Schema.Array(LineageReason).annotate({ description: "All that hold." }),
      tickers: Schema.Array(Schema.String).annotate({ description: "The symbols involved, sorted." }),
      candidates: Schema.Array(LineageCandidate).annotate({
        description: "One chain per issuer, by first date, where each stands alone; otherwise empty.",
      }),
      events: Schema.Array(LineageEvent).annotate({
        description: "What the record holds, by date, the first 100 of it: events that clash, and no chain.",
      }),
      event_count: Schema.Int.annotate({
        description: "How many events there are; more than 25,000 are not looked at.",
      }),
    }),
  ),
  { httpApiStatus: 409, description: "The symbol's history cannot be resolved to one unambiguous chain." },
) {
  readonly _tag = "AmbiguousTickerLineage"
  override readonly [ErrorReporter.ignore] = true
}

/** 410: the endpoint's sunset has passed (§3, D24). */
export class EndpointRemoved extends Schema.Error<EndpointRemoved>("EndpointRemoved")(
  makeErrorFieldsWithDetails(
    "endpoint_removed",
    Schema.Struct({ successor: Schema.String, documentation: Schema.String, sunset: Schema.String }),
  ),
  { httpApiStatus: 410, description: "The endpoint was removed; the message says what changed." },
) {
  readonly _tag = "EndpointRemoved"
  override readonly [ErrorReporter.ignore] = true
}

const FieldError = Schema.Struct({
  field: text({ description: "The name of the parameter." }),
  reason: text({ description: "What is wrong with it; follows the name in a sentence." }),
}).annotate({ identifier: "FieldError" })

/** 422: a parameter is missing, unknown, repeated or wrong; `details.fields` names each (D11). */
export class ValidationError extends Schema.Error<ValidationError>("ValidationError")(
  makeErrorFieldsWithDetails(
    "validation_error",
    Schema.Struct({ fields: Schema.Array(FieldError) }),
  ),
  { httpApiStatus: 422, description: "A parameter is missing, unknown, repeated or wrong." },
) {
  readonly _tag = "ValidationError"
  override readonly [ErrorReporter.ignore] = true
}

/** 500: the cause is in the log under the request id, never in the answer. */
export class InternalError extends Schema.Error<InternalError>("InternalError")(makeErrorFields("internal_error"), {
  httpApiStatus: 500,
  description: "Unexpected failure.",
}) {
  readonly _tag = "InternalError"
  override readonly [ErrorReporter.ignore] = true
}

/** 503, `Retry-After: 5`: a table stays locked, or a query reached 30 seconds (§7.2). */
export class DataRefreshing extends Schema.Error<DataRefreshing>("DataRefreshing")(makeErrorFields("data_refreshing"), {
  httpApiStatus: 503,
  description: "Data is being refreshed; safe to retry after `Retry-After` seconds.",
}) {
  readonly _tag = "DataRefreshing"
  override readonly [ErrorReporter.ignore] = true
}

/** 503, `Retry-After: 5`: no database connection could be had in time (§7.2). */
export class DatabasePoolTimeout extends Schema.Error<DatabasePoolTimeout>("DatabasePoolTimeout")(
  makeErrorFields("database_pool_timeout"),
  { httpApiStatus: 503, description: "No database connection in time; safe to retry after `Retry-After` seconds." },
) {
  readonly _tag = "DatabasePoolTimeout"
  override readonly [ErrorReporter.ignore] = true
}

/** `GET /v1/usage` and `/v1/usage/daily`: D29 (usage). */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeEndpointGroup } from "../rules/EndpointAnnotations.ts"
import * as Column from "../rows/Columns.ts"
import { freeEndpointListErrors } from "../rules/ApiErrors.ts"
import { checkParameterCombinations } from "../rules/ParameterCombinations.ts"
import * as Filter from "../rules/FilterParameters.ts"
import { makeCursorReader } from "../rules/Cursors.ts"
import { isInCalendar } from "../rules/Dates.ts"
import { makeListEnvelope, makePageAfterParameter, PagingParameters } from "../rules/Paging.ts"
import { InstantColumn } from "../rows/Timestamps.ts"
import { NonNegativeInt } from "../rules/NonNegativeInt.ts"

const endpoint = Column.text(
  "Path of the requested endpoint. `/mcp`: a message to the MCP server that sent no request.",
)
const bytes = Column.integer("Size of the response body before compression.")
const cost_microdollars = Column.integer("Cost in millionths of a US dollar.")

/** A row of `/v1/usage`: one request, or several requests that were rejected with 429. */
export class UsageRow extends Model.Class<UsageRow>("Usage")({
  request_id: Column.text("`X-Request-Id` of the response."),
  requested_at: InstantColumn,
  endpoint,
  status_code: NonNegativeInt.annotate({
    description: "HTTP status of the response. 499: the client disconnected before the response. 408: the client " +
      "received an export too slowly, so the service cut it off.",
  }),
  records_returned: NonNegativeInt.annotate({ description: "Number of results in the response." }),
  bytes,
  cost_microdollars,
  duration_ms: NonNegativeInt.annotate({ description: "Time to answer, milliseconds." }),
  cached: Column.boolean("Whether the response was a 304: your own copy was current."),
  deprecated: Column.boolean("Whether the endpoint was deprecated."),
  key_hint: Column.nullable(Column.text("First characters of the key that was used. Null: the key no longer exists.")),
  request_count: Column.integer("Number of requests in the row: 1, or more if they were refused with 429."),
  via: Column.nullable(Column.text("`mcp` if a tool of `/mcp` sent the request. Null: an HTTP client sent it.")),
}) {}

/** A row of `/v1/usage/daily`. */
export class DailyUsageRow extends Model.Class<DailyUsageRow>("UsageDay")({
  usage_date: Column.date("Date in New York."),
  endpoint,
  requests: Column.integer("Number of requests on that day."),
  errors: Column.integer("Number of those requests with a status of 400 or higher."),
  bytes,
  cost_microdollars,
}) {}

const noUsageId = "00000000-0000-0000-0000-000000000000"

/**
 * Parses a cursor for `/v1/usage`. It contains the time of a request in milliseconds since 1970, and a tiebreaker for
 * requests with the same time. Most requests are stored in batches in `usage_batches`; their tiebreaker is the batch
 * and the position within it. Requests rejected with 429 are stored as counts in the table `usage`; their tiebreaker is
 * the row id. These counts come after all requests with the same time, which is why the missing half of the tiebreaker
 * gets the lowest possible values. All values are strings, because they are passed to SQL as parameters.
 */
export const parseUsageCursor = makeCursorReader(
  new RegExp(
    String.raw`^(?<millis>\d{1,13})\.(?:(?<writer>\d{1,10})\.(?<sequence>\d{1,10})\.(?<part>\d{1,5})\.` +
      String.raw`(?<place>\d{1,5})|(?<usage_id>[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}))$`,
  ),
  ({ millis, part = "0", place = "0", sequence = "0", usage_id = noUsageId, writer = "-1" }) => (
    { requested_at: new Date(Number(millis)).toISOString(), writer, sequence, part, place, usage_id }
  ),
)

/** Parses a cursor for `/v1/usage/daily`: the day and endpoint of a row, such as `2026-06-01/v1/news`. */
export const parseDailyUsageCursor = makeCursorReader(
  /^(?<usage_date>\d{4}-\d{2}-\d{2})(?<endpoint>\/[\x21-\x7e]{0,255})$/,
  ({ endpoint = "", usage_date = "" }) => isInCalendar(usage_date) ? { usage_date, endpoint } : undefined,
)

/** The parameters of `/v1/usage`. */
export const UsageQuery = Schema.Struct({
  endpoint: Filter.endpointFilter,
  status_code: Filter.statusCodeFilter,
  ...Filter.makePastInstantRanges("requested_at"),
  after: makePageAfterParameter(parseUsageCursor),
  ...PagingParameters,
}).check(checkParameterCombinations)

/** The parameters of `/v1/usage/daily`. */
export const DailyUsageQuery = Schema.Struct({
  endpoint: Filter.endpointFilter,
  ...Filter.makePastDateRanges("usage_date"),
  after: makePageAfterParameter(parseDailyUsageCursor),
  ...PagingParameters,
}).check(checkParameterCombinations)

/** The endpoints that list the account's requests and their cost. */
export class UsageApiGroup extends HttpApiGroup.make("usage").add(
  HttpApiEndpoint.get("list", "/usage", {
    query: UsageQuery,
    success: makeListEnvelope(Column.getRowJsonSchema(UsageRow)),
    error: freeEndpointListErrors,
  }).annotateMerge(describeEndpoint(
    "Usage",
    "Every request of your account, newest first, about a second after its response. Requests refused with 429 share " +
      "one row per endpoint and minute: it describes the first of them, `bytes` is their total, and `request_count` " +
      "their number. `requested_at_from` and `requested_at_to` are days at -05:00, the offset of `requested_at`.",
  )),
  HttpApiEndpoint.get("listDaily", "/usage/daily", {
    query: DailyUsageQuery,
    success: makeListEnvelope(Column.getRowJsonSchema(DailyUsageRow)),
    error: freeEndpointListErrors,
  }).annotateMerge(describeEndpoint(
    "Daily usage",
    "Totals per New York day and endpoint, newest first. They are kept longer than single requests.",
  )),
).annotateMerge(describeEndpointGroup("Usage", "Requests of the account, and what they cost.")) {}

/** Resources: usage and usage/daily; §2.1, D29. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { described, tagged } from "../../rules/EndpointAnnotations.ts"
import { date, flag, jsonOf, orNull, text, whole } from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { consistent } from "../../rules/ParameterCombinations.ts"
import { identifiers, pastDays, pastDaysOfInstants, statusCodes } from "../../rules/Filters.ts"
import { Envelope, Paging } from "../../rules/Paging.ts"
import { UtcInstant } from "../../rows/Timestamps.ts"

const endpoint = text("The path that was asked.")
const bytes = whole("Size of the body as sent, before any compression.")
const cost_microdollars = whole("What it cost, millionths of a USD.")

export class UsageRow extends Model.Class<UsageRow>("Usage")({
  request_id: text("`X-Request-Id` of the answer."),
  requested_at: UtcInstant,
  endpoint,
  status_code: Schema.Int.annotate({ description: "Status of the answer; 499: the client went away before it." }),
  records_returned: Schema.Int.annotate({ description: "How many results it had." }),
  bytes,
  cost_microdollars,
  duration_ms: Schema.Int.annotate({ description: "How long it took to answer, milliseconds." }),
  cached: flag("Answered from memory, or the client had the answer already (304)."),
  deprecated: flag("The endpoint was deprecated."),
  key_hint: orNull(text("The first characters of the key that was used; null: the key is gone.")),
  request_count: whole("How many requests the row stands for: 1, or more of those that were refused with 429."),
}) {}

export class UsageDay extends Model.Class<UsageDay>("UsageDay")({
  usage_date: date("The day in New York."),
  endpoint,
  requests: whole("Requests of that day."),
  errors: whole("Those of them that were answered with a status of 400 or more."),
  bytes,
  cost_microdollars,
}) {}

export const Query = Schema.Struct({
  ...identifiers("endpoint"),
  status_code: statusCodes,
  ...pastDaysOfInstants("requested_at"),
  ...Paging,
}).check(consistent)

export const DailyQuery = Schema.Struct({
  ...identifiers("endpoint"),
  ...pastDays("usage_date"),
  ...Paging,
}).check(consistent)

export class Usages extends HttpApiGroup.make("usage").add(
  HttpApiEndpoint.get("list", "/usage", {
    query: Query,
    success: Envelope(jsonOf(UsageRow)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotateMerge(described(
    "Usage",
    "Every request of your account, newest first, about a second after it was answered. Requests refused with 429 " +
      "are counted together: a row stands for those of one endpoint and minute, describes the first of them, adds up " +
      "their bytes, and has their number in `request_count`. `requested_at_from` and `requested_at_to` are days on " +
      "the clock of -05:00, on which `requested_at` prints.",
  )),
  HttpApiEndpoint.get("listDaily", "/usage/daily", {
    query: DailyQuery,
    success: Envelope(jsonOf(UsageDay)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotateMerge(described(
    "Daily usage",
    "The sums of each day in New York and endpoint, newest first. They are kept longer than single requests.",
  )),
).annotateMerge(tagged("Usage", "What the account has requested, and what it cost.")) {}

/** Resources: usage and usage/daily; §2.1, D29. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeGroup } from "../../rules/EndpointAnnotations.ts"
import {
  booleanColumn,
  dateColumn,
  getRowJsonSchema,
  integerColumn,
  nullableColumn,
  textColumn,
} from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { checkParameterCombinations } from "../../rules/ParameterCombinations.ts"
import {
  exactTextFilters,
  pastDateRangeFilters,
  pastInstantRangeFilters,
  statusCodeFilter,
} from "../../rules/Filters.ts"
import { ListEnvelope, PagingParameters } from "../../rules/Paging.ts"
import { UtcInstant } from "../../rows/Timestamps.ts"

const endpoint = textColumn("The path that was asked.")
const bytes = integerColumn("Size of the body as sent, before any compression.")
const cost_microdollars = integerColumn("What it cost, millionths of a USD.")

export class UsageRow extends Model.Class<UsageRow>("Usage")({
  request_id: textColumn("`X-Request-Id` of the answer."),
  requested_at: UtcInstant,
  endpoint,
  status_code: Schema.Int.annotate({ description: "Status of the answer; 499: the client went away before it." }),
  records_returned: Schema.Int.annotate({ description: "How many results it had." }),
  bytes,
  cost_microdollars,
  duration_ms: Schema.Int.annotate({ description: "How long it took to answer, milliseconds." }),
  cached: booleanColumn("Answered from memory, or the client had the answer already (304)."),
  deprecated: booleanColumn("The endpoint was deprecated."),
  key_hint: nullableColumn(textColumn("The first characters of the key that was used; null: the key is gone.")),
  request_count: integerColumn("How many requests the row stands for: 1, or more of those that were refused with 429."),
}) {}

export class DailyUsageRow extends Model.Class<DailyUsageRow>("UsageDay")({
  usage_date: dateColumn("The day in New York."),
  endpoint,
  requests: integerColumn("Requests of that day."),
  errors: integerColumn("Those of them that were answered with a status of 400 or more."),
  bytes,
  cost_microdollars,
}) {}

export const UsageQuery = Schema.Struct({
  ...exactTextFilters("endpoint"),
  status_code: statusCodeFilter,
  ...pastInstantRangeFilters("requested_at"),
  ...PagingParameters,
}).check(checkParameterCombinations)

export const DailyUsageQuery = Schema.Struct({
  ...exactTextFilters("endpoint"),
  ...pastDateRangeFilters("usage_date"),
  ...PagingParameters,
}).check(checkParameterCombinations)

export class UsageApiGroup extends HttpApiGroup.make("usage").add(
  HttpApiEndpoint.get("list", "/usage", {
    query: UsageQuery,
    success: ListEnvelope(getRowJsonSchema(UsageRow)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotateMerge(describeEndpoint(
    "Usage",
    "Every request of your account, newest first, about a second after it was answered. Requests refused with 429 " +
      "are counted together: a row stands for those of one endpoint and minute, describes the first of them, adds up " +
      "their bytes, and has their number in `request_count`. `requested_at_from` and `requested_at_to` are days on " +
      "the clock of -05:00, on which `requested_at` prints.",
  )),
  HttpApiEndpoint.get("listDaily", "/usage/daily", {
    query: DailyUsageQuery,
    success: ListEnvelope(getRowJsonSchema(DailyUsageRow)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotateMerge(describeEndpoint(
    "Daily usage",
    "The sums of each day in New York and endpoint, newest first. They are kept longer than single requests.",
  )),
).annotateMerge(describeGroup("Usage", "What the account has requested, and what it cost.")) {}

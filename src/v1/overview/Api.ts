/** Resources: overview; §2.1. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { described, tagged, tiers } from "../../rules/EndpointAnnotations.ts"
import { jsonOf, oneOf, orNull, text, whole } from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { NoParameters } from "../../rules/Filters.ts"
import { Count } from "../../rules/Paging.ts"
import { UtcInstant } from "../../rows/Timestamps.ts"

export class Overview extends Model.Class<Overview>("Overview")({
  account_id: whole("The account's number."),
  name: text("The account's name."),
  tier: oneOf(tiers, "What the account may see, and how much it may ask."),
  rate_limit_per_minute: Model.Field({
    json: Schema.Int.annotate({ description: "Requests that the account may send in a minute." }),
  }),
  requests_today: whole("Requests of today in New York, as far as they are recorded; that takes about a second."),
  cost_today_microdollars: whole("What they cost, millionths of a USD."),
  balance_microdollars: orNull(whole("What is left of what was paid in advance; null: billed later.")),
  last_charged_at: orNull(UtcInstant),
  created_at: UtcInstant,
}) {}

export class Overviews extends HttpApiGroup.make("overview").add(
  HttpApiEndpoint.get("show", "/overview", {
    query: NoParameters,
    success: Schema.Struct({
      count: Count,
      results: Schema.Tuple([jsonOf(Overview)]).annotate({ description: "Exactly one object." }),
    }),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotateMerge(described("Overview", "Your account at a glance: limits, balance, and what today has cost so far.")),
).annotateMerge(tagged("Overview", "The account at a glance.")) {}

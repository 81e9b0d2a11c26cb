/** Resources: overview; §2.1. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeGroup, tiers } from "../../rules/EndpointAnnotations.ts"
import { getRowJsonSchema, integerColumn, literalColumn, nullableColumn, textColumn } from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { NoParameters } from "../../rules/Filters.ts"
import { ResultCount } from "../../rules/Paging.ts"
import { UtcInstant } from "../../rows/Timestamps.ts"

export class AccountOverview extends Model.Class<AccountOverview>("Overview")({
  account_id: integerColumn("The account's number."),
  name: textColumn("The account's name."),
  tier: literalColumn(tiers, "What the account may see, and how much it may ask."),
  rate_limit_per_minute: Model.Field({
    json: Schema.Int.annotate({ description: "Requests that the account may send in a minute." }),
  }),
  requests_today: integerColumn(
    "Requests of today in New York, as far as they are recorded; that takes about a second.",
  ),
  cost_today_microdollars: integerColumn("What they cost, millionths of a USD."),
  balance_microdollars: nullableColumn(integerColumn("What is left of what was paid in advance; null: billed later.")),
  last_charged_at: nullableColumn(UtcInstant),
  created_at: UtcInstant,
}) {}

export class OverviewApiGroup extends HttpApiGroup.make("overview").add(
  HttpApiEndpoint.get("show", "/overview", {
    query: NoParameters,
    success: Schema.Struct({
      count: ResultCount,
      results: Schema.Tuple([getRowJsonSchema(AccountOverview)]).annotate({ description: "Exactly one object." }),
    }),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotateMerge(
    describeEndpoint("Overview", "Your account at a glance: limits, balance, and what today has cost so far."),
  ),
).annotateMerge(describeGroup("Overview", "The account at a glance.")) {}

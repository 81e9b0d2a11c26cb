/** `GET /v1/overview`: a summary of the account (§2.1, timestamps). */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeEndpointGroup, tiers } from "../rules/EndpointAnnotations.ts"
import * as Column from "../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../rules/ApiErrors.ts"
import * as Filter from "../rules/FilterParameters.ts"
import { ResultCount } from "../rules/Paging.ts"
import { InstantColumn } from "../rows/Timestamps.ts"
import { NonNegativeInt } from "../rules/NonNegativeInt.ts"

/** The account data in the `/v1/overview` response. */
export class AccountOverview extends Model.Class<AccountOverview>("Overview")({
  account_id: Column.integer("Account id."),
  name: Column.text("Account name."),
  tier: Column.literal(tiers, "Determines the endpoints and the rate limit of the account."),
  rate_limit_per_minute: Model.Field({
    json: NonNegativeInt.annotate({ description: "Requests per minute that the account may send." }),
  }),
  requests_today: Column.integer(
    "Requests since midnight in New York. Those that another server process answered count after about a second.",
  ),
  cost_today_microdollars: Column.integer("Cost of these requests, in millionths of a US dollar."),
  balance_microdollars: Column.nullable(
    Column.integer("Remaining prepaid balance, in millionths of a US dollar. Null: the account is postpaid."),
  ),
  budget_microdollars: Column.nullable(
    Column.integer("Budget per month (New York), in millionths of a US dollar. Null: the account has no budget."),
  ),
  budget_spent_microdollars: Column.nullable(
    Column.integer("Cost of this month's requests. Null: the account has no budget."),
  ),
  budget_spent_percent: Column.nullable(
    Column.integer("The spent part of the budget in percent, rounded down. Null: the account has no budget."),
  ),
  budget_stops: Column.boolean("Whether requests for data get 402 once the budget is used up."),
  last_charged_at: Column.nullable(InstantColumn),
  created_at: InstantColumn,
}) {}

/** The response of `/v1/overview`. */
export const OverviewResponse = Schema.Struct({
  count: ResultCount,
  results: Schema.Tuple([Column.getRowJsonSchema(AccountOverview)]).annotate({ description: "Exactly one object." }),
})

/** The `/v1/overview` endpoint. */
export class OverviewApiGroup extends HttpApiGroup.make("overview").add(
  HttpApiEndpoint.get("show", "/overview", {
    query: Filter.NoParameters,
    success: OverviewResponse,
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotateMerge(
    describeEndpoint("Overview", "Your account at a glance: rate limit, balance and the cost of today's requests."),
  ),
).annotateMerge(describeEndpointGroup("Overview", "The account at a glance.")) {}

/** GET /v1/account and /v1/account/api-keys: §2.1 (timestamps), §2.5 (fields). */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeEndpointGroup, tiers } from "../../rules/EndpointAnnotations.ts"
import * as Column from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { checkParameterCombinations } from "../../rules/ParameterCombinations.ts"
import * as Filter from "../../rules/Filters.ts"
import { makeListEnvelope, PagingParameters, ResultCount } from "../../rules/Paging.ts"
import { InstantColumn } from "../../rows/Timestamps.ts"

export class AccountRow extends Model.Class<AccountRow>("Account")({
  account_id: Column.integer("Account id."),
  name: Column.text("Account name."),
  contact_email: Column.nullable(Column.text("Email address for notices.")),
  tier: Column.literal(tiers, "Determines the endpoints and the rate limit of the account."),
  created_at: InstantColumn,
}) {}

export const apiKeyStatuses = ["active", "disabled", "expired"] as const

export class ApiKeyRow extends Model.Class<ApiKeyRow>("ApiKey")({
  key_id: Column.integer("Key id."),
  name: Column.text("The name given to the key when it was created."),
  key_hint: Column.text("The first characters of the key. The rest is not stored."),
  status: Column.literal(apiKeyStatuses, "Only active keys are accepted."),
  endpoints: Schema.NullOr(Schema.Array(Schema.String)).annotate({
    description: "The only paths the key may call. Null: all paths.",
  }),
  created_at: InstantColumn,
  expires_at: Column.nullable(InstantColumn),
  /** Updated at most once a minute, so the time may lag by up to a minute (§2.5). */
  last_used_at: Column.nullable(InstantColumn),
}) {}

export const ApiKeysQuery = Schema.Struct(PagingParameters).check(checkParameterCombinations)

export const AccountResponse = Schema.Struct({
  count: ResultCount,
  results: Schema.Tuple([Column.getRowJsonSchema(AccountRow)]).annotate({ description: "Exactly one object." }),
})

export class AccountApiGroup extends HttpApiGroup.make("account").add(
  HttpApiEndpoint.get("show", "/account", {
    query: Filter.NoParameters,
    success: AccountResponse,
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotateMerge(describeEndpoint("Account", "Your account.")),
  HttpApiEndpoint.get("listKeys", "/account/api-keys", {
    query: ApiKeysQuery,
    success: makeListEnvelope(Column.getRowJsonSchema(ApiKeyRow)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotateMerge(describeEndpoint(
    "API keys",
    "Your account's keys, oldest first. `last_used_at` is updated at most once a minute per key.",
  )),
).annotateMerge(describeEndpointGroup("Account", "The account and its API keys.")) {}

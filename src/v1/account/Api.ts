/** Resources: account and its keys; §2.1, §2.5. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeGroup, tiers } from "../../rules/EndpointAnnotations.ts"
import { getRowJsonSchema, integerColumn, literalColumn, nullableColumn, textColumn } from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { checkParameterCombinations } from "../../rules/ParameterCombinations.ts"
import { NoParameters } from "../../rules/Filters.ts"
import { ListEnvelope, PagingParameters, ResultCount } from "../../rules/Paging.ts"
import { UtcInstant } from "../../rows/Timestamps.ts"

export class AccountRow extends Model.Class<AccountRow>("Account")({
  account_id: integerColumn("The account's number."),
  name: textColumn("The account's name."),
  contact_email: nullableColumn(textColumn("Where notices go.")),
  tier: literalColumn(tiers, "What the account may see, and how much it may ask."),
  created_at: UtcInstant,
}) {}

export class ApiKeyRow extends Model.Class<ApiKeyRow>("ApiKey")({
  key_id: integerColumn("The key's number."),
  name: textColumn("What the key was named when it was made."),
  key_hint: textColumn("The first characters of the key; no more of it is kept."),
  status: literalColumn(["active", "disabled", "expired"], "Only an active key is accepted."),
  endpoints: Schema.NullOr(Schema.Array(Schema.String)).annotate({
    description: "The only paths that the key opens; null: all.",
  }),
  created_at: UtcInstant,
  expires_at: nullableColumn(UtcInstant),
  /** §2.5 */
  last_used_at: nullableColumn(UtcInstant),
}) {}

export const ApiKeysQuery = Schema.Struct(PagingParameters).check(checkParameterCombinations)

export class AccountApiGroup extends HttpApiGroup.make("account").add(
  HttpApiEndpoint.get("show", "/account", {
    query: NoParameters,
    success: Schema.Struct({
      count: ResultCount,
      results: Schema.Tuple([getRowJsonSchema(AccountRow)]).annotate({ description: "Exactly one object." }),
    }),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotateMerge(describeEndpoint("Account", "Your account.")),
  HttpApiEndpoint.get("listKeys", "/account/api-keys", {
    query: ApiKeysQuery,
    success: ListEnvelope(getRowJsonSchema(ApiKeyRow)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotateMerge(describeEndpoint(
    "API keys",
    "Your account's keys, oldest first. `last_used_at` is updated at most once a minute for each key.",
  )),
).annotateMerge(describeGroup("Account", "The account and its API keys.")) {}

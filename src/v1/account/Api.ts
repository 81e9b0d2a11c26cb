/** Resources: account and its keys; §2.1, §2.5. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { described, tagged, tiers } from "../../rules/EndpointAnnotations.ts"
import { jsonOf, oneOf, orNull, text, whole } from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { consistent } from "../../rules/ParameterCombinations.ts"
import { NoParameters } from "../../rules/Filters.ts"
import { Count, Envelope, Paging } from "../../rules/Paging.ts"
import { UtcInstant } from "../../rows/Timestamps.ts"

export class AccountRow extends Model.Class<AccountRow>("Account")({
  account_id: whole("The account's number."),
  name: text("The account's name."),
  contact_email: orNull(text("Where notices go.")),
  tier: oneOf(tiers, "What the account may see, and how much it may ask."),
  created_at: UtcInstant,
}) {}

export class ApiKey extends Model.Class<ApiKey>("ApiKey")({
  key_id: whole("The key's number."),
  name: text("What the key was named when it was made."),
  key_hint: text("The first characters of the key; no more of it is kept."),
  status: oneOf(["active", "disabled", "expired"], "Only an active key is accepted."),
  endpoints: Schema.NullOr(Schema.Array(Schema.String)).annotate({
    description: "The only paths that the key opens; null: all.",
  }),
  created_at: UtcInstant,
  expires_at: orNull(UtcInstant),
  /** §2.5 */
  last_used_at: orNull(UtcInstant),
}) {}

export const KeysQuery = Schema.Struct(Paging).check(consistent)

export class Accounts extends HttpApiGroup.make("account").add(
  HttpApiEndpoint.get("show", "/account", {
    query: NoParameters,
    success: Schema.Struct({
      count: Count,
      results: Schema.Tuple([jsonOf(AccountRow)]).annotate({ description: "Exactly one object." }),
    }),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotateMerge(described("Account", "Your account.")),
  HttpApiEndpoint.get("listKeys", "/account/api-keys", {
    query: KeysQuery,
    success: Envelope(jsonOf(ApiKey)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotateMerge(described(
    "API keys",
    "Your account's keys, oldest first. `last_used_at` is updated at most once a minute for each key.",
  )),
).annotateMerge(tagged("Account", "The account and its API keys.")) {}

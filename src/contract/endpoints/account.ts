/**
 * `GET /v1/account`, `/v1/account/api-keys`, `/v1/account/invoices` and `/v1/account/invoice-lines`: §2.1 (timestamps),
 * §2.5 (fields), D27 (invoices).
 */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeEndpointGroup, tiers } from "../rules/EndpointAnnotations.ts"
import * as Column from "../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing, freeEndpointListErrors } from "../rules/ApiErrors.ts"
import { checkParameterCombinations } from "../rules/ParameterCombinations.ts"
import * as Filter from "../rules/FilterParameters.ts"
import { makeListEnvelope, PagingParameters, ResultCount } from "../rules/Paging.ts"
import { InstantColumn } from "../rows/Timestamps.ts"

/** The account returned by `/v1/account`. */
export class AccountRow extends Model.Class<AccountRow>("Account")({
  account_id: Column.integer("Account id."),
  name: Column.text("Account name."),
  contact_email: Column.nullable(Column.text("Email address for notices.")),
  tier: Column.literal(tiers, "Determines the endpoints and the rate limit of the account."),
  created_at: InstantColumn,
}) {}

/** The possible states of an API key. */
export const apiKeyStatuses = ["active", "disabled", "expired"] as const

/** A row of `/v1/account/api-keys`. */
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
  /** Updated at most once a minute, so it may be up to a minute behind (§2.5). */
  last_used_at: Column.nullable(InstantColumn),
}) {}

const month = Column.text("Month in New York, `YYYY-MM`.")

/** A row of `/v1/account/invoices`: the invoice for one closed month. */
export class InvoiceRow extends Model.Class<InvoiceRow>("Invoice")({
  month,
  closed_at: InstantColumn,
  lines: Column.integer("Number of lines."),
  requests: Column.integer("Number of requests in all lines."),
  bytes: Column.integer("Bytes of all lines."),
  cost_microdollars: Column.integer("Sum of all lines, in millionths of a US dollar."),
  digest: Column.text("SHA-256 of the lines as exported CSV, in hexadecimal digits."),
}) {}

/**
 * What an invoice line summarizes: requests that were charged, requests that cost nothing, requests that were rejected,
 * or an amount without individual requests, such as a correction.
 */
export const invoiceLineKinds = ["charged", "free", "refused", "unitemized"] as const

/**
 * A row of `/v1/account/invoice-lines`. Never add a field: the digest of a closed invoice is computed from these
 * columns as CSV.
 */
export class InvoiceLineRow extends Model.Class<InvoiceLineRow>("InvoiceLine")({
  month,
  line: Column.integer("Number of the line in the invoice, from 1 on."),
  usage_date: Column.date("Date of the requests in New York. Before the month: they were recorded late."),
  endpoint: Column.text("Path of the requested endpoint, as in `/v1/usage`."),
  kind: Column.literal(
    invoiceLineKinds,
    "`charged`: requests with a cost. `refused`: those without a cost and with a status of 400 or higher. `free`: " +
      "all others. `unitemized`: corrections of the operator.",
  ),
  requests: Column.integer("Number of requests. A correction may be negative, as may `bytes` and `cost_microdollars`."),
  bytes: Column.integer("Size of the response bodies before compression."),
  price_per_gb_microdollars: Column.nullable(
    Column.integer("Price of 1,000,000,000 bytes in millionths of a US dollar. Null: the line is a correction."),
  ),
  cost_microdollars: Column.integer(
    "Sum of the costs of the requests, each of which is rounded up to a millionth of a US dollar.",
  ),
}) {}

/** The parameters of `/v1/account/api-keys`. */
export const ApiKeysQuery = Schema.Struct(PagingParameters).check(checkParameterCombinations)

/** The parameters of `/v1/account/invoices`. */
export const InvoicesQuery = Schema.Struct({ month: Filter.monthFilter, ...PagingParameters }).check(
  checkParameterCombinations,
)

/** The parameters of `/v1/account/invoice-lines`. */
export const InvoiceLinesQuery = Schema.Struct({
  month: Filter.monthFilter,
  endpoint: Filter.endpointFilter,
  kind: Filter.makeEnumFilter(invoiceLineKinds),
  ...Filter.makePastDateRanges("usage_date"),
  ...PagingParameters,
}).check(checkParameterCombinations)

/** The response of `/v1/account`. */
export const AccountResponse = Schema.Struct({
  count: ResultCount,
  results: Schema.Tuple([Column.getRowJsonSchema(AccountRow)]).annotate({ description: "Exactly one object." }),
})

/** The `/v1/account` endpoint and all endpoints below it. */
export class AccountApiGroup extends HttpApiGroup.make("account").add(
  HttpApiEndpoint.get("show", "/account", {
    query: Filter.NoParameters,
    success: AccountResponse,
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotateMerge(describeEndpoint("Account", "Your account.")),
  HttpApiEndpoint.get("listKeys", "/account/api-keys", {
    query: ApiKeysQuery,
    success: makeListEnvelope(Column.getRowJsonSchema(ApiKeyRow)),
    error: freeEndpointListErrors,
  }).annotateMerge(describeEndpoint(
    "API keys",
    "Your account's keys, oldest first. `last_used_at` is updated at most once a minute per key.",
  )),
  HttpApiEndpoint.get("listInvoices", "/account/invoices", {
    query: InvoicesQuery,
    success: makeListEnvelope(Column.getRowJsonSchema(InvoiceRow)),
    error: freeEndpointListErrors,
  }).annotateMerge(describeEndpoint("Invoices", "Closed months of your account, newest first. They never change.")),
  HttpApiEndpoint.get("listInvoiceLines", "/account/invoice-lines", {
    query: InvoiceLinesQuery,
    success: makeListEnvelope(Column.getRowJsonSchema(InvoiceLineRow)),
    error: freeEndpointListErrors,
  }).annotateMerge(describeEndpoint(
    "Invoice lines",
    "Lines of your invoices: per New York day, endpoint, kind of request and price. Newest month first, then by line.",
  )),
).annotateMerge(describeEndpointGroup("Account", "The account, its API keys and its invoices.")) {}

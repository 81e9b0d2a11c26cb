/** `GET /v1/registrations`: §4.4 (filters). */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeEndpointGroup } from "../rules/EndpointAnnotations.ts"
import * as Column from "../rows/Columns.ts"
import { listErrors } from "../rules/ApiErrors.ts"
import * as Filter from "../rules/FilterParameters.ts"
import { makeListQueryWithSources } from "../rules/ListQueries.ts"
import { makeListEnvelope } from "../rules/Paging.ts"
import { TickerListParameter } from "../rules/Tickers.ts"
import { NewYorkTimeColumn } from "../rows/Timestamps.ts"

/** The registration types. */
export const registrationTypes = ["shelf", "equity_line", "offering", "resale"] as const

/** A row of `/v1/registrations`. */
export class Registration extends Model.Class<Registration>("Registration")({
  id: Column.text("Unique id of the row."),
  ticker: Column.ticker(),
  headline: Column.text("One-line summary of the registration."),
  type: Column.literal(registrationTypes, "Type of registration."),
  form_type: Column.text("SEC form of the filing, such as `S-3`."),
  file_no: Column.text("SEC file number."),
  filed_at: Column.markAsRowDate(Column.date("Date of the filing.")),
  effective_date: Column.nullable(Column.date("Date on which the SEC declared it effective.")),
  effective_status: Column.boolean("Whether the registration is effective."),
  expiration_date: Column.nullable(Column.date("Date on which the registration expires.")),
  offering_amount: Column.nullable(Column.money("Amount registered, USD.")),
  shares_registered: Column.nullable(Column.integer("Shares registered.")),
  is_atm: Column.boolean("Whether shares are sold at the market."),
  bank: Column.nullable(Column.text("Selling bank or agent.")),
  amount_remaining_atm: Column.nullable(Column.money("Remaining amount to sell at the market, USD.")),
  total_raised: Column.nullable(Column.money("Amount raised under the registration, USD.")),
  amount_sold_to_date: Column.nullable(Column.money("Amount sold under the registration so far, USD.")),
  amount_sold_12_months: Column.nullable(Column.money("Amount sold in the last twelve months, USD.")),
  high_60_day: Column.nullable(Column.price("Highest close of the last 60 days, USD.")),
  baby_shelf_raisable_amount: Column.nullable(
    Column.money("Amount that the baby-shelf rule allows the company to raise, USD."),
  ),
  calculated_raisable_amount: Column.nullable(Column.money("Amount that the company can raise now, USD.")),
  over_baby_shelf: Column.nullable(
    Column.boolean("Whether the public float is $75 million or more, so that the baby-shelf rule sets no limit."),
  ),
  price_to_exceed_baby_shelf: Column.nullable(
    Column.price("Share price from which the baby-shelf rule sets no limit, USD."),
  ),
  details: Column.nullable(Column.text("Details from the filing.")),
  document_url: Column.nullable(Column.text("URL of the filing.")),
  last_updated: NewYorkTimeColumn,
  source: Column.sourceForLoading,
}) {}

/** The parameters of `/v1/registrations`. */
export const RegistrationsQuery = makeListQueryWithSources({
  ticker: Schema.optionalKey(TickerListParameter),
  type: Filter.makeEnumFilter(registrationTypes),
  ...Filter.makeTextFilters("form_type"),
  ...Filter.makeCodeFilters("file_no"),
  bank: Filter.makeSubstringFilter("bank"),
  ...Filter.makeBooleanFilters("effective_status", "is_atm", "over_baby_shelf"),
  ...Filter.makeNumberRanges("offering_amount", "total_raised", "amount_sold_to_date", "calculated_raisable_amount"),
  ...Filter.makePastDateRanges("filed_at", "effective_date"),
  ...Filter.makeDateRanges("expiration_date"),
})

/** The `/v1/registrations` endpoint. */
export class RegistrationsApiGroup extends HttpApiGroup.make("registrations").add(
  HttpApiEndpoint.get("list", "/registrations", {
    query: RegistrationsQuery,
    success: makeListEnvelope(Column.getRowJsonSchemaWithSourceAndLineage(Registration)),
    error: listErrors,
  }).annotateMerge(
    describeEndpoint(
      "Registrations",
      "Registration statements under which companies can sell shares, and what they have raised, newest filing " +
        "first.",
      { tables: ["registrations"], hasCompanyRows: true, thirdPartyText: ["headline", "details"] },
    ),
  ),
).annotateMerge(describeEndpointGroup("Registrations", "Registrations of shares for sale.")) {}

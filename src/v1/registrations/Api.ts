/** GET /v1/registrations: §4.4 (filters). */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import {
  AnswersEverySymbol,
  describeEndpoint,
  describeEndpointGroup,
  TablesReadByEndpoint,
  ThirdPartyTextColumns,
} from "../../rules/EndpointAnnotations.ts"
import {
  booleanColumn,
  dateColumn,
  getRowJsonSchemaWithSourceAndLineage,
  integerColumn,
  literalColumn,
  markAsRowDate,
  moneyColumn,
  nullableColumn,
  priceColumn,
  sourceColumnForLoading,
  textColumn,
  tickerColumn,
} from "../../rows/Columns.ts"
import { AmbiguousTickerLineage, AsOfTooEarly, DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { AsOfParameter } from "../../rules/AsOfParameter.ts"
import { checkParameterCombinations } from "../../rules/ParameterCombinations.ts"
import {
  makeBooleanFilters,
  makeCodeFilters,
  makeDateRangeFilters,
  makeEnumFilter,
  makeNumberRangeFilters,
  makePastDateRangeFilters,
  makeSubstringFilter,
  makeTextFilters,
} from "../../rules/Filters.ts"
import { LineageParameters } from "../../rules/LineageParameters.ts"
import { makeListEnvelope, PagingParameters } from "../../rules/Paging.ts"
import { ProvenanceParameter } from "../../rules/ProvenanceParameter.ts"
import { TickerListParameter } from "../../rules/Tickers.ts"
import { NewYorkTimeColumn } from "../../rows/Timestamps.ts"

export const registrationTypes = ["shelf", "equity_line", "offering", "resale"] as const

export class Registration extends Model.Class<Registration>("Registration")({
  id: textColumn("Unique id of the row."),
  ticker: tickerColumn(),
  headline: textColumn("One-line summary of the registration."),
  type: literalColumn(registrationTypes, "Type of registration."),
  form_type: textColumn("SEC form of the filing, such as `S-3`."),
  file_no: textColumn("SEC file number."),
  filed_at: markAsRowDate(dateColumn("Date of the filing.")),
  effective_date: nullableColumn(dateColumn("Date on which the SEC declared it effective.")),
  effective_status: booleanColumn("Whether the registration is effective."),
  expiration_date: nullableColumn(dateColumn("Date on which the registration expires.")),
  offering_amount: nullableColumn(moneyColumn("Amount registered, USD.")),
  shares_registered: nullableColumn(integerColumn("Shares registered.")),
  is_atm: booleanColumn("Whether shares are sold at the market."),
  bank: nullableColumn(textColumn("Selling bank or agent.")),
  amount_remaining_atm: nullableColumn(moneyColumn("Remaining amount to sell at the market, USD.")),
  total_raised: nullableColumn(moneyColumn("Amount raised under the registration, USD.")),
  amount_sold_to_date: nullableColumn(moneyColumn("Amount sold under the registration so far, USD.")),
  amount_sold_12_months: nullableColumn(moneyColumn("Amount sold in the last twelve months, USD.")),
  high_60_day: nullableColumn(priceColumn("Highest close of the last 60 days, USD.")),
  baby_shelf_raisable_amount: nullableColumn(
    moneyColumn("Amount that the baby-shelf rule allows the company to raise, USD."),
  ),
  calculated_raisable_amount: nullableColumn(moneyColumn("Amount that the company can raise now, USD.")),
  over_baby_shelf: nullableColumn(
    booleanColumn("Whether the public float is $75 million or more, so that the baby-shelf rule sets no limit."),
  ),
  price_to_exceed_baby_shelf: nullableColumn(
    priceColumn("Share price from which the baby-shelf rule sets no limit, USD."),
  ),
  details: nullableColumn(textColumn("Details from the filing.")),
  document_url: nullableColumn(textColumn("URL of the filing.")),
  last_updated: NewYorkTimeColumn,
  source: sourceColumnForLoading,
}) {}

export const RegistrationsQuery = Schema.Struct({
  ticker: Schema.optionalKey(TickerListParameter),
  type: makeEnumFilter(registrationTypes),
  ...makeTextFilters("form_type"),
  ...makeCodeFilters("file_no"),
  bank: makeSubstringFilter("bank"),
  ...makeBooleanFilters("effective_status", "is_atm", "over_baby_shelf"),
  ...makeNumberRangeFilters("offering_amount", "total_raised", "amount_sold_to_date", "calculated_raisable_amount"),
  ...makePastDateRangeFilters("filed_at", "effective_date"),
  ...makeDateRangeFilters("expiration_date"),
  ...LineageParameters,
  ...AsOfParameter,
  ...ProvenanceParameter,
  ...PagingParameters,
}).check(checkParameterCombinations)

export class RegistrationsApiGroup extends HttpApiGroup.make("registrations").add(
  HttpApiEndpoint.get("list", "/registrations", {
    query: RegistrationsQuery,
    success: makeListEnvelope(getRowJsonSchemaWithSourceAndLineage(Registration)),
    error: [AmbiguousTickerLineage, AsOfTooEarly, DataRefreshing, DatabasePoolTimeout],
  }).annotate(TablesReadByEndpoint, ["registrations"]).annotate(AnswersEverySymbol, true).annotate(
    ThirdPartyTextColumns,
    ["headline", "details"],
  )
    .annotateMerge(
      describeEndpoint(
        "Registrations",
        "Registration statements under which companies can sell shares, and what they have raised, newest filing " +
          "first.",
      ),
    ),
).annotateMerge(describeEndpointGroup("Registrations", "Registrations of shares for sale.")) {}

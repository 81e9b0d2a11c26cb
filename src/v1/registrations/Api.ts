/** §4.4. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeGroup, ReadsTables } from "../../rules/EndpointAnnotations.ts"
import {
  booleanColumn,
  dateColumn,
  getRowJsonSchema,
  integerColumn,
  literalColumn,
  moneyColumn,
  nullableColumn,
  priceColumn,
  textColumn,
  tickerColumn,
} from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { checkParameterCombinations } from "../../rules/ParameterCombinations.ts"
import {
  booleanFilters,
  caseInsensitiveTextFilters,
  dateRangeFilters,
  exactTextFilters,
  literalFilter,
  numberRangeFilters,
  pastDateRangeFilters,
  substringFilter,
} from "../../rules/Filters.ts"
import { ListEnvelope, PagingParameters } from "../../rules/Paging.ts"
import { TickerList } from "../../rules/Tickers.ts"
import { NewYorkWallClock } from "../../rows/Timestamps.ts"

const types = ["shelf", "equity_line", "offering", "resale"] as const

export class Registration extends Model.Class<Registration>("Registration")({
  id: textColumn("The row's own key."),
  ticker: tickerColumn(),
  headline: textColumn("The registration in a line."),
  type: literalColumn(types, "What kind of registration it is."),
  form_type: textColumn("SEC form of the filing."),
  file_no: textColumn("The SEC's file number."),
  filed_at: dateColumn("Day of the filing."),
  effective_date: nullableColumn(dateColumn("Day on which the SEC declared it effective.")),
  effective_status: booleanColumn("It is effective."),
  expiration_date: nullableColumn(dateColumn("Day on which it expires.")),
  offering_amount: nullableColumn(moneyColumn("Amount registered, USD.")),
  shares_registered: nullableColumn(integerColumn("Shares registered.")),
  is_atm: booleanColumn("Shares are sold at the market."),
  bank: nullableColumn(textColumn("The bank or agent that sells.")),
  amount_remaining_atm: nullableColumn(moneyColumn("Amount left to sell at the market, USD.")),
  total_raised: nullableColumn(moneyColumn("Amount raised under it, USD.")),
  amount_sold_to_date: nullableColumn(moneyColumn("Amount sold under it so far, USD.")),
  amount_sold_12_months: nullableColumn(moneyColumn("Amount sold in the last twelve months, USD.")),
  high_60_day: nullableColumn(priceColumn("Highest close of the last 60 days, USD.")),
  baby_shelf_raisable_amount: nullableColumn(moneyColumn("Amount the baby-shelf rule lets it raise, USD.")),
  calculated_raisable_amount: nullableColumn(moneyColumn("Amount it can raise now, USD.")),
  over_baby_shelf: nullableColumn(
    booleanColumn("True: the public float is $75 million or more and the baby-shelf rule sets no limit."),
  ),
  price_to_exceed_baby_shelf: nullableColumn(
    priceColumn("Share price from which the baby-shelf rule sets no limit, USD."),
  ),
  details: nullableColumn(textColumn("What the filing says.")),
  document_url: nullableColumn(textColumn("Address of the filing.")),
  last_updated: NewYorkWallClock,
}) {}

export const RegistrationsQuery = Schema.Struct({
  ticker: Schema.optionalKey(TickerList),
  type: literalFilter(types),
  ...caseInsensitiveTextFilters("form_type"),
  ...exactTextFilters("file_no"),
  bank: substringFilter("bank"),
  ...booleanFilters("effective_status", "is_atm", "over_baby_shelf"),
  ...numberRangeFilters("offering_amount", "total_raised", "amount_sold_to_date", "calculated_raisable_amount"),
  ...pastDateRangeFilters("filed_at", "effective_date"),
  ...dateRangeFilters("expiration_date"),
  ...PagingParameters,
}).check(checkParameterCombinations)

export class RegistrationsApiGroup extends HttpApiGroup.make("registrations").add(
  HttpApiEndpoint.get("list", "/registrations", {
    query: RegistrationsQuery,
    success: ListEnvelope(getRowJsonSchema(Registration)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(ReadsTables, ["registrations"]).annotateMerge(describeEndpoint(
    "Registrations",
    "Registration statements under which companies can sell shares, and what they have raised, newest filing first.",
  )),
).annotateMerge(describeGroup("Registrations", "Registrations of shares for sale.")) {}

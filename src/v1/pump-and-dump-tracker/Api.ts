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
  ratioColumn,
  textColumn,
  tickerColumn,
} from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { checkParameterCombinations } from "../../rules/ParameterCombinations.ts"
import {
  booleanFilters,
  countryFilter,
  dateRangeFilters,
  literalFilter,
  numberRangeFilters,
  pastDateRangeFilters,
  substringFilter,
} from "../../rules/Filters.ts"
import { ListEnvelope, PagingParameters } from "../../rules/Paging.ts"
import * as Printing from "../../rows/RowEncoder.ts"
import { TickerList } from "../../rules/Tickers.ts"
import { NewYorkWallClock } from "../../rows/Timestamps.ts"

const levels = ["high", "medium", "low"] as const

const country = Model.Field({
  select: Schema.String.annotate({ print: Printing.encodeText }),
  insert: Schema.String.check(
    Schema.isPattern(/^[A-Z]{2}$/, { message: "must be a country's two letters (ISO 3166 alpha-2)" }),
  ),
  json: Schema.String.annotate({ description: "The company's country, ISO 3166 alpha-2." }),
})

export class PumpAndDumpSuspect extends Model.Class<PumpAndDumpSuspect>("PumpAndDumpSuspect")({
  ticker: tickerColumn(),
  company: nullableColumn(textColumn("The company's name.")),
  ipo_date: nullableColumn(dateColumn("Day of the initial public offering.")),
  lock_up_expiration: nullableColumn(dateColumn("Day on which holders may first sell.")),
  lock_up_shares: nullableColumn(integerColumn("Shares that become free to sell that day.")),
  underwriters: nullableColumn(textColumn("Names of the underwriters.")),
  known_underwriter: booleanColumn("An underwriter has brought such companies to market before."),
  number_liquidations: integerColumn("How often the price has collapsed."),
  last_liquidation_date: nullableColumn(dateColumn("Day of the latest collapse.")),
  liquidation_history: nullableColumn(literalColumn(levels, "What the collapses so far say of the risk.")),
  tradable_float: nullableColumn(integerColumn("Shares that can trade.")),
  outstanding_shares: nullableColumn(integerColumn("Shares outstanding.")),
  market_cap: nullableColumn(moneyColumn("Market capitalisation, USD.")),
  country: nullableColumn(country),
  exchange: nullableColumn(textColumn("Where it is listed.")),
  sector: nullableColumn(textColumn("The company's sector.")),
  industry: nullableColumn(textColumn("The company's industry.")),
  is_adr: booleanColumn("An American depositary receipt."),
  gain_1_day: nullableColumn(ratioColumn("Change of the price over 1 day, %.")),
  gain_7_day: nullableColumn(ratioColumn("Change of the price over 7 days, %.")),
  gain_14_day: nullableColumn(ratioColumn("Change of the price over 14 days, %.")),
  gain_30_day: nullableColumn(ratioColumn("Change of the price over 30 days, %.")),
  num_splits: integerColumn("How often the shares were split."),
  last_split_date: nullableColumn(dateColumn("Day of the latest split.")),
  underwriter_risk: nullableColumn(literalColumn(levels, "Risk by the underwriters' record.")),
  country_risk: nullableColumn(literalColumn(levels, "Risk by the company's country.")),
  float_risk: nullableColumn(literalColumn(levels, "Risk by the size of the float.")),
  scam_risk: nullableColumn(literalColumn(levels, "Risk that the stock is promoted by fraud.")),
  scam_description: nullableColumn(textColumn("What is known of the promotion.")),
  last_post_date: nullableColumn(dateColumn("Day of the latest promotional post.")),
  document_url: nullableColumn(textColumn("Address of the prospectus.")),
  filed_at: nullableColumn(dateColumn("Day on which the prospectus was filed.")),
  effective_date: nullableColumn(dateColumn("Day on which the SEC declared it effective.")),
  last_updated: NewYorkWallClock,
}) {}

export const PumpAndDumpTrackerQuery = Schema.Struct({
  ticker: Schema.optionalKey(TickerList),
  country: countryFilter,
  underwriter_risk: literalFilter(levels),
  country_risk: literalFilter(levels),
  float_risk: literalFilter(levels),
  scam_risk: literalFilter(levels),
  underwriters: substringFilter("underwriters"),
  ...booleanFilters("known_underwriter", "is_adr"),
  ...numberRangeFilters("number_liquidations", "tradable_float", "outstanding_shares", "market_cap"),
  ...numberRangeFilters("gain_1_day", "gain_7_day", "gain_14_day", "gain_30_day"),
  ...pastDateRangeFilters("filed_at", "effective_date", "ipo_date", "last_liquidation_date"),
  ...dateRangeFilters("lock_up_expiration"),
  ...PagingParameters,
}).check(checkParameterCombinations)

export class PumpAndDumpTrackerApiGroup extends HttpApiGroup.make("pumpAndDumpTracker").add(
  HttpApiEndpoint.get("list", "/pump-and-dump-tracker", {
    query: PumpAndDumpTrackerQuery,
    success: ListEnvelope(getRowJsonSchema(PumpAndDumpSuspect)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(ReadsTables, ["pump_and_dump_tracker"]).annotateMerge(describeEndpoint(
    "Pump-and-dump tracker",
    "Companies whose stock may be promoted to be sold, with the signs that speak for it, newest offering first.",
  )),
).annotateMerge(
  describeGroup("Pump-and-dump tracker", "Companies suspected of being promoted in order to sell their shares."),
) {}

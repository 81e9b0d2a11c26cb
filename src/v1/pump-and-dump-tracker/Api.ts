/** GET /v1/pump-and-dump-tracker: §4.4 (filters). */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import {
  describeEndpoint,
  describeEndpointGroup,
  TablesReadByEndpoint,
  ThirdPartyTextColumns,
} from "../../rules/EndpointAnnotations.ts"
import {
  booleanColumn,
  dateColumn,
  getRowJsonSchemaWithLineage,
  integerColumn,
  literalColumn,
  moneyColumn,
  nullableColumn,
  ratioColumn,
  textColumn,
  tickerColumn,
} from "../../rows/Columns.ts"
import { AmbiguousTickerLineage, AsOfTooEarly, DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { AsOfParameter } from "../../rules/AsOfParameter.ts"
import { checkParameterCombinations } from "../../rules/ParameterCombinations.ts"
import {
  countryFilter,
  makeBooleanFilters,
  makeDateRangeFilters,
  makeEnumFilter,
  makeNumberRangeFilters,
  makePastDateRangeFilters,
  makeSubstringFilter,
} from "../../rules/Filters.ts"
import { LineageParameters } from "../../rules/LineageParameters.ts"
import { makeListEnvelope, PagingParameters } from "../../rules/Paging.ts"
import { textFieldEncoder } from "../../rows/FieldEncoders.ts"
import { TickerListParameter } from "../../rules/Tickers.ts"
import { NewYorkTimeColumn } from "../../rows/Timestamps.ts"

export const riskLevels = ["high", "medium", "low"] as const

const country = Model.Field({
  select: Schema.String.annotate({ fieldEncoder: textFieldEncoder }),
  insert: Schema.String.check(
    Schema.isPattern(/^[A-Z]{2}$/, { message: "must be a two-letter country code (ISO 3166 alpha-2)" }),
  ),
  json: Schema.String.annotate({ description: "Country of the company, ISO 3166 alpha-2." }),
})

export class PumpAndDumpSuspect extends Model.Class<PumpAndDumpSuspect>("PumpAndDumpSuspect")({
  ticker: tickerColumn(),
  company: nullableColumn(textColumn("Company name.")),
  ipo_date: nullableColumn(dateColumn("Date of the initial public offering.")),
  lock_up_expiration: nullableColumn(dateColumn("Date on which the lock-up period ends.")),
  lock_up_shares: nullableColumn(integerColumn("Shares that can be sold from that date on.")),
  underwriters: nullableColumn(textColumn("Names of the underwriters.")),
  known_underwriter: booleanColumn("Whether an underwriter has brought similar companies to market before."),
  number_liquidations: integerColumn("Number of price collapses."),
  last_liquidation_date: nullableColumn(dateColumn("Date of the latest collapse.")),
  liquidation_history: nullableColumn(literalColumn(riskLevels, "Risk level based on past collapses.")),
  tradable_float: nullableColumn(integerColumn("Freely tradable shares.")),
  outstanding_shares: nullableColumn(integerColumn("Shares outstanding.")),
  market_cap: nullableColumn(moneyColumn("Market capitalization, USD.")),
  country: nullableColumn(country),
  exchange: nullableColumn(textColumn("Exchange of the listing.")),
  sector: nullableColumn(textColumn("Sector of the company.")),
  industry: nullableColumn(textColumn("Industry of the company.")),
  is_adr: booleanColumn("Whether the listed security is a depositary receipt."),
  gain_1_day: nullableColumn(ratioColumn("Price change over 1 day, %.")),
  gain_7_day: nullableColumn(ratioColumn("Price change over 7 days, %.")),
  gain_14_day: nullableColumn(ratioColumn("Price change over 14 days, %.")),
  gain_30_day: nullableColumn(ratioColumn("Price change over 30 days, %.")),
  num_splits: integerColumn("Number of share splits."),
  last_split_date: nullableColumn(dateColumn("Date of the latest split.")),
  underwriter_risk: nullableColumn(literalColumn(riskLevels, "Risk level based on the underwriters' record.")),
  country_risk: nullableColumn(literalColumn(riskLevels, "Risk level based on the company's country.")),
  float_risk: nullableColumn(literalColumn(riskLevels, "Risk level based on the size of the float.")),
  scam_risk: nullableColumn(literalColumn(riskLevels, "Risk that the stock is promoted fraudulently.")),
  scam_description: nullableColumn(textColumn("Description of the suspected promotion.")),
  last_post_date: nullableColumn(dateColumn("Date of the latest promotional post.")),
  document_url: nullableColumn(textColumn("URL of the prospectus.")),
  filed_at: nullableColumn(dateColumn("Date on which the prospectus was filed.")),
  effective_date: nullableColumn(dateColumn("Date on which the SEC declared it effective.")),
  last_updated: NewYorkTimeColumn,
}) {}

export const PumpAndDumpTrackerQuery = Schema.Struct({
  ticker: Schema.optionalKey(TickerListParameter),
  country: countryFilter,
  underwriter_risk: makeEnumFilter(riskLevels),
  country_risk: makeEnumFilter(riskLevels),
  float_risk: makeEnumFilter(riskLevels),
  scam_risk: makeEnumFilter(riskLevels),
  underwriters: makeSubstringFilter("underwriters"),
  ...makeBooleanFilters("known_underwriter", "is_adr"),
  ...makeNumberRangeFilters("number_liquidations", "tradable_float", "outstanding_shares", "market_cap"),
  ...makeNumberRangeFilters("gain_1_day", "gain_7_day", "gain_14_day", "gain_30_day"),
  ...makePastDateRangeFilters("filed_at", "effective_date", "ipo_date", "last_liquidation_date"),
  ...makeDateRangeFilters("lock_up_expiration"),
  ...LineageParameters,
  ...AsOfParameter,
  ...PagingParameters,
}).check(checkParameterCombinations)

export class PumpAndDumpTrackerApiGroup extends HttpApiGroup.make("pumpAndDumpTracker").add(
  HttpApiEndpoint.get("list", "/pump-and-dump-tracker", {
    query: PumpAndDumpTrackerQuery,
    success: makeListEnvelope(getRowJsonSchemaWithLineage(PumpAndDumpSuspect)),
    error: [AmbiguousTickerLineage, AsOfTooEarly, DataRefreshing, DatabasePoolTimeout],
  }).annotate(TablesReadByEndpoint, ["pump_and_dump_tracker"]).annotate(ThirdPartyTextColumns, ["scam_description"])
    .annotateMerge(
      describeEndpoint(
        "Pump-and-dump tracker",
        "Companies whose stock may be subject to a pump-and-dump scheme, with the risk indicators, newest offering " +
          "first. `follow_lineage` uses the current symbol only.",
      ),
    ),
).annotateMerge(
  describeEndpointGroup("Pump-and-dump tracker", "Companies suspected of pump-and-dump promotion."),
) {}

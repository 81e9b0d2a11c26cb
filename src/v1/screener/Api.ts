/** GET /v1/screener: §2.5 (fields). */
import { Effect, Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import {
  AnswersEverySymbol,
  describeEndpoint,
  describeEndpointGroup,
  TablesReadByEndpoint,
} from "../../rules/EndpointAnnotations.ts"
import {
  booleanColumn,
  dateColumn,
  getRowJsonSchemaWithSourceAndLineage,
  integerColumn,
  moneyColumn,
  nullableColumn,
  priceColumn,
  ratioColumn,
  sourceColumnForLoading,
  textColumn,
  tickerColumn,
} from "../../rows/Columns.ts"
import { AmbiguousTickerLineage, AsOfTooEarly, DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { AsOfParameter } from "../../rules/AsOfParameter.ts"
import { checkParameterCombinations } from "../../rules/ParameterCombinations.ts"
import {
  makeBooleanFilters,
  makeNumberRangeFilters,
  makePastDateRangeFilters,
  makeTextFilters,
} from "../../rules/Filters.ts"
import { LineageParameters } from "../../rules/LineageParameters.ts"
import { makeListEnvelope, PagingParameters } from "../../rules/Paging.ts"
import { ProvenanceParameter } from "../../rules/ProvenanceParameter.ts"
import { TickerListParameter } from "../../rules/Tickers.ts"
import { NewYorkTimeColumn } from "../../rows/Timestamps.ts"

const gain = (days: string) => nullableColumn(ratioColumn(`Price change over ${days}, %.`))

export class ScreenerRow extends Model.Class<ScreenerRow>("ScreenerRow")({
  ticker: tickerColumn(),
  company: nullableColumn(textColumn("Company name.")),
  cik: nullableColumn(textColumn("CIK of the issuer.")),
  exchange: nullableColumn(textColumn("Exchange of the listing.")),
  sector: nullableColumn(textColumn("Sector of the company.")),
  industry: nullableColumn(textColumn("Industry of the company.")),
  country: nullableColumn(textColumn("Country of the company.")),
  state: nullableColumn(textColumn("State of the company.")),
  city: nullableColumn(textColumn("City of the company.")),
  website: nullableColumn(textColumn("URL of the company's website.")),
  ipo_date: nullableColumn(dateColumn("Date of the initial public offering.")),
  is_adr: booleanColumn("Whether the listed security is a depositary receipt."),
  price: nullableColumn(priceColumn("Last price, USD.")),
  market_cap: nullableColumn(moneyColumn("Market capitalization, USD.")),
  high_365: nullableColumn(priceColumn("Highest price of the last 365 days, USD.")),
  low_365: nullableColumn(priceColumn("Lowest price of the last 365 days, USD.")),
  outstanding: nullableColumn(integerColumn("Shares outstanding.")),
  float: nullableColumn(integerColumn("Shares not held by insiders and affiliates.")),
  tradable_float: nullableColumn(integerColumn("Shares of the float that can be traded.")),
  insider_percent: nullableColumn(ratioColumn("Fraction held by insiders: 0.15 means 15%.")),
  affiliate_percent: nullableColumn(ratioColumn("Fraction held by affiliates: 0.15 means 15%.")),
  institutions_percent: nullableColumn(ratioColumn("Fraction held by institutions: 0.15 means 15%.")),
  ownership_source_url: nullableColumn(textColumn("URL of the filing that reports the ownership figures.")),
  average_volume: nullableColumn(integerColumn("Average daily volume, shares.")),
  median_volume_60: nullableColumn(integerColumn("Median daily volume of the last 60 days, shares.")),
  today_volume: nullableColumn(integerColumn("Shares traded today.")),
  volume_change_percentage: nullableColumn(ratioColumn("Today's volume relative to the average, %.")),
  short_interest: nullableColumn(integerColumn("Shares sold short.")),
  short_float: nullableColumn(ratioColumn("Fraction of the float that is sold short: 0.15 means 15%.")),
  days_to_cover: nullableColumn(ratioColumn("Short interest divided by the average volume, days.")),
  shares_available: nullableColumn(integerColumn("Shares available to borrow.")),
  fee_rate: nullableColumn(ratioColumn("Annual fee for borrowing shares, %.")),
  gain_1_day: gain("1 day"),
  gain_2_day: gain("2 days"),
  gain_3_day: gain("3 days"),
  gain_7_day: gain("7 days"),
  gain_14_day: gain("14 days"),
  gain_30_day: gain("30 days"),
  gain_60_day: gain("60 days"),
  gain_90_day: gain("90 days"),
  gain_180_day: gain("180 days"),
  gain_365_day: gain("365 days"),
  num_gaps: integerColumn("Number of upward gaps."),
  num_runners: integerColumn("Number of intraday runs."),
  avg_gap: nullableColumn(ratioColumn("Average gap, %.")),
  ratio_debt_to_equity: nullableColumn(ratioColumn("Debt divided by equity.")),
  pending_s1: booleanColumn("Whether a form S-1 registration is pending."),
  last_updated: NewYorkTimeColumn,
  source: sourceColumnForLoading,
}) {}

/** Numeric fields with `min_` and `max_` filters. */
const filtered = [
  "price",
  "market_cap",
  "outstanding",
  "float",
  "tradable_float",
  "average_volume",
  "median_volume_60",
  "today_volume",
  "volume_change_percentage",
  "short_interest",
  "short_float",
  "days_to_cover",
  "shares_available",
  "fee_rate",
  "gain_1_day",
  "gain_2_day",
  "gain_3_day",
  "gain_7_day",
  "gain_14_day",
  "gain_30_day",
  "gain_60_day",
  "gain_90_day",
  "gain_180_day",
  "gain_365_day",
  "num_gaps",
  "num_runners",
  "avg_gap",
  "ratio_debt_to_equity",
] as const

/** Fields that support sorting but not filtering (§2.5). */
const readOnly = ["high_365", "low_365", "insider_percent", "affiliate_percent", "institutions_percent"] as const

export const screenerSorts = (["ticker", ...filtered, ...readOnly] as const).flatMap((
  field,
) => [field, `-${field}` as const])
export type ScreenerSortOrder = typeof screenerSorts[number]

export const ScreenerQuery = Schema.Struct({
  ticker: Schema.optionalKey(TickerListParameter),
  ...makeTextFilters("exchange", "sector", "industry", "country", "state"),
  ...makeBooleanFilters("is_adr", "pending_s1"),
  ...makePastDateRangeFilters("ipo_date"),
  ...makeNumberRangeFilters(...filtered),
  sort: Schema.Literals(screenerSorts).annotate({
    default: "ticker",
    filter: { operator: "statement" },
    description: "A numeric field or ticker; prefix it with - for descending order. Rows without the value come last.",
    message: "must be ticker or a numeric field of the rows, prefixed with - for descending order",
  }).pipe(Schema.withDecodingDefaultTypeKey(Effect.succeed("ticker" as const))),
  ...LineageParameters,
  ...AsOfParameter,
  ...ProvenanceParameter,
  ...PagingParameters,
}).check(checkParameterCombinations)

export class ScreenerApiGroup extends HttpApiGroup.make("screener").add(
  HttpApiEndpoint.get("list", "/screener", {
    query: ScreenerQuery,
    success: makeListEnvelope(getRowJsonSchemaWithSourceAndLineage(ScreenerRow)),
    error: [AmbiguousTickerLineage, AsOfTooEarly, DataRefreshing, DatabasePoolTimeout],
  }).annotate(TablesReadByEndpoint, ["screener"]).annotate(AnswersEverySymbol, true).annotateMerge(describeEndpoint(
    "Screener",
    "Every ticker with its company, price, float, volume, short interest and gains, which you can filter and sort " +
      "by. The rows have no date, so `follow_lineage` uses the current symbol only.",
  )),
).annotateMerge(describeEndpointGroup("Screener", "Every ticker with its key figures, to filter and sort by.")) {}

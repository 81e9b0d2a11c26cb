/** GET /v1/float-outstanding: §2.5 (fields). */
import { Schema } from "effect"
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
  ratioColumn,
  sourceColumnForLoading,
  textColumn,
  tickerColumn,
} from "../../rows/Columns.ts"
import { AmbiguousTickerLineage, AsOfTooEarly, DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { AsOfParameter } from "../../rules/AsOfParameter.ts"
import { checkParameterCombinations } from "../../rules/ParameterCombinations.ts"
import { makeBooleanFilters, makeNumberRangeFilters, makeTextFilters } from "../../rules/Filters.ts"
import { LineageParameters } from "../../rules/LineageParameters.ts"
import { makeListEnvelope, PagingParameters } from "../../rules/Paging.ts"
import { ProvenanceParameter } from "../../rules/ProvenanceParameter.ts"
import { TickerListParameter } from "../../rules/Tickers.ts"
import { NewYorkTimeColumn } from "../../rows/Timestamps.ts"

export class FloatOutstanding extends Model.Class<FloatOutstanding>("FloatOutstanding")({
  ticker: tickerColumn(),
  company: nullableColumn(textColumn("Company name.")),
  float: nullableColumn(integerColumn("Shares not held by insiders and affiliates.")),
  outstanding: nullableColumn(integerColumn("Shares outstanding.")),
  tradable_float: nullableColumn(integerColumn("Shares of the float that can be traded.")),
  market_cap: nullableColumn(moneyColumn("Market capitalization, USD.")),
  insider_percent: nullableColumn(ratioColumn("Fraction held by insiders: 0.15 means 15%. Null: unknown.")),
  affiliate_percent: nullableColumn(ratioColumn("Fraction held by affiliates: 0.15 means 15%. Null: unknown.")),
  institutions_percent: nullableColumn(ratioColumn("Fraction held by institutions: 0.15 means 15%. Null: unknown.")),
  is_adr: booleanColumn("Whether the listed security is a depositary receipt."),
  ads_ratio: nullableColumn(ratioColumn("Ordinary shares per depositary share.")),
  country: nullableColumn(textColumn("Country of the company.")),
  sector: nullableColumn(textColumn("Sector of the company.")),
  industry: nullableColumn(textColumn("Industry of the company.")),
  exchange: nullableColumn(textColumn("Exchange of the listing.")),
  reported_date: nullableColumn(dateColumn("Date of the figures.")),
  filed_at: nullableColumn(dateColumn("Date of the filing that reports the figures.")),
  ownership_source_url: nullableColumn(textColumn("URL of the filing that reports the ownership figures.")),
  document_url: nullableColumn(textColumn("URL of the filing that reports the share counts.")),
  last_updated: NewYorkTimeColumn,
  source: sourceColumnForLoading,
}) {}

export const FloatOutstandingQuery = Schema.Struct({
  ticker: Schema.optionalKey(TickerListParameter),
  ...makeTextFilters("country", "sector", "industry", "exchange"),
  ...makeBooleanFilters("is_adr"),
  ...makeNumberRangeFilters("float", "outstanding", "tradable_float", "market_cap"),
  ...LineageParameters,
  ...AsOfParameter,
  ...ProvenanceParameter,
  ...PagingParameters,
}).check(checkParameterCombinations)

export class FloatOutstandingApiGroup extends HttpApiGroup.make("floatOutstanding").add(
  HttpApiEndpoint.get("list", "/float-outstanding", {
    query: FloatOutstandingQuery,
    success: makeListEnvelope(getRowJsonSchemaWithSourceAndLineage(FloatOutstanding)),
    error: [AmbiguousTickerLineage, AsOfTooEarly, DataRefreshing, DatabasePoolTimeout],
  }).annotate(TablesReadByEndpoint, ["float_outstanding"]).annotate(AnswersEverySymbol, true).annotateMerge(
    describeEndpoint(
      "Float and shares outstanding",
      "The newest float, shares outstanding and ownership figures of each ticker. A message appears if ownership " +
        "figures on the page are missing; a reported 0 is not missing. `follow_lineage` uses the current symbol only.",
    ),
  ),
).annotateMerge(
  describeEndpointGroup(
    "Float and shares outstanding",
    "The latest float, shares outstanding and ownership percentages.",
  ),
) {}

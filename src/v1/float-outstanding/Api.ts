/** §2.5. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeGroup, ReadsTables } from "../../rules/EndpointAnnotations.ts"
import {
  booleanColumn,
  dateColumn,
  getRowJsonSchema,
  integerColumn,
  moneyColumn,
  nullableColumn,
  ratioColumn,
  textColumn,
  tickerColumn,
} from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { checkParameterCombinations } from "../../rules/ParameterCombinations.ts"
import { booleanFilters, caseInsensitiveTextFilters, numberRangeFilters } from "../../rules/Filters.ts"
import { ListEnvelope, PagingParameters } from "../../rules/Paging.ts"
import { TickerList } from "../../rules/Tickers.ts"
import { NewYorkWallClock } from "../../rows/Timestamps.ts"

export class FloatOutstanding extends Model.Class<FloatOutstanding>("FloatOutstanding")({
  ticker: tickerColumn(),
  company: nullableColumn(textColumn("Name of the company.")),
  float: nullableColumn(integerColumn("Shares not held by insiders and affiliates.")),
  outstanding: nullableColumn(integerColumn("Shares outstanding.")),
  tradable_float: nullableColumn(integerColumn("Shares of the float that may be traded.")),
  market_cap: nullableColumn(moneyColumn("Market capitalisation, USD.")),
  insider_percent: nullableColumn(ratioColumn("Held by insiders, a fraction: 0.15 is 15 %. null: not known.")),
  affiliate_percent: nullableColumn(ratioColumn("Held by affiliates, a fraction: 0.15 is 15 %. null: not known.")),
  institutions_percent: nullableColumn(ratioColumn("Held by institutions, a fraction: 0.15 is 15 %. null: not known.")),
  is_adr: booleanColumn("Depositary receipts are what is listed."),
  ads_ratio: nullableColumn(ratioColumn("Ordinary shares that one depositary share stands for.")),
  country: nullableColumn(textColumn("Country of the company.")),
  sector: nullableColumn(textColumn("Sector of the company.")),
  industry: nullableColumn(textColumn("Industry of the company.")),
  exchange: nullableColumn(textColumn("Where the ticker is listed.")),
  reported_date: nullableColumn(dateColumn("The day that the figures are for.")),
  filed_at: nullableColumn(dateColumn("The day of the filing that they come from.")),
  ownership_source_url: nullableColumn(textColumn("The filing that the ownership figures come from.")),
  document_url: nullableColumn(textColumn("The filing that the share counts come from.")),
  last_updated: NewYorkWallClock,
}) {}

export const FloatOutstandingQuery = Schema.Struct({
  ticker: Schema.optionalKey(TickerList),
  ...caseInsensitiveTextFilters("country", "sector", "industry", "exchange"),
  ...booleanFilters("is_adr"),
  ...numberRangeFilters("float", "outstanding", "tradable_float", "market_cap"),
  ...PagingParameters,
}).check(checkParameterCombinations)

export class FloatOutstandingApiGroup extends HttpApiGroup.make("floatOutstanding").add(
  HttpApiEndpoint.get("list", "/float-outstanding", {
    query: FloatOutstandingQuery,
    success: ListEnvelope(getRowJsonSchema(FloatOutstanding)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(ReadsTables, ["float_outstanding"]).annotateMerge(describeEndpoint(
    "Float and shares outstanding",
    "The newest float, shares outstanding and ownership figures of each ticker. A message says when ownership " +
      "figures of the page are missing; a reported 0 is not missing.",
  )),
).annotateMerge(
  describeGroup("Float and shares outstanding", "The latest float, shares outstanding and ownership percentages."),
) {}

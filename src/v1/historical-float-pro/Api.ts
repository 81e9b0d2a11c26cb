/** §2.5, §2.6. */
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
  priceColumn,
  ratioColumn,
  textColumn,
  tickerColumn,
} from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { checkParameterCombinations } from "../../rules/ParameterCombinations.ts"
import { booleanFilters, numberRangeFilters, pastDateRangeFilters } from "../../rules/Filters.ts"
import { ListEnvelope, PagingParameters } from "../../rules/Paging.ts"
import { TickerList } from "../../rules/Tickers.ts"
import { NewYorkWallClock } from "../../rows/Timestamps.ts"

/** §2.6: the table `daily_prices`, which no endpoint shows. */
export class DailyPrice extends Model.Class<DailyPrice>("DailyPrice")({
  ticker: tickerColumn(),
  date: dateColumn("A trading day."),
  close: priceColumn("Closing price of that day, USD, not adjusted for later splits."),
}) {}

const tradableFloat = nullableColumn(integerColumn("float less restricted_shares; null when either is.")).schemas
const marketCap = nullableColumn(moneyColumn(
  "Unadjusted close on reported_date times outstanding_shares, USD. On a day without trading the last close before " +
    "it is used; null on a trading day without a close of the symbol, and when a factor is missing.",
)).schemas

export class HistoricalFloat extends Model.Class<HistoricalFloat>("HistoricalFloat")({
  ticker: tickerColumn(),
  filed_at: dateColumn("The day of the filing."),
  form_type: nullableColumn(textColumn("SEC form of the filing.")),
  document_url: nullableColumn(textColumn("Address of the filing.")),
  reported_date: nullableColumn(dateColumn("The day that the counts are for.")),
  outstanding_shares: nullableColumn(integerColumn("Shares outstanding.")),
  float: nullableColumn(integerColumn("Shares not held by insiders and affiliates.")),
  restricted_shares: nullableColumn(
    integerColumn("Restricted shares as reported at the time, ADR-adjusted where that applies."),
  ),
  // Both are computed by the query: no columns, so a file that brings them is refused.
  tradable_float: Model.Field({ select: tradableFloat.select, json: tradableFloat.json }),
  affiliate_shares: nullableColumn(integerColumn("Shares held by affiliates.")),
  insider_shares: nullableColumn(integerColumn("Shares held by insiders.")),
  affiliate_percent: nullableColumn(ratioColumn("Held by affiliates, a fraction: 0.15 is 15 %.")),
  institutions_percent: nullableColumn(ratioColumn("Held by institutions, a fraction: 0.15 is 15 %.")),
  insider_percent: nullableColumn(ratioColumn("Held by insiders, a fraction: 0.15 is 15 %.")),
  market_cap: Model.Field({ select: marketCap.select, json: marketCap.json }),
  cik: nullableColumn(textColumn("The issuer's CIK.")),
  is_adr: booleanColumn("Depositary receipts are what is listed."),
  ads_ratio: nullableColumn(ratioColumn("Ordinary shares that one depositary share stands for.")),
  details: nullableColumn(textColumn("How the counts were read.")),
  last_updated: NewYorkWallClock,
}) {}

export const HistoricalFloatProQuery = Schema.Struct({
  ticker: Schema.optionalKey(TickerList),
  latest: Schema.optionalKey(Schema.Boolean.annotate({
    description: "true: one row per ticker, the newest, in the order of this endpoint, of those that match the other " +
      "filters.",
    filter: { operator: "statement" },
  })),
  ...booleanFilters("is_adr"),
  ...numberRangeFilters("float", "outstanding_shares", "tradable_float", "market_cap"),
  ...pastDateRangeFilters("filed_at", "reported_date"),
  ...PagingParameters,
}).check(checkParameterCombinations)

export class HistoricalFloatProApiGroup extends HttpApiGroup.make("historicalFloatPro").add(
  HttpApiEndpoint.get("list", "/historical-float-pro", {
    query: HistoricalFloatProQuery,
    success: ListEnvelope(getRowJsonSchema(HistoricalFloat)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(ReadsTables, ["historical_float_pro", "daily_prices"]).annotateMerge(describeEndpoint(
    "Historical float",
    "Float, shares outstanding and ownership as each filing reported them, newest report first, with the market " +
      "capitalisation of that day.",
  )),
).annotateMerge(describeGroup("Historical float", "Float and shares outstanding as they were reported over time.")) {}

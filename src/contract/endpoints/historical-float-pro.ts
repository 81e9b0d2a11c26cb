/** `GET /v1/historical-float-pro`: §2.5 (fields), §2.6 (market_cap). */
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

/** The SQL expression that computes `tradable_float`. */
export const tradableFloatSql = `"float" - restricted_shares`

/** A row of the `daily_prices` table, which is only used to compute `market_cap` (§2.6). */
export class DailyPrice extends Model.Class<DailyPrice>("DailyPrice")({
  ticker: Column.ticker(),
  date: Column.date("Trading day."),
  close: Column.price("Closing price of that day, USD, not adjusted for later splits."),
}) {}

const tradableFloat = Column.nullable(Column.integer("float minus restricted_shares; null if either is null.")).schemas
const marketCap = Column.nullable(Column.priceTimesShares(
  "Unadjusted close on reported_date times outstanding_shares, USD. If the market was closed on that day, the last " +
    "close before it is used. Null if a factor is missing, or on a trading day without a close of the symbol. For " +
    "depositary receipts it is not divided by ads_ratio, unlike market_cap of /v1/float-outstanding.",
)).schemas

/** A row of `/v1/historical-float-pro`. */
export class HistoricalFloat extends Model.Class<HistoricalFloat>("HistoricalFloat")({
  ticker: Column.ticker(),
  filed_at: Column.markAsRowDate(Column.date("Date of the filing.")),
  form_type: Column.nullable(Column.text("SEC form of the filing, such as `10-K`.")),
  document_url: Column.nullable(Column.text("URL of the filing.")),
  reported_date: Column.nullable(Column.date("Date of the share counts.")),
  outstanding_shares: Column.nullable(Column.integer("Shares outstanding.")),
  float: Column.nullable(Column.integer("Shares not held by insiders and affiliates.")),
  restricted_shares: Column.nullable(
    Column.integer("Restricted shares as reported at the time, adjusted for ADRs if applicable."),
  ),
  // `tradable_float` and `market_cap` are computed by the query. They have no `insert` schema, so `load` rejects files
  // that contain them.
  tradable_float: Model.Field({ select: tradableFloat.select, json: tradableFloat.json }),
  affiliate_shares: Column.nullable(Column.integer("Shares held by affiliates.")),
  insider_shares: Column.nullable(Column.integer("Shares held by insiders.")),
  affiliate_percent: Column.nullable(Column.ratio("Fraction held by affiliates: 0.15 means 15%.")),
  institutions_percent: Column.nullable(Column.ratio("Fraction held by institutions: 0.15 means 15%.")),
  insider_percent: Column.nullable(Column.ratio("Fraction held by insiders: 0.15 means 15%.")),
  market_cap: Model.Field({ select: marketCap.select, json: marketCap.json }),
  cik: Column.nullable(Column.text("CIK of the issuer.")),
  is_adr: Column.boolean("Whether the listed security is a depositary receipt."),
  ads_ratio: Column.nullable(Column.ratio("Ordinary shares per depositary share.")),
  details: Column.nullable(Column.text("How the counts were extracted from the filing.")),
  last_updated: NewYorkTimeColumn,
  source: Column.sourceForLoading,
}) {}

/** The parameters of `/v1/historical-float-pro`. */
export const HistoricalFloatProQuery = makeListQueryWithSources({
  ticker: Schema.optionalKey(TickerListParameter),
  latest: Schema.optionalKey(Schema.Boolean.annotate({
    description: "true: only the newest row of each ticker, among the rows that match the other filters.",
    filter: { operator: "statement" },
  })),
  ...Filter.makeBooleanFilters("is_adr"),
  ...Filter.makeNumberRanges("float", "outstanding_shares", "tradable_float", "market_cap"),
  ...Filter.makePastDateRanges("filed_at", "reported_date"),
})

/** The `/v1/historical-float-pro` endpoint. */
export class HistoricalFloatProApiGroup extends HttpApiGroup.make("historicalFloatPro").add(
  HttpApiEndpoint.get("list", "/historical-float-pro", {
    query: HistoricalFloatProQuery,
    success: makeListEnvelope(Column.getRowJsonSchemaWithSourceAndLineage(HistoricalFloat)),
    error: listErrors,
  }).annotateMerge(describeEndpoint(
    "Historical float",
    "Float, shares outstanding and ownership as each filing reported them, newest report first, with the market " +
      "capitalization on `reported_date`.",
    { tables: ["historical_float_pro", "daily_prices", "ticker_changes"], hasCompanyRows: true },
  )),
).annotateMerge(describeEndpointGroup("Historical float", "Float and shares outstanding as reported over time.")) {}

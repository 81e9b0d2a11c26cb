/** `GET /v1/screener`: §2.5 (fields). */
import { Effect, Schema, Struct } from "effect"
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

const gain = (days: string) => Column.nullable(Column.ratio(`Price change over ${days}, %.`))

/**
 * Numeric columns with `min_` and `max_` filters. They are split into three groups because other columns come between
 * them in responses.
 */
const sizeColumns = {
  price: Column.nullable(Column.price("Last price, USD.")),
  market_cap: Column.nullable(Column.money(
    "Market capitalization, USD: the newest close times outstanding, restated for splits between their dates and, " +
      "for depositary receipts, divided by the number of shares per receipt.",
  )),
}

const shareColumns = {
  outstanding: Column.nullable(Column.integer("Shares outstanding.")),
  float: Column.nullable(Column.integer("Shares not held by insiders and affiliates.")),
  tradable_float: Column.nullable(Column.integer("Shares of the float that can be traded.")),
}

const tradingColumns = {
  average_volume: Column.nullable(Column.integer("Average daily volume, shares.")),
  median_volume_60: Column.nullable(Column.integer("Median daily volume of the last 60 days, shares.")),
  today_volume: Column.nullable(Column.integer("Shares traded today.")),
  volume_change_percentage: Column.nullable(Column.ratio("Today's volume relative to the average, %.")),
  short_interest: Column.nullable(Column.integer("Shares sold short.")),
  short_float: Column.nullable(Column.ratio("Fraction of the float that is sold short: 0.15 means 15%.")),
  days_to_cover: Column.nullable(Column.ratio("Short interest divided by the average volume, days.")),
  shares_available: Column.nullable(Column.integer("Shares available to borrow.")),
  fee_rate: Column.nullable(Column.ratio("Annual fee for borrowing shares, %.")),
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
  num_gaps: Column.integer("Number of upward gaps."),
  num_runners: Column.integer("Number of intraday runs."),
  avg_gap: Column.nullable(Column.ratio("Average gap, %.")),
  ratio_debt_to_equity: Column.nullable(Column.ratio("Debt divided by equity.")),
}

/** A row of `/v1/screener`. */
export class ScreenerRow extends Model.Class<ScreenerRow>("ScreenerRow")({
  ticker: Column.ticker(),
  company: Column.nullable(Column.text("Company name.")),
  cik: Column.nullable(Column.text("CIK of the issuer.")),
  exchange: Column.nullable(Column.text("Exchange of the listing.")),
  sector: Column.nullable(Column.text("Sector of the company.")),
  industry: Column.nullable(Column.text("Industry of the company.")),
  country: Column.nullable(Column.text("Country of the company.")),
  state: Column.nullable(Column.text("State of the company.")),
  city: Column.nullable(Column.text("City of the company.")),
  website: Column.nullable(Column.text("URL of the company's website.")),
  ipo_date: Column.nullable(Column.date("Date of the initial public offering.")),
  is_adr: Column.boolean("Whether the listed security is a depositary receipt."),
  ...sizeColumns,
  high_365: Column.nullable(Column.price("Highest price of the last 365 days, USD.")),
  low_365: Column.nullable(Column.price("Lowest price of the last 365 days, USD.")),
  ...shareColumns,
  insider_percent: Column.nullable(Column.ratio("Fraction held by insiders: 0.15 means 15%.")),
  affiliate_percent: Column.nullable(Column.ratio("Fraction held by affiliates: 0.15 means 15%.")),
  institutions_percent: Column.nullable(Column.ratio("Fraction held by institutions: 0.15 means 15%.")),
  ownership_source_url: Column.nullable(Column.text("URL of the filing that reports the ownership figures.")),
  ...tradingColumns,
  pending_s1: Column.boolean("Whether a form S-1 registration is pending."),
  last_updated: NewYorkTimeColumn,
  source: Column.sourceForLoading,
}) {}

const filtered = Struct.keys({ ...sizeColumns, ...shareColumns, ...tradingColumns })

/** Columns that rows can be sorted by, but not filtered by (§2.5). */
const readOnly = ["high_365", "low_365", "insider_percent", "affiliate_percent", "institutions_percent"] as const

/**
 * The values of the parameter `sort`: the name of each sortable column for ascending order, and the name with a leading
 * `-` for descending order.
 */
export const screenerSorts = (["ticker", ...filtered, ...readOnly] as const).flatMap((
  field,
) => [field, `-${field}` as const])

/** An element of `screenerSorts`. */
export type ScreenerSortOrder = typeof screenerSorts[number]

/** The parameters of `/v1/screener`. */
export const ScreenerQuery = makeListQueryWithSources({
  ticker: Schema.optionalKey(TickerListParameter),
  ...Filter.makeTextFilters("exchange", "sector", "industry", "country", "state"),
  ...Filter.makeBooleanFilters("is_adr", "pending_s1"),
  ...Filter.makePastDateRanges("ipo_date"),
  ...Filter.makeNumberRanges(...filtered),
  sort: Schema.Literals(screenerSorts).annotate({
    default: "ticker",
    filter: { operator: "statement" },
    description: "A numeric field or ticker; prefix it with - for descending order. Rows without the value come last.",
    message: "must be ticker or a numeric field of the rows, prefixed with - for descending order",
  }).pipe(Schema.withDecodingDefaultTypeKey(Effect.succeed("ticker" as const))),
})

/** The `/v1/screener` endpoint. */
export class ScreenerApiGroup extends HttpApiGroup.make("screener").add(
  HttpApiEndpoint.get("list", "/screener", {
    query: ScreenerQuery,
    success: makeListEnvelope(Column.getRowJsonSchemaWithSourceAndLineage(ScreenerRow)),
    error: listErrors,
  }).annotateMerge(describeEndpoint(
    "Screener",
    "Every ticker with its company, price, float, volume, short interest and gains, which you can filter and sort " +
      "by. The rows have no date, so `follow_lineage` uses the current symbol only.",
    { tables: ["screener"], hasCompanyRows: true },
  )),
).annotateMerge(describeEndpointGroup("Screener", "Every ticker with its key figures, to filter and sort by.")) {}

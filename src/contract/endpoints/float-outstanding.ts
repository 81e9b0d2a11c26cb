/** `GET /v1/float-outstanding`: §2.5 (fields). */
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

/** A row of `/v1/float-outstanding`. */
export class FloatOutstanding extends Model.Class<FloatOutstanding>("FloatOutstanding")({
  ticker: Column.ticker(),
  company: Column.nullable(Column.text("Company name.")),
  float: Column.nullable(Column.integer("Shares not held by insiders and affiliates.")),
  outstanding: Column.nullable(Column.integer("Shares outstanding.")),
  tradable_float: Column.nullable(Column.integer("Shares of the float that can be traded.")),
  market_cap: Column.nullable(Column.money(
    "Market capitalization, USD: the newest close times outstanding, restated for splits between their dates and, " +
      "for depositary receipts, divided by ads_ratio.",
  )),
  insider_percent: Column.nullable(Column.ratio("Fraction held by insiders: 0.15 means 15%. Null: unknown.")),
  affiliate_percent: Column.nullable(Column.ratio("Fraction held by affiliates: 0.15 means 15%. Null: unknown.")),
  institutions_percent: Column.nullable(Column.ratio("Fraction held by institutions: 0.15 means 15%. Null: unknown.")),
  is_adr: Column.boolean("Whether the listed security is a depositary receipt."),
  ads_ratio: Column.nullable(Column.ratio("Ordinary shares per depositary share.")),
  country: Column.nullable(Column.text("Country of the company.")),
  sector: Column.nullable(Column.text("Sector of the company.")),
  industry: Column.nullable(Column.text("Industry of the company.")),
  exchange: Column.nullable(Column.text("Exchange of the listing.")),
  reported_date: Column.nullable(Column.date("Date of the figures.")),
  filed_at: Column.nullable(Column.date("Date of the filing that reports the figures.")),
  ownership_source_url: Column.nullable(Column.text("URL of the filing that reports the ownership figures.")),
  document_url: Column.nullable(Column.text("URL of the filing that reports the share counts.")),
  last_updated: NewYorkTimeColumn,
  source: Column.sourceForLoading,
}) {}

/** The parameters of `/v1/float-outstanding`. */
export const FloatOutstandingQuery = makeListQueryWithSources({
  ticker: Schema.optionalKey(TickerListParameter),
  ...Filter.makeTextFilters("country", "sector", "industry", "exchange"),
  ...Filter.makeBooleanFilters("is_adr"),
  ...Filter.makeNumberRanges("float", "outstanding", "tradable_float", "market_cap"),
})

/** The `/v1/float-outstanding` endpoint. */
export class FloatOutstandingApiGroup extends HttpApiGroup.make("floatOutstanding").add(
  HttpApiEndpoint.get("list", "/float-outstanding", {
    query: FloatOutstandingQuery,
    success: makeListEnvelope(Column.getRowJsonSchemaWithSourceAndLineage(FloatOutstanding)),
    error: listErrors,
  }).annotateMerge(
    describeEndpoint(
      "Float and shares outstanding",
      "The newest float, shares outstanding and ownership figures of each ticker. A message appears if ownership " +
        "figures on the page are missing; a reported 0 is not missing. `follow_lineage` uses the current symbol only.",
      { tables: ["float_outstanding"], hasCompanyRows: true },
    ),
  ),
).annotateMerge(
  describeEndpointGroup(
    "Float and shares outstanding",
    "The latest float, shares outstanding and ownership percentages.",
  ),
) {}

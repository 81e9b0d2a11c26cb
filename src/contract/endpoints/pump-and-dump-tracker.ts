/** `GET /v1/pump-and-dump-tracker`: §4.4 (filters). */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeEndpointGroup } from "../rules/EndpointAnnotations.ts"
import * as Column from "../rows/Columns.ts"
import { listErrors } from "../rules/ApiErrors.ts"
import * as Filter from "../rules/FilterParameters.ts"
import { makeListQuery } from "../rules/ListQueries.ts"
import { makeListEnvelope } from "../rules/Paging.ts"
import { TickerListParameter } from "../rules/Tickers.ts"
import { NewYorkTimeColumn } from "../rows/Timestamps.ts"

/** The risk levels, highest first. */
export const riskLevels = ["high", "medium", "low"] as const

const country = Model.Field({
  select: Schema.String.annotate({ columnType: { name: "text" } }),
  insert: Schema.String.check(
    Schema.isPattern(/^[A-Z]{2}$/, { message: "must be a two-letter country code (ISO 3166 alpha-2)" }),
  ),
  json: Schema.String.annotate({ description: "Country of the company, ISO 3166 alpha-2." }),
})

/** A row of `/v1/pump-and-dump-tracker`. */
export class PumpAndDumpSuspect extends Model.Class<PumpAndDumpSuspect>("PumpAndDumpSuspect")({
  ticker: Column.ticker(),
  company: Column.nullable(Column.text("Company name.")),
  ipo_date: Column.nullable(Column.date("Date of the initial public offering.")),
  lock_up_expiration: Column.nullable(Column.date("Date on which the lock-up period ends.")),
  lock_up_shares: Column.nullable(Column.integer("Shares that can be sold from that date on.")),
  underwriters: Column.nullable(Column.text("Names of the underwriters.")),
  known_underwriter: Column.boolean("Whether an underwriter has brought similar companies to market before."),
  number_liquidations: Column.integer("Number of price collapses."),
  last_liquidation_date: Column.nullable(Column.date("Date of the latest collapse.")),
  liquidation_history: Column.nullable(Column.literal(riskLevels, "Risk level based on past collapses.")),
  tradable_float: Column.nullable(Column.integer("Freely tradable shares.")),
  outstanding_shares: Column.nullable(Column.integer("Shares outstanding.")),
  market_cap: Column.nullable(Column.money("Market capitalization, USD.")),
  country: Column.nullable(country),
  exchange: Column.nullable(Column.text("Exchange of the listing.")),
  sector: Column.nullable(Column.text("Sector of the company.")),
  industry: Column.nullable(Column.text("Industry of the company.")),
  is_adr: Column.boolean("Whether the listed security is a depositary receipt."),
  gain_1_day: Column.nullable(Column.ratio("Price change over 1 day, %.")),
  gain_7_day: Column.nullable(Column.ratio("Price change over 7 days, %.")),
  gain_14_day: Column.nullable(Column.ratio("Price change over 14 days, %.")),
  gain_30_day: Column.nullable(Column.ratio("Price change over 30 days, %.")),
  num_splits: Column.integer("Number of share splits."),
  last_split_date: Column.nullable(Column.date("Date of the latest split.")),
  underwriter_risk: Column.nullable(Column.literal(riskLevels, "Risk level based on the underwriters' record.")),
  country_risk: Column.nullable(Column.literal(riskLevels, "Risk level based on the company's country.")),
  float_risk: Column.nullable(Column.literal(riskLevels, "Risk level based on the size of the float.")),
  scam_risk: Column.nullable(Column.literal(riskLevels, "Risk that the stock is promoted fraudulently.")),
  scam_description: Column.nullable(Column.text("Description of the suspected promotion.")),
  last_post_date: Column.nullable(Column.date("Date of the latest promotional post.")),
  document_url: Column.nullable(Column.text("URL of the prospectus.")),
  filed_at: Column.nullable(Column.date("Date on which the prospectus was filed.")),
  effective_date: Column.nullable(Column.date("Date on which the SEC declared it effective.")),
  last_updated: NewYorkTimeColumn,
}) {}

/** The parameters of `/v1/pump-and-dump-tracker`. */
export const PumpAndDumpTrackerQuery = makeListQuery({
  ticker: Schema.optionalKey(TickerListParameter),
  country: Filter.countryFilter,
  underwriter_risk: Filter.makeEnumFilter(riskLevels),
  country_risk: Filter.makeEnumFilter(riskLevels),
  float_risk: Filter.makeEnumFilter(riskLevels),
  scam_risk: Filter.makeEnumFilter(riskLevels),
  underwriters: Filter.makeSubstringFilter("underwriters"),
  ...Filter.makeBooleanFilters("known_underwriter", "is_adr"),
  ...Filter.makeNumberRanges("number_liquidations", "tradable_float", "outstanding_shares", "market_cap"),
  ...Filter.makeNumberRanges("gain_1_day", "gain_7_day", "gain_14_day", "gain_30_day"),
  ...Filter.makePastDateRanges("filed_at", "effective_date", "ipo_date", "last_liquidation_date"),
  ...Filter.makeDateRanges("lock_up_expiration"),
})

/** The `/v1/pump-and-dump-tracker` endpoint. */
export class PumpAndDumpTrackerApiGroup extends HttpApiGroup.make("pumpAndDumpTracker").add(
  HttpApiEndpoint.get("list", "/pump-and-dump-tracker", {
    query: PumpAndDumpTrackerQuery,
    success: makeListEnvelope(Column.getRowJsonSchemaWithLineage(PumpAndDumpSuspect)),
    error: listErrors,
  }).annotateMerge(
    describeEndpoint(
      "Pump-and-dump tracker",
      "Companies whose stock may be subject to a pump-and-dump scheme, with the risk indicators, newest offering " +
        "first. `follow_lineage` uses the current symbol only.",
      { tables: ["pump_and_dump_tracker"], thirdPartyText: ["scam_description"] },
    ),
  ),
).annotateMerge(
  describeEndpointGroup("Pump-and-dump tracker", "Companies suspected of pump-and-dump promotion."),
) {}

/**
 * `GET /v1/research-reports` and `/v1/research-reports-tldr`, which return the same rows with different columns (D3,
 * tiers; D30, tables).
 */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeEndpointGroup, RequiredTier } from "../rules/EndpointAnnotations.ts"
import * as Column from "../rows/Columns.ts"
import { listErrors } from "../rules/ApiErrors.ts"
import * as Filter from "../rules/FilterParameters.ts"
import { makeListQuery } from "../rules/ListQueries.ts"
import { makeListEnvelope } from "../rules/Paging.ts"
import { TickerListParameter } from "../rules/Tickers.ts"
import { InstantColumn } from "../rows/Timestamps.ts"

const subject = {
  ticker: Column.ticker("Symbol of the report."),
  gain_percentage: Column.ratio("Gain that triggered the report, %."),
}

const tldr_text = Column.text("Summary of the report in a few sentences.")

const circumstances = {
  price: Column.nullable(Column.price("Price at the time, USD.")),
  market_cap: Column.nullable(Column.money("Market capitalization at the time, USD.")),
  tradable_float: Column.nullable(Column.integer("Freely tradable shares.")),
  outstanding: Column.nullable(Column.integer("Shares outstanding.")),
  country: Column.nullable(Column.text("Country of the company.")),
  industry: Column.nullable(Column.text("Industry of the company.")),
  post_url: Column.nullable(Column.text("URL of the report as a web page.")),
  created_at: Column.markAsRowDate(InstantColumn),
  last_updated: InstantColumn,
}

/** A row of `/v1/research-reports`. */
export class ResearchReport extends Model.Class<ResearchReport>("ResearchReport")({
  report_id: Column.text("Unique id of the report."),
  ...subject,
  report_text: Column.text("The report, in Markdown."),
  volume: Column.nullable(Column.integer("Shares traded.")),
  ...circumstances,
  /** The table has this column, but only `/v1/research-reports-tldr` returns it. */
  tldr_text: Model.Field({ insert: tldr_text.schemas.insert }),
}) {}

/**
 * A row of `/v1/research-reports-tldr`: a report with its summary, but without `report_id`, `report_text` and `volume`
 * (§2.5, fields).
 */
export class ResearchReportTldr extends Model.Class<ResearchReportTldr>("ResearchReportTldr")({
  ...subject,
  tldr_text,
  ...circumstances,
}) {}

/** The parameters of `/v1/research-reports` and `/v1/research-reports-tldr`. */
export const ResearchReportsQuery = makeListQuery({
  ticker: Schema.optionalKey(TickerListParameter),
  ...Filter.makeNumberRanges("gain_percentage"),
  ...Filter.makePastInstantRanges("created_at"),
})

/** The endpoints that return research reports. */
export class ResearchReportsApiGroup extends HttpApiGroup.make("researchReports").add(
  HttpApiEndpoint.get("list", "/research-reports", {
    query: ResearchReportsQuery,
    success: makeListEnvelope(Column.getRowJsonSchemaWithLineage(ResearchReport)),
    error: listErrors,
  }).annotate(RequiredTier, "ultimate").annotateMerge(describeEndpoint(
    "Research reports",
    "Reports on tickers with a large gain, latest first. `created_at_from` and `created_at_to` are days at -05:00, " +
      "the offset of `created_at`.",
    { tables: ["research_reports"], thirdPartyText: ["report_text"] },
  )),
  HttpApiEndpoint.get("listTldr", "/research-reports-tldr", {
    query: ResearchReportsQuery,
    success: makeListEnvelope(Column.getRowJsonSchemaWithLineage(ResearchReportTldr)),
    error: listErrors,
  }).annotateMerge(
    describeEndpoint(
      "Research reports TL;DR",
      "The reports of `/v1/research-reports` in a few sentences each, with the same filters.",
      { tables: ["research_reports"], thirdPartyText: ["tldr_text"] },
    ),
  ),
).annotateMerge(describeEndpointGroup("Research reports", "Research reports, in full and as summaries.")) {}

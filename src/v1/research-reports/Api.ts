/** Resources: research-reports and research-reports-tldr, which are the same rows (D30); §2.1, §2.5, D3. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeGroup, ReadsTables, RequiredTier } from "../../rules/EndpointAnnotations.ts"
import {
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
import { numberRangeFilters, pastInstantRangeFilters } from "../../rules/Filters.ts"
import { ListEnvelope, PagingParameters } from "../../rules/Paging.ts"
import { TickerList } from "../../rules/Tickers.ts"
import { UtcInstant } from "../../rows/Timestamps.ts"

const subject = {
  ticker: tickerColumn("The symbol that the report is about."),
  gain_percentage: ratioColumn("The gain that gave rise to the report, %."),
}

const tldr_text = textColumn("The report in a few sentences.")

const circumstances = {
  price: nullableColumn(priceColumn("Price at the time, USD.")),
  market_cap: nullableColumn(moneyColumn("Market capitalisation at the time, USD.")),
  tradable_float: nullableColumn(integerColumn("Shares that can be traded freely.")),
  outstanding: nullableColumn(integerColumn("Shares outstanding.")),
  country: nullableColumn(textColumn("The company's country.")),
  industry: nullableColumn(textColumn("The company's industry.")),
  post_url: nullableColumn(textColumn("The report as a web page.")),
  created_at: UtcInstant,
  last_updated: UtcInstant,
}

export class ResearchReport extends Model.Class<ResearchReport>("ResearchReport")({
  report_id: textColumn("The report's key."),
  ...subject,
  report_text: textColumn("The report, Markdown."),
  volume: nullableColumn(integerColumn("Shares traded.")),
  ...circumstances,
  /** A column of the table that only research-reports-tldr shows. */
  tldr_text: Model.Field({ insert: tldr_text.schemas.insert }),
}) {}

/** §2.5: without `report_id`, and no key in its place. */
export class ResearchReportTldr extends Model.Class<ResearchReportTldr>("ResearchReportTldr")({
  ...subject,
  tldr_text,
  ...circumstances,
}) {}

export const ResearchReportsQuery = Schema.Struct({
  ticker: Schema.optionalKey(TickerList),
  ...numberRangeFilters("gain_percentage"),
  ...pastInstantRangeFilters("created_at"),
  ...PagingParameters,
}).check(checkParameterCombinations)

export class ResearchReportsApiGroup extends HttpApiGroup.make("researchReports").add(
  HttpApiEndpoint.get("list", "/research-reports", {
    query: ResearchReportsQuery,
    success: ListEnvelope(getRowJsonSchema(ResearchReport)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(RequiredTier, "ultimate").annotate(ReadsTables, ["research_reports"]).annotateMerge(describeEndpoint(
    "Research reports",
    "Reports on tickers that ran, latest first. `created_at_from` and `created_at_to` are days on the clock of " +
      "-05:00, on which `created_at` prints.",
  )),
  HttpApiEndpoint.get("listTldr", "/research-reports-tldr", {
    query: ResearchReportsQuery,
    success: ListEnvelope(getRowJsonSchema(ResearchReportTldr)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(ReadsTables, ["research_reports"]).annotateMerge(describeEndpoint(
    "Research reports TL;DR",
    "The reports of `/v1/research-reports` in a few sentences each, by the same filters.",
  )),
).annotateMerge(describeGroup("Research reports", "Research reports, in full and in short.")) {}

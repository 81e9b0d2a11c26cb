/** Resources: research-reports and research-reports-tldr, which are the same rows (D30); §2.1, §2.5, D3. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { described, Reads, RequiredTier, tagged } from "../../rules/EndpointAnnotations.ts"
import { jsonOf, money, orNull, price, ratio, text, ticker, whole } from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { consistent } from "../../rules/ParameterCombinations.ts"
import { bounds, pastDaysOfInstants } from "../../rules/Filters.ts"
import { Envelope, Paging } from "../../rules/Paging.ts"
import { Tickers } from "../../rules/Tickers.ts"
import { UtcInstant } from "../../rows/Timestamps.ts"

const subject = {
  ticker: ticker("The symbol that the report is about."),
  gain_percentage: ratio("The gain that gave rise to the report, %."),
}

const tldr_text = text("The report in a few sentences.")

const circumstances = {
  price: orNull(price("Price at the time, USD.")),
  market_cap: orNull(money("Market capitalisation at the time, USD.")),
  tradable_float: orNull(whole("Shares that can be traded freely.")),
  outstanding: orNull(whole("Shares outstanding.")),
  country: orNull(text("The company's country.")),
  industry: orNull(text("The company's industry.")),
  post_url: orNull(text("The report as a web page.")),
  created_at: UtcInstant,
  last_updated: UtcInstant,
}

export class ResearchReport extends Model.Class<ResearchReport>("ResearchReport")({
  report_id: text("The report's key."),
  ...subject,
  report_text: text("The report, Markdown."),
  volume: orNull(whole("Shares traded.")),
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

export const Query = Schema.Struct({
  ticker: Schema.optionalKey(Tickers),
  ...bounds("gain_percentage"),
  ...pastDaysOfInstants("created_at"),
  ...Paging,
}).check(consistent)

export class ResearchReports extends HttpApiGroup.make("researchReports").add(
  HttpApiEndpoint.get("list", "/research-reports", {
    query: Query,
    success: Envelope(jsonOf(ResearchReport)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(RequiredTier, "ultimate").annotate(Reads, ["research_reports"]).annotateMerge(described(
    "Research reports",
    "Reports on tickers that ran, latest first. `created_at_from` and `created_at_to` are days on the clock of " +
      "-05:00, on which `created_at` prints.",
  )),
  HttpApiEndpoint.get("listTldr", "/research-reports-tldr", {
    query: Query,
    success: Envelope(jsonOf(ResearchReportTldr)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(Reads, ["research_reports"]).annotateMerge(described(
    "Research reports TL;DR",
    "The reports of `/v1/research-reports` in a few sentences each, by the same filters.",
  )),
).annotateMerge(tagged("Research reports", "Research reports, in full and in short.")) {}

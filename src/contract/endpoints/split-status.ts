/** `GET /v1/split-status`: §4.4 (filters). */
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

/** The stages of a split. */
export const splitActions = [
  "pending_vote",
  "vote_approved",
  "split_announced",
  "split_effective",
  "withdrawn",
] as const

/** A row of `/v1/split-status`. */
export class SplitStatus extends Model.Class<SplitStatus>("SplitStatus")({
  id: Column.text("Unique id of the row."),
  ticker: Column.ticker(),
  action_type: Column.literal(splitActions, "Stage of the split."),
  split_from: Column.nullable(Column.ratio("Shares before the split: 100 in a 1-for-100 split.")),
  split_to: Column.nullable(Column.ratio("Shares after the split: 1 in a 1-for-100 split.")),
  split_ratio_min: Column.nullable(Column.ratio("Lowest proposed ratio, old shares per new share.")),
  split_ratio_max: Column.nullable(Column.ratio("Highest proposed ratio, old shares per new share.")),
  vote_date: Column.nullable(Column.date("Date of the shareholders' vote.")),
  approved_date: Column.nullable(Column.date("Date on which the shareholders approved the split.")),
  authority_expires_date: Column.nullable(Column.date("Last day on which the board may act on the approval.")),
  effective_date: Column.nullable(Column.date("First day of trading after the split.")),
  executed: Column.boolean("Whether the split has taken place."),
  details: Column.nullable(Column.text("Description of the split in the filing.")),
  filed_at: Column.markAsRowDate(Column.date("Date of the filing.")),
  form_type: Column.text("SEC form of the filing."),
  document_url: Column.nullable(Column.text("URL of the filing.")),
  last_updated: NewYorkTimeColumn,
}) {}

/** The parameters of `/v1/split-status`. */
export const SplitStatusQuery = makeListQuery({
  ticker: TickerListParameter,
  action_type: Filter.makeEnumFilter(splitActions),
  ...Filter.makeBooleanFilters("executed"),
  ...Filter.makePastDateRanges("filed_at"),
  ...Filter.makeDateRanges("vote_date", "effective_date"),
})

/** The `/v1/split-status` endpoint. */
export class SplitStatusApiGroup extends HttpApiGroup.make("splitStatus").add(
  HttpApiEndpoint.get("list", "/split-status", {
    query: SplitStatusQuery,
    success: makeListEnvelope(Column.getRowJsonSchemaWithLineage(SplitStatus)),
    error: listErrors,
  }).annotateMerge(
    describeEndpoint(
      "Split status",
      "Share splits as reported in filings, from the vote to the effective date, newest filing first.",
      { tables: ["split_status"], thirdPartyText: ["details"] },
    ),
  ),
).annotateMerge(describeEndpointGroup("Split status", "Share splits, from the vote to the effective date.")) {}

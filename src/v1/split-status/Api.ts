/** GET /v1/split-status: §4.4 (filters). */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import {
  describeEndpoint,
  describeEndpointGroup,
  TablesReadByEndpoint,
  ThirdPartyTextColumns,
} from "../../rules/EndpointAnnotations.ts"
import {
  booleanColumn,
  dateColumn,
  getRowJsonSchemaWithLineage,
  literalColumn,
  markAsRowDate,
  nullableColumn,
  ratioColumn,
  textColumn,
  tickerColumn,
} from "../../rows/Columns.ts"
import { AmbiguousTickerLineage, AsOfTooEarly, DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { AsOfParameter } from "../../rules/AsOfParameter.ts"
import { checkParameterCombinations } from "../../rules/ParameterCombinations.ts"
import {
  makeBooleanFilters,
  makeDateRangeFilters,
  makeEnumFilter,
  makePastDateRangeFilters,
} from "../../rules/Filters.ts"
import { LineageParameters } from "../../rules/LineageParameters.ts"
import { makeListEnvelope, PagingParameters } from "../../rules/Paging.ts"
import { TickerListParameter } from "../../rules/Tickers.ts"
import { NewYorkTimeColumn } from "../../rows/Timestamps.ts"

export const splitActions = [
  "pending_vote",
  "vote_approved",
  "split_announced",
  "split_effective",
  "withdrawn",
] as const

export class SplitStatus extends Model.Class<SplitStatus>("SplitStatus")({
  id: textColumn("Unique id of the row."),
  ticker: tickerColumn(),
  action_type: literalColumn(splitActions, "Stage of the split."),
  split_from: nullableColumn(ratioColumn("Shares before the split: 100 in a 1-for-100 split.")),
  split_to: nullableColumn(ratioColumn("Shares after the split: 1 in a 1-for-100 split.")),
  split_ratio_min: nullableColumn(ratioColumn("Lowest proposed ratio, old shares per new share.")),
  split_ratio_max: nullableColumn(ratioColumn("Highest proposed ratio, old shares per new share.")),
  vote_date: nullableColumn(dateColumn("Date of the shareholders' vote.")),
  approved_date: nullableColumn(dateColumn("Date on which the shareholders approved the split.")),
  authority_expires_date: nullableColumn(dateColumn("Last day on which the board may act on the approval.")),
  effective_date: nullableColumn(dateColumn("First day of trading after the split.")),
  executed: booleanColumn("Whether the split has taken place."),
  details: nullableColumn(textColumn("Description of the split in the filing.")),
  filed_at: markAsRowDate(dateColumn("Date of the filing.")),
  form_type: textColumn("SEC form of the filing."),
  document_url: nullableColumn(textColumn("URL of the filing.")),
  last_updated: NewYorkTimeColumn,
}) {}

export const SplitStatusQuery = Schema.Struct({
  ticker: TickerListParameter,
  action_type: makeEnumFilter(splitActions),
  ...makeBooleanFilters("executed"),
  ...makePastDateRangeFilters("filed_at"),
  ...makeDateRangeFilters("vote_date", "effective_date"),
  ...LineageParameters,
  ...AsOfParameter,
  ...PagingParameters,
}).check(checkParameterCombinations)

export class SplitStatusApiGroup extends HttpApiGroup.make("splitStatus").add(
  HttpApiEndpoint.get("list", "/split-status", {
    query: SplitStatusQuery,
    success: makeListEnvelope(getRowJsonSchemaWithLineage(SplitStatus)),
    error: [AmbiguousTickerLineage, AsOfTooEarly, DataRefreshing, DatabasePoolTimeout],
  }).annotate(TablesReadByEndpoint, ["split_status"]).annotate(ThirdPartyTextColumns, ["details"]).annotateMerge(
    describeEndpoint(
      "Split status",
      "Share splits as reported in filings, from the vote to the effective date, newest filing first.",
    ),
  ),
).annotateMerge(describeEndpointGroup("Split status", "Share splits, from the vote to the effective date.")) {}

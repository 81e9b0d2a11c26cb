/** §4.4. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeGroup, ReadsTables } from "../../rules/EndpointAnnotations.ts"
import {
  booleanColumn,
  dateColumn,
  getRowJsonSchema,
  literalColumn,
  nullableColumn,
  ratioColumn,
  textColumn,
  tickerColumn,
} from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { checkParameterCombinations } from "../../rules/ParameterCombinations.ts"
import { booleanFilters, dateRangeFilters, literalFilter, pastDateRangeFilters } from "../../rules/Filters.ts"
import { ListEnvelope, PagingParameters } from "../../rules/Paging.ts"
import { TickerList } from "../../rules/Tickers.ts"
import { NewYorkWallClock } from "../../rows/Timestamps.ts"

const actions = ["pending_vote", "vote_approved", "split_announced", "split_effective", "withdrawn"] as const

export class SplitStatus extends Model.Class<SplitStatus>("SplitStatus")({
  id: textColumn("The row's own key."),
  ticker: tickerColumn(),
  action_type: literalColumn(actions, "How far the split has come."),
  split_from: nullableColumn(ratioColumn("Shares before the split: 100 in one for a hundred.")),
  split_to: nullableColumn(ratioColumn("Shares after the split: 1 in one for a hundred.")),
  split_ratio_min: nullableColumn(ratioColumn("Least ratio that was proposed, old shares for a new one.")),
  split_ratio_max: nullableColumn(ratioColumn("Greatest ratio that was proposed, old shares for a new one.")),
  vote_date: nullableColumn(dateColumn("Day of the shareholders' vote.")),
  approved_date: nullableColumn(dateColumn("Day on which the shareholders approved.")),
  authority_expires_date: nullableColumn(dateColumn("Last day on which the board may act on the approval.")),
  effective_date: nullableColumn(dateColumn("First day of trading after the split.")),
  executed: booleanColumn("The split has taken place."),
  details: nullableColumn(textColumn("What the filing says of the split.")),
  filed_at: dateColumn("Day of the filing."),
  form_type: textColumn("SEC form of the filing."),
  document_url: nullableColumn(textColumn("Address of the filing.")),
  last_updated: NewYorkWallClock,
}) {}

export const SplitStatusQuery = Schema.Struct({
  ticker: TickerList,
  action_type: literalFilter(actions),
  ...booleanFilters("executed"),
  ...pastDateRangeFilters("filed_at"),
  ...dateRangeFilters("vote_date", "effective_date"),
  ...PagingParameters,
}).check(checkParameterCombinations)

export class SplitStatusApiGroup extends HttpApiGroup.make("splitStatus").add(
  HttpApiEndpoint.get("list", "/split-status", {
    query: SplitStatusQuery,
    success: ListEnvelope(getRowJsonSchema(SplitStatus)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(ReadsTables, ["split_status"]).annotateMerge(describeEndpoint(
    "Split status",
    "Splits from the vote to the day they take effect, as told by filings, newest filing first.",
  )),
).annotateMerge(describeGroup("Split status", "Share splits, from the vote to the day they take effect.")) {}

/** §4.4. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { described, Reads, tagged } from "../../rules/EndpointAnnotations.ts"
import { date, flag, jsonOf, oneOf, orNull, ratio, text, ticker } from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { consistent } from "../../rules/ParameterCombinations.ts"
import { anyDays, flags, pastDays, someOf } from "../../rules/Filters.ts"
import { Envelope, Paging } from "../../rules/Paging.ts"
import { Tickers } from "../../rules/Tickers.ts"
import { NewYorkWallClock } from "../../rows/Timestamps.ts"

const actions = ["pending_vote", "vote_approved", "split_announced", "split_effective", "withdrawn"] as const

export class SplitStatus extends Model.Class<SplitStatus>("SplitStatus")({
  id: text("The row's own key."),
  ticker: ticker(),
  action_type: oneOf(actions, "How far the split has come."),
  split_from: orNull(ratio("Shares before the split: 100 in one for a hundred.")),
  split_to: orNull(ratio("Shares after the split: 1 in one for a hundred.")),
  split_ratio_min: orNull(ratio("Least ratio that was proposed, old shares for a new one.")),
  split_ratio_max: orNull(ratio("Greatest ratio that was proposed, old shares for a new one.")),
  vote_date: orNull(date("Day of the shareholders' vote.")),
  approved_date: orNull(date("Day on which the shareholders approved.")),
  authority_expires_date: orNull(date("Last day on which the board may act on the approval.")),
  effective_date: orNull(date("First day of trading after the split.")),
  executed: flag("The split has taken place."),
  details: orNull(text("What the filing says of the split.")),
  filed_at: date("Day of the filing."),
  form_type: text("SEC form of the filing."),
  document_url: orNull(text("Address of the filing.")),
  last_updated: NewYorkWallClock,
}) {}

export const Query = Schema.Struct({
  ticker: Tickers,
  action_type: someOf(actions),
  ...flags("executed"),
  ...pastDays("filed_at"),
  ...anyDays("vote_date", "effective_date"),
  ...Paging,
}).check(consistent)

export class SplitStatuses extends HttpApiGroup.make("splitStatus").add(
  HttpApiEndpoint.get("list", "/split-status", {
    query: Query,
    success: Envelope(jsonOf(SplitStatus)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(Reads, ["split_status"]).annotateMerge(described(
    "Split status",
    "Splits from the vote to the day they take effect, as told by filings, newest filing first.",
  )),
).annotateMerge(tagged("Split status", "Share splits, from the vote to the day they take effect.")) {}

/** Resources: gap-stats and gap-stats-advanced, which are the same rows (D30); §2.1. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { described, Reads, tagged } from "../../rules/EndpointAnnotations.ts"
import { date, flag, jsonOf, money, orNull, price, ratio, ticker, whole, words } from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { consistent } from "../../rules/ParameterCombinations.ts"
import { bounds, flags, OnDate, word } from "../../rules/Filters.ts"
import { Envelope, Paging } from "../../rules/Paging.ts"
import { Tickers } from "../../rules/Tickers.ts"
import { NewYorkWallClock, UtcInstant } from "../../rows/Timestamps.ts"

const fields = {
  ticker: ticker(),
  date: date("The session's day."),
  previous_day_close: price("Close of the day before, USD."),
  market_open: price("First regular price, USD."),
  gap_percentage: ratio("Opening gap over the previous close, %."),
  high_price: price("Highest regular price, USD."),
  low_price: price("Lowest regular price, USD."),
  high_time: orNull(NewYorkWallClock),
  low_time: orNull(NewYorkWallClock),
  market_close: price("Last regular price, USD."),
  closed_over_vwap: orNull(flag("The close lies above the day's volume-weighted average price.")),
  volume: whole("Shares traded, all sessions."),
  dollar_volume: money("Value traded, all sessions, USD."),
  premarket_volume: whole("Shares traded before the open."),
  premarket_dollar_volume: money("Value traded before the open, USD."),
  premarket_vwap: orNull(price("Volume-weighted average price before the open, USD.")),
  afterhours_close: orNull(price("Last price after hours, USD.")),
  market_cap: orNull(money("Market capitalisation, USD.")),
  filing_types: words("SEC forms filed around the session."),
  all_tags: words("Tags of the session."),
  spike_start_time: orNull(NewYorkWallClock),
  last_updated: UtcInstant,
}

export class GapStat extends Model.Class<GapStat>("GapStat")(fields) {}

/** All columns of the table. */
export class GapStatAdvanced extends Model.Class<GapStatAdvanced>("GapStatAdvanced")({
  ...fields,
  open_to_high_pct: ratio("High over the open, %."),
  open_to_low_pct: ratio("Low over the open, %."),
  percentage_gain: ratio("High over the previous close, %."),
  spike_start_price: orNull(price("Price when the spike began, USD.")),
  spike_duration_minutes: orNull(whole("How long the spike lasted, minutes.")),
  est_halt_minutes: orNull(whole("Estimated minutes of trading halts.")),
  rth_volume: whole("Shares traded in regular hours."),
  rth_dollar_volume: money("Value traded in regular hours, USD."),
  premarket_high: orNull(price("Highest price before the open, USD.")),
  premarket_low: orNull(price("Lowest price before the open, USD.")),
  afterhours_high: orNull(price("Highest price after hours, USD.")),
  afterhours_low: orNull(price("Lowest price after hours, USD.")),
  afterhours_volume: orNull(whole("Shares traded after hours.")),
  close_under_50pct_of_range: flag("The close lies in the lower half of the day's range."),
  gap_filled: flag("The price came back to the previous close."),
  gap_fill_time: orNull(NewYorkWallClock),
  tradable_float: orNull(whole("Shares that can be traded freely.")),
}) {}

export const Query = Schema.Struct({
  ticker: Schema.optionalKey(Tickers),
  ...OnDate,
  ...bounds("gap_percentage", "volume", "dollar_volume", "market_cap"),
  tag: word("all_tags", "One of all_tags is this, in any case."),
  filing_type: word("filing_types", "One of filing_types is this, in any case."),
  ...flags("closed_over_vwap"),
  ...Paging,
}).check(consistent)

export class GapStats extends HttpApiGroup.make("gapStats").add(
  HttpApiEndpoint.get("list", "/gap-stats", {
    query: Query,
    success: Envelope(jsonOf(GapStat)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(Reads, ["gap_stats"]).annotateMerge(
    described("Gap stats", "Sessions that opened away from the previous close, newest first."),
  ),
  HttpApiEndpoint.get("listAdvanced", "/gap-stats-advanced", {
    query: Query,
    success: Envelope(jsonOf(GapStatAdvanced)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(Reads, ["gap_stats"]).annotateMerge(described(
    "Gap stats advanced",
    "The sessions of `/v1/gap-stats`, by the same filters, with what happened after the open: spike, halts, fill and " +
      "after hours.",
  )),
).annotateMerge(tagged("Gap stats", "Sessions that opened with a gap, and what followed.")) {}

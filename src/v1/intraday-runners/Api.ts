/** §2.4, §4.3. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { described, Reads, tagged } from "../../rules/EndpointAnnotations.ts"
import { date, flag, jsonOf, money, orNull, price, ratio, ticker, whole, words } from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { consistent } from "../../rules/ParameterCombinations.ts"
import { bounds, OnDate } from "../../rules/Filters.ts"
import { Envelope, Paging } from "../../rules/Paging.ts"
import { Tickers } from "../../rules/Tickers.ts"
import { EasternWallClock, NewYorkWallClock } from "../../rows/Timestamps.ts"

export class IntradayRunner extends Model.Class<IntradayRunner>("IntradayRunner")({
  ticker: ticker(),
  date: date("The session's day."),
  gap_percentage: ratio("Opening gap over the previous close, %."),
  market_open: price("First regular price, USD."),
  previous_day_close: price("Close of the day before, USD."),
  percentage_gain: ratio("High over the previous close, %."),
  open_to_high_pct: ratio("High over the open, %."),
  high_price: price("Highest regular price, USD."),
  high_time: orNull(NewYorkWallClock),
  low_price: price("Lowest regular price, USD."),
  low_time: orNull(NewYorkWallClock),
  spike_start_time: orNull(NewYorkWallClock),
  spike_start_price: orNull(price("Price when the spike began, USD.")),
  spike_duration_minutes: orNull(whole("How long the spike lasted, minutes.")),
  est_halt_minutes: orNull(whole("Estimated minutes of trading halts.")),
  daily_volume_ratio: ratio("Volume over its usual level; always greater than 9."),
  volume: orNull(whole("Shares traded, all sessions.")),
  dollar_volume: orNull(money("Value traded, all sessions, USD.")),
  rth_volume: orNull(whole("Shares traded in regular hours.")),
  rth_dollar_volume: orNull(money("Value traded in regular hours, USD.")),
  market_close: price("Last regular price, USD."),
  close_under_50pct_of_range: flag("The close lies in the lower half of the day's range."),
  afterhours_close: orNull(price("Last price after hours, USD.")),
  afterhours_high: orNull(price("Highest price after hours, USD.")),
  afterhours_low: orNull(price("Lowest price after hours, USD.")),
  afterhours_volume: orNull(whole("Shares traded after hours.")),
  afterhours_dollar_volume: orNull(money("Value traded after hours, USD.")),
  premarket_vwap: orNull(price("Volume-weighted average price before the open, USD.")),
  premarket_volume: orNull(whole("Shares traded before the open.")),
  premarket_dollar_volume: orNull(money("Value traded before the open, USD.")),
  premarket_high: orNull(price("Highest price before the open, USD.")),
  premarket_low: orNull(price("Lowest price before the open, USD.")),
  market_cap: orNull(money("Market capitalisation, USD.")),
  filing_types: words("SEC forms filed around the session."),
  all_tags: words("Tags of the session."),
  last_updated: EasternWallClock,
  /** The table holds every session; only flagged ones are shown. */
  anomaly_flagged: Model.Field({ insert: flag("").schemas.insert }),
}) {}

export const Query = Schema.Struct({
  ticker: Schema.optionalKey(Tickers),
  ...OnDate,
  ...bounds("gap_percentage"),
  ...Paging,
}).check(consistent)

export class IntradayRunners extends HttpApiGroup.make("intradayRunners").add(
  HttpApiEndpoint.get("list", "/intraday-runners", {
    query: Query,
    success: Envelope(jsonOf(IntradayRunner)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(Reads, ["intraday_runners"]).annotateMerge(described(
    "Intraday Runners",
    "Sessions in which the anomaly detector flagged unusual volume and the volume was more than nine times its " +
      "usual level, newest first.",
  )),
).annotateMerge(tagged("Intraday Runners", "Sessions with unusual volume.")) {}

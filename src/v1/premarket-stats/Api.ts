/** Resources: premarket-stats, and the fields and filters of afterhours-stats, a table of the same shape; §2.1. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { described, Reads, tagged } from "../../rules/EndpointAnnotations.ts"
import { date, jsonOf, money, orNull, price, ratio, ticker, whole, words } from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { consistent } from "../../rules/ParameterCombinations.ts"
import { bounds, OnDate, word } from "../../rules/Filters.ts"
import { Envelope, Paging } from "../../rules/Paging.ts"
import { Tickers } from "../../rules/Tickers.ts"
import { EasternWallClock, NewYorkWallClock } from "../../rows/Timestamps.ts"

export const fields = {
  ticker: ticker(),
  date: date("The session's day."),
  reference_close: price("What gains are over, USD: before the open the day before's close, after hours that day's."),
  open_price: orNull(price("First price of the session, USD.")),
  close_price: orNull(price("Last price of the session, USD.")),
  high_price: price("Highest price of the session, USD."),
  low_price: price("Lowest price of the session, USD."),
  high_time: orNull(NewYorkWallClock),
  low_time: orNull(NewYorkWallClock),
  percentage_gain: ratio("High over the reference close, %."),
  change_percentage: ratio("Last price over the reference close, %."),
  vwap: orNull(price("Volume-weighted average price of the session, USD.")),
  volume: whole("Shares traded in the session."),
  dollar_volume: money("Value traded in the session, USD."),
  volume_ratio: orNull(ratio("Volume over its usual level.")),
  trade_count: orNull(whole("Trades in the session.")),
  spike_start_time: orNull(NewYorkWallClock),
  spike_start_price: orNull(price("Price when the spike began, USD.")),
  spike_duration_minutes: orNull(whole("How long the spike lasted, minutes.")),
  est_halt_minutes: orNull(whole("Estimated minutes of trading halts.")),
  market_cap: orNull(money("Market capitalisation, USD.")),
  tradable_float: orNull(whole("Shares that can be traded freely.")),
  filing_types: words("SEC forms filed around the session."),
  all_tags: words("Tags of the session."),
  last_updated: EasternWallClock,
}

export class PremarketStat extends Model.Class<PremarketStat>("PremarketStat")(fields) {}

export const Query = Schema.Struct({
  ticker: Schema.optionalKey(Tickers),
  ...OnDate,
  ...bounds("percentage_gain", "change_percentage", "volume", "dollar_volume", "market_cap", "tradable_float"),
  tag: word("all_tags", "One of all_tags is this, in any case."),
  ...Paging,
}).check(consistent)

export class PremarketStats extends HttpApiGroup.make("premarketStats").add(
  HttpApiEndpoint.get("list", "/premarket-stats", {
    query: Query,
    success: Envelope(jsonOf(PremarketStat)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(Reads, ["premarket_stats"]).annotateMerge(
    described("Premarket stats", "Trading before the open, a row a ticker and day, newest first."),
  ),
).annotateMerge(tagged("Premarket stats", "Sessions with unusual trading before the open.")) {}

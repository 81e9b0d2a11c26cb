/** Resources: premarket-stats, and the fields and filters of afterhours-stats, a table of the same shape; §2.1. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeGroup, ReadsTables } from "../../rules/EndpointAnnotations.ts"
import {
  dateColumn,
  getRowJsonSchema,
  integerColumn,
  moneyColumn,
  nullableColumn,
  priceColumn,
  ratioColumn,
  textArrayColumn,
  tickerColumn,
} from "../../rows/Columns.ts"
import { DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { checkParameterCombinations } from "../../rules/ParameterCombinations.ts"
import { arrayElementFilter, DateFilters, numberRangeFilters } from "../../rules/Filters.ts"
import { ListEnvelope, PagingParameters } from "../../rules/Paging.ts"
import { TickerList } from "../../rules/Tickers.ts"
import { EasternWallClock, NewYorkWallClock } from "../../rows/Timestamps.ts"

export const extendedHoursFields = {
  ticker: tickerColumn(),
  date: dateColumn("The session's day."),
  reference_close: priceColumn(
    "What gains are over, USD: before the open the day before's close, after hours that day's.",
  ),
  open_price: nullableColumn(priceColumn("First price of the session, USD.")),
  close_price: nullableColumn(priceColumn("Last price of the session, USD.")),
  high_price: priceColumn("Highest price of the session, USD."),
  low_price: priceColumn("Lowest price of the session, USD."),
  high_time: nullableColumn(NewYorkWallClock),
  low_time: nullableColumn(NewYorkWallClock),
  percentage_gain: ratioColumn("High over the reference close, %."),
  change_percentage: ratioColumn("Last price over the reference close, %."),
  vwap: nullableColumn(priceColumn("Volume-weighted average price of the session, USD.")),
  volume: integerColumn("Shares traded in the session."),
  dollar_volume: moneyColumn("Value traded in the session, USD."),
  volume_ratio: nullableColumn(ratioColumn("Volume over its usual level.")),
  trade_count: nullableColumn(integerColumn("Trades in the session.")),
  spike_start_time: nullableColumn(NewYorkWallClock),
  spike_start_price: nullableColumn(priceColumn("Price when the spike began, USD.")),
  spike_duration_minutes: nullableColumn(integerColumn("How long the spike lasted, minutes.")),
  est_halt_minutes: nullableColumn(integerColumn("Estimated minutes of trading halts.")),
  market_cap: nullableColumn(moneyColumn("Market capitalisation, USD.")),
  tradable_float: nullableColumn(integerColumn("Shares that can be traded freely.")),
  filing_types: textArrayColumn("SEC forms filed around the session."),
  all_tags: textArrayColumn("Tags of the session."),
  last_updated: EasternWallClock,
}

export class PremarketStat extends Model.Class<PremarketStat>("PremarketStat")(extendedHoursFields) {}

export const ExtendedHoursQuery = Schema.Struct({
  ticker: Schema.optionalKey(TickerList),
  ...DateFilters,
  ...numberRangeFilters(
    "percentage_gain",
    "change_percentage",
    "volume",
    "dollar_volume",
    "market_cap",
    "tradable_float",
  ),
  tag: arrayElementFilter("all_tags", "One of all_tags is this, in any case."),
  ...PagingParameters,
}).check(checkParameterCombinations)

export class PremarketStatsApiGroup extends HttpApiGroup.make("premarketStats").add(
  HttpApiEndpoint.get("list", "/premarket-stats", {
    query: ExtendedHoursQuery,
    success: ListEnvelope(getRowJsonSchema(PremarketStat)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(ReadsTables, ["premarket_stats"]).annotateMerge(
    describeEndpoint("Premarket stats", "Trading before the open, a row a ticker and day, newest first."),
  ),
).annotateMerge(describeGroup("Premarket stats", "Sessions with unusual trading before the open.")) {}

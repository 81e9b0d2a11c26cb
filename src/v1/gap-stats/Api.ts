/** Resources: gap-stats and gap-stats-advanced, which are the same rows (D30); §2.1. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeGroup, ReadsTables } from "../../rules/EndpointAnnotations.ts"
import {
  booleanColumn,
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
import { arrayElementFilter, booleanFilters, DateFilters, numberRangeFilters } from "../../rules/Filters.ts"
import { ListEnvelope, PagingParameters } from "../../rules/Paging.ts"
import { TickerList } from "../../rules/Tickers.ts"
import { NewYorkWallClock, UtcInstant } from "../../rows/Timestamps.ts"

const fields = {
  ticker: tickerColumn(),
  date: dateColumn("The session's day."),
  previous_day_close: priceColumn("Close of the day before, USD."),
  market_open: priceColumn("First regular price, USD."),
  gap_percentage: ratioColumn("Opening gap over the previous close, %."),
  high_price: priceColumn("Highest regular price, USD."),
  low_price: priceColumn("Lowest regular price, USD."),
  high_time: nullableColumn(NewYorkWallClock),
  low_time: nullableColumn(NewYorkWallClock),
  market_close: priceColumn("Last regular price, USD."),
  closed_over_vwap: nullableColumn(booleanColumn("The close lies above the day's volume-weighted average price.")),
  volume: integerColumn("Shares traded, all sessions."),
  dollar_volume: moneyColumn("Value traded, all sessions, USD."),
  premarket_volume: integerColumn("Shares traded before the open."),
  premarket_dollar_volume: moneyColumn("Value traded before the open, USD."),
  premarket_vwap: nullableColumn(priceColumn("Volume-weighted average price before the open, USD.")),
  afterhours_close: nullableColumn(priceColumn("Last price after hours, USD.")),
  market_cap: nullableColumn(moneyColumn("Market capitalisation, USD.")),
  filing_types: textArrayColumn("SEC forms filed around the session."),
  all_tags: textArrayColumn("Tags of the session."),
  spike_start_time: nullableColumn(NewYorkWallClock),
  last_updated: UtcInstant,
}

export class GapStat extends Model.Class<GapStat>("GapStat")(fields) {}

/** All columns of the table. */
export class GapStatAdvanced extends Model.Class<GapStatAdvanced>("GapStatAdvanced")({
  ...fields,
  open_to_high_pct: ratioColumn("High over the open, %."),
  open_to_low_pct: ratioColumn("Low over the open, %."),
  percentage_gain: ratioColumn("High over the previous close, %."),
  spike_start_price: nullableColumn(priceColumn("Price when the spike began, USD.")),
  spike_duration_minutes: nullableColumn(integerColumn("How long the spike lasted, minutes.")),
  est_halt_minutes: nullableColumn(integerColumn("Estimated minutes of trading halts.")),
  rth_volume: integerColumn("Shares traded in regular hours."),
  rth_dollar_volume: moneyColumn("Value traded in regular hours, USD."),
  premarket_high: nullableColumn(priceColumn("Highest price before the open, USD.")),
  premarket_low: nullableColumn(priceColumn("Lowest price before the open, USD.")),
  afterhours_high: nullableColumn(priceColumn("Highest price after hours, USD.")),
  afterhours_low: nullableColumn(priceColumn("Lowest price after hours, USD.")),
  afterhours_volume: nullableColumn(integerColumn("Shares traded after hours.")),
  close_under_50pct_of_range: booleanColumn("The close lies in the lower half of the day's range."),
  gap_filled: booleanColumn("The price came back to the previous close."),
  gap_fill_time: nullableColumn(NewYorkWallClock),
  tradable_float: nullableColumn(integerColumn("Shares that can be traded freely.")),
}) {}

export const GapStatsQuery = Schema.Struct({
  ticker: Schema.optionalKey(TickerList),
  ...DateFilters,
  ...numberRangeFilters("gap_percentage", "volume", "dollar_volume", "market_cap"),
  tag: arrayElementFilter("all_tags", "One of all_tags is this, in any case."),
  filing_type: arrayElementFilter("filing_types", "One of filing_types is this, in any case."),
  ...booleanFilters("closed_over_vwap"),
  ...PagingParameters,
}).check(checkParameterCombinations)

export class GapStatsApiGroup extends HttpApiGroup.make("gapStats").add(
  HttpApiEndpoint.get("list", "/gap-stats", {
    query: GapStatsQuery,
    success: ListEnvelope(getRowJsonSchema(GapStat)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(ReadsTables, ["gap_stats"]).annotateMerge(
    describeEndpoint("Gap stats", "Sessions that opened away from the previous close, newest first."),
  ),
  HttpApiEndpoint.get("listAdvanced", "/gap-stats-advanced", {
    query: GapStatsQuery,
    success: ListEnvelope(getRowJsonSchema(GapStatAdvanced)),
    error: [DataRefreshing, DatabasePoolTimeout],
  }).annotate(ReadsTables, ["gap_stats"]).annotateMerge(describeEndpoint(
    "Gap stats advanced",
    "The sessions of `/v1/gap-stats`, by the same filters, with what happened after the open: spike, halts, fill and " +
      "after hours.",
  )),
).annotateMerge(describeGroup("Gap stats", "Sessions that opened with a gap, and what followed.")) {}

/** GET /v1/gap-stats and /v1/gap-stats-advanced, which return the same rows: D30 (tables). */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeEndpointGroup, TablesReadByEndpoint } from "../../rules/EndpointAnnotations.ts"
import {
  booleanColumn,
  dateColumn,
  getRowJsonSchemaWithLineage,
  integerColumn,
  markAsRowDate,
  moneyColumn,
  nullableColumn,
  priceColumn,
  ratioColumn,
  textArrayColumn,
  tickerColumn,
} from "../../rows/Columns.ts"
import { AmbiguousTickerLineage, AsOfTooEarly, DatabasePoolTimeout, DataRefreshing } from "../../rules/Errors.ts"
import { AsOfParameter } from "../../rules/AsOfParameter.ts"
import { checkParameterCombinations } from "../../rules/ParameterCombinations.ts"
import {
  defaultDateFilters,
  makeArrayElementFilter,
  makeBooleanFilters,
  makeNumberRangeFilters,
} from "../../rules/Filters.ts"
import { LineageParameters } from "../../rules/LineageParameters.ts"
import { makeListEnvelope, PagingParameters } from "../../rules/Paging.ts"
import { TickerListParameter } from "../../rules/Tickers.ts"
import { InstantColumn, NewYorkTimeColumn } from "../../rows/Timestamps.ts"

const fields = {
  ticker: tickerColumn(),
  date: markAsRowDate(dateColumn("Date of the session.")),
  previous_day_close: priceColumn("Closing price of the previous day, USD."),
  market_open: priceColumn("First price in regular hours, USD."),
  gap_percentage: ratioColumn("Change from the previous close to the open, %."),
  high_price: priceColumn("Highest price in regular hours, USD."),
  low_price: priceColumn("Lowest price in regular hours, USD."),
  high_time: nullableColumn(NewYorkTimeColumn),
  low_time: nullableColumn(NewYorkTimeColumn),
  market_close: priceColumn("Closing price: the last price in regular hours, USD."),
  closed_over_vwap: nullableColumn(
    booleanColumn("Whether the close is above the day's volume-weighted average price."),
  ),
  volume: integerColumn("Shares traded, all sessions."),
  dollar_volume: moneyColumn("Value traded, all sessions, USD."),
  premarket_volume: integerColumn("Shares traded before the open."),
  premarket_dollar_volume: moneyColumn("Value traded before the open, USD."),
  premarket_vwap: nullableColumn(priceColumn("Volume-weighted average price before the open, USD.")),
  afterhours_close: nullableColumn(priceColumn("Last price after hours, USD.")),
  market_cap: nullableColumn(moneyColumn("Market capitalization, USD.")),
  filing_types: textArrayColumn("SEC forms filed around the session, such as `8-K` or `10-K`."),
  all_tags: textArrayColumn("Tags of the session."),
  spike_start_time: nullableColumn(NewYorkTimeColumn),
  last_updated: InstantColumn,
}

export class GapStat extends Model.Class<GapStat>("GapStat")(fields) {}

/** All columns of `gap_stats`. */
export class GapStatAdvanced extends Model.Class<GapStatAdvanced>("GapStatAdvanced")({
  ...fields,
  open_to_high_pct: ratioColumn("Change from the open to the high, %."),
  open_to_low_pct: ratioColumn("Change from the open to the low, %."),
  percentage_gain: ratioColumn("Change from the previous close to the high, %."),
  spike_start_price: nullableColumn(priceColumn("Price when the spike began, USD.")),
  spike_duration_minutes: nullableColumn(integerColumn("Duration of the spike, minutes.")),
  est_halt_minutes: nullableColumn(integerColumn("Estimated duration of trading halts, minutes.")),
  rth_volume: integerColumn("Shares traded in regular hours."),
  rth_dollar_volume: moneyColumn("Value traded in regular hours, USD."),
  premarket_high: nullableColumn(priceColumn("Highest price before the open, USD.")),
  premarket_low: nullableColumn(priceColumn("Lowest price before the open, USD.")),
  afterhours_high: nullableColumn(priceColumn("Highest price after hours, USD.")),
  afterhours_low: nullableColumn(priceColumn("Lowest price after hours, USD.")),
  afterhours_volume: nullableColumn(integerColumn("Shares traded after hours.")),
  close_under_50pct_of_range: booleanColumn("Whether the close is in the lower half of the day's range."),
  gap_filled: booleanColumn("Whether the price returned to the previous close."),
  gap_fill_time: nullableColumn(NewYorkTimeColumn),
  tradable_float: nullableColumn(integerColumn("Freely tradable shares.")),
}) {}

export const GapStatsQuery = Schema.Struct({
  ticker: Schema.optionalKey(TickerListParameter),
  ...defaultDateFilters,
  ...makeNumberRangeFilters("gap_percentage", "volume", "dollar_volume", "market_cap"),
  tag: makeArrayElementFilter("all_tags", "Sessions"),
  filing_type: makeArrayElementFilter("filing_types", "Sessions"),
  ...makeBooleanFilters("closed_over_vwap"),
  ...LineageParameters,
  ...AsOfParameter,
  ...PagingParameters,
}).check(checkParameterCombinations)

export class GapStatsApiGroup extends HttpApiGroup.make("gapStats").add(
  HttpApiEndpoint.get("list", "/gap-stats", {
    query: GapStatsQuery,
    success: makeListEnvelope(getRowJsonSchemaWithLineage(GapStat)),
    error: [AmbiguousTickerLineage, AsOfTooEarly, DataRefreshing, DatabasePoolTimeout],
  }).annotate(TablesReadByEndpoint, ["gap_stats"]).annotateMerge(
    describeEndpoint("Gap stats", "Sessions that opened with a gap to the previous close, newest first."),
  ),
  HttpApiEndpoint.get("listAdvanced", "/gap-stats-advanced", {
    query: GapStatsQuery,
    success: makeListEnvelope(getRowJsonSchemaWithLineage(GapStatAdvanced)),
    error: [AmbiguousTickerLineage, AsOfTooEarly, DataRefreshing, DatabasePoolTimeout],
  }).annotate(TablesReadByEndpoint, ["gap_stats"]).annotateMerge(describeEndpoint(
    "Gap stats advanced",
    "The sessions of `/v1/gap-stats`, with the same filters and more fields: spike, halts, gap fill and after-hours " +
      "trading.",
  )),
).annotateMerge(describeEndpointGroup("Gap stats", "Sessions that opened with a gap, and what followed.")) {}

/** `GET /v1/gap-stats` and `/v1/gap-stats-advanced`, which return the same rows with different columns (D30). */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeEndpointGroup } from "../rules/EndpointAnnotations.ts"
import * as Column from "../rows/Columns.ts"
import { listErrors } from "../rules/ApiErrors.ts"
import * as Filter from "../rules/FilterParameters.ts"
import { makeListQuery } from "../rules/ListQueries.ts"
import { makeListEnvelope } from "../rules/Paging.ts"
import { TickerListParameter } from "../rules/Tickers.ts"
import { InstantColumn, NewYorkTimeColumn } from "../rows/Timestamps.ts"

const fields = {
  ticker: Column.ticker(),
  date: Column.markAsRowDate(Column.date("Date of the session.")),
  previous_day_close: Column.price("Closing price of the previous day, USD."),
  market_open: Column.price("First price in regular hours, USD."),
  gap_percentage: Column.ratio("Change from the previous close to the open, %."),
  high_price: Column.price("Highest price in regular hours, USD."),
  low_price: Column.price("Lowest price in regular hours, USD."),
  high_time: Column.nullable(NewYorkTimeColumn),
  low_time: Column.nullable(NewYorkTimeColumn),
  market_close: Column.price("Closing price: the last price in regular hours, USD."),
  closed_over_vwap: Column.nullable(
    Column.boolean("Whether the close is above the day's volume-weighted average price."),
  ),
  volume: Column.integer("Shares traded, all sessions."),
  dollar_volume: Column.money("Value traded, all sessions, USD."),
  premarket_volume: Column.integer("Shares traded before the open."),
  premarket_dollar_volume: Column.money("Value traded before the open, USD."),
  premarket_vwap: Column.nullable(Column.price("Volume-weighted average price before the open, USD.")),
  afterhours_close: Column.nullable(Column.price("Last price after hours, USD.")),
  market_cap: Column.nullable(Column.money("Market capitalization, USD.")),
  filing_types: Column.textArray("SEC forms filed around the session, such as `8-K` or `10-K`."),
  all_tags: Column.textArray("Tags of the session."),
  spike_start_time: Column.nullable(NewYorkTimeColumn),
  last_updated: InstantColumn,
}

/** A row of `/v1/gap-stats`. */
export class GapStat extends Model.Class<GapStat>("GapStat")(fields) {}

/** A row of `/v1/gap-stats-advanced`. It has every column of the table. */
export class GapStatAdvanced extends Model.Class<GapStatAdvanced>("GapStatAdvanced")({
  ...fields,
  open_to_high_pct: Column.ratio("Change from the open to the high, %."),
  open_to_low_pct: Column.ratio("Change from the open to the low, %."),
  percentage_gain: Column.ratio("Change from the previous close to the high, %."),
  spike_start_price: Column.nullable(Column.price("Price when the spike began, USD.")),
  spike_duration_minutes: Column.nullable(Column.integer("Duration of the spike, minutes.")),
  est_halt_minutes: Column.nullable(Column.integer("Estimated duration of trading halts, minutes.")),
  rth_volume: Column.integer("Shares traded in regular hours."),
  rth_dollar_volume: Column.money("Value traded in regular hours, USD."),
  premarket_high: Column.nullable(Column.price("Highest price before the open, USD.")),
  premarket_low: Column.nullable(Column.price("Lowest price before the open, USD.")),
  afterhours_high: Column.nullable(Column.price("Highest price after hours, USD.")),
  afterhours_low: Column.nullable(Column.price("Lowest price after hours, USD.")),
  afterhours_volume: Column.nullable(Column.integer("Shares traded after hours.")),
  close_under_50pct_of_range: Column.boolean("Whether the close is in the lower half of the day's range."),
  gap_filled: Column.boolean("Whether the price returned to the previous close."),
  gap_fill_time: Column.nullable(NewYorkTimeColumn),
  tradable_float: Column.nullable(Column.integer("Freely tradable shares.")),
}) {}

/** The parameters of `/v1/gap-stats` and `/v1/gap-stats-advanced`. */
export const GapStatsQuery = makeListQuery({
  ticker: Schema.optionalKey(TickerListParameter),
  ...Filter.defaultDates,
  ...Filter.makeNumberRanges("gap_percentage", "volume", "dollar_volume", "market_cap"),
  tag: Filter.makeArrayElement("all_tags", "Sessions"),
  filing_type: Filter.makeArrayElement("filing_types", "Sessions"),
  ...Filter.makeBooleanFilters("closed_over_vwap"),
})

/** The endpoints that return sessions that opened with a price gap. */
export class GapStatsApiGroup extends HttpApiGroup.make("gapStats").add(
  HttpApiEndpoint.get("list", "/gap-stats", {
    query: GapStatsQuery,
    success: makeListEnvelope(Column.getRowJsonSchemaWithLineage(GapStat)),
    error: listErrors,
  }).annotateMerge(
    describeEndpoint("Gap stats", "Sessions that opened with a gap to the previous close, newest first.", {
      tables: ["gap_stats"],
    }),
  ),
  HttpApiEndpoint.get("listAdvanced", "/gap-stats-advanced", {
    query: GapStatsQuery,
    success: makeListEnvelope(Column.getRowJsonSchemaWithLineage(GapStatAdvanced)),
    error: listErrors,
  }).annotateMerge(describeEndpoint(
    "Gap stats advanced",
    "The sessions of `/v1/gap-stats`, with the same filters and more fields: spike, halts, gap fill and after-hours " +
      "trading.",
    { tables: ["gap_stats"] },
  )),
).annotateMerge(describeEndpointGroup("Gap stats", "Sessions that opened with a gap, and what followed.")) {}

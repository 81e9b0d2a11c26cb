/** `GET /v1/premarket-stats`, plus the fields and filters that `/v1/afterhours-stats` shares. */
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
import { FixedOffsetTimeColumn, NewYorkTimeColumn } from "../rows/Timestamps.ts"

/** The columns for a pre-market or after-hours session. */
export const extendedHoursFields = {
  ticker: Column.ticker(),
  date: Column.markAsRowDate(Column.date("Date of the session.")),
  reference_close: Column.price(
    "Closing price that changes refer to, USD: before the open the previous day's, after hours the same day's.",
  ),
  open_price: Column.nullable(Column.price("First price of the session, USD.")),
  close_price: Column.nullable(Column.price("Last price of the session, USD.")),
  high_price: Column.price("Highest price of the session, USD."),
  low_price: Column.price("Lowest price of the session, USD."),
  high_time: Column.nullable(NewYorkTimeColumn),
  low_time: Column.nullable(NewYorkTimeColumn),
  percentage_gain: Column.ratio("Change from the reference close to the high, %."),
  change_percentage: Column.ratio("Change from the reference close to the last price, %."),
  vwap: Column.nullable(Column.price("Volume-weighted average price of the session, USD.")),
  volume: Column.integer("Shares traded in the session."),
  dollar_volume: Column.money("Value traded in the session, USD."),
  volume_ratio: Column.nullable(Column.ratio("Volume relative to its usual level.")),
  trade_count: Column.nullable(Column.integer("Trades in the session.")),
  spike_start_time: Column.nullable(NewYorkTimeColumn),
  spike_start_price: Column.nullable(Column.price("Price when the spike began, USD.")),
  spike_duration_minutes: Column.nullable(Column.integer("Duration of the spike, minutes.")),
  est_halt_minutes: Column.nullable(Column.integer("Estimated duration of trading halts, minutes.")),
  market_cap: Column.nullable(Column.money("Market capitalization, USD.")),
  tradable_float: Column.nullable(Column.integer("Freely tradable shares.")),
  filing_types: Column.textArray("SEC forms filed around the session, such as `8-K` or `10-K`."),
  all_tags: Column.textArray("Tags of the session."),
  last_updated: FixedOffsetTimeColumn,
}

/** A row of `/v1/premarket-stats`. */
export class PremarketStat extends Model.Class<PremarketStat>("PremarketStat")(extendedHoursFields) {}

/** The parameters of `/v1/premarket-stats` and `/v1/afterhours-stats`. */
export const ExtendedHoursStatsQuery = makeListQuery({
  ticker: Schema.optionalKey(TickerListParameter),
  ...Filter.defaultDates,
  ...Filter.makeNumberRanges(
    "percentage_gain",
    "change_percentage",
    "volume",
    "dollar_volume",
    "market_cap",
    "tradable_float",
  ),
  tag: Filter.makeArrayElement("all_tags", "Sessions"),
})

/** The `/v1/premarket-stats` endpoint. */
export class PremarketStatsApiGroup extends HttpApiGroup.make("premarketStats").add(
  HttpApiEndpoint.get("list", "/premarket-stats", {
    query: ExtendedHoursStatsQuery,
    success: makeListEnvelope(Column.getRowJsonSchemaWithLineage(PremarketStat)),
    error: listErrors,
  }).annotateMerge(
    describeEndpoint("Premarket stats", "Trading before the open: one row per ticker and day, newest first.", {
      tables: ["premarket_stats"],
    }),
  ),
).annotateMerge(describeEndpointGroup("Premarket stats", "Sessions with unusual trading before the open.")) {}

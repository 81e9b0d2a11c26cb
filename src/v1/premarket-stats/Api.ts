/** GET /v1/premarket-stats, and the fields and filters that afterhours-stats shares. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Model } from "effect/schema"
import { describeEndpoint, describeEndpointGroup, TablesReadByEndpoint } from "../../rules/EndpointAnnotations.ts"
import {
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
import { defaultDateFilters, makeArrayElementFilter, makeNumberRangeFilters } from "../../rules/Filters.ts"
import { LineageParameters } from "../../rules/LineageParameters.ts"
import { makeListEnvelope, PagingParameters } from "../../rules/Paging.ts"
import { TickerListParameter } from "../../rules/Tickers.ts"
import { FixedOffsetTimeColumn, NewYorkTimeColumn } from "../../rows/Timestamps.ts"

export const extendedHoursFields = {
  ticker: tickerColumn(),
  date: markAsRowDate(dateColumn("Date of the session.")),
  reference_close: priceColumn(
    "Closing price that changes refer to, USD: before the open the previous day's, after hours the same day's.",
  ),
  open_price: nullableColumn(priceColumn("First price of the session, USD.")),
  close_price: nullableColumn(priceColumn("Last price of the session, USD.")),
  high_price: priceColumn("Highest price of the session, USD."),
  low_price: priceColumn("Lowest price of the session, USD."),
  high_time: nullableColumn(NewYorkTimeColumn),
  low_time: nullableColumn(NewYorkTimeColumn),
  percentage_gain: ratioColumn("Change from the reference close to the high, %."),
  change_percentage: ratioColumn("Change from the reference close to the last price, %."),
  vwap: nullableColumn(priceColumn("Volume-weighted average price of the session, USD.")),
  volume: integerColumn("Shares traded in the session."),
  dollar_volume: moneyColumn("Value traded in the session, USD."),
  volume_ratio: nullableColumn(ratioColumn("Volume relative to its usual level.")),
  trade_count: nullableColumn(integerColumn("Trades in the session.")),
  spike_start_time: nullableColumn(NewYorkTimeColumn),
  spike_start_price: nullableColumn(priceColumn("Price when the spike began, USD.")),
  spike_duration_minutes: nullableColumn(integerColumn("Duration of the spike, minutes.")),
  est_halt_minutes: nullableColumn(integerColumn("Estimated duration of trading halts, minutes.")),
  market_cap: nullableColumn(moneyColumn("Market capitalization, USD.")),
  tradable_float: nullableColumn(integerColumn("Freely tradable shares.")),
  filing_types: textArrayColumn("SEC forms filed around the session, such as `8-K` or `10-K`."),
  all_tags: textArrayColumn("Tags of the session."),
  last_updated: FixedOffsetTimeColumn,
}

export class PremarketStat extends Model.Class<PremarketStat>("PremarketStat")(extendedHoursFields) {}

export const ExtendedHoursStatsQuery = Schema.Struct({
  ticker: Schema.optionalKey(TickerListParameter),
  ...defaultDateFilters,
  ...makeNumberRangeFilters(
    "percentage_gain",
    "change_percentage",
    "volume",
    "dollar_volume",
    "market_cap",
    "tradable_float",
  ),
  tag: makeArrayElementFilter("all_tags", "Sessions"),
  ...LineageParameters,
  ...AsOfParameter,
  ...PagingParameters,
}).check(checkParameterCombinations)

export class PremarketStatsApiGroup extends HttpApiGroup.make("premarketStats").add(
  HttpApiEndpoint.get("list", "/premarket-stats", {
    query: ExtendedHoursStatsQuery,
    success: makeListEnvelope(getRowJsonSchemaWithLineage(PremarketStat)),
    error: [AmbiguousTickerLineage, AsOfTooEarly, DataRefreshing, DatabasePoolTimeout],
  }).annotate(TablesReadByEndpoint, ["premarket_stats"]).annotateMerge(
    describeEndpoint("Premarket stats", "Trading before the open: one row per ticker and day, newest first."),
  ),
).annotateMerge(describeEndpointGroup("Premarket stats", "Sessions with unusual trading before the open.")) {}

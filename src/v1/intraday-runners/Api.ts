/** GET /v1/intraday-runners: §2.4, §4.3 (intraday runners). */
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
import { defaultDateFilters, makeNumberRangeFilters } from "../../rules/Filters.ts"
import { LineageParameters } from "../../rules/LineageParameters.ts"
import { makeListEnvelope, PagingParameters } from "../../rules/Paging.ts"
import { TickerListParameter } from "../../rules/Tickers.ts"
import { FixedOffsetTimeColumn, NewYorkTimeColumn } from "../../rows/Timestamps.ts"

export class IntradayRunner extends Model.Class<IntradayRunner>("IntradayRunner")({
  ticker: tickerColumn(),
  date: markAsRowDate(dateColumn("Date of the session.")),
  gap_percentage: ratioColumn("Change from the previous close to the open, %."),
  market_open: priceColumn("First price in regular hours, USD."),
  previous_day_close: priceColumn("Closing price of the previous day, USD."),
  percentage_gain: ratioColumn("Change from the previous close to the high, %."),
  open_to_high_pct: ratioColumn("Change from the open to the high, %."),
  high_price: priceColumn("Highest price in regular hours, USD."),
  high_time: nullableColumn(NewYorkTimeColumn),
  low_price: priceColumn("Lowest price in regular hours, USD."),
  low_time: nullableColumn(NewYorkTimeColumn),
  spike_start_time: nullableColumn(NewYorkTimeColumn),
  spike_start_price: nullableColumn(priceColumn("Price when the spike began, USD.")),
  spike_duration_minutes: nullableColumn(integerColumn("Duration of the spike, minutes.")),
  est_halt_minutes: nullableColumn(integerColumn("Estimated duration of trading halts, minutes.")),
  daily_volume_ratio: ratioColumn("Volume relative to its usual level; always greater than 9."),
  volume: nullableColumn(integerColumn("Shares traded, all sessions.")),
  dollar_volume: nullableColumn(moneyColumn("Value traded, all sessions, USD.")),
  rth_volume: nullableColumn(integerColumn("Shares traded in regular hours.")),
  rth_dollar_volume: nullableColumn(moneyColumn("Value traded in regular hours, USD.")),
  market_close: priceColumn("Closing price: the last price in regular hours, USD."),
  close_under_50pct_of_range: booleanColumn("Whether the close is in the lower half of the day's range."),
  afterhours_close: nullableColumn(priceColumn("Last price after hours, USD.")),
  afterhours_high: nullableColumn(priceColumn("Highest price after hours, USD.")),
  afterhours_low: nullableColumn(priceColumn("Lowest price after hours, USD.")),
  afterhours_volume: nullableColumn(integerColumn("Shares traded after hours.")),
  afterhours_dollar_volume: nullableColumn(moneyColumn("Value traded after hours, USD.")),
  premarket_vwap: nullableColumn(priceColumn("Volume-weighted average price before the open, USD.")),
  premarket_volume: nullableColumn(integerColumn("Shares traded before the open.")),
  premarket_dollar_volume: nullableColumn(moneyColumn("Value traded before the open, USD.")),
  premarket_high: nullableColumn(priceColumn("Highest price before the open, USD.")),
  premarket_low: nullableColumn(priceColumn("Lowest price before the open, USD.")),
  market_cap: nullableColumn(moneyColumn("Market capitalization, USD.")),
  filing_types: textArrayColumn("SEC forms filed around the session, such as `8-K` or `10-K`."),
  all_tags: textArrayColumn("Tags of the session."),
  last_updated: FixedOffsetTimeColumn,
  /** The endpoint returns only the flagged sessions, without this column. */
  anomaly_flagged: Model.Field({ insert: booleanColumn("").schemas.insert }),
}) {}

/** SQL condition of sessions that are runners. Written exactly as in the indexes, so that PostgreSQL can use them. */
export const intradayRunnerSqlCondition = "anomaly_flagged and daily_volume_ratio > 9"

export const IntradayRunnersQuery = Schema.Struct({
  ticker: Schema.optionalKey(TickerListParameter),
  ...defaultDateFilters,
  ...makeNumberRangeFilters("gap_percentage"),
  ...LineageParameters,
  ...AsOfParameter,
  ...PagingParameters,
}).check(checkParameterCombinations)

export class IntradayRunnersApiGroup extends HttpApiGroup.make("intradayRunners").add(
  HttpApiEndpoint.get("list", "/intraday-runners", {
    query: IntradayRunnersQuery,
    success: makeListEnvelope(getRowJsonSchemaWithLineage(IntradayRunner)),
    error: [AmbiguousTickerLineage, AsOfTooEarly, DataRefreshing, DatabasePoolTimeout],
  }).annotate(TablesReadByEndpoint, ["intraday_runners"]).annotateMerge(describeEndpoint(
    "Intraday Runners",
    "Sessions that the anomaly detector flagged for unusual volume, with more than nine times the usual volume, " +
      "newest first.",
  )),
).annotateMerge(describeEndpointGroup("Intraday Runners", "Sessions with unusual volume.")) {}

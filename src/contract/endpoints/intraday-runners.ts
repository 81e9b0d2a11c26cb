/** `GET /v1/intraday-runners`: §2.4, §4.3 (intraday runners). */
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

/** A row of `/v1/intraday-runners`. */
export class IntradayRunner extends Model.Class<IntradayRunner>("IntradayRunner")({
  ticker: Column.ticker(),
  date: Column.markAsRowDate(Column.date("Date of the session.")),
  gap_percentage: Column.ratio("Change from the previous close to the open, %."),
  market_open: Column.price("First price in regular hours, USD."),
  previous_day_close: Column.price("Closing price of the previous day, USD."),
  percentage_gain: Column.ratio("Change from the previous close to the high, %."),
  open_to_high_pct: Column.ratio("Change from the open to the high, %."),
  high_price: Column.price("Highest price in regular hours, USD."),
  high_time: Column.nullable(NewYorkTimeColumn),
  low_price: Column.price("Lowest price in regular hours, USD."),
  low_time: Column.nullable(NewYorkTimeColumn),
  spike_start_time: Column.nullable(NewYorkTimeColumn),
  spike_start_price: Column.nullable(Column.price("Price when the spike began, USD.")),
  spike_duration_minutes: Column.nullable(Column.integer("Duration of the spike, minutes.")),
  est_halt_minutes: Column.nullable(Column.integer("Estimated duration of trading halts, minutes.")),
  daily_volume_ratio: Column.ratio("Volume relative to its usual level; always greater than 9."),
  volume: Column.nullable(Column.integer("Shares traded, all sessions.")),
  dollar_volume: Column.nullable(Column.money("Value traded, all sessions, USD.")),
  rth_volume: Column.nullable(Column.integer("Shares traded in regular hours.")),
  rth_dollar_volume: Column.nullable(Column.money("Value traded in regular hours, USD.")),
  market_close: Column.price("Closing price: the last price in regular hours, USD."),
  close_under_50pct_of_range: Column.boolean("Whether the close is in the lower half of the day's range."),
  afterhours_close: Column.nullable(Column.price("Last price after hours, USD.")),
  afterhours_high: Column.nullable(Column.price("Highest price after hours, USD.")),
  afterhours_low: Column.nullable(Column.price("Lowest price after hours, USD.")),
  afterhours_volume: Column.nullable(Column.integer("Shares traded after hours.")),
  afterhours_dollar_volume: Column.nullable(Column.money("Value traded after hours, USD.")),
  premarket_vwap: Column.nullable(Column.price("Volume-weighted average price before the open, USD.")),
  premarket_volume: Column.nullable(Column.integer("Shares traded before the open.")),
  premarket_dollar_volume: Column.nullable(Column.money("Value traded before the open, USD.")),
  premarket_high: Column.nullable(Column.price("Highest price before the open, USD.")),
  premarket_low: Column.nullable(Column.price("Lowest price before the open, USD.")),
  market_cap: Column.nullable(Column.money("Market capitalization, USD.")),
  filing_types: Column.textArray("SEC forms filed around the session, such as `8-K` or `10-K`."),
  all_tags: Column.textArray("Tags of the session."),
  last_updated: FixedOffsetTimeColumn,
  /** Declared for data files only. The endpoint returns no sessions without the flag, so responses omit this column. */
  anomaly_flagged: Model.Field({ insert: Column.boolean("").schemas.insert }),
}) {}

/**
 * The SQL condition that selects runner sessions (§2.4). It must match the partial indexes' condition exactly, or
 * PostgreSQL cannot use them.
 */
export const intradayRunnerSqlCondition = "anomaly_flagged and daily_volume_ratio > 9"

/** The parameters of `/v1/intraday-runners`. */
export const IntradayRunnersQuery = makeListQuery({
  ticker: Schema.optionalKey(TickerListParameter),
  ...Filter.defaultDates,
  ...Filter.makeNumberRanges("gap_percentage"),
})

/** The `/v1/intraday-runners` endpoint. */
export class IntradayRunnersApiGroup extends HttpApiGroup.make("intradayRunners").add(
  HttpApiEndpoint.get("list", "/intraday-runners", {
    query: IntradayRunnersQuery,
    success: makeListEnvelope(Column.getRowJsonSchemaWithLineage(IntradayRunner)),
    error: listErrors,
  }).annotateMerge(describeEndpoint(
    "Intraday Runners",
    "Sessions that the anomaly detector flagged for unusual volume, with more than nine times the usual volume, " +
      "newest first.",
    { tables: ["intraday_runners"] },
  )),
).annotateMerge(describeEndpointGroup("Intraday Runners", "Sessions with unusual volume.")) {}

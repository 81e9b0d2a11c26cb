/** Lists the functions that build the sample rows of each table. */
import type { CompanyHistory } from "./CompanyHistory.ts"
import { buildDilutionDataRows } from "./DilutionRows.ts"
import { buildFloatOutstandingRows, buildHistoricalFloatProRows } from "./Floats.ts"
import {
  buildAfterhoursStatsRows,
  buildGapStatsRows,
  buildIntradayRunnersRows,
  buildPremarketStatsRows,
} from "./GapDayRows.ts"
import { buildNasdaqComplianceRows } from "./ListingNotices.ts"
import { buildNewsRows } from "./NewsRows.ts"
import { buildOwnershipRows } from "./Ownership.ts"
import { buildPumpAndDumpTrackerRows } from "./PumpAndDumpRows.ts"
import { buildRegistrationsRows } from "./RegistrationRows.ts"
import { buildResearchReportsRows } from "./ResearchReportRows.ts"
import { buildScreenerRows } from "./ScreenerRows.ts"
import { buildSplitStatusRows } from "./SplitRows.ts"
import { buildDailyPricesRows, buildHistoricalTickersRows, buildTickerChangesRows } from "./TickerRows.ts"

/** The value of a cell. A list is written as JSON, and null as an empty cell (D31, loading data). */
export type SampleCell = string | number | boolean | null | ReadonlyArray<string>

/** A row: the cell values, keyed by column name. */
export interface SampleRow {
  readonly [column: string]: SampleCell
}

/** For each table, the function that builds its rows for one company. */
export const sampleRowBuilders = {
  daily_prices: buildDailyPricesRows,
  gap_stats: buildGapStatsRows,
  premarket_stats: buildPremarketStatsRows,
  afterhours_stats: buildAfterhoursStatsRows,
  intraday_runners: buildIntradayRunnersRows,
  news: buildNewsRows,
  dilution_data: buildDilutionDataRows,
  registrations: buildRegistrationsRows,
  pump_and_dump_tracker: buildPumpAndDumpTrackerRows,
  float_outstanding: buildFloatOutstandingRows,
  historical_float_pro: buildHistoricalFloatProRows,
  ownership: buildOwnershipRows,
  nasdaq_compliance: buildNasdaqComplianceRows,
  split_status: buildSplitStatusRows,
  research_reports: buildResearchReportsRows,
  screener: buildScreenerRows,
  ticker_changes: buildTickerChangesRows,
  historical_tickers: buildHistoricalTickersRows,
} satisfies { readonly [table: string]: (history: CompanyHistory) => ReadonlyArray<SampleRow> }

/** The name of a table for which sample rows can be built. */
export type TableName = keyof typeof sampleRowBuilders

/** The tables of the market, by name; a row's keys are the columns. */
import { nasdaqCompliance } from "./ComplianceRows.ts"
import { dilutionData } from "./DilutionRows.ts"
import { afterhoursStats, premarketStats } from "./ExtendedRows.ts"
import { floatOutstanding, historicalFloatPro } from "./FloatRows.ts"
import type { History } from "./Market.ts"
import { news } from "./NewsRows.ts"
import { ownership } from "./OwnershipRows.ts"
import { pumpAndDumpTracker } from "./PumpRows.ts"
import { registrations } from "./RegistrationRows.ts"
import { researchReports } from "./ReportRows.ts"
import { screener } from "./ScreenerRows.ts"
import { gapStats, intradayRunners } from "./SessionRows.ts"
import { splitStatus } from "./SplitRows.ts"
import { dailyPrices, historicalTickers, tickerChanges } from "./TickerRows.ts"

/** Lists become JSON, null an empty cell (D31). */
export type Cell = string | number | boolean | null | ReadonlyArray<string>

export interface Row {
  readonly [column: string]: Cell
}

export const tables = {
  daily_prices: dailyPrices,
  gap_stats: gapStats,
  premarket_stats: premarketStats,
  afterhours_stats: afterhoursStats,
  intraday_runners: intradayRunners,
  news,
  dilution_data: dilutionData,
  registrations,
  pump_and_dump_tracker: pumpAndDumpTracker,
  float_outstanding: floatOutstanding,
  historical_float_pro: historicalFloatPro,
  ownership,
  nasdaq_compliance: nasdaqCompliance,
  split_status: splitStatus,
  research_reports: researchReports,
  screener,
  ticker_changes: tickerChanges,
  historical_tickers: historicalTickers,
} satisfies { readonly [table: string]: (history: History) => ReadonlyArray<Row> }

export type Table = keyof typeof tables

/** The datasets that `load` can fill, each with its table, row schema and key (D30, tables). */
import { Data, Effect, Schema } from "effect"
import type { RowModel, RowModels } from "./rows/RowModel.ts"
import { formatNameSuggestion } from "./rules/NameSuggestions.ts"
import { toSymbolKey } from "./rules/Tickers.ts"
import { AfterhoursStat } from "./endpoints/afterhours-stats.ts"
import {
  Convertible,
  ConvertibleWithAdvancedFields,
  DilutiveSecurity,
  findSecurityTypeMismatch,
  securityTypeColumns,
  Warrant,
  WarrantWithAdvancedFields,
} from "./endpoints/dilution-data.ts"
import { FloatOutstanding } from "./endpoints/float-outstanding.ts"
import { GapStat, GapStatAdvanced } from "./endpoints/gap-stats.ts"
import { DailyPrice, HistoricalFloat } from "./endpoints/historical-float-pro.ts"
import { HistoricalTickerRow } from "./endpoints/historical-tickers.ts"
import { IntradayRunner } from "./endpoints/intraday-runners.ts"
import { ComplianceNotice } from "./endpoints/nasdaq-compliance.ts"
import { NewsBasicItem, NewsItem } from "./endpoints/news.ts"
import { ownershipHoldingColumns, OwnershipRow } from "./endpoints/ownership.ts"
import { PremarketStat } from "./endpoints/premarket-stats.ts"
import { PumpAndDumpSuspect } from "./endpoints/pump-and-dump-tracker.ts"
import { Registration } from "./endpoints/registrations.ts"
import { ResearchReport } from "./endpoints/research-reports.ts"
import { ScreenerRow } from "./endpoints/screener.ts"
import { SplitStatus } from "./endpoints/split-status.ts"
import { TickerChange } from "./endpoints/ticker-changes.ts"

/** A row before validation. Each cell is text, a list of strings, or null. */
export type RowCells = { readonly [column: string]: string | ReadonlyArray<string> | null | undefined }

/**
 * A dataset that `load` can fill. Describes everything that `load` and the change history need to know about its table.
 */
export interface LoadableDataset {
  /** The table name. It is also the dataset's name on the command line, where `-` may be used instead of `_`. */
  readonly table: string
  readonly model: RowModel
  /** The row models of endpoints that read the same table but return other columns than `model`. */
  readonly otherModels?: ReadonlyArray<RowModels>
  readonly row: Schema.Codec<RowCells, RowCells> & {
    readonly fields: { readonly [column: string]: Schema.Codec<RowCells[string], RowCells[string]> }
  }
  /**
   * The columns that identify a row. If several rows have the same key, the last row wins, unless `provisional`
   * prevents it (D22).
   */
  readonly key: readonly [string, ...ReadonlyArray<string>]
  /** Checks rules that involve more than one cell, which a column's own schema cannot express. */
  readonly validateRow?: (row: RowCells) => { readonly column: string; readonly reason: string } | undefined
  /**
   * Columns that `validateRow` reads in addition to the key columns. A file that lacks one of them sets it to null in
   * every row. That is true even with `keepOmitted`, which otherwise keeps the stored values of missing columns.
   */
  readonly combinedColumns?: ReadonlyArray<string>
  /**
   * Columns that responses contain although neither the table nor `model` has them, because the query computes them.
   */
  readonly computedColumns?: ReadonlyArray<string>
  /**
   * Columns that hold past dates but have no filter. `load` rejects dates after tomorrow in these columns (D42). For
   * columns with a filter, the filter's declaration determines this.
   */
  readonly pastColumns?: ReadonlyArray<string>
  /**
   * The column with the trading day of each row. `load` warns about rows of days on which the exchanges were closed,
   * because a day with a close counts as a trading day (D32).
   */
  readonly tradingDayColumn?: string
  /**
   * Values that mark a row as provisional. A provisional row never replaces a row that has the same key but is not
   * provisional (D22, corrections).
   */
  readonly provisional?: { readonly column: string; readonly values: ReadonlyArray<string> }
  /**
   * Returns a symbol in the row that is too long to be requested from `/v1/ticker-changes`, or undefined if there is
   * none.
   */
  readonly findUnreachableSymbol?: (row: RowCells) => string | undefined
}

/**
 * Returns whether every spelling of a symbol exceeds the 6 characters that `/v1/ticker-changes` accepts (D6, symbols).
 * `UNIT-UN` does not, because it can be requested as `UNIT.U` (D41).
 */
const isTooLong = (cell: RowCells[string]): cell is string =>
  typeof cell === "string" && cell.replace(/[.-]UN$/, ".U").length > 6

/** All datasets that `load` can fill. */
export const loadableDatasets: ReadonlyArray<LoadableDataset> = [
  {
    table: "ticker_changes",
    model: TickerChange,
    row: TickerChange.insert,
    key: ["old_ticker", "new_ticker", "effective_date", "cik"],
    validateRow: ({ new_ticker, old_ticker }) =>
      toSymbolKey(String(old_ticker)) === toSymbolKey(String(new_ticker))
        ? { column: "new_ticker", reason: "must differ from old_ticker" }
        : undefined,
    // Without this, loading the same file again would turn ticker changes that someone has confirmed back into
    // estimates.
    provisional: { column: "status", values: ["estimated", "backfill"] },
    findUnreachableSymbol: ({ new_ticker, old_ticker }) => [old_ticker, new_ticker].find(isTooLong),
  },
  {
    table: "historical_tickers",
    model: HistoricalTickerRow,
    row: HistoricalTickerRow.insert,
    key: ["ticker", "former_ticker", "date"],
  },
  { table: "intraday_runners", model: IntradayRunner, row: IntradayRunner.insert, key: ["ticker", "date"] },
  {
    table: "dilution_data",
    model: DilutiveSecurity,
    otherModels: [[Warrant, Convertible], [WarrantWithAdvancedFields, ConvertibleWithAdvancedFields]],
    row: DilutiveSecurity.insert,
    key: ["id"],
    validateRow: findSecurityTypeMismatch,
    combinedColumns: securityTypeColumns,
  },
  { table: "registrations", model: Registration, row: Registration.insert, key: ["id"] },
  { table: "pump_and_dump_tracker", model: PumpAndDumpSuspect, row: PumpAndDumpSuspect.insert, key: ["ticker"] },
  { table: "split_status", model: SplitStatus, row: SplitStatus.insert, key: ["id"] },
  { table: "nasdaq_compliance", model: ComplianceNotice, row: ComplianceNotice.insert, key: ["id"] },
  { table: "news", model: NewsItem, otherModels: [NewsBasicItem], row: NewsItem.insert, key: ["id"] },
  {
    table: "gap_stats",
    model: GapStatAdvanced,
    otherModels: [GapStat],
    row: GapStatAdvanced.insert,
    key: ["ticker", "date"],
  },
  { table: "premarket_stats", model: PremarketStat, row: PremarketStat.insert, key: ["ticker", "date"] },
  { table: "afterhours_stats", model: AfterhoursStat, row: AfterhoursStat.insert, key: ["ticker", "date"] },
  { table: "research_reports", model: ResearchReport, row: ResearchReport.insert, key: ["report_id"] },
  {
    table: "float_outstanding",
    model: FloatOutstanding,
    row: FloatOutstanding.insert,
    key: ["ticker"],
    pastColumns: ["filed_at", "reported_date"],
  },
  {
    table: "historical_float_pro",
    model: HistoricalFloat,
    row: HistoricalFloat.insert,
    key: ["ticker", "filed_at", "form_type", "document_url", "reported_date"],
  },
  {
    table: "daily_prices",
    model: DailyPrice,
    row: DailyPrice.insert,
    key: ["ticker", "date"],
    pastColumns: ["date"],
    tradingDayColumn: "date",
  },
  {
    table: "ownership",
    model: OwnershipRow,
    row: OwnershipRow.insert,
    key: ["ticker", "accession_number", ...ownershipHoldingColumns],
    pastColumns: ["filed_at", "reported_date", "event_date"],
    computedColumns: ["owner_count"],
  },
  { table: "screener", model: ScreenerRow, row: ScreenerRow.insert, key: ["ticker"] },
]

/** Finds a dataset by its table name or its endpoint name. Returns undefined if there is none. */
export const findDataset = (name: string) => loadableDatasets.find(({ table }) => table === name.replaceAll("-", "_"))

/** Reports that no dataset has the given name. If a dataset has a similar name, the message suggests it. */
export class UnknownDataset extends Data.TaggedError("UnknownDataset")<{ readonly message: string }> {}

/** Finds a dataset by name. Fails with `UnknownDataset` if there is none. */
export const requireDataset = (name: string) => {
  const known = loadableDatasets.map(({ table }) => table)
  const suggestion = formatNameSuggestion(name.replaceAll("-", "_"), known)
  return Effect.fromNullishOr(findDataset(name)).pipe(
    Effect.mapError(() =>
      new UnknownDataset({
        message: `There is no dataset ${name}.${suggestion} The datasets are: ${known.join(", ")}.`,
      })
    ),
  )
}

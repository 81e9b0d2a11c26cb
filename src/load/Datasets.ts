/** D30: the tables that `load` fills, each with the row that says what its columns are. */
import type { Schema } from "effect"
import { HistoricalTicker } from "../v1/historical-tickers/Api.ts"
import { IntradayRunner } from "../v1/intraday-runners/Api.ts"
import { TickerChange } from "../v1/ticker-changes/Api.ts"

/** A row as a file writes it: every cell is text, a list of texts, or null. */
export type Cells = { readonly [column: string]: string | ReadonlyArray<string> | null | undefined }

export interface Dataset {
  /** The table; also the dataset's name on the command line, with `_` or with `-`. */
  readonly table: string
  readonly row: Schema.Codec<Cells, Cells> & { readonly fields: Schema.Struct.Fields }
  /** What tells two rows apart. */
  readonly key: readonly [string, ...ReadonlyArray<string>]
  /** A row that repeats another: a mistake that refuses the file, or the same fact told twice (D22). */
  readonly repeats: "refused" | "dropped"
  /** D22: what a single cell cannot tell. */
  readonly wrong?: (row: Cells) => { readonly column: string; readonly reason: string } | undefined
}

export const datasets: ReadonlyArray<Dataset> = [
  {
    table: "ticker_changes",
    row: TickerChange.insert,
    key: ["old_ticker", "new_ticker", "effective_date", "cik"],
    repeats: "dropped",
    wrong: ({ new_ticker, old_ticker }) =>
      old_ticker === new_ticker ? { column: "new_ticker", reason: "must differ from old_ticker" } : undefined,
  },
  {
    table: "historical_tickers",
    row: HistoricalTicker.insert,
    key: ["ticker", "former_ticker", "date"],
    repeats: "dropped",
  },
  { table: "intraday_runners", row: IntradayRunner.insert, key: ["ticker", "date"], repeats: "refused" },
]

/** By the name of its table or of its endpoint. */
export const find = (name: string) => datasets.find(({ table }) => table === name.replaceAll("-", "_"))

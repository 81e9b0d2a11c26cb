/** What a file is made of, as far as it is read and not yet checked. */

/** A row as a file writes it: every cell is text, a list of texts, or null. */
export type RowCells = { readonly [column: string]: string | ReadonlyArray<string> | null | undefined }

/** Of a cell that must hold a list. */
export const notAListReason = `must be a JSON array of strings, like ["8-K","S-3"]`

export interface CellProblem {
  readonly column: string
  readonly reason: string
}

/** One row and the line it starts on, or why there is none. */
export interface ParsedRow {
  readonly line: number
  readonly cells: RowCells
  readonly problem?: CellProblem
}

/** What is wrong with the names of a CSV file's columns. */
export type CheckHeader = (names: ReadonlyArray<string>) => ReadonlyArray<CellProblem>

/** What a file is made of, as far as it is read and not yet checked. */

/** A row as a file writes it: every cell is text, a list of texts, or null. */
export type Cells = { readonly [column: string]: string | ReadonlyArray<string> | null | undefined }

/** Of a cell that must hold a list. */
export const notAList = `must be a JSON array of strings, like ["8-K","S-3"]`

export interface Problem {
  readonly column: string
  readonly reason: string
}

/** One row and the line it starts on, or why there is none. */
export interface Row {
  readonly line: number
  readonly cells: Cells
  readonly problem?: Problem
}

/** What is wrong with the names of a CSV file's columns. */
export type WrongHeader = (names: ReadonlyArray<string>) => ReadonlyArray<Problem>

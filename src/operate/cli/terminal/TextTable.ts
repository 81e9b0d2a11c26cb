/**
 * Prints rows as a table with aligned columns. On a terminal, the table is shortened to fit the width; in a file, it is
 * complete.
 */
import { Console, Effect } from "effect"
import { type OutputCapabilities, stdoutCapabilities } from "./OutputCapabilities.ts"
import { escapeTerminalLine, getDisplayWidth, padEndToWidth, padStartToWidth, truncateToWidth } from "./TerminalText.ts"

/** The content of a table cell. `null` means that the value is missing. */
export type TableCell = string | null

/** The name and alignment of a column. */
export interface TextTableColumn {
  readonly name: string
  /** Whether the column contains numbers, which are right-aligned. */
  readonly isNumber?: boolean
}

/** The columns and rows of a table. Each row has one cell per column. */
export interface TextTableData {
  readonly columns: ReadonlyArray<TextTableColumn>
  readonly rows: ReadonlyArray<ReadonlyArray<TableCell>>
}

/**
 * Formats a timestamp from the API for a column whose heading ends in `(UTC-5)`. Returns null if there is no timestamp.
 */
export const formatTimeCell = (time: TableCell) => time?.slice(0, 19).replace("T", " ") ?? null

/**
 * The width that a column keeps when it is shortened. If there is less space than that, trailing columns are hidden
 * instead.
 */
const minWidth = 10

/** Returns the total width of the columns, including gaps of two characters between them. */
const totalWidth = (widths: ReadonlyArray<number>) => widths.reduce((total, width) => total + width + 2, -2)

/**
 * Fits columns to `maxWidth`. Returns the widths of the columns that are shown, which may be fewer than there are: a
 * trailing column is hidden if the table does not fit even with all columns shortened to `minWidth`. The first column
 * is always shown. Then shortens the widest column by one character until the table fits.
 */
const fitWidths = (naturalWidths: ReadonlyArray<number>, maxWidth: number): ReadonlyArray<number> => {
  const widths: Array<number> = []
  for (const width of naturalWidths) {
    const shortestWidths = [...widths, width].map((width) => Math.min(width, minWidth))
    if (totalWidth(shortestWidths) > maxWidth && widths.length > 0) break
    widths.push(Math.min(width, maxWidth))
  }
  while (totalWidth(widths) > maxWidth) {
    const widest = Math.max(...widths)
    if (widest <= 1) break
    widths[widths.indexOf(widest)] = widest - 1
  }
  return widths
}

const placeholder = (screen: OutputCapabilities) => screen.isTerminal ? "-" : ""

const shorten = (text: string, width: number, { hasUnicode: unicode }: OutputCapabilities) =>
  truncateToWidth(text, width, unicode ? "…" : "~")

/**
 * Formats a header line and one line per row (`lines`), aligned and shortened to the width of the screen. A missing
 * value is shown as a placeholder. `hiddenColumns` has the names of the columns that did not fit.
 */
export const formatTextTable = ({ columns, rows }: TextTableData, screen: OutputCapabilities) => {
  const cells = rows.map((row) => row.map((cell) => cell === null ? null : escapeTerminalLine(cell)))
  const naturalWidths = columns.map(({ name }, index) =>
    // Called with the widths of 200,000 rows as arguments, `Math.max` would overflow the stack.
    cells.reduce(
      (widest, row) => Math.max(widest, getDisplayWidth(row[index] ?? placeholder(screen))),
      getDisplayWidth(name),
    )
  )
  const widths = fitWidths(naturalWidths, screen.columns())
  const alignCell = (text: string, index: number) => {
    const width = widths[index] ?? 0
    const shortened = shorten(text, width, screen)
    return columns[index]?.isNumber === true ? padStartToWidth(shortened, width) : padEndToWidth(shortened, width)
  }
  const formatRow = (row: ReadonlyArray<TableCell>) =>
    widths.map((_, index) => {
      const cell = row[index] ?? null
      return cell === null ? screen.paint("dim", alignCell(placeholder(screen), index)) : alignCell(cell, index)
    })
  const header = widths.map((_, index) => screen.paint("bold", alignCell(columns[index]?.name ?? "", index)))
  return {
    lines: [header, ...cells.map(formatRow)].map((row) => row.join("  ").trimEnd()),
    hiddenColumns: columns.slice(widths.length).map(({ name }) => name),
  }
}

/** Formats the first row vertically, with one line per column. */
export const formatRowVertically = (
  { columns, rows: [row = []] }: TextTableData,
  screen: OutputCapabilities,
): ReadonlyArray<string> => {
  const nameWidth = Math.max(0, ...columns.map(({ name }) => getDisplayWidth(name)))
  const cellWidth = Math.max(1, screen.columns() - nameWidth - 2)
  return columns.map(({ name }, index) => {
    const cell = row[index] ?? null
    const text = cell === null
      ? screen.paint("dim", placeholder(screen))
      : shorten(escapeTerminalLine(cell), cellWidth, screen)
    return `${screen.paint("bold", padEndToWidth(name, nameWidth))}  ${text}`.trimEnd()
  })
}

/** Prints a table on standard output, and lists the hidden columns on standard error. */
export const printTextTable = Effect.fnUntraced(
  function* (table: TextTableData, advice = "or write the table to a file") {
    const { hiddenColumns, lines } = formatTextTable(table, yield* stdoutCapabilities)
    yield* Console.log(lines.join("\n"))
    if (hiddenColumns.length === 0) return
    yield* Console.error(escapeTerminalLine(`No room for ${hiddenColumns.join(", ")}. Widen the terminal, ${advice}.`))
  },
)

/** Prints rows as aligned columns: complete in a file, shortened to the width of a terminal. */
import { Console, Effect } from "effect"
import { type OutputCapabilities, stdoutCapabilities } from "./OutputCapabilities.ts"
import { escapeTerminalLine, getDisplayWidth, padEndToWidth, padStartToWidth, truncateToWidth } from "./TerminalText.ts"

/** A cell; `null` is a missing value. */
export type TableCell = string | null

/** A column's name and alignment. */
export interface TextTableColumn {
  readonly name: string
  /** Numbers are right-aligned. */
  readonly isNumber?: boolean
}

/** Columns, and rows with a cell for each. */
export interface TextTableData {
  readonly columns: ReadonlyArray<TextTableColumn>
  readonly rows: ReadonlyArray<ReadonlyArray<TableCell>>
}

/** Returns a time from the API as a cell for a column whose name ends with `(UTC-5)`, or null if there is none. */
export const formatTimeCell = (time: TableCell) => time?.slice(0, 19).replace("T", " ") ?? null

/** Minimum width of a shortened column. */
const minWidth = 10

/** Returns the width of all columns, with gaps of two between them. */
const totalWidth = (widths: ReadonlyArray<number>) => widths.reduce((total, width) => total + width + 2, -2)

/** Fits columns to `maxWidth`: hides trailing columns that do not fit, then shortens the widest columns. */
const fitWidths = (naturalWidths: ReadonlyArray<number>, maxWidth: number): ReadonlyArray<number> => {
  const widths: Array<number> = []
  for (const width of naturalWidths) {
    const shortest = [...widths, width].map((width) => Math.min(width, minWidth))
    if (totalWidth(shortest) > maxWidth && widths.length > 0) break
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

/** Formats a header line and one line per row. Also returns the names of columns that did not fit. */
export const formatTextTable = ({ columns, rows }: TextTableData, screen: OutputCapabilities) => {
  const cells = rows.map((row) => row.map((cell) => cell === null ? null : escapeTerminalLine(cell)))
  const naturalWidths = columns.map(({ name }, index) =>
    // `Math.max(...widths)` would overflow the stack with 200,000 rows.
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

/** Formats the first row with one line per column. */
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

/** Prints a table on standard output, and names the hidden columns on standard error. */
export const printTextTable = Effect.fnUntraced(
  function* (table: TextTableData, advice = "or write the table to a file") {
    const { hiddenColumns, lines } = formatTextTable(table, yield* stdoutCapabilities)
    yield* Console.log(lines.join("\n"))
    if (hiddenColumns.length === 0) return
    yield* Console.error(escapeTerminalLine(`No room for ${hiddenColumns.join(", ")}. Widen the terminal, ${advice}.`))
  },
)

/** Rows in aligned columns: whole in a file, fitted to the terminal on one. */
import { Console, Effect } from "effect"
import { type Screen, stdoutScreen } from "./Screen.ts"
import { displayWidth, escapeLine, padEnd, padStart, truncate } from "./Text.ts"

/** `null` is a value that there is none of. */
export type TableCell = string | null

export interface TableColumn {
  readonly name: string
  /** Numbers stand below each other by their last digit. */
  readonly isNumber?: boolean
}

export interface TableData {
  readonly columns: ReadonlyArray<TableColumn>
  readonly rows: ReadonlyArray<ReadonlyArray<TableCell>>
}

export interface RenderedTable {
  readonly lines: ReadonlyArray<string>
  /** Columns for which there was no room. */
  readonly hiddenColumns: ReadonlyArray<string>
}

/** A cell that is cut keeps at least so much, unless it is shorter. */
const least = 10

const sum = (widths: ReadonlyArray<number>) => widths.reduce((total, width) => total + width + 2, -2)

/** The widest give first, down to `least`; what fits not even then is left out from the end. */
const fitted = (natural: ReadonlyArray<number>, room: number): ReadonlyArray<number> => {
  const shown: Array<number> = []
  for (const width of natural) {
    if (sum([...shown.map((one) => Math.min(one, least)), Math.min(width, least)]) > room && shown.length > 0) break
    shown.push(Math.min(width, room))
  }
  while (sum(shown) > room) {
    const widest = Math.max(...shown)
    if (widest <= 1) break
    shown[shown.indexOf(widest)] = widest - 1
  }
  return shown
}

/** With a line of names. */
export const formatTable = ({ columns, rows }: TableData, screen: Screen): RenderedTable => {
  const mark = screen.unicode ? "…" : "~"
  const cells = rows.map((row) => row.map((cell) => cell === null ? null : escapeLine(cell)))
  const natural = columns.map(({ name }, at) =>
    Math.max(displayWidth(name), ...cells.map((row) => displayWidth(row[at] ?? (screen.isTerminal ? "-" : ""))))
  )
  const widths = fitted(natural, screen.columns())
  const entry = (text: string, at: number) => {
    const width = widths[at] ?? 0
    const short = truncate(text, width, mark)
    return columns[at]?.isNumber === true ? padStart(short, width) : padEnd(short, width)
  }
  const rowOf = (row: ReadonlyArray<TableCell>) =>
    widths.map((_, at) => {
      const cell = row[at] ?? null
      return cell === null ? screen.paint("dim", entry(screen.isTerminal ? "-" : "", at)) : entry(cell, at)
    })
  const head = widths.map((_, at) => screen.paint("bold", entry(columns[at]?.name ?? "", at)))
  return {
    lines: [head, ...cells.map(rowOf)].map((row) => row.join("  ").trimEnd()),
    hiddenColumns: columns.slice(widths.length).map(({ name }) => name),
  }
}

/** One row, a line for each of its columns. */
export const formatRecord = ({ columns, rows: [row = []] }: TableData, screen: Screen): ReadonlyArray<string> => {
  const wide = Math.max(0, ...columns.map(({ name }) => displayWidth(name)))
  const room = Math.max(1, screen.columns() - wide - 2)
  return columns.map(({ name }, at) => {
    const cell = row[at] ?? null
    const text = cell === null ? screen.paint("dim", screen.isTerminal ? "-" : "") : truncate(escapeLine(cell), room)
    return `${screen.paint("bold", padEnd(name, wide))}  ${text}`.trimEnd()
  })
}

/** Prints a table on standard output, and on standard error the columns for which the terminal has no room. */
export const printTable = Effect.fnUntraced(function* (rows: TableData, advice = "or write the table to a file") {
  const { hiddenColumns: left, lines } = formatTable(rows, yield* stdoutScreen)
  yield* Console.log(lines.join("\n"))
  if (left.length === 0) return
  yield* Console.error(escapeLine(`No room for ${left.join(", ")}. Widen the terminal, ${advice}.`))
})

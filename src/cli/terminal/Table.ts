/** Rows in aligned columns: whole in a file, fitted to the terminal on one. */
import { Console, Effect } from "effect"
import { output, type Screen } from "./Screen.ts"
import { cut, padEnd, padStart, safe, widthOf } from "./Text.ts"

/** `null` is a value that there is none of. */
export type Cell = string | null

export interface Column {
  readonly name: string
  /** Numbers stand below each other by their last digit. */
  readonly isNumber?: boolean
}

export interface Rows {
  readonly columns: ReadonlyArray<Column>
  readonly rows: ReadonlyArray<ReadonlyArray<Cell>>
}

export interface Printed {
  readonly lines: ReadonlyArray<string>
  /** Columns for which there was no room. */
  readonly left: ReadonlyArray<string>
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
export const table = ({ columns, rows }: Rows, screen: Screen): Printed => {
  const mark = screen.unicode ? "…" : "~"
  const cells = rows.map((row) => row.map((cell) => cell === null ? null : safe(cell)))
  const natural = columns.map(({ name }, at) =>
    Math.max(widthOf(name), ...cells.map((row) => widthOf(row[at] ?? (screen.isTerminal ? "-" : ""))))
  )
  const widths = fitted(natural, screen.columns())
  const entry = (text: string, at: number) => {
    const width = widths[at] ?? 0
    const short = cut(text, width, mark)
    return columns[at]?.isNumber === true ? padStart(short, width) : padEnd(short, width)
  }
  const rowOf = (row: ReadonlyArray<Cell>) =>
    widths.map((_, at) => {
      const cell = row[at] ?? null
      return cell === null ? screen.paint("dim", entry(screen.isTerminal ? "-" : "", at)) : entry(cell, at)
    })
  const head = widths.map((_, at) => screen.paint("bold", entry(columns[at]?.name ?? "", at)))
  return {
    lines: [head, ...cells.map(rowOf)].map((row) => row.join("  ").trimEnd()),
    left: columns.slice(widths.length).map(({ name }) => name),
  }
}

/** One row, a line for each of its columns. */
export const record = ({ columns, rows: [row = []] }: Rows, screen: Screen): ReadonlyArray<string> => {
  const wide = Math.max(0, ...columns.map(({ name }) => widthOf(name)))
  const room = Math.max(1, screen.columns() - wide - 2)
  return columns.map(({ name }, at) => {
    const cell = row[at] ?? null
    const text = cell === null ? screen.paint("dim", screen.isTerminal ? "-" : "") : cut(safe(cell), room)
    return `${screen.paint("bold", padEnd(name, wide))}  ${text}`.trimEnd()
  })
}

/** Prints a table on standard output, and on standard error the columns for which the terminal has no room. */
export const print = Effect.fnUntraced(function* (rows: Rows, advice = "or write the table to a file") {
  const { left, lines } = table(rows, yield* output)
  yield* Console.log(lines.join("\n"))
  if (left.length === 0) return
  yield* Console.error(safe(`No room for ${left.join(", ")}. Widen the terminal, ${advice}.`))
})

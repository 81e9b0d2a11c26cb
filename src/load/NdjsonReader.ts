/** The rows of an NDJSON file: a JSON object a line. */
import { Predicate, Stream } from "effect"
import type { ParsedRow, RowCells } from "./ParsedRow.ts"

/** Numbers keep their digits: as text they are checked like those of a CSV file, and none is rounded by a float. */
function asWritten(this: unknown, _key: string, value: unknown, context?: { readonly source?: string }) {
  if (Array.isArray(this)) return value
  if (typeof value === "number") return context?.source ?? String(value)
  return typeof value === "boolean" ? String(value) : value
}

const isCell = (value: unknown): value is RowCells[string] =>
  value === null || typeof value === "string" || (Array.isArray(value) && value.every(Predicate.isString))

const toRow = (line: number, text: string): ParsedRow => {
  const refused = (column: string, reason: string): ParsedRow => ({ line, cells: {}, problem: { column, reason } })
  try {
    const value: unknown = JSON.parse(text, asWritten)
    if (!Predicate.isObject(value)) return refused("", "must be a JSON object")
    const cells: Record<string, RowCells[string]> = {}
    for (const [column, cell] of Object.entries(value)) {
      if (!isCell(cell)) return refused(column, "must be text, a number, true, false, null or an array of strings")
      cells[column] = cell
    }
    return { line, cells }
  } catch {
    return refused("", "is not JSON")
  }
}

export const readNdjson = <E, R>(source: Stream.Stream<Uint8Array, E, R>): Stream.Stream<ParsedRow, E, R> =>
  source.pipe(
    Stream.decodeText(),
    Stream.splitLines,
    Stream.mapAccum(() => 1, (line, text): readonly [number, ReadonlyArray<ParsedRow>] => [
      line + 1,
      text.trim() === "" ? [] : [toRow(line, text)],
    ]),
  )

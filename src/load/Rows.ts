/** D31: a CSV or NDJSON file, `.gz` too, as a stream of rows of cells. Nothing of it is kept but the row at hand. */
import { NodeStream } from "@effect/platform-node"
import { Effect, FileSystem, Option, Predicate, Schema, Stream } from "effect"
import { Csv } from "effect/encoding"
import { createGunzip } from "node:zlib"
import type { Cells } from "./Datasets.ts"

export class UnreadableFile
  extends Schema.TaggedError<UnreadableFile>()("UnreadableFile", { message: Schema.String }) {}

/** One row and the line it starts on, or why there is none. */
export interface Row {
  readonly line: number
  readonly cells: Cells
  readonly problem?: { readonly column: string; readonly reason: string }
}

const bytes = Effect.fnUntraced(function* (path: string) {
  const fs = yield* FileSystem.FileSystem
  const stream = Stream.mapError(
    fs.stream(path),
    (error) => new UnreadableFile({ message: `${path} cannot be read: ${error.reason._tag}.` }),
  )
  return path.endsWith(".gz")
    ? NodeStream.pipeThroughDuplex(stream, {
      evaluate: () => createGunzip(),
      onError: () => new UnreadableFile({ message: `${path} is not a whole gzip file.` }),
    })
    : stream
}, Stream.unwrap)

/** In a CSV cell a list is JSON (D31). */
const list = (text: string): ReadonlyArray<string> | undefined => {
  try {
    const value: unknown = JSON.parse(text)
    return Array.isArray(value) && value.every(Predicate.isString) ? value : undefined
  } catch {
    return undefined
  }
}

const csvRow = (
  header: ReadonlyArray<string>,
  lists: ReadonlySet<string>,
  line: number,
  record: ReadonlyArray<string>,
): Row => {
  if (record.length !== header.length) {
    return {
      line,
      cells: {},
      problem: { column: "", reason: `has ${record.length} cells; the header has ${header.length}` },
    }
  }
  const cells: Record<string, string | ReadonlyArray<string> | null> = {}
  for (const [at, column] of header.entries()) {
    const text = record[at] ?? ""
    if (text === "") {
      if (!lists.has(column)) cells[column] = null
    } else if (lists.has(column)) {
      const words = list(text)
      if (words === undefined) {
        return { line, cells, problem: { column, reason: `must be a JSON array of strings, like ["8-K","S-3"]` } }
      }
      cells[column] = words
    } else cells[column] = text
  }
  return { line, cells }
}

const lineBreaks = (record: ReadonlyArray<string>) =>
  record.reduce((count, cell) => count + (cell.includes("\n") ? cell.split("\n").length - 1 : 0), 0)

const csv =
  (lists: ReadonlySet<string>) => (source: Stream.Stream<Uint8Array, UnreadableFile, FileSystem.FileSystem>) =>
    Stream.pipeThroughChannel(source, Csv.decode()).pipe(
      Stream.mapError((error) =>
        Csv.isCsvError(error) ? new UnreadableFile({ message: `Line ${error.line}: ${error.message}.` }) : error
      ),
      Stream.mapAccum(
        (): { readonly header: Option.Option<ReadonlyArray<string>>; readonly line: number } => ({
          header: Option.none(),
          line: 1,
        }),
        ({ header, line }, record): readonly [
          { readonly header: Option.Option<ReadonlyArray<string>>; readonly line: number },
          ReadonlyArray<Row>,
        ] => {
          const next = line + 1 + lineBreaks(record)
          if (record.length === 1 && record[0] === "") return [{ header, line: next }, []]
          return Option.match(header, {
            onNone: () => [{ header: Option.some(record.map((name) => name.trim())), line: next }, []],
            onSome: (columns) => [{ header, line: next }, [csvRow(columns, lists, line, record)]],
          })
        },
      ),
    )

/** Numbers keep their digits: as text they are checked like those of a CSV file, and none is rounded by a float. */
const asWritten = (_key: string, value: unknown, context?: { readonly source?: string }) =>
  typeof value === "number" ? context?.source ?? String(value) : typeof value === "boolean" ? String(value) : value

const isCell = (value: unknown): value is Cells[string] =>
  value === null || typeof value === "string" || (Array.isArray(value) && value.every(Predicate.isString))

const ndjsonRow = (line: number, text: string): Row => {
  const refused = (column: string, reason: string): Row => ({ line, cells: {}, problem: { column, reason } })
  try {
    const value: unknown = JSON.parse(text, asWritten)
    if (!Predicate.isObject(value)) return refused("", "must be a JSON object")
    const entries = Object.entries(value)
    const odd = entries.find(([, cell]) => !isCell(cell))
    if (odd !== undefined) return refused(odd[0], "must be text, a number, true, false, null or an array of strings")
    return { line, cells: Object.fromEntries(entries.filter((entry): entry is [string, string] => isCell(entry[1]))) }
  } catch {
    return refused("", "is not JSON")
  }
}

const ndjson = (source: Stream.Stream<Uint8Array, UnreadableFile, FileSystem.FileSystem>) =>
  source.pipe(
    Stream.decodeText(),
    Stream.splitLines,
    Stream.mapAccum(() => 1, (line, text): readonly [number, ReadonlyArray<Row>] => [
      line + 1,
      text.trim() === "" ? [] : [ndjsonRow(line, text)],
    ]),
  )

/** The rows of a file; `lists` are the columns that hold arrays. */
export const read = (
  path: string,
  lists: ReadonlySet<string>,
): Stream.Stream<Row, UnreadableFile, FileSystem.FileSystem> => {
  const kind = path.replace(/\.gz$/, "")
  if (kind.endsWith(".csv")) return csv(lists)(bytes(path))
  if (kind.endsWith(".ndjson") || kind.endsWith(".jsonl")) return ndjson(bytes(path))
  return Stream.fail(new UnreadableFile({ message: `${path}: a file is .csv, .ndjson or .jsonl, and may end in .gz.` }))
}

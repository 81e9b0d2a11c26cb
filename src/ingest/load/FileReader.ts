/** Streams the rows of a CSV or NDJSON file, compressed or not, without holding the file in memory (D31, load). */
import * as NodeStream from "@effect/platform-node/NodeStream"
import { Data, Effect, FileSystem, type PlatformError, Predicate, Stream } from "effect"
import { Csv } from "effect/encoding"
import { createGunzip, createZstdDecompress } from "node:zlib"
import type { RowCells } from "../../contract/Datasets.ts"
import { describeReadError } from "./FileErrors.ts"
import { byteOrderMark, removeFormulaApostrophe } from "../../query/rows/CsvCells.ts"
import { OperationProgress } from "../../postgres/metrics/Progress.ts"

export interface CellProblem {
  /** Empty if the problem concerns the whole row. */
  readonly column: string
  readonly reason: string
}

export interface ParsedFileRow {
  /** The line on which the row starts. The first line of a file is 1. */
  readonly line: number
  readonly cells: RowCells
  /** The reason why the row cannot be parsed. */
  readonly problem?: CellProblem
}

/** Ends the reason why a value was refused: `, but is "12,000"`. */
export const formatRefusedValue = (value: unknown) => {
  if (value === null || value === undefined || value === "") return ""
  const text = JSON.stringify(value)
  return `, but is ${text.length > 100 ? `${text.slice(0, 100)}…` : text}`
}

/** Validates the column names in a CSV header. */
export type CsvHeaderCheck = (names: ReadonlyArray<string>) => ReadonlyArray<CellProblem>

/** Texts that always mean null (D43): an empty cell, and what `copy` of PostgreSQL writes. */
export const nullTexts: ReadonlySet<string> = new Set(["", "\\N"])

export interface FileReaderOptions {
  /** Runs before the first row of a CSV file. */
  readonly checkHeader?: CsvHeaderCheck
  /**
   * Whether a header is that of an export of the service. In such a file, if it has a byte order mark, text like a
   * formula has an apostrophe. Excel writes the mark too, so the mark alone is no sign.
   */
  readonly isExportHeader?: (names: ReadonlyArray<string>) => boolean
  /** Texts of cells that mean null. */
  readonly nullTexts?: ReadonlySet<string>
}

export class UnreadableLoadFile extends Data.TaggedError("UnreadableLoadFile")<{ readonly message: string }> {}

export const invalidListCellReason = `must be a JSON array of strings, like ["8-K","S-3"]`

/** One item of PostgreSQL's array format: in quotes, or without. */
const arrayItem = /"((?:[^"\\]|\\.)*)"|([^{}",\\\s](?:[^{}",\\]|\\.)*)/y

/** Parses a list in PostgreSQL's format, such as `{8-K,"a, b"}`. Undefined if it is invalid or contains null. */
const parsePostgresArray = (text: string): ReadonlyArray<string> | undefined => {
  if (text === "{}") return []
  const items: Array<string> = []
  for (let at = 1; at < text.length;) {
    arrayItem.lastIndex = at
    const [found, quoted, bare = ""] = arrayItem.exec(text) ?? []
    if (found === undefined || (quoted === undefined && bare.toLowerCase() === "null")) return undefined
    items.push((quoted ?? bare).replaceAll(/\\(.)/gs, "$1"))
    at += found.length + 1
    const separator = text[at - 1]
    if (separator === "}") return at === text.length ? items : undefined
    if (separator !== ",") return undefined
  }
  return undefined
}

/** Parses the list in a CSV cell: a JSON array, or an array as PostgreSQL writes it. */
const parseList = (text: string): ReadonlyArray<string> | undefined => {
  if (text.startsWith("{")) return parsePostgresArray(text)
  try {
    const value: unknown = JSON.parse(text)
    return Array.isArray(value) && value.every(Predicate.isString) ? value : undefined
  } catch {
    return undefined
  }
}

const parseCsvRow = (
  header: ReadonlyArray<string>,
  { isExport, listColumns, nullTexts }: {
    readonly listColumns: ReadonlySet<string>
    readonly nullTexts: ReadonlySet<string>
    readonly isExport: boolean
  },
  line: number,
  record: ReadonlyArray<string>,
): ParsedFileRow => {
  if (record.length !== header.length) {
    const reason = `has ${record.length} cells; the header has ${header.length}`
    return { line, cells: {}, problem: { column: "", reason } }
  }
  const cells: Record<string, RowCells[string]> = {}
  for (const [index, column] of header.entries()) {
    const text = record[index] ?? ""
    if (listColumns.has(column)) {
      if (nullTexts.has(text.trim())) continue
      const list = parseList(text.trim())
      if (list === undefined) {
        return { line, cells, problem: { column, reason: `${invalidListCellReason}${formatRefusedValue(text)}` } }
      }
      cells[column] = list
    } else cells[column] = text === "" ? null : isExport ? removeFormulaApostrophe(text) : text
  }
  return { line, cells }
}

const countLineBreaks = (record: ReadonlyArray<string>) =>
  record.reduce((count, cell) => count + (cell.includes("\n") ? cell.split("\n").length - 1 : 0), 0)

const separators = [[";", "semicolons"], ["\t", "tabs"], ["|", "vertical bars"]] as const

/**
 * Fails if the separator is not a comma, because each line would then be read as a single cell, and if the first line
 * is the one by which spreadsheets learn the separator. `command` and `otherFormat` are for the message.
 */
export const refuseOtherSeparators =
  (path: string, command: string, otherFormat: string) => <R>(text: Stream.Stream<string, UnreadableLoadFile, R>) =>
    Stream.onFirst(text, (chunk) => {
      const [firstLine = ""] = chunk.trimStart().split(/\r|\n/, 1)
      const separator = firstLine.includes(",") ? undefined : separators.find(([sign]) => firstLine.includes(sign))?.[1]
      if (separator !== undefined) {
        return Effect.fail(
          new UnreadableLoadFile({
            message: `${path} is separated by ${separator}, but ${command} expects commas between cells and decimal ` +
              `points in numbers. Export the file again in that form, or as ${otherFormat}.`,
          }),
        )
      }
      return /^"?sep=/i.test(firstLine)
        ? Effect.fail(
          new UnreadableLoadFile({
            message:
              `${path} begins with the line ${firstLine.trim()}, which is for spreadsheets. Remove this line, so ` +
              "that the file begins with its header.",
          }),
        )
        : Effect.void
    })

/**
 * Limit for one CSV record or one line of NDJSON, in characters, so that an unclosed quote or a compressed file without
 * line breaks does not exhaust memory.
 */
const maxRecordSize = 16 * 1024 * 1024

const maxColumns = 1_000

const makeRecordTooLong = (path: string, line: number, advice: string) =>
  new UnreadableLoadFile({
    message: `${path}, line ${line}: the row has more than ${
      maxRecordSize.toLocaleString("en-US")
    } characters. ${advice}`,
  })

/** Fails as soon as a line is longer than the limit, before the rest of it is read. */
const limitLines = (path: string) => <E, R>(text: Stream.Stream<string, E, R>) =>
  Stream.suspend(() => {
    let line = 1
    /** Characters of the current line. */
    let length = 0
    return Stream.tap(text, (chunk) => {
      for (let start = 0;;) {
        const end = chunk.indexOf("\n", start)
        length += (end === -1 ? chunk.length : end) - start
        if (length > maxRecordSize) {
          return Effect.fail(makeRecordTooLong(path, line, "Each line must have one JSON object."))
        }
        if (end === -1) return Effect.void
        length = 0
        line += 1
        start = end + 1
      }
    })
  })

/** Returns a problem for each column without a name. */
const findUnnamedColumns = (names: ReadonlyArray<string>): ReadonlyArray<CellProblem> =>
  names.flatMap((name, index) =>
    name === ""
      ? [{
        column: "the header",
        reason: `has no name for column ${index + 1}; name it, or write the file without it (in pandas: index=False)`,
      }]
      : []
  )

/** Reads CSV. If the header is invalid, the stream contains only the header's problems. */
const readCsv = <R>(
  path: string,
  text: Stream.Stream<string, UnreadableLoadFile, R>,
  listColumns: ReadonlySet<string>,
  { checkHeader, isExportHeader, nullTexts }: Required<FileReaderOptions>,
): Stream.Stream<ParsedFileRow, UnreadableLoadFile, R> =>
  Stream.suspend(() => {
    let header: ReadonlyArray<string> | undefined
    let isHeaderWrong = false
    let hasMark = false
    let parsing = { listColumns, nullTexts, isExport: false }
    // Lines are counted here, because the decoder does not report them.
    // docs/decisions/0041-load-decodes-csv-with-effect.md
    let nextLine = 1
    const parseRecord = (record: ReadonlyArray<string>): ReadonlyArray<ParsedFileRow> => {
      const line = nextLine
      nextLine += 1 + countLineBreaks(record)
      if (record.length === 1 && record[0] === "") return []
      if (header !== undefined) return [parseCsvRow(header, parsing, line, record)]
      header = record.slice(0, maxColumns).map((name) => name.trim())
      const names = header.filter((name) => name !== "")
      if (record.length > maxColumns) {
        isHeaderWrong = true
        const reason = `has ${record.length} columns, more than ${maxColumns}`
        return [{ line, cells: {}, problem: { column: "", reason } }]
      }
      const repeated = names.filter((name, index) => names.indexOf(name) < index)
      const problems = [
        ...findUnnamedColumns(header),
        ...repeated.map((column) => ({ column, reason: "is named twice in the header" })),
        ...checkHeader(names),
      ]
      parsing = { ...parsing, isExport: hasMark && isExportHeader(names) }
      isHeaderWrong = problems.length > 0
      return problems.map((problem) => ({ line, cells: {}, problem }))
    }
    const missingHeader = new UnreadableLoadFile({ message: `${path} has no header.` })
    return text.pipe(
      Stream.onFirst((chunk) =>
        Effect.sync(() => {
          hasMark = chunk.startsWith(byteOrderMark)
        })
      ),
      Stream.map((chunk) => header === undefined && chunk.startsWith(byteOrderMark) ? chunk.slice(1) : chunk),
      Stream.pipeThroughChannel(Csv.decodeString({ maxRecordSize })),
      Stream.mapError((error) =>
        Csv.isCsvError(error) && error.kind === "RecordSize"
          ? makeRecordTooLong(path, error.line, "A quotation mark at the end of a cell may be missing.")
          : Csv.isCsvError(error)
          ? new UnreadableLoadFile({ message: `${path}, line ${error.line}: ${error.message}.` })
          : error
      ),
      Stream.map(parseRecord),
      Stream.takeUntil(() => isHeaderWrong),
      Stream.flattenIterable,
      Stream.concat(Stream.suspend(() => header === undefined ? Stream.fail(missingHeader) : Stream.empty)),
    )
  })

/**
 * Parses JSON. Numbers and booleans become text as written, so that no digit is lost before validation. `nameCount` is
 * the number of names in all objects; of equal names in one object, `JSON.parse` keeps only the last.
 */
const parseJson = (text: string) => {
  let nameCount = 0
  function revive(this: unknown, _key: string, value: unknown, context?: { readonly source?: string }) {
    if (Array.isArray(this)) return value
    nameCount += 1
    if (typeof value === "number") return context?.source ?? String(value)
    return typeof value === "boolean" ? String(value) : value
  }
  const value: unknown = JSON.parse(text, revive)
  // The outermost value counts as one with the name "".
  return { value, nameCount: nameCount - 1 }
}

/** Matches the texts of valid JSON, with the colon after those that are names, and the braces outside of them. */
const jsonTokens = /("(?:[^"\\]|\\.)*")\s*(:)?|[{}]/g

/** Finds a name that occurs twice in one object of valid JSON. */
const findRepeatedName = (text: string): string | undefined => {
  const open: Array<Set<string>> = []
  for (const [token, string, colon] of text.matchAll(jsonTokens)) {
    if (token === "{") open.push(new Set())
    else if (token === "}") open.pop()
    else if (colon !== undefined && string !== undefined) {
      const name = String(JSON.parse(string))
      const names = open.at(-1)
      if (names?.has(name) === true) return name
      names?.add(name)
    }
  }
  return undefined
}

/** Counts the names in valid JSON as it is written. */
const countNames = (text: string) => {
  let count = 0
  for (const [, , colon] of text.matchAll(jsonTokens)) if (colon !== undefined) count += 1
  return count
}

const isCell = (value: unknown): value is RowCells[string] =>
  value === null || typeof value === "string" || (Array.isArray(value) && value.every(Predicate.isString))

const isObjectList = (value: unknown): value is ReadonlyArray<object> =>
  Array.isArray(value) && value.length > 0 &&
  value.every((item) => Predicate.isObject(item) && !Array.isArray(item))

/**
 * Returns one object per row: `/v1/ownership` prints a filing with the list of its owners, which are rows. Keeps the
 * object whole if it and one of them have the same name, so that the list is refused.
 */
const splitNestedRows = (value: object): ReadonlyArray<object> => {
  const [nested, ...others] = Object.entries(value).filter(([, cell]) => isObjectList(cell))
  if (nested === undefined || others.length > 0 || !isObjectList(nested[1])) return [value]
  const { [nested[0]]: _, ...outer } = Object.fromEntries(Object.entries(value))
  if (nested[1].some((inner) => Object.keys(inner).some((name) => Object.hasOwn(outer, name)))) return [value]
  return nested[1].map((inner) => ({ ...outer, ...inner }))
}

const parseJsonLine = (
  line: number,
  text: string,
  listColumns: ReadonlySet<string>,
): ReadonlyArray<ParsedFileRow> => {
  const reject = (column: string, reason: string): ParsedFileRow => ({ line, cells: {}, problem: { column, reason } })
  const toRow = (value: object) => {
    const cells: Record<string, RowCells[string]> = {}
    for (const [column, cell] of Object.entries(value)) {
      if (!isCell(cell)) {
        const rule = listColumns.has(column) ? invalidListCellReason : "must be text, a number, true, false or null"
        return reject(column, `${rule}${formatRefusedValue(cell)}`)
      }
      cells[column] = cell
    }
    return { line, cells }
  }
  try {
    const { nameCount, value } = parseJson(text)
    if (countNames(text) > nameCount) {
      return [reject(findRepeatedName(text) ?? "", "occurs twice in one object; keep one of the values")]
    }
    return Predicate.isObject(value) ? splitNestedRows(value).map(toRow) : [reject("", "must be a JSON object")]
  } catch {
    return [reject("", "is not JSON")]
  }
}

/** Reads NDJSON: one JSON object per line, which is usually one row. Blank lines are skipped. */
const readNdjson = <E, R>(
  path: string,
  text: Stream.Stream<string, E, R>,
  listColumns: ReadonlySet<string>,
): Stream.Stream<ParsedFileRow, E | UnreadableLoadFile, R> =>
  text.pipe(
    limitLines(path),
    Stream.splitLines,
    Stream.mapAccum(() => 1, (line, text): readonly [number, ReadonlyArray<ParsedFileRow>] => [
      line + 1,
      text.trim() === "" ? [] : parseJsonLine(line, text, listColumns),
    ]),
  )

const makeFileError = (path: string) => (error: PlatformError.PlatformError) =>
  new UnreadableLoadFile({ message: describeReadError(path, error) })

/** The file's size on disk in bytes, compressed or not; 0 for a pipe. */
const readSize = Effect.fnUntraced(function* (path: string) {
  const fs = yield* FileSystem.FileSystem
  const info = yield* Effect.mapError(fs.stat(path), makeFileError(path))
  if (info.type !== "Directory") return Number(info.size)
  return yield* new UnreadableLoadFile({
    message: `${path} is a folder, but load takes a file. To load every file in the folder: load --all ${path}`,
  })
})

/** Decompressors by the extension of the file. */
const decompressors = [
  { extension: ".gz", name: "gzip", create: () => createGunzip() },
  { extension: ".zst", name: "Zstandard", create: () => createZstdDecompress() },
]

const decompress = (path: string) => <R>(bytes: Stream.Stream<Uint8Array, UnreadableLoadFile, R>) => {
  const found = decompressors.find(({ extension }) => path.toLowerCase().endsWith(extension))
  return found !== undefined
    ? NodeStream.pipeThroughDuplex(bytes, {
      evaluate: found.create,
      onError: () => new UnreadableLoadFile({ message: `${path} is not a complete ${found.name} file.` }),
    })
    : Stream.onFirst(bytes, (chunk) =>
      chunk[0] === 0x1f && chunk[1] === 0x8b
        ? Effect.fail(
          new UnreadableLoadFile({
            message: `${path} is compressed with gzip, but its name does not end in .gz. Rename it to ${path}.gz.`,
          }),
        )
        : Effect.void)
}

/** Fails if the bytes are not UTF-8. A lenient decoder would silently replace invalid characters. */
const decodeUtf8 = (path: string, keepsMark: boolean) => <R>(bytes: Stream.Stream<Uint8Array, UnreadableLoadFile, R>) =>
  Stream.suspend(() => {
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: keepsMark })
    const decode = (chunk?: Uint8Array) =>
      Effect.try({
        try: () => decoder.decode(chunk, { stream: chunk !== undefined }),
        catch: () => new UnreadableLoadFile({ message: `${path} is not encoded in UTF-8.` }),
      })
    return Stream.concat(Stream.mapEffect(bytes, decode), Stream.fromEffect(Effect.suspend(() => decode())))
  })

/** Reads a file as text and reports the bytes read so far as progress. */
const readText = Effect.fnUntraced(function* (path: string, size: number, keepsMark: boolean) {
  const fs = yield* FileSystem.FileSystem
  const progress = yield* OperationProgress
  Object.assign(progress, { done: 0, total: size > 0 ? size : undefined })
  return fs.stream(path).pipe(
    Stream.mapError(makeFileError(path)),
    Stream.tap((chunk) =>
      Effect.sync(() => {
        progress.done += chunk.length
      })
    ),
    decompress(path),
    decodeUtf8(path, keepsMark),
  )
}, Stream.unwrap)

/** Reads a file as text, without a byte order mark. Decompresses `.gz` and `.zst`. */
export const readTextFile = (path: string) =>
  Stream.unwrap(Effect.map(readSize(path), (size) => readText(path, size, false)))

/** Reads the rows of a file. */
export const readFileRows = (
  path: string,
  listColumns: ReadonlySet<string>,
  options: FileReaderOptions = {},
): Stream.Stream<ParsedFileRow, UnreadableLoadFile, FileSystem.FileSystem> => {
  const name = path.replace(/\.gz$/, "")
  return Stream.unwrap(Effect.map(readSize(path), (size) => {
    const isCsv = name.endsWith(".csv")
    const text = readText(path, size, isCsv)
    if (isCsv) {
      const given = { checkHeader: () => [], isExportHeader: () => false, nullTexts, ...options }
      return readCsv(path, refuseOtherSeparators(path, "load", "NDJSON")(text), listColumns, given)
    }
    if (name.endsWith(".ndjson") || name.endsWith(".jsonl")) return readNdjson(path, text, listColumns)
    return Stream.fail(
      new UnreadableLoadFile({
        message: `${path} has no supported extension. Load takes .csv, .ndjson and .jsonl files, and each of them ` +
          "compressed (.gz).",
      }),
    )
  }))
}

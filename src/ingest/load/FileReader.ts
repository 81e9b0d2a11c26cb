/**
 * Streams the rows of a CSV or NDJSON file, compressed or not, without loading the whole file into memory (D31, load).
 */
import * as NodeStream from "@effect/platform-node/NodeStream"
import { Data, Effect, FileSystem, type PlatformError, Predicate, Stream } from "effect"
import { Csv } from "effect/encoding"
import { createGunzip, createZstdDecompress } from "node:zlib"
import type { RowCells } from "../../contract/Datasets.ts"
import { formatCountWithNoun } from "../../contract/rules/CountWithNoun.ts"
import { describeReadError } from "./FileErrors.ts"
import { byteOrderMark, removeFormulaApostrophe } from "../../query/rows/CsvCells.ts"
import { OperationProgress } from "../../postgres/metrics/OperationProgress.ts"

/** The reason why a cell, a header column or a whole row is rejected. */
export interface CellProblem {
  /** The column's name. Empty if the problem concerns the whole row. */
  readonly column: string
  /** The end of a sentence that begins with the column name, such as `must not be empty`. */
  readonly reason: string
}

/** A row as written in the file, before its values are validated. */
export interface ParsedFileRow {
  /** The line on which the row starts. The first line of a file is 1. */
  readonly line: number
  /** The text or list in each column. If there is a `problem`, cells may be missing. */
  readonly cells: RowCells
  /** Why the row cannot be parsed. */
  readonly problem?: CellProblem
}

/**
 * Returns the end of an error message that quotes the rejected value, such as `, but is "12,000"`. Returns an empty
 * string for an empty cell.
 */
export const formatRefusedValue = (value: unknown) => {
  if (value === null || value === undefined || value === "") return ""
  const text = JSON.stringify(value)
  return `, but is ${text.length > 100 ? `${text.slice(0, 100)}…` : text}`
}

/** Checks the column names of a CSV header and returns the problems. A valid header has none. */
export type CsvHeaderCheck = (names: ReadonlyArray<string>) => ReadonlyArray<CellProblem>

/** Cell texts that always mean null (D43): the empty string, and `\N`, which PostgreSQL's `copy` writes. */
export const nullTexts: ReadonlySet<string> = new Set(["", "\\N"])

/** Options that depend on the dataset. By default, the reader accepts every header, and only `nullTexts` mean null. */
export interface FileReaderOptions {
  /** Checks the header of a CSV file before any row is read. */
  readonly checkHeader?: CsvHeaderCheck
  /**
   * Returns whether a CSV header comes from an export by this service. If the file also has a byte order mark, it was
   * exported for spreadsheets: text that looks like a formula starts with an apostrophe, which the reader removes. The
   * byte order mark alone proves nothing, because Excel writes one too.
   */
  readonly isExportHeader?: (names: ReadonlyArray<string>) => boolean
  /** Cell texts that mean null. */
  readonly nullTexts?: ReadonlySet<string>
}

/**
 * The file cannot be read, decompressed, decoded or split into rows. The message explains why, and often what the user
 * can do.
 */
export class UnreadableLoadFile extends Data.TaggedError("UnreadableLoadFile")<{ readonly message: string }> {}

/** The reason reported for an invalid cell in a list column. */
export const invalidListCellReason = `must be a JSON array of strings, like ["8-K","S-3"]`

/**
 * Matches one element of a PostgreSQL array at exactly `lastIndex` (flag `y`). The first group is a quoted element, and
 * the second is an unquoted one.
 */
const arrayItem = /"((?:[^"\\]|\\.)*)"|([^{}",\\\s](?:[^{}",\\]|\\.)*)/y

/**
 * Parses a list in PostgreSQL's array format, such as `{8-K,"a, b"}`. Returns undefined if it is invalid or contains
 * null.
 */
const parsePostgresArray = (text: string): ReadonlyArray<string> | undefined => {
  if (text === "{}") return []
  const items: Array<string> = []
  // The first element starts after the opening brace.
  for (let start = 1; start < text.length;) {
    arrayItem.lastIndex = start
    const [item, quoted, bare = ""] = arrayItem.exec(text) ?? []
    // An unquoted `null` is a null element, not text.
    if (item === undefined || (quoted === undefined && bare.toLowerCase() === "null")) return undefined
    // A backslash escapes the next character.
    items.push((quoted ?? bare).replaceAll(/\\(.)/gs, "$1"))
    const end = start + item.length
    if (text[end] === "}") return end === text.length - 1 ? items : undefined
    if (text[end] !== ",") return undefined
    start = end + 1
  }
  return undefined
}

/**
 * Parses a list in a CSV cell, written as a JSON array or in PostgreSQL's array format. Returns undefined if it is
 * neither.
 */
const parseList = (text: string): ReadonlyArray<string> | undefined => {
  if (text.startsWith("{")) return parsePostgresArray(text)
  try {
    const value: unknown = JSON.parse(text)
    return Array.isArray(value) && value.every(Predicate.isString) ? value : undefined
  } catch {
    return undefined
  }
}

/** The columns of a CSV file, and the rules for parsing its records. */
interface CsvFormat {
  readonly header: ReadonlyArray<string>
  readonly listColumns: ReadonlySet<string>
  readonly nullTexts: ReadonlySet<string>
  /**
   * Whether text that looks like a formula starts with an apostrophe, as in this service's exports for spreadsheets.
   */
  readonly isExport: boolean
}

/** Converts a text cell. An empty cell becomes null; validation handles the other texts that mean null. */
const parseTextCell = (text: string, isExport: boolean) => {
  if (text === "") return null
  return isExport ? removeFormulaApostrophe(text) : text
}

/**
 * Converts a CSV record to a row, whose cells are keyed by column. A list cell that means null (`nullTexts`) is left
 * out, so that it counts as missing. In an export for spreadsheets (`isExport`), the apostrophe before text that looks
 * like a formula is removed. If the record has too few or too many cells, or a list cannot be parsed, the row has a
 * `problem`.
 */
const parseCsvRow = (
  { header, isExport, listColumns, nullTexts }: CsvFormat,
  line: number,
  record: ReadonlyArray<string>,
): ParsedFileRow => {
  if (record.length !== header.length) {
    const reason = `has ${formatCountWithNoun(record.length, "cell")}; the header has ${header.length}`
    return { line, cells: {}, problem: { column: "", reason } }
  }
  const cells: Record<string, RowCells[string]> = {}
  for (const [index, column] of header.entries()) {
    const text = record[index] ?? ""
    if (!listColumns.has(column)) {
      cells[column] = parseTextCell(text, isExport)
      continue
    }
    if (nullTexts.has(text.trim())) continue
    const list = parseList(text.trim())
    if (list === undefined) {
      return { line, cells, problem: { column, reason: `${invalidListCellReason}${formatRefusedValue(text)}` } }
    }
    cells[column] = list
  }
  return { line, cells }
}

/** Counts the line breaks within the cells of a record. A record with line breaks spans several lines of the file. */
const countLineBreaks = (record: ReadonlyArray<string>) =>
  record.reduce((count, cell) => count + (cell.includes("\n") ? cell.split("\n").length - 1 : 0), 0)

/** Separators that other programs write instead of commas, with their names in error messages. */
const separators = [[";", "semicolons"], ["\t", "tabs"], ["|", "vertical bars"]] as const

/**
 * Fails if the file separates cells with something other than commas, because each line would be read as a single cell.
 * Also fails if the first line is a separator declaration for Excel, such as `sep=,`. `command` and `otherFormat`
 * appear in the error message.
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
 * The maximum length of a CSV record or an NDJSON line, in characters. Without this limit, an unclosed quotation mark
 * or a compressed file without line breaks could exhaust memory.
 */
const maxRecordSize = 16 * 1024 * 1024

/** The maximum number of columns in a CSV header. */
const maxColumns = 1_000

/** Creates the error for a record that exceeds `maxRecordSize`. */
const makeRecordTooLong = (path: string, line: number, advice: string) =>
  new UnreadableLoadFile({
    message: `${path}, line ${line}: the row has more than ${
      maxRecordSize.toLocaleString("en-US")
    } characters. ${advice}`,
  })

/**
 * Passes text on unchanged, and fails as soon as a line exceeds `maxRecordSize`, before the rest of the line is read. A
 * line may extend over several chunks of the text.
 */
const limitLines = (path: string) => <E, R>(text: Stream.Stream<string, E, R>) =>
  Stream.suspend(() => {
    let line = 1
    /** The length of the current line so far, including the part in earlier chunks. */
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
const findUnnamedColumns = (header: ReadonlyArray<string>): ReadonlyArray<CellProblem> =>
  header.flatMap((name, index) =>
    name === ""
      ? [{
        column: "the header",
        reason: `has no name for column ${index + 1}; name it, or write the file without it (in pandas: index=False)`,
      }]
      : []
  )

/** Returns a problem for each column name that already occurred in the header. */
const findRepeatedColumns = (names: ReadonlyArray<string>): ReadonlyArray<CellProblem> =>
  names.filter((name, index) => names.indexOf(name) < index)
    .map((column) => ({ column, reason: "is named twice in the header" }))

/**
 * Creates a parser for one CSV file. The records must be passed in order. The first nonblank record is the header. If
 * it is invalid, `parseRecord` returns the header's problems, and the caller must stop.
 */
const makeCsvParser = (
  listColumns: ReadonlySet<string>,
  { checkHeader, isExportHeader, nullTexts }: Required<FileReaderOptions>,
  hasByteOrderMark: () => boolean,
) => {
  /** Undefined until the header has been parsed. */
  let format: CsvFormat | undefined
  let isHeaderInvalid = false
  // Lines are counted here because the decoder does not report them.
  // docs/decisions/0041-load-decodes-csv-with-effect.md
  let nextLine = 1

  /**
   * Sets `format` and returns the problems in the header. The names in a header with too many columns are not checked,
   * because the checks compare each name with all others.
   */
  const parseHeader = (record: ReadonlyArray<string>): ReadonlyArray<CellProblem> => {
    const header = record.slice(0, maxColumns).map((name) => name.trim())
    format = { header, listColumns, nullTexts, isExport: false }
    if (record.length > maxColumns) {
      return [{ column: "", reason: `has ${record.length} columns, more than ${maxColumns}` }]
    }
    // A column without a name is reported by `findUnnamedColumns` only.
    const names = header.filter((name) => name !== "")
    format = { ...format, isExport: hasByteOrderMark() && isExportHeader(names) }
    return [...findUnnamedColumns(header), ...findRepeatedColumns(names), ...checkHeader(names)]
  }

  const parseRecord = (record: ReadonlyArray<string>): ReadonlyArray<ParsedFileRow> => {
    const line = nextLine
    nextLine += 1 + countLineBreaks(record)
    const isBlankLine = record.length === 1 && record[0] === ""
    if (isBlankLine) return []
    if (format !== undefined) return [parseCsvRow(format, line, record)]
    const problems = parseHeader(record)
    isHeaderInvalid = problems.length > 0
    return problems.map((problem) => ({ line, cells: {}, problem }))
  }

  return { parseRecord, hasHeader: () => format !== undefined, isHeaderInvalid: () => isHeaderInvalid }
}

/**
 * Converts an error of the CSV decoder to an error that reports the file and the line. Returns other errors unchanged.
 */
const explainCsvError = (path: string) => (error: Csv.CsvError | UnreadableLoadFile) => {
  if (!Csv.isCsvError(error)) return error
  return error.kind === "RecordSize"
    ? makeRecordTooLong(path, error.line, "A quotation mark at the end of a cell may be missing.")
    : new UnreadableLoadFile({ message: `${path}, line ${error.line}: ${error.message}.` })
}

/**
 * Reads the rows of CSV text, which may start with a byte order mark. If the header is invalid, the stream contains
 * only rows with the problems in the header. Fails if there is no header.
 */
const readCsv = <R>(
  path: string,
  text: Stream.Stream<string, UnreadableLoadFile, R>,
  listColumns: ReadonlySet<string>,
  options: Required<FileReaderOptions>,
): Stream.Stream<ParsedFileRow, UnreadableLoadFile, R> =>
  Stream.suspend(() => {
    let hasMark = false
    const parser = makeCsvParser(listColumns, options, () => hasMark)
    const missingHeader = new UnreadableLoadFile({ message: `${path} has no header.` })
    return text.pipe(
      Stream.onFirst((chunk) =>
        Effect.sync(() => {
          hasMark = chunk.startsWith(byteOrderMark)
        })
      ),
      // Removes the mark at the beginning of the file. After the header, the same character may be part of a cell.
      Stream.map((chunk) => !parser.hasHeader() && chunk.startsWith(byteOrderMark) ? chunk.slice(1) : chunk),
      Stream.pipeThroughChannel(Csv.decodeString({ maxRecordSize })),
      Stream.mapError(explainCsvError(path)),
      Stream.map(parser.parseRecord),
      Stream.takeUntil(parser.isHeaderInvalid),
      Stream.flattenIterable,
      Stream.concat(Stream.suspend(() => parser.hasHeader() ? Stream.empty : Stream.fail(missingHeader))),
    )
  })

/**
 * Parses JSON. Numbers and booleans become text as written in the file, so that validation sees every digit of a
 * number. Also returns `nameCount`, the total number of names in all objects. It counts a name that occurs twice in an
 * object only once, because `JSON.parse` keeps only the last value. If it is smaller than the result of `countNames`,
 * some name therefore occurs twice.
 */
const parseJson = (text: string) => {
  let nameCount = 0
  // JSON.parse calls this function for each value, with the object or array that contains it as `this`. `source` is the
  // text of a number in the file.
  function revive(this: unknown, _key: string, value: unknown, context?: { readonly source?: string }) {
    if (Array.isArray(this)) return value
    nameCount += 1
    if (typeof value === "number") return context?.source ?? String(value)
    return typeof value === "boolean" ? String(value) : value
  }
  const value: unknown = JSON.parse(text, revive)
  // JSON.parse also calls `revive` for the outermost value, with an empty name.
  return { value, nameCount: nameCount - 1 }
}

/**
 * Matches the strings and braces in valid JSON. If a string is a name, the second group matches the colon after it. A
 * brace within a string is not matched separately, because the whole string is matched first.
 */
const jsonTokens = /("(?:[^"\\]|\\.)*")\s*(:)?|[{}]/g

/**
 * Returns a name that occurs twice within one object of valid JSON, or undefined if there is none. `JSON.parse` would
 * silently keep only the last of the two values.
 */
const findRepeatedName = (text: string): string | undefined => {
  /** The names found so far in each object that is still open, from the outermost to the innermost object. */
  const openObjects: Array<Set<string>> = []
  // A string followed by a colon is a name. Braces within strings are part of the token for the string.
  for (const [token, string, colon] of text.matchAll(jsonTokens)) {
    if (token === "{") openObjects.push(new Set())
    else if (token === "}") openObjects.pop()
    else if (colon !== undefined && string !== undefined) {
      // Parsing removes the quotation marks and escapes: "\u0061" and "a" are the same name.
      const name = String(JSON.parse(string))
      const names = openObjects.at(-1)
      if (names?.has(name) === true) return name
      names?.add(name)
    }
  }
  return undefined
}

/** Counts the names in valid JSON. A name that occurs twice in an object is counted twice. */
const countNames = (text: string) => {
  let count = 0
  for (const [, , colon] of text.matchAll(jsonTokens)) if (colon !== undefined) count += 1
  return count
}

/** Returns whether a parsed JSON value can be a cell: null, text or a list of texts. */
const isCell = (value: unknown): value is RowCells[string] =>
  value === null || typeof value === "string" || (Array.isArray(value) && value.every(Predicate.isString))

const isObjectList = (value: unknown): value is ReadonlyArray<object> =>
  Array.isArray(value) && value.length > 0 &&
  value.every((item) => Predicate.isObject(item) && !Array.isArray(item))

/**
 * Splits an object that contains one list of objects into one row per list element, each with the other values of the
 * object. For example, `{"filing": "F", "owners": [{"name": "A"}, {"name": "B"}]}` becomes two rows, for A and B, each
 * with the filing F. `/v1/ownership` returns filings in this form. If the object has no such list or several, or if the
 * object and a list element have a name in common, the object is not split, and validation rejects the list.
 */
const splitNestedRows = (value: object): ReadonlyArray<object> => {
  const lists = Object.entries(value).filter(([, cell]) => isObjectList(cell))
  const [listName = "", list] = lists[0] ?? []
  if (lists.length !== 1 || !isObjectList(list)) return [value]
  const { [listName]: _, ...outer } = Object.fromEntries(Object.entries(value))
  const isAmbiguous = list.some((inner) => Object.keys(inner).some((name) => Object.hasOwn(outer, name)))
  return isAmbiguous ? [value] : list.map((inner) => ({ ...outer, ...inner }))
}

/**
 * Parses one line of NDJSON. Returns its rows, usually one (see `splitNestedRows`). If the line is not a JSON object,
 * or if a name occurs twice in an object, returns a single row with a problem.
 */
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
    // `nameCount` counts a name that occurs twice in an object once, because parsing keeps only its last value.
    const { nameCount, value } = parseJson(text)
    // Finding the repeated name takes longer, so it is done only if there is one.
    if (countNames(text) > nameCount) {
      return [reject(findRepeatedName(text) ?? "", "occurs twice in one object; keep one of the values")]
    }
    return Predicate.isObject(value) ? splitNestedRows(value).map(toRow) : [reject("", "must be a JSON object")]
  } catch {
    return [reject("", "is not JSON")]
  }
}

/**
 * Reads NDJSON, which has one JSON object per line. An object is usually one row, but see `splitNestedRows`. Blank
 * lines are skipped.
 */
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

/** Returns a function that converts an error of the file system to one that explains why the file cannot be read. */
const makeFileError = (path: string) => (error: PlatformError.PlatformError) =>
  new UnreadableLoadFile({ message: describeReadError(path, error) })

/** Returns the file's size on disk in bytes, or 0 for a pipe. Fails if `path` is a folder. */
const readSize = Effect.fnUntraced(function* (path: string) {
  const fs = yield* FileSystem.FileSystem
  const info = yield* Effect.mapError(fs.stat(path), makeFileError(path))
  if (info.type !== "Directory") return Number(info.size)
  return yield* new UnreadableLoadFile({
    message: `${path} is a folder, but load takes a file. To load every file in the folder: load --all ${path}`,
  })
})

/** The supported compression formats by lowercase file extension. */
const decompressors = [
  { extension: ".gz", name: "gzip", create: () => createGunzip() },
  { extension: ".zst", name: "Zstandard", create: () => createZstdDecompress() },
]

const findDecompressor = (path: string) => decompressors.find(({ extension }) => path.toLowerCase().endsWith(extension))

/**
 * Returns a file name in lower case without the extension `.gz` or `.zst`, so that it ends with the extension of its
 * format.
 */
export const removeCompressionExtension = (path: string) => {
  const name = path.toLowerCase()
  return name.slice(0, name.length - (findDecompressor(path)?.extension.length ?? 0))
}

/**
 * Decompresses a file if it has the extension of a compression format. Fails if a file is gzip-compressed but lacks the
 * extension.
 */
const decompress = (path: string) => <R>(bytes: Stream.Stream<Uint8Array, UnreadableLoadFile, R>) => {
  const decompressor = findDecompressor(path)
  if (decompressor !== undefined) {
    return NodeStream.pipeThroughDuplex(bytes, {
      evaluate: decompressor.create,
      onError: () => new UnreadableLoadFile({ message: `${path} is not a complete ${decompressor.name} file.` }),
    })
  }
  return Stream.onFirst(bytes, (chunk) => {
    // These two bytes mark the beginning of a gzip file.
    const isGzip = chunk[0] === 0x1f && chunk[1] === 0x8b
    return isGzip
      ? Effect.fail(
        new UnreadableLoadFile({
          message: `${path} is compressed with gzip, but its name does not end in .gz. Rename it to ${path}.gz.`,
        }),
      )
      : Effect.void
  })
}

/**
 * Decodes bytes as UTF-8, and fails if they are invalid. A lenient decoder would silently replace invalid characters. A
 * byte order mark is kept only if `keepsMark` is true.
 */
const decodeUtf8 = (path: string, keepsMark: boolean) => <R>(bytes: Stream.Stream<Uint8Array, UnreadableLoadFile, R>) =>
  Stream.suspend(() => {
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: keepsMark })
    const decode = (chunk?: Uint8Array) =>
      Effect.try({
        try: () => decoder.decode(chunk, { stream: chunk !== undefined }),
        catch: () => new UnreadableLoadFile({ message: `${path} is not encoded in UTF-8.` }),
      })
    // The last call, without bytes, fails if the file ends within a character.
    return Stream.concat(Stream.mapEffect(bytes, decode), Stream.fromEffect(Effect.suspend(() => decode())))
  })

/**
 * Reads a file as text. The progress display shows how many of its `size` bytes have been read. A byte order mark is
 * kept if `keepsMark` is true, because the CSV parser recognizes exports of the service by it.
 */
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

/** Streams the text of a file without a byte order mark. Decompresses `.gz` and `.zst` files. */
export const readTextFile = (path: string) =>
  Stream.unwrap(Effect.map(readSize(path), (size) => readText(path, size, false)))

/**
 * Streams the rows of a file. The extension of `path` determines the format: `.csv`, `.ndjson` or `.jsonl`, optionally
 * followed by `.gz` or `.zst`, in upper or lower case. Cells in `listColumns` are parsed as lists, and all others as
 * text. A row that cannot be parsed has a `problem`. The stream fails with `UnreadableLoadFile` if it cannot continue.
 */
export const readFileRows = (
  path: string,
  listColumns: ReadonlySet<string>,
  options: FileReaderOptions = {},
): Stream.Stream<ParsedFileRow, UnreadableLoadFile, FileSystem.FileSystem> => {
  const name = removeCompressionExtension(path)
  return Stream.unwrap(Effect.map(readSize(path), (size) => {
    const isCsv = name.endsWith(".csv")
    const text = readText(path, size, isCsv)
    if (isCsv) {
      const defaults = { checkHeader: () => [], isExportHeader: () => false, nullTexts }
      return readCsv(path, refuseOtherSeparators(path, "load", "NDJSON")(text), listColumns, {
        ...defaults,
        ...options,
      })
    }
    if (name.endsWith(".ndjson") || name.endsWith(".jsonl")) return readNdjson(path, text, listColumns)
    return Stream.fail(
      new UnreadableLoadFile({
        message: `${path} has no supported extension. Load takes .csv, .ndjson and .jsonl files, and each of them ` +
          "compressed (.gz or .zst).",
      }),
    )
  }))
}

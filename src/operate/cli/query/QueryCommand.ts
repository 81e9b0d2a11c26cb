/** The `query` command: sends a request to a running service and prints the response as a table. */
import { Console, Effect, FileSystem, Option, type PlatformError, Schema, Stdio, Stream } from "effect"
import { Command, Flag } from "effect/cli"
import { FetchHttpClient } from "effect/http"
import { catalogueEndpoints, findEndpoint } from "../../../api/catalogue/Endpoints.ts"
import { encodeCsvCell } from "../../../query/rows/CsvCells.ts"
import type { ExportFormat } from "../../../contract/rows/ListFormats.ts"
import { formatNameSuggestion } from "../../../contract/rules/NameSuggestions.ts"
import {
  CommandFailed,
  makeArgument,
  makeBooleanFlag,
  makeFlag,
  makeUsageError,
  refuseApiKeysInArguments,
  requireHttpUrls,
  serviceConnectionFlags,
  splitList,
  withPipeableExamples,
} from "../CommandParts.ts"
import { apiBaseUrl } from "../ServeSettings.ts"
import { describeWriteError } from "../../../ingest/load/FileErrors.ts"
import { withProgressDisplay } from "../terminal/ProgressDisplay.ts"
import { escapeOnTerminal, stderrCapabilities, stdoutCapabilities } from "../terminal/OutputCapabilities.ts"
import { formatRowVertically, printTextTable } from "../terminal/TextTable.ts"
import { formatCountWithNoun } from "../../../contract/rules/CountWithNoun.ts"
import { escapeTerminalLine } from "../terminal/TerminalText.ts"
import {
  fetchQueryPages,
  findClientApiKey,
  openExportDownload,
  parseQueryCommandTarget,
  type QueryCommandRequest,
  type QueryResult,
} from "./QueryRequest.ts"
import { listResponseColumnNames, makeResponseTable, type ResponseRow } from "./QueryResponse.ts"

const chooseColumns = Effect.fnUntraced(function* (rows: ReadonlyArray<ResponseRow>, list: Option.Option<string>) {
  const names = listResponseColumnNames(rows)
  if (Option.isNone(list)) return names
  const columns = splitList(list.value)
  const unknown = columns.find((name) => rows.length > 0 && !names.includes(name))
  if (unknown === undefined) return columns
  return yield* makeUsageError(
    "query",
    `There is no column ${unknown}.${formatNameSuggestion(unknown, names)} The columns are: ${names.join(", ")}.`,
  )
})

/**
 * Encodes rows in the same CSV format as the service: lists are encoded as JSON, and cells are escaped so that no
 * spreadsheet runs them as a formula.
 */
const toCsv = (rows: ReadonlyArray<ResponseRow>, columns: ReadonlyArray<string>) =>
  [
    columns.join(","),
    ...rows.map((row) => columns.map((name) => encodeCsvCell(JSON.stringify(row[name] ?? null))).join(",")),
  ].join("\n")

/** Formats the summary that is printed on standard error: row count, cost, and remaining requests. */
const formatFooter = ({ cost, hasMoreRows, page: { metadata }, rows }: QueryResult, followsPages: boolean) => {
  const { cost_microdollars, rate_limit } = metadata
  const more = followsPages ? " (more with a higher --max)" : " (more with --all)"
  return [
    `${formatCountWithNoun(rows.length, "row")}${hasMoreRows ? more : ""}`,
    ...(cost_microdollars === null ? [] : [cost === 0 ? "free" : `${(cost / 1_000_000).toFixed(6)} USD`]),
    ...(rate_limit === null ? [] : [`${rate_limit.remaining} of ${rate_limit.limit} requests left this minute`]),
  ].join(", ")
}

const formatDeprecation = ({ page: { metadata: { deprecated } } }: QueryResult) => {
  if (deprecated === null) return []
  const { successor } = deprecated
  return [`This endpoint is deprecated${successor === null ? "." : `. Use ${successor} instead.`}`]
}

/**
 * Formats one line for each company whose symbol has changed, or for whose symbols rows of other companies were
 * omitted.
 */
const formatLineages = ({ page: { metadata: { lineages } } }: QueryResult, arrow: string) =>
  lineages.filter(({ omitted_rows, periods }) => periods.length > 1 || omitted_rows > 0).map(
    ({ omitted_rows, periods }) => {
      const symbols = periods.map(({ ticker, until }) => until === null ? ticker : `${ticker} ${arrow} (${until})`)
      const count = omitted_rows < 100 ? String(omitted_rows) : "100 or more"
      return `Lineage: ${symbols.join(" ")}${omitted_rows === 0 ? "" : `, ${count} rows of other companies omitted`}`
    },
  )

const formatOmittedTypes = ({ page: { metadata: { omitted_types } } }: QueryResult) =>
  omitted_types.length === 0 ? [] : [`Omitted, because your key may not see them: ${omitted_types.join(", ")}`]

const printRows = Effect.fnUntraced(function* ({ rows }: QueryResult, columnList: Option.Option<string>) {
  const screen = yield* stdoutCapabilities
  const columns = yield* chooseColumns(rows, columnList)
  const table = makeResponseTable(rows, columns, screen.hasUnicode ? "→" : "->")
  if (screen.isTerminal && rows.length === 1) return yield* Console.log(formatRowVertically(table, screen).join("\n"))
  yield* printTextTable(table, "or choose columns with --columns")
})

const binaryError =
  "A Parquet file is binary, so it is not printed on a terminal. Write it to a file with -o FILE, or to a pipe."

const makeFileError = (file: string) => (error: PlatformError.PlatformError) =>
  new CommandFailed({ message: describeWriteError(file, error) })

/**
 * Opens a file for writing. Data is written to `<file>.part`, which `commit` renames, so `<file>` is never incomplete.
 * Pipes and devices are written directly, because renaming would replace them.
 */
const openOutputFile = Effect.fnUntraced(function* (file: string) {
  const fs = yield* FileSystem.FileSystem
  const existing = yield* Effect.option(fs.stat(file))
  const type = Option.match(existing, { onNone: () => "File", onSome: (info) => info.type })
  if (type === "Directory") {
    return yield* new CommandFailed({ message: `${file} is a folder. Add the name of a file.` })
  }
  const part = type === "File" ? `${file}.part` : file
  // Pipes are opened for appending, because other writes specify a position, which pipes do not support.
  const output = yield* Effect.mapError(fs.open(part, { flag: part === file ? "a" : "w" }), makeFileError(file))
  // If `commit` did not rename the file, an incomplete one is left, which is removed.
  if (part !== file) yield* Effect.addFinalizer(() => Effect.ignore(fs.remove(part, { force: true })))
  return {
    write: (bytes: Uint8Array) => Effect.mapError(output.writeAll(bytes), makeFileError(file)),
    commit: part === file ? Effect.void : Effect.mapError(fs.rename(part, file), makeFileError(file)),
  }
})

/**
 * Writes the complete list to a file or to standard output. The file is opened before the request is sent, so that the
 * account is not charged for a list that cannot be saved.
 */
const writeExport = Effect.fnUntraced(
  function* (request: QueryCommandRequest, format: ExportFormat, file: Option.Option<string>) {
    const output = Option.isSome(file) ? yield* openOutputFile(file.value) : undefined
    const { bytes, rows } = yield* openExportDownload(request, format)
    if (output === undefined) yield* Stream.run(bytes, (yield* Stdio.Stdio).stdout())
    else yield* Effect.andThen(Stream.runForEach(bytes, output.write), output.commit)
    const stderr = yield* stderrCapabilities
    const count = rows === undefined ? "The list" : formatCountWithNoun(Number(rows), "row")
    const target = Option.match(file, { onNone: () => "standard output", onSome: (name) => name })
    yield* Console.error(stderr.paint("dim", escapeTerminalLine(`${count}, written to ${target}`)))
  },
  Effect.scoped,
)

const paths = catalogueEndpoints.map(({ row }) => row.path)

/** `query`: requests rows from a service and prints them. */
export const queryCommand = Command.make(
  "query",
  {
    path: makeArgument("path", Schema.String, "Endpoint, such as /v1/news?ticker=GAP7 or only news"),
    parameters: Flag.KeyValuePair("param").pipe(
      Flag.withAlias("p"),
      Flag.withDescription("Query parameter that needs no quotes, repeatable: -p ticker=GAP7 -p limit=5"),
      Flag.withDefault({}),
    ),
    ...serviceConnectionFlags,
    columns: Flag.optional(
      makeFlag("columns", Schema.String, "Columns to print, separated by commas, in this order"),
    ),
    json: makeBooleanFlag("json", "Print the JSON of the response"),
    csv: makeBooleanFlag("csv", "Print the rows as CSV"),
    format: Flag.Literals("format", ["csv", "ndjson", "parquet"]).pipe(
      Flag.withDescription("Download the complete list as a file in this format"),
      Flag.optional,
    ),
    output: makeFlag("output", Schema.String, "File for --format (default: standard output)").pipe(
      Flag.withAlias("o"),
      Flag.optional,
    ),
    all: makeBooleanFlag("all", "Fetch all pages, up to --max rows"),
    max: Flag.Int("max").pipe(
      Flag.withSchema(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000_000 }))),
      Flag.withDescription("Maximum number of rows with --all"),
      Flag.withDefault(10_000),
    ),
  },
  Effect.fnUntraced(function* (flags) {
    const { all, columns, csv, format, json, keyFile, max, output, parameters, path: argument, url } = flags
    if (argument.trim() === "") {
      return yield* makeUsageError(
        "query",
        "query needs an endpoint, such as news. To list all of them, run: tickerline query endpoints",
      )
    }
    if (json && csv) return yield* makeUsageError("query", "--json and --csv cannot be combined. Choose one of them.")
    if (Option.isSome(format) && (json || csv || all || Option.isSome(columns))) {
      return yield* makeUsageError(
        "query",
        "--format cannot be combined with --json, --csv, --all or --columns: it downloads the complete list.",
      )
    }
    if (Option.isNone(format) && Option.isSome(output)) {
      return yield* makeUsageError("query", "--output needs --format. Without it, redirect the output: > FILE")
    }
    yield* refuseApiKeysInArguments("query", [argument, ...Object.values(parameters)])
    yield* requireHttpUrls("query", [...Option.toArray(url), .../^https?:/i.test(argument) ? [argument] : []])
    const { origin, path, search } = parseQueryCommandTarget(argument, parameters, paths)
    if (Option.exists(findEndpoint(path), ({ isEndless }) => isEndless)) {
      return yield* makeUsageError("query", `The response of ${path} never ends. Use: tickerline changes --follow`)
    }
    const otherService = Option.orElse(url, () => Option.fromUndefinedOr(origin))
    const stdout = yield* stdoutCapabilities
    const stderr = yield* stderrCapabilities
    const request: QueryCommandRequest = {
      baseUrl: Option.isSome(otherService) ? otherService.value : yield* apiBaseUrl,
      path,
      search,
      apiKey: yield* findClientApiKey(keyFile, Option.isNone(otherService)),
      arrow: stderr.hasUnicode ? "→" : "->",
    }
    if (Option.isSome(format)) {
      if (format.value === "parquet" && stdout.isTerminal && Option.isNone(output)) {
        return yield* makeUsageError("query", binaryError)
      }
      return yield* writeExport(request, format.value, output)
    }
    const result = yield* all ? withProgressDisplay(fetchQueryPages(request, max)) : fetchQueryPages(request)
    const { page, rows } = result
    if (json) yield* Console.log(escapeOnTerminal(stdout, all ? JSON.stringify(rows) : page.body))
    else if (csv) yield* Console.log(escapeOnTerminal(stdout, toCsv(rows, yield* chooseColumns(rows, columns))))
    else if (rows.length > 0 || page.isJson) yield* printRows(result, columns)
    else yield* Console.log(escapeOnTerminal(stdout, page.body))
    for (const line of formatLineages(result, request.arrow)) yield* Console.error(escapeTerminalLine(line))
    for (const line of formatOmittedTypes(result)) yield* Console.error(escapeTerminalLine(line))
    for (const line of formatDeprecation(result)) {
      yield* Console.error(stderr.paint("yellow", escapeTerminalLine(line)))
    }
    yield* Console.error(stderr.paint("dim", escapeTerminalLine(formatFooter(result, all))))
  }),
).pipe(
  Command.withDescription("Send a request to the running service and print the response as a table"),
  withPipeableExamples({
    'query "/v1/intraday-runners?ticker=GAP7&limit=5"': "Print five sessions of a symbol",
    "query news -p ticker=GAP7 --columns filed_at,form_type,title": "Print chosen columns; -p needs no quotes",
    "query screener -p limit=100 --all --csv > screener.csv": "Write all pages to a file",
    "query screener --format parquet -o screener.parquet": "Download a complete list as Parquet",
  }),
  Command.provide(FetchHttpClient.layer),
)

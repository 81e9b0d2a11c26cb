/**
 * Sends requests for the `query` command with the client in `src/client`: determines the URL and the API key, and
 * fetches one page, all pages, or an export. See docs/decisions/0040-query-sends-through-the-client.md.
 */
import { Config, Console, Duration, Effect, FileSystem, Option, Redacted, Stream } from "effect"
import type { NoAnswer } from "../../../client/ClientErrors.ts"
import { describeCertificateError } from "../../../postgres/metrics/CertificateErrors.ts"
import { OperationProgress } from "../../../postgres/metrics/OperationProgress.ts"
import { startCommand } from "../../../postgres/ProjectCommands.js"
import { makeRequestSender } from "../../../client/EndpointCaller.ts"
import type { ResponseMetadata } from "../../../client/ResponseMetadata.ts"
import { TickerlineHomeConfig } from "../../../postgres/embedded/EmbeddedPostgres.ts"
import type { ExportFormat } from "../../../contract/rows/ListFormats.ts"
import { describeReadError } from "../../../ingest/load/FileErrors.ts"
import { readLinkParameters } from "../../../contract/rules/LinkHeader.ts"
import { CommandFailed } from "../CommandParts.ts"
import {
  extractResponseRows,
  makeQueryErrorFromResponse,
  parseJsonWithExactNumbers,
  type ResponseRow,
} from "./QueryResponse.ts"

interface QueryTarget {
  /** The scheme, host, and port. Undefined unless the argument is a complete URL. */
  readonly origin: string | undefined
  readonly path: string
  /** The query string including the `?`, or an empty string. */
  readonly search: string
}

/**
 * Parses the argument of `query`, which may be `news`, `v1/news`, `/v1/news`, or a complete URL, and adds the `--param`
 * values (`parameters`). `paths` are the paths of all endpoints: `/v1` is added if that makes the path one of them.
 * Returns the path, the query string, and the origin if the argument is a URL.
 */
export const parseQueryCommandTarget = (
  argument: string,
  parameters: Readonly<Record<string, string>>,
  paths: ReadonlyArray<string>,
): QueryTarget => {
  const url = /^https?:\/\//i.test(argument) ? new URL(argument) : undefined
  const pathAndQuery = url === undefined ? argument : `${url.pathname}${url.search}`
  const [, before = "", query = ""] = /^([^?]*)\??(.*)$/s.exec(pathAndQuery) ?? []
  const path = before.startsWith("/") ? before : `/${before}`
  const versionedPath = `/v1${path}`
  const added = Object.entries(parameters).map(([name, value]) =>
    `${encodeURIComponent(name)}=${encodeURIComponent(value)}`
  )
  const search = [query, ...added].filter((part) => part !== "").join("&")
  return {
    origin: url?.origin,
    path: !paths.includes(path) && paths.includes(versionedPath) ? versionedPath : path,
    search: search === "" ? "" : `?${search}`,
  }
}

/** The API key for commands that call a service. */
export const ClientApiKeyConfig = Config.option(Config.Redacted("TICKERLINE_KEY"))

const keyFileAdvice = "Put only the key into the file. To create a key, run: tickerline keys create"

const parseKeyFile = (path: string, text: string) => {
  const key = text.trim()
  if (/^\S+$/.test(key)) return Effect.succeed(Redacted.make(key))
  const problem = key === "" ? "is empty" : "contains more than one word"
  return Effect.fail(new CommandFailed({ message: `The key file ${path} ${problem}. ${keyFileAdvice}` }))
}

const readKeyFile = Effect.fnUntraced(function* (path: string) {
  const fs = yield* FileSystem.FileSystem
  const text = yield* Effect.mapError(
    fs.readFileString(path),
    (error) => new CommandFailed({ message: `--key-file: ${describeReadError(path, error)} ${keyFileAdvice}` }),
  )
  return yield* parseKeyFile(path, text)
})

/**
 * Reads the API key from `--key-file` or from `TICKERLINE_KEY`. If neither is set and the service runs on this machine,
 * reads the demo key file.
 */
export const findClientApiKey = Effect.fnUntraced(function* (keyFile: Option.Option<string>, isOwnService: boolean) {
  if (Option.isSome(keyFile)) return Option.some(yield* readKeyFile(keyFile.value))
  const configured = yield* ClientApiKeyConfig
  if (Option.isSome(configured) || !isOwnService) return configured
  const demoKeyFile = `${yield* TickerlineHomeConfig}/demo-key`
  const text = yield* Effect.option((yield* FileSystem.FileSystem).readFileString(demoKeyFile))
  return yield* Effect.transposeOption(Option.map(text, (text) => parseKeyFile(demoKeyFile, text)))
})

/** The request target and the API key. */
export interface QueryCommandRequest {
  readonly baseUrl: string
  readonly path: string
  /** The query string including the `?`, or an empty string. */
  readonly search: string
  readonly apiKey: Option.Option<Redacted.Redacted>
  /** The arrow to use in messages: `→`, or `->` on an ASCII-only terminal. */
  readonly arrow: string
}

const timeout = Duration.minutes(1)

/** Creates a function that sends a request without retries, because the user is waiting. */
export const makeSingleAttemptSender = ({ apiKey, baseUrl }: QueryCommandRequest) =>
  makeRequestSender({
    baseUrl,
    apiKey: Option.getOrUndefined(apiKey),
    retries: { times: 0 },
    timeout,
    userAgent: "tickerline-query",
  }).pipe(
    Effect.mapError(({ message }) =>
      new CommandFailed({ message: message.replace("baseUrl", "The address").replace("apiKey", "The API key") })
    ),
  )

/** Creates the error message for a service that did not respond. */
export const makeNoResponseError = ({ baseUrl }: QueryCommandRequest, { cause, reason }: NoAnswer) => {
  const certificateError = describeCertificateError(cause)
  return new CommandFailed({
    message: reason === "timeout"
      ? `${baseUrl} did not answer within ${Duration.toSeconds(timeout)} seconds.`
      : certificateError !== undefined
      ? `There is no connection to ${baseUrl}: ${certificateError}.`
      : `Nothing answers at ${baseUrl}. Start the service (${startCommand}), or give its address with --url or ` +
        "BASE_URL. To find out why it does not start, run: tickerline doctor",
  })
}

/**
 * Returns a function that fetches the page for a query string. A page has the text of the response (`body`), its rows,
 * the metadata from its headers, and the query string of the next page. Any response other than a page is an error.
 */
const makePageFetcher = Effect.fnUntraced(function* (request: QueryCommandRequest) {
  const { arrow, path } = request
  const { send } = yield* makeSingleAttemptSender(request)
  return Effect.fnUntraced(function* (search: string) {
    const { headers, text, metadata } = yield* Effect.mapError(
      send(path, search),
      (error) => makeNoResponseError(request, error),
    )
    const { retry_after_seconds, status } = metadata
    if (status !== 200) {
      return yield* makeQueryErrorFromResponse({ status, text, retryAfterSeconds: retry_after_seconds }, arrow)
    }
    if (headers["content-type"]?.startsWith("text/html") === true) {
      return yield* new CommandFailed({
        message: `${request.baseUrl}${path} is a page for browsers, not an endpoint. To list the endpoints, run: ` +
          "tickerline query endpoints",
      })
    }
    return {
      body: text,
      isJson: headers["content-type"]?.startsWith("application/json") === true,
      metadata,
      rows: Option.match(parseJsonWithExactNumbers(text), { onNone: () => [], onSome: extractResponseRows }),
      /** The query string of the link to the next page (D8, pages), or `None` on the last page. */
      nextSearch: Option.map(
        Option.fromUndefinedOr(readLinkParameters(metadata.next_page)),
        (parameters) => `?${parameters}`,
      ),
    }
  })
})

/** If the rate limit is exhausted, waits until a token is available again (D18, rate limits). */
export const waitForRateLimit = Effect.fnUntraced(function* ({ rate_limit }: ResponseMetadata) {
  if (rate_limit === null || rate_limit.remaining > 0) return
  const seconds = Math.ceil(60 / rate_limit.limit)
  yield* Console.error(`The rate limit is reached. The next page follows in ${seconds} s.`)
  yield* Effect.sleep(Duration.seconds(seconds))
})

/**
 * Fetches pages until there are `maxRows` rows or no more pages. Without `maxRows`, fetches only the first page, and
 * returns all of its rows. Returns the last page, the rows, the total cost in microdollars, and whether the list has
 * more rows than were returned.
 */
export const fetchQueryPages = Effect.fnUntraced(function* (request: QueryCommandRequest, maxRows?: number) {
  const progress = yield* OperationProgress
  progress.label = request.path
  const fetchPage = yield* makePageFetcher(request)
  let page = yield* fetchPage(request.search)
  const rows: Array<ResponseRow> = [...page.rows]
  let cost = page.metadata.cost_microdollars ?? 0
  while (rows.length < (maxRows ?? 0) && Option.isSome(page.nextSearch)) {
    progress.count = rows.length
    yield* waitForRateLimit(page.metadata)
    page = yield* fetchPage(page.nextSearch.value)
    rows.push(...page.rows)
    cost += page.metadata.cost_microdollars ?? 0
  }
  const shown = rows.slice(0, maxRows)
  const hasMoreRows = rows.length > shown.length || Option.isSome(page.nextSearch)
  return { page, rows: shown, cost, hasMoreRows }
})
/** The rows and the cost of the pages that a command fetched. */
export type QueryResult = Effect.Success<ReturnType<typeof fetchQueryPages>>

/** Adds `limit=all` and `format` to a query string, unless it already contains them. */
const addExportParameters = (search: string, format: ExportFormat) => {
  const names = new Set(new URLSearchParams(search).keys())
  const added = Object.entries({ limit: "all", format }).filter(([name]) => !names.has(name))
  const parameters = [...(search === "" ? [] : [search.slice(1)]), ...added.map((entry) => entry.join("="))]
  return `?${parameters.join("&")}`
}

/**
 * Starts downloading a complete list as a file. Returns its bytes and the number of its rows, as text. The byte stream
 * fails if the response is truncated. `arrow` is the arrow for error messages: `→`, or `->` on an ASCII-only terminal.
 */
export const openExportDownload = Effect.fnUntraced(function* (request: QueryCommandRequest, format: ExportFormat) {
  const { arrow, path, search } = request
  const { openFile } = yield* makeSingleAttemptSender(request)
  const { body, headers, metadata } = yield* Effect.mapError(
    openFile(path, addExportParameters(search, format), format),
    (error) => makeNoResponseError(request, error),
  )
  // A body that is a string is not a file, but an error response.
  if (typeof body === "string") {
    const { retry_after_seconds: retryAfterSeconds, status } = metadata
    return yield* makeQueryErrorFromResponse({ status, text: body, retryAfterSeconds }, arrow)
  }
  const bytes = Stream.mapError(
    body,
    () => new CommandFailed({ message: "The response was cut off, so the file is not complete. Try again." }),
  )
  return { bytes, rows: headers["x-row-count"] }
})

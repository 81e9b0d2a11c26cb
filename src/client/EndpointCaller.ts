/**
 * Calls endpoints: sends requests, retries them, and decodes the responses. The Effect client and the Promise client
 * share this module.
 */
import { Clock, Data, Duration, Effect, Redacted, Result, Stream } from "effect"
import { HttpClient, HttpClientError, HttpClientRequest, type HttpClientResponse } from "effect/http"
import { type ExportFormat, listContentTypes } from "../contract/rows/ListFormats.ts"
import { readLinkParameters } from "../contract/rules/LinkHeader.ts"
import { makeRequestId } from "../contract/rules/RequestIds.ts"
import { formatTextList } from "../contract/rules/CommaSeparatedLists.ts"
import { InvalidOptions, NoAnswer, UnreadableAnswer } from "./ClientErrors.ts"
import type { AnyQuery, QueryValue, ResultPage } from "./EndpointTypes.ts"
import type { EndpointDecoder, RawResponse } from "./ResponseDecoder.ts"
import { type DeprecationNotice, readResponseMetadata, type ResponseMetadata } from "./ResponseMetadata.ts"
import { makeRetryPolicy, type RetryOptions, toRequestAttemptResult } from "./RetryPolicy.ts"

/** The version number in `clients/typescript/package.json`. */
export const clientVersion = "1.0.0"

/** The options for a client that uses Effect. */
export interface ClientOptions {
  /** The service's URL, such as `https://api.example.com`, optionally with a path prefix before `/v1`. */
  readonly baseUrl: string | URL
  /** The API key, sent as `Authorization: Bearer`. Not needed for endpoints that require no key. */
  readonly apiKey?: Redacted.Redacted | undefined
  readonly retries?: RetryOptions | undefined
  /**
   * The maximum duration of a single attempt. Default: 1 minute. Once started, downloads and event streams may take
   * longer.
   */
  readonly timeout?: Duration.Input | undefined
  /** Identifies your program. It is placed before the client's own name in `User-Agent`. Browsers ignore it. */
  readonly userAgent?: string | undefined
  /** Additional headers to send with every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /**
   * Called after the final response of every call, including error responses, for example to add up costs. The call
   * waits for the callback to finish.
   */
  readonly onResponse?: ((path: string, metadata: ResponseMetadata) => Effect.Effect<void>) | undefined
  /** Called once for each deprecated endpoint that is used (§9.4, deprecation). By default, logs a warning. */
  readonly onDeprecated?: ((path: string, deprecated: DeprecationNotice) => Effect.Effect<void>) | undefined
}

/** Checks the option `baseUrl`, and returns it without trailing slashes. */
const parseBaseUrl = (address: string | URL) => {
  const url = URL.canParse(String(address)) ? new URL(address) : undefined
  return url !== undefined && /^https?:$/.test(url.protocol) && url.search === "" && url.hash === ""
    ? Effect.succeed(url.href.replace(/\/+$/, ""))
    : Effect.fail(
      new InvalidOptions({ message: "baseUrl must be a URL such as https://api.example.com, without a query" }),
    )
}

/**
 * Matches a valid header value, which must be printable ASCII. A line break could inject another header. For any other
 * character, `fetch` would include the value in its error message, which could expose a key.
 */
const headerValue = /^[\x20-\x7e]*$/

/**
 * Returns the headers sent with every request: those from the options, the API key and the user agent. Fails with
 * `InvalidOptions` if a value is not allowed in a header.
 */
const makeHeaders = ({ apiKey, headers = {}, userAgent }: ClientOptions) => {
  const key = apiKey === undefined ? undefined : Redacted.value(apiKey).trim()
  if (key !== undefined && !/^[\x21-\x7e]+$/.test(key)) {
    return Effect.fail(new InvalidOptions({ message: "apiKey must not be empty or contain spaces" }))
  }
  const invalid = Object.entries({ ...headers, userAgent: userAgent ?? "" }).find(([, value]) =>
    !headerValue.test(value)
  )
  if (invalid !== undefined) {
    return Effect.fail(new InvalidOptions({ message: `${invalid[0]} must contain only printable ASCII characters` }))
  }
  return Effect.succeed({
    Accept: "application/json",
    ...headers,
    "User-Agent": `${userAgent === undefined ? "" : `${userAgent} `}tickerline-client/${clientVersion}`,
    ...(key === undefined ? {} : { Authorization: `Bearer ${key}` }),
  })
}

/**
 * Encodes parameter values without validating them. The service validates them and responds with a `ValidationError`
 * (D11, error body).
 */
const encodeQuery = (query: AnyQuery) => {
  const encode = (value: Exclude<QueryValue, undefined>) => Array.isArray(value) ? formatTextList(value) : String(value)
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value !== undefined) search.set(name, encode(value))
  return search.size === 0 ? "" : `?${search}`
}

/** The reason why one attempt to send a request received no complete response. */
class AttemptFailure extends Data.TaggedError("AttemptFailure")<Pick<NoAnswer, "cause" | "reason">> {}

const getCause = ({ reason }: HttpClientError.HttpClientError) => "cause" in reason ? reason.cause : reason.description

/** The bytes of a file as they are received. */
export type FileBytes = Stream.Stream<Uint8Array, NoAnswer>

/** Reads the body of a response. */
type ReadBody<Body> = (
  response: HttpClientResponse.HttpClientResponse,
) => Effect.Effect<Body, HttpClientError.HttpClientError>

const eventStreamType = "text/event-stream"

/** Returns the media type in a `Content-Type` header without its parameters, such as `text/csv`. */
const getMediaType = (contentType: string | undefined) => contentType?.split(";")[0]?.trim().toLowerCase()

/** Checks whether a downloaded file is complete. */
interface FileEndChecker {
  /** Takes the next bytes of the file. */
  readonly add: (chunk: Uint8Array) => void
  /**
   * Returns whether the bytes added so far may be a complete file. `rows` is the number of rows that a response header
   * announced, or null if it is unknown. CSV and NDJSON files must have exactly this number.
   */
  readonly hasEnd: (rows: number | null) => boolean
}

/** The four bytes at the end of every Parquet file. */
const parquetEnd = "PAR1"

/** Checks whether a Parquet file ends with `PAR1`. */
const makeParquetEndChecker = (): FileEndChecker => {
  let end = ""
  return {
    add: (chunk) => {
      // Keeps the last four bytes, which may be spread over several short chunks.
      end = (end + String.fromCharCode(...chunk.slice(-parquetEnd.length))).slice(-parquetEnd.length)
    },
    hasEnd: () => end === parquetEnd,
  }
}

/** The codes of a line break and of a double quote in ASCII. */
const [newline, quote] = [10, 34]

/**
 * Counts the lines of a CSV or NDJSON file. The file is complete if it ends with a line break and has the announced
 * number of rows. In CSV, the first line is the header, and a line break within quotes belongs to a cell.
 */
const makeLineEndChecker = (isCsv: boolean): FileEndChecker => {
  let lines = 0
  // A doubled quote, which stands for a quote within a cell, changes this twice and so has no effect.
  let isQuoted = false
  // An empty file, such as NDJSON without rows, is complete.
  let lastByte = newline
  return {
    add: (chunk) => {
      for (const code of chunk) {
        if (code === quote && isCsv) isQuoted = !isQuoted
        else if (code === newline && !isQuoted) lines += 1
      }
      lastByte = chunk.at(-1) ?? lastByte
    },
    hasEnd: (rows) => {
      const rowsReceived = isCsv ? lines - 1 : lines
      return lastByte === newline && !isQuoted && (rows === null || rows === rowsReceived)
    },
  }
}

/**
 * Returns the byte stream of a file, but makes it fail at its end if the file is incomplete. HTTP alone does not always
 * reveal this: a proxy may hide that the response was aborted. `rows` is the announced number of rows, and `makeError`
 * creates the error.
 */
const checkEnd = (bytes: FileBytes, format: ExportFormat, rows: number | null, makeError: () => NoAnswer): FileBytes =>
  Stream.suspend(() => {
    const checker = format === "parquet" ? makeParquetEndChecker() : makeLineEndChecker(format === "csv")
    const counted = Stream.map(bytes, (chunk) => {
      checker.add(chunk)
      return chunk
    })
    const check = Effect.suspend(() => checker.hasEnd(rows) ? Effect.void : Effect.fail(makeError()))
    return Stream.concat(counted, Stream.fromEffectDrain(check))
  })

/** Parses `X-Row-Count`, the number of rows that a file has. */
const parseRowCount = (header: string | undefined) => header === undefined ? null : Number(header)

/**
 * Returns a function that reads the body of a response. If the status is 200 and the media type is `type`, the result
 * is a byte stream. Otherwise, it is the whole body as a string, which usually contains an error.
 */
const readBytesOf =
  (type: string | undefined): ReadBody<HttpClientResponse.HttpClientResponse["stream"] | string> => (response) =>
    response.status === 200 && getMediaType(response.headers["content-type"]) === type
      ? Effect.succeed(response.stream)
      : response.text

/** Returns a function that creates the error for a request that received no complete response within `timeout`. */
const makeNoAnswerFactory =
  (timeout: Duration.Input) =>
  ({ cause, reason }: Pick<NoAnswer, "cause" | "reason">, path: string, request_id: string, attempts: number) => {
    const problem = reason === "timeout"
      ? `took longer than ${Duration.format(Duration.fromInputUnsafe(timeout))}`
      : "got no response: the connection failed or was lost"
    const suffix = attempts === 1 ? "" : ` (${attempts} attempts)`
    return new NoAnswer({ message: `${path} ${problem}${suffix}`, reason, request_id, attempts, cause })
  }

/**
 * Returns functions that send GET requests to the service: `send` for a response as text, `openFile` for a file as a
 * byte stream, and `openEvents` for an event stream. The first two retry failed requests according to `retryPolicy`,
 * which is also returned; callers of `openEvents` reconnect on their own. A query is either an object or a raw query
 * string that starts with `?`. Fails with `InvalidOptions` if the options are invalid.
 */
export const makeRequestSender = Effect.fnUntraced(function* (options: ClientOptions) {
  const client = yield* HttpClient.HttpClient
  const baseUrl = yield* parseBaseUrl(options.baseUrl)
  const headers = yield* makeHeaders(options)
  const timeout = options.timeout ?? "1 minute"
  const retryPolicy = makeRetryPolicy(options.retries ?? {})
  const makeNoAnswer = makeNoAnswerFactory(timeout)

  /**
   * Sends a request once and reads the body with `read`, within the timeout. Returns a `Result`: the response and the
   * body, or why no complete response arrived. If `read` returns a stream, the timeout only applies until it starts.
   */
  const attempt = <Body>(url: string, sentHeaders: Readonly<Record<string, string>>, read: ReadBody<Body>) =>
    client.execute(HttpClientRequest.get(url, { headers: { ...headers, ...sentHeaders } })).pipe(
      Effect.flatMap((response) => Effect.map(read(response), (body) => ({ response, body }))),
      Effect.mapError((error) => new AttemptFailure({ reason: "connection", cause: getCause(error) })),
      Effect.timeoutOrElse({
        duration: timeout,
        orElse: () => new AttemptFailure({ reason: "timeout", cause: undefined }),
      }),
      Effect.result,
    )

  /**
   * Sends a request once, with a new request id. Returns the body, the response headers and the metadata in them. Fails
   * with `NoAnswer` if no complete response arrived. `attempts` is the number of this attempt.
   */
  const sendOnce = Effect.fnUntraced(function* <Body>(
    path: string,
    query: AnyQuery | string,
    read: ReadBody<Body>,
    attempts: number,
    sentHeaders: Readonly<Record<string, string>> = {},
  ) {
    const url = `${baseUrl}${path}${typeof query === "string" ? query : encodeQuery(query)}`
    const sentRequestId = makeRequestId()
    const result = yield* attempt(url, { ...sentHeaders, "X-Request-Id": sentRequestId }, read)
    if (Result.isFailure(result)) return yield* makeNoAnswer(result.failure, path, sentRequestId, attempts)
    const now = yield* Clock.currentTimeMillis
    const { body, response: { headers, status } } = result.success
    return { body, headers, metadata: readResponseMetadata({ status, headers, attempts, now, sentRequestId }) }
  })

  /** Sends a request until a final response arrives or no further retry is allowed. */
  const sendAndRead = Effect.fnUntraced(function* <Body>(path: string, query: AnyQuery | string, read: ReadBody<Body>) {
    for (let attempts = 1;; attempts += 1) {
      const result = yield* Effect.result(sendOnce(path, query, read, attempts))
      const delay = yield* retryPolicy.delayBeforeRetry(toRequestAttemptResult(result), attempts)
      if (delay === undefined) return yield* Effect.fromResult(result)
      yield* Effect.sleep(delay)
    }
  })

  /** Sends a request with retries and returns the response body as a string. */
  const send = (path: string, query: AnyQuery | string): Effect.Effect<RawResponse, NoAnswer> =>
    Effect.map(
      sendAndRead(path, query, (response) => response.text),
      ({ body, ...response }) => ({ ...response, text: body }),
    )

  /** Like `send`, but returns a file as a byte stream. `format` must equal the query's `format`. */
  const openFile = Effect.fnUntraced(function* (path: string, query: AnyQuery | string, format: ExportFormat) {
    const read = readBytesOf(getMediaType(listContentTypes[format]))
    const { body, ...response } = yield* sendAndRead(path, query, read)
    if (typeof body === "string") return { ...response, body }
    const { attempts, request_id } = response.metadata
    const toNoAnswer = (cause: unknown) => makeNoAnswer({ reason: "connection", cause }, path, request_id, attempts)
    const bytes = Stream.mapError(body, (error) => toNoAnswer(getCause(error)))
    const rows = parseRowCount(response.headers["x-row-count"])
    return { ...response, body: checkEnd(bytes, format, rows, () => toNoAnswer(undefined)) }
  })

  /** Sends a request once and returns the event stream as a byte stream. */
  const openEvents = (path: string, query: AnyQuery) =>
    sendOnce(path, query, readBytesOf(eventStreamType), 1, { Accept: `${eventStreamType}, application/json` })

  return { send, openFile, openEvents, retryPolicy }
})

/** A complete list, downloaded as a file. */
export interface DownloadedFile {
  /** The number of rows, or null if the response does not state it. */
  readonly rows: number | null
  readonly bytes: FileBytes
}

const isExportFormat = (format: QueryValue): format is ExportFormat =>
  format === "csv" || format === "ndjson" || format === "parquet"

/** Returns the warning to print when a deprecated endpoint is first called. */
export const formatDeprecationWarning = (path: string, { documentation, successor, sunset }: DeprecationNotice) =>
  [
    `${path} is deprecated${sunset === null ? "" : ` and may stop responding after ${sunset}`}.`,
    ...(successor === null ? [] : [`Use ${successor}`]),
    ...(documentation === null ? [] : [`See ${documentation}`]),
  ].join(" ")

/**
 * Returns the functions on which all methods of the clients are based: `call` for JSON, `openFile` for exports and
 * `openEvents` for the event stream. They send requests as described at `makeRequestSender`, and report each response
 * to the callbacks in `ClientOptions`. `call` and `openFile` also decode the response.
 */
export const makeEndpointCaller = Effect.fnUntraced(function* (options: ClientOptions) {
  const { openEvents, openFile, retryPolicy, send } = yield* makeRequestSender(options)
  const {
    onResponse = () => Effect.void,
    onDeprecated = (path, deprecated) => Effect.logWarning(formatDeprecationWarning(path, deprecated)),
  } = options
  const reported = new Set<string>()
  /** Reports each deprecated endpoint once per client. */
  const reportDeprecation = (path: string, { deprecated }: ResponseMetadata) =>
    Effect.suspend(() => {
      if (deprecated === null || reported.has(path)) return Effect.void
      reported.add(path)
      return onDeprecated(path, deprecated)
    })
  const report = (path: string, metadata: ResponseMetadata) =>
    Effect.andThen(reportDeprecation(path, metadata), onResponse(path, metadata))

  /** Calls an endpoint. `result` is either the decoded body or the decoded error. */
  const call = Effect.fnUntraced(function* ({ decode, path }: EndpointDecoder, query: AnyQuery) {
    const response = yield* send(path, query)
    yield* report(path, response.metadata)
    return { result: yield* Effect.result(decode(response)), metadata: response.metadata }
  })

  /** Downloads a list. `result` is either the file or the decoded error. */
  const callForFile = Effect.fnUntraced(function* ({ decode, path }: EndpointDecoder, query: AnyQuery) {
    const format = isExportFormat(query["format"]) ? query["format"] : "parquet"
    const { body, headers, metadata } = yield* openFile(path, { ...query, format, limit: "all" }, format)
    yield* report(path, metadata)
    if (typeof body !== "string") {
      const file: DownloadedFile = { rows: parseRowCount(headers["x-row-count"]), bytes: body }
      return { result: Result.succeed(file), metadata }
    }
    // The body is text, so it is not the requested file. Decoding fails with the error that it contains. If the
    // response is not an error but, for example, a login page with status 200, the result is `UnreadableAnswer`.
    const { request_id, status } = metadata
    const message = `${path} returned no ${format} file. Does baseUrl point to Tickerline?`
    const unreadable = new UnreadableAnswer({ message, status, request_id, body: body.slice(0, 1000) })
    const failure = Effect.andThen(decode({ text: body, headers, metadata }), Effect.fail(unreadable))
    return { result: yield* Effect.result(failure), metadata }
  })

  return {
    call,
    openEvents: (path: string, query: AnyQuery) =>
      Effect.tap(openEvents(path, query), ({ metadata }) => report(path, metadata)),
    openFile: callForFile,
    retryPolicy,
  }
})

/** The functions returned by `makeEndpointCaller`. */
export type EndpointCaller = Effect.Success<ReturnType<typeof makeEndpointCaller>>

/** The response to a request for events: the event stream as bytes, or any other response as a string. */
export type EventsResponse = Effect.Success<ReturnType<EndpointCaller["openEvents"]>>

/** Returns whether a response body is a page of a list. */
export const isResultPage = (body: unknown): body is ResultPage =>
  typeof body === "object" && body !== null && "has_more" in body && "page" in body

/**
 * Returns the query for the next page, or undefined after the last page. `query` is the query for the current page,
 * `body` its body, and the third argument contains two of its headers: `as_of` is the time that the data reflects, and
 * `next_page` is the link to the next page. If the query has `as_of=now`, the next query has that exact time instead,
 * so that all pages reflect the same time. If the link contains the parameter `after`, the next query has it too.
 */
export const makeNextPageQuery = (
  query: AnyQuery,
  body: unknown,
  { as_of, next_page }: Pick<ResponseMetadata, "as_of" | "next_page">,
): AnyQuery | undefined => {
  if (!isResultPage(body) || !body.has_more) return undefined
  return {
    ...query,
    ...(query["as_of"] === "now" && as_of !== null && { as_of }),
    // If there is no link, for example because a proxy removed it, the old `after` must be removed. Otherwise, the same
    // page would be requested again.
    after: readLinkParameters(next_page)?.get("after") ?? undefined,
    page: body.page + 1,
  }
}

/** Returns the rows on a page, or an empty array if the body is not a page. */
export const getRowsOfPage = (body: unknown): ReadonlyArray<unknown> => isResultPage(body) ? body.results : []

/**
 * Sends error responses to requests that Node.js cannot parse or that exceed a limit, and then closes the connection.
 */
import { Context, Metric, Predicate } from "effect"
import { METHODS, STATUS_CODES } from "node:http"
import type { Duplex } from "node:stream"
import { resolveRequestId } from "../contract/rules/RequestIds.ts"
import { mcpPath } from "./RequestTarget.ts"

/** Maximum size of the request line and the headers together. */
export const maxRequestHeadBytes = 16_384
/** Maximum size of a request body. */
export const maxRequestBodyBytes = 65_536
/** Maximum number of request headers. */
export const maxHeaderCount = 1000

/**
 * How many milliseconds the client has to read the error before the socket is destroyed. Without this delay, the error
 * could be lost.
 */
const closeDelayMillis = 1000

const formatKibibytes = (bytes: number) => `${bytes / 1024} KiB`

/** The messages of responses to requests that Node.js rejects, by status. */
export const protocolErrorMessages = {
  400: "The request is not valid HTTP.",
  408: "The request did not arrive in time. Send it without pauses.",
  413:
    `The request body exceeds ${
      formatKibibytes(maxRequestBodyBytes)
    }. Only POST ${mcpPath} reads a body; send any other ` +
    "request without one.",
  431: `The URL and the headers exceed ${formatKibibytes(maxRequestHeadBytes)} together, or there are more than ` +
    `${maxHeaderCount} headers. Send a shorter request.`,
}

type ProtocolErrorStatus = keyof typeof protocolErrorMessages

/** What is known about a request that is rejected with a protocol error. The request may be incomplete. */
export interface PartialRequest {
  readonly method: string
  readonly target: string
  /** The value of `X-Request-Id`. */
  readonly requestId: string | undefined
}

/**
 * The reason for rejecting a request: one of the statuses in `protocolErrorMessages`, or `unknown method` for a method
 * that Node.js does not know.
 */
export interface ProtocolRejection {
  readonly status: ProtocolErrorStatus | "unknown method"
  readonly request: PartialRequest | undefined
}

/** The error response to a rejected request. */
export interface ProtocolError {
  readonly status: number
  readonly code: string
  readonly message: string
  /** Headers that depend on the path or the status. */
  readonly headers: Readonly<Record<string, string>>
}

/**
 * Matches a request line. Accepts any HTTP version, even an invalid one, so that the error can still announce the
 * deprecation of the path.
 */
const requestLine = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+) (\/\S*|https?:\S+|\*)(?: (.*))?$/i

const isSupportedVersion = (version: string) => /^HTTP\/1\.[01]$/.test(version)

/**
 * Returns the position at which the parser found an error, counted in bytes from the start of the packets received.
 * `receivedBytes` is their total size.
 */
const getErrorPosition = (error: NodeJS.ErrnoException, receivedBytes: number) => {
  // The parser reports how many bytes of the last packet it had parsed before the error. A timeout does not report a
  // packet: everything was parsed.
  const lastPacket = Predicate.hasProperty(error, "rawPacket") ? error.rawPacket : undefined
  const parsedBytes = Predicate.hasProperty(error, "bytesParsed") ? Number(error.bytesParsed) : 0
  return Buffer.isBuffer(lastPacket) ? receivedBytes - lastPacket.length + parsedBytes : receivedBytes
}

/**
 * Finds the method, the target and the request id of a request that Node.js could not parse. `received` contains the
 * last packets received on the connection, which may begin with earlier requests. Returns undefined if they do not
 * contain a plausible request line.
 */
const findPartialRequest = (error: NodeJS.ErrnoException, received: ReadonlyArray<Buffer>) => {
  // Latin-1 has one character per byte, so positions in the text are positions in the packets.
  const text = Buffer.concat(received).toString("latin1")
  const position = getErrorPosition(error, text.length)
  // Ignore everything after the line with the invalid byte. The parser checks the HTTP version only after the end of
  // the request line, so for that error the search has to start before the line end.
  const end = text.indexOf("\n", error.code === "HPE_INVALID_VERSION" ? position - 2 : position)
  const lines = text.slice(0, end < 0 ? text.length : end).split("\n").map((line) => line.replace(/\r$/, ""))
  // The request begins after the last empty line, which ends the previous request's head. The last line is excluded
  // from this search, because it is the one that the parser rejected.
  const firstIndex = lines.slice(0, -1).lastIndexOf("") + 1
  // Start with the last line that can be a request line.
  for (const [index, line] of Array.from(lines.entries()).slice(firstIndex).toReversed()) {
    const [, method = "", target = "", version = ""] = requestLine.exec(line) ?? []
    if (method === "" || !(METHODS.includes(method) || isSupportedVersion(version))) continue
    // The head ends with an empty line, and may continue after the invalid byte.
    const [head = ""] = text.slice(text.lastIndexOf(line, position)).split(/\r?\n\r?\n/, 1)
    const requestId = /^x-request-id:(.*)$/im.exec(head)?.[1]?.trim()
    const hasUnknownMethod = index === lines.length - 1 && !METHODS.includes(method)
    return { method, target, requestId, hasUnknownMethod }
  }
  return undefined
}

/** Parser error codes for an unknown method. Deno uses a single code, `HPE_ERROR`, for all errors. */
const methodErrorCodes = new Set(["HPE_INVALID_METHOD", "HPE_INVALID_CONSTANT", "HPE_INVALID_VERSION", "HPE_ERROR"])

/**
 * Returns why Node.js rejected a request, and what is known of it. `received` contains the last packets received on the
 * connection.
 */
export const makeProtocolRejection = (
  error: NodeJS.ErrnoException,
  received: ReadonlyArray<Buffer>,
): ProtocolRejection => {
  const { code = "" } = error
  const request = findPartialRequest(error, received)
  if (code === "HPE_HEADER_OVERFLOW") return { status: 431, request }
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return { status: 408, request }
  const hasUnknownMethod = request?.hasUnknownMethod === true && methodErrorCodes.has(code)
  return { status: hasUnknownMethod ? "unknown method" : 400, request }
}

const makeCounter = (status: string) =>
  Metric.counter("tickerline_http_refused_total", {
    description: "Requests refused before routing: too large, too slow or not valid HTTP.",
    attributes: { status },
    incremental: true,
  })

/** Counters of the errors sent, by status. 404 and 405 are sent if Node.js does not know the request's method. */
const counters = new Map(
  [...Object.keys(protocolErrorMessages), "404", "405"].map((status) => [Number(status), makeCounter(status)]),
)

/** Sends an error with the same headers and JSON format as all other errors (D14), and closes the connection. */
export const sendProtocolError = (
  socket: Duplex,
  { code, headers, message, status }: ProtocolError,
  requestId: string | undefined,
) => {
  if (!socket.writable) return socket.destroy()
  counters.get(status)?.updateUnsafe(1, Context.empty())
  const request_id = resolveRequestId(requestId)
  const body = JSON.stringify({ error: { code, message }, request_id })
  // Closes the connection even if the client does not, but leaves it time to read the error. `unref` keeps the timer
  // from delaying the end of the process.
  setTimeout(() => socket.destroy(), closeDelayMillis).unref()
  return socket.end([
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    "Connection: close",
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Cache-Control: no-store",
    "X-Content-Type-Options: nosniff",
    "X-API-Version: v1",
    `X-Request-Id: ${request_id}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    "",
    body,
  ].join("\r\n"))
}

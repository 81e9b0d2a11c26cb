/** Error responses to requests that Node cannot parse or that exceed a limit. The connection is then closed. */
import { Context, Metric, Predicate } from "effect"
import { METHODS, STATUS_CODES } from "node:http"
import type { Duplex } from "node:stream"
import { resolveRequestId } from "../contract/rules/RequestIds.ts"
import { mcpPath } from "./RequestTarget.ts"

/** Maximum size of the request line and the headers together. */
export const maxRequestHeadBytes = 16_384
export const maxRequestBodyBytes = 65_536
export const maxHeaderCount = 1000

/** Time that the client has to read the error. If the socket were destroyed at once, the error could be lost. */
const closeDelayMillis = 1000

const formatKibibytes = (bytes: number) => `${bytes / 1024} KiB`

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

/** Facts about a request that gets a protocol error. */
export interface PartialRequest {
  readonly method: string
  readonly target: string
  /** The value of `X-Request-Id`. */
  readonly requestId: string | undefined
}

/** The response to a request: one of the errors above, or the response to a method that Node cannot parse. */
export interface Rejection {
  readonly status: ProtocolErrorStatus | "unknown method"
  readonly request: PartialRequest | undefined
}

/** A response to a request that does not reach the application. */
export interface ProtocolError {
  readonly status: number
  readonly code: string
  readonly message: string
  /** The headers that depend on the path or the status. */
  readonly headers: Readonly<Record<string, string>>
}

/** A request line. A version that HTTP/1 does not have is no reason to forget the path. */
const requestLine = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+) (\/\S*|https?:\S+|\*)(?: (.*))?$/i

const isSupportedVersion = (version: string) => /^HTTP\/1\.[01]$/.test(version)

/** Finds the request in the last bytes that a connection has received, of which Node could not parse the last part. */
const findPartialRequest = (error: NodeJS.ErrnoException, received: ReadonlyArray<Buffer>) => {
  const text = Buffer.concat(received).toString("latin1")
  // The parser states the place of the error in the last packet. A request that is late has none.
  const packet = Predicate.hasProperty(error, "rawPacket") ? error.rawPacket : undefined
  const inPacket = Predicate.hasProperty(error, "bytesParsed") ? Number(error.bytesParsed) : 0
  const parsed = Buffer.isBuffer(packet) ? text.length - packet.length + inPacket : text.length
  // The line with the invalid byte is the last one. The parser checks the version after the end of the line.
  const end = text.indexOf("\n", error.code === "HPE_INVALID_VERSION" ? parsed - 2 : parsed)
  const lines = text.slice(0, end < 0 ? text.length : end).split("\n").map((line) => line.replace(/\r$/, ""))
  // An empty line ends the head of an earlier request, unless it is the one that the parser refused.
  const first = lines.slice(0, -1).lastIndexOf("") + 1
  for (const [index, line] of Array.from(lines.entries()).slice(first).toReversed()) {
    const [, method = "", target = "", version = ""] = requestLine.exec(line) ?? []
    if (method === "" || !(METHODS.includes(method) || isSupportedVersion(version))) continue
    const [head = ""] = text.slice(text.lastIndexOf(line, parsed)).split(/\r?\n\r?\n/, 1)
    const requestId = /^x-request-id:(.*)$/im.exec(head)?.[1]?.trim()
    const hasUnknownMethod = index === lines.length - 1 && !METHODS.includes(method)
    return { method, target, requestId, hasUnknownMethod }
  }
  return undefined
}

/** Codes of the parser for a method that it does not know, or does not accept in HTTP. Deno has one for all errors. */
const methodErrorCodes = new Set(["HPE_INVALID_METHOD", "HPE_INVALID_CONSTANT", "HPE_INVALID_VERSION", "HPE_ERROR"])

/** Returns what a request gets that Node cannot parse. `received`: the last bytes of the connection. */
export const getRejection = (error: NodeJS.ErrnoException, received: ReadonlyArray<Buffer>): Rejection => {
  const { code = "" } = error
  const request = findPartialRequest(error, received)
  const status = code === "HPE_HEADER_OVERFLOW"
    ? 431
    : code === "ERR_HTTP_REQUEST_TIMEOUT"
    ? 408
    : request?.hasUnknownMethod === true && methodErrorCodes.has(code)
    ? "unknown method"
    : 400
  return { status, request }
}

const makeCounter = (status: string) =>
  Metric.counter("tickerline_http_refused_total", {
    description: "Requests refused before routing: too large, too slow or not valid HTTP.",
    attributes: { status },
    incremental: true,
  })

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

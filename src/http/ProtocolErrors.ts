/** Error responses to requests that Node cannot parse or that exceed a limit. The connection is then closed. */
import { Context, Metric } from "effect"
import { SecureRandom } from "effect/crypto"
import { STATUS_CODES } from "node:http"
import type { Duplex } from "node:stream"
import { mcpPath } from "./RequestTarget.ts"

/** Maximum size of the request line and the headers together. */
export const maxRequestHeadBytes = 16_384
export const maxRequestBodyBytes = 65_536
export const maxHeaderCount = 1000

/** Time that the client has to read the error. If the socket were destroyed at once, the error could be lost. */
const closeDelayMillis = 1000

const formatKibibytes = (bytes: number) => `${bytes / 1024} KiB`

export const protocolErrorMessages: Readonly<Record<number, string>> = {
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

export const getHttpParserErrorStatus = ({ code }: NodeJS.ErrnoException) =>
  code === "HPE_HEADER_OVERFLOW" ? 431 : code === "ERR_HTTP_REQUEST_TIMEOUT" ? 408 : 400

const makeCounter = (status: string) =>
  Metric.counter("tickerline_http_refused_total", {
    description: "Requests refused before routing: too large, too slow or not valid HTTP.",
    attributes: { status },
    incremental: true,
  })

const counters = new Map(Object.keys(protocolErrorMessages).map((status) => [Number(status), makeCounter(status)]))

/** Sends an error with the same headers and JSON format as all other errors (D14), and closes the connection. */
export const sendProtocolError = (socket: Duplex, status: number) => {
  if (!socket.writable) return socket.destroy()
  counters.get(status)?.updateUnsafe(1, Context.empty())
  const request_id = SecureRandom.uuidV7Unsafe()
  const body = JSON.stringify({ error: { code: "bad_request", message: protocolErrorMessages[status] }, request_id })
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
    "",
    body,
  ].join("\r\n"))
}

/** What never becomes a request is refused in words, and its connection closed. */
import { Context, Metric } from "effect"
import { SecureRandom } from "effect/crypto"
import { STATUS_CODES } from "node:http"
import type { Duplex } from "node:stream"

/** The longest request line and headers together, and the longest body, in bytes. */
export const [mostHead, mostBody] = [16_384, 65_536]

/** Of headers without a value more would fit than anybody has. */
export const maxHeaderCount = 1000

/** Who is refused has so long to read why, in milliseconds. A socket that closed at once could take the words along. */
const farewell = 1000

const kibibytes = (bytes: number) => `${bytes / 1024} KiB`

/** Why, and what to do about it. */
const reasons: Readonly<Record<number, string>> = {
  400: "This is not an HTTP request that can be read.",
  408: "The request did not arrive in time. Send all of it at once.",
  413: `No endpoint reads a body, and this one is longer than ${kibibytes(mostBody)}. Send the request without it.`,
  431: `The address and the headers are longer than ${kibibytes(mostHead)} together, or more than ${maxHeaderCount}. ` +
    "Ask for less at once.",
}

export const getParserErrorStatus = ({ code }: NodeJS.ErrnoException) =>
  code === "HPE_HEADER_OVERFLOW" ? 431 : code === "ERR_HTTP_REQUEST_TIMEOUT" ? 408 : 400

const refused = (status: number) =>
  Metric.counter("tickerline_http_refused_total", {
    description: "What never became a request: too long, too slow, or not to be read.",
    attributes: { status: String(status) },
    incremental: true,
  })

const refusals = new Map(Object.keys(reasons).map((status) => [Number(status), refused(Number(status))]))

/** What never becomes a request still gets the headers and the body of an error (D14). */
export const sendProtocolError = (socket: Duplex, status: number) => {
  if (!socket.writable) return socket.destroy()
  refusals.get(status)?.updateUnsafe(1, Context.empty())
  const request_id = SecureRandom.uuidV7Unsafe()
  const body = JSON.stringify({ error: { code: "bad_request", message: reasons[status] }, request_id })
  setTimeout(() => socket.destroy(), farewell).unref()
  return socket.end([
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    "Connection: close",
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "X-Content-Type-Options: nosniff",
    "X-API-Version: v1",
    `X-Request-Id: ${request_id}`,
    "",
    body,
  ].join("\r\n"))
}

/**
 * Sends arbitrary bytes over a socket and parses the HTTP responses.
 *
 * ```ts
 * layer(RawSockets.socketServiceLayer(), { excludeTestServices: true })("The service", (it) => {
 *   it.effect("refuses a request without a path (D13)", () =>
 *     Effect.gen(function* () {
 *       const responses = yield* RawSockets.exchangeBytes(yield* RawSockets.ServicePort, "GET HTTP/1.1\r\n\r\n")
 *       RawSockets.assertSingleError(responses, 400)
 *     }))
 * })
 * ```
 */
import { assert } from "@effect/vitest"
import { Context, type Duration, Effect, Layer, Schedule } from "effect"
import { readFileSync } from "node:fs"
import { connect, type Socket } from "node:net"
import type { ConnectionTimeouts } from "../../src/api/ConnectionLimits.ts"
import { valueAt } from "./DocumentedEndpoints.ts"
import * as ServiceInstances from "./ServiceInstances.ts"
import { TestKeys } from "./Service.ts"

/** Provides the port of the service under test. */
export class ServicePort extends Context.Service<ServicePort, number>()("test/support/ServicePort") {}

/** Provides the service behind a socket and discards its log. */
export const socketServiceLayer = (timeouts?: ConnectionTimeouts, settings: Readonly<Record<string, string>> = {}) =>
  Layer.effect(
    ServicePort,
    ServiceInstances.startServiceInstance(settings, undefined, timeouts === undefined ? {} : { timeouts }),
  )
    .pipe(
      Layer.provideMerge(ServiceInstances.databaseWithKeysLayer),
    )

/** Asserts that the service still responds to other clients with data from the database. */
export const assertServiceResponds = Effect.gen(function* () {
  const { pro } = yield* TestKeys
  assert.strictEqual((yield* ServiceInstances.requestOverWire(yield* ServicePort, "/v1/screener", pro)).status, 200)
})

/** Formats a GET request with `Connection: close`. The target is sent byte for byte. */
export const formatGetRequest = (key: string, target: string, more = "") =>
  `GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-API-Key: ${key}\r\n${more}\r\n`

/** The start of a request. The caller appends headers and the empty line. */
export const livenessRequestHead = "GET /health/live HTTP/1.1\r\nHost: x\r\n"

/** A response parsed from the bytes on a socket. */
export interface ParsedResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
}

/** A time limit for waits that might otherwise never end. */
const responseTimeout = "30 seconds"

const parseHeaders = (lines: ReadonlyArray<string>): ParsedResponse["headers"] =>
  Object.fromEntries(lines.map((line) => {
    const colon = line.indexOf(":")
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
  }))

/** Decodes a chunked body. Returns the body and the bytes that follow it, or undefined if the body is incomplete. */
const decodeChunks = (bytes: Buffer): readonly [body: Buffer, rest: Buffer] | undefined => {
  const end = bytes.indexOf("\r\n")
  const size = Number.parseInt(bytes.subarray(0, end).toString("latin1"), 16)
  if (end < 0 || !(bytes.length >= end + 2 + size + 2)) return undefined
  const rest = bytes.subarray(end + 2 + size + 2)
  const more = size === 0 ? [Buffer.alloc(0), rest] as const : decodeChunks(rest)
  return more && [Buffer.concat([bytes.subarray(end + 2, end + 2 + size), more[0]]), more[1]]
}

/**
 * Parses the responses that a connection has received, one after the other. Leaves out interim responses such as
 * `100 Continue`, and the last response if its headers or its body are not complete yet.
 */
export const parseResponses = (bytes: Buffer): ReadonlyArray<ParsedResponse> => {
  const end = bytes.indexOf("\r\n\r\n")
  if (end < 0) return []
  const [start = "", ...lines] = bytes.subarray(0, end).toString("latin1").split("\r\n")
  assert.match(start, /^HTTP\/1\.1 \d{3} /)
  const status = Number(start.slice(9, 12))
  const headers = parseHeaders(lines)
  const after = bytes.subarray(end + 4)
  if (status < 200) return parseResponses(after)
  const length = Number(headers["content-length"] ?? 0)
  // The body and the bytes of the next responses, or undefined if the body is not complete.
  const unchunked = after.length < length ? undefined : [after.subarray(0, length), after.subarray(length)] as const
  const split = headers["transfer-encoding"] === "chunked" ? decodeChunks(after) : unchunked
  if (split === undefined) return []
  const [body, rest] = split
  const text = ServiceInstances.decompressBody(headers["content-encoding"], body).toString("utf8")
  return [{ status, headers, text }, ...parseResponses(rest)]
}

/** An open connection with the bytes received so far. */
export interface RawConnection {
  readonly socket: Socket
  readonly received: () => Buffer
  /** Completes when the service has closed its side or the whole connection. */
  readonly ended: Effect.Effect<void>
}

/**
 * Opens a connection whose client side stays open until the scope closes, even if the server has closed its side.
 * Returns the socket, a function that returns all bytes received so far, and `ended`, which completes when the server
 * has closed the connection, and dies if it does not within `responseTimeout`.
 */
export const openConnection = (port: number) =>
  Effect.acquireRelease(
    Effect.sync((): RawConnection => {
      const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true })
      const chunks: Array<Buffer> = []
      let isEnded = false
      const waiting: Array<() => void> = []
      const end = () => {
        isEnded = true
        waiting.splice(0).forEach((resume) => resume())
      }
      socket.on("data", (chunk) => chunks.push(chunk))
      // The service may close a rejected connection while the client is still sending, which causes an error here.
      socket.on("error", end).on("end", end).on("close", end)
      const ended = Effect.callback<void>((resume) => {
        if (isEnded) resume(Effect.void)
        else waiting.push(() => resume(Effect.void))
      })
      return {
        socket,
        received: () => Buffer.concat(chunks),
        ended: Effect.orDie(Effect.timeout(ended, responseTimeout)),
      }
    }),
    ({ socket }) => Effect.sync(() => socket.destroy()),
  )

/** Sends bytes. Returns the responses received until the service closes the connection. */
export const exchangeBytes = (port: number, bytes: string | Uint8Array) =>
  Effect.scoped(Effect.gen(function* () {
    const { ended, received, socket } = yield* openConnection(port)
    socket.write(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes)
    yield* ended
    return parseResponses(received())
  }))

/** Waits until the condition is true. */
export const waitUntil = (condition: () => boolean, pause: Duration.Input = "20 millis") =>
  Effect.sync(condition).pipe(
    Effect.repeat({ until: (holds) => holds, schedule: Schedule.spaced(pause) }),
    Effect.timeout(responseTimeout),
    Effect.orDie,
  )

/** Returns whether this process still has the server side of a client's connection open (Linux only). */
export const isServerSocketOpen = (port: number, { localPort }: Socket) => {
  const hex = (number: number | undefined) => (number ?? 0).toString(16).toUpperCase().padStart(4, "0")
  const ends = [`0100007F:${hex(port)}`, `0100007F:${hex(localPort)}`]
  return readFileSync("/proc/net/tcp", "utf8").split("\n").map((line) => line.trim().split(/\s+/)).some((row) =>
    row[1] === ends[0] && row[2] === ends[1] && row[9] !== "0"
  )
}

/**
 * Waits until the service has closed its side. Checks infrequently, because listing sockets takes milliseconds on
 * Linux.
 */
export const waitUntilServerSocketCloses = (port: number, socket: Socket) =>
  waitUntil(() => !isServerSocketOpen(port, socket), "250 millis")

/** Details about the code, the SQL or the machine that no response may reveal. */
const internalDetails =
  /\bat \S+ \(|node_modules|\.ts:\d|HPE_|Parse Error|SqlError|PgError|syntax error|api_keys|node:internal/

/** Asserts that a response has the required headers and error format (§7.2, D11, D12, D14). */
export const assertResponseFormat = ({ headers, status, text }: ParsedResponse) => {
  assert.strictEqual(headers["x-api-version"], "v1", text)
  assert.match(String(headers["x-request-id"]), /^[A-Za-z0-9._-]{1,128}$/)
  // HTML pages are exempt, because their scripts may contain such text.
  if (headers["content-type"] !== "text/html") assert.notMatch(text, internalDetails)
  assert.notInclude(text, process.cwd())
  if (status < 400) return
  const body: unknown = JSON.parse(text)
  assert.match(String(valueAt(body, "error", "code")), /^[a-z_]+$/)
  assert.isNotEmpty(valueAt(body, "error", "message"))
  assert.strictEqual(valueAt(body, "request_id"), headers["x-request-id"])
}

/** Asserts that there is exactly one response, and that it is the given error. */
export const assertSingleError = (responses: ReadonlyArray<ParsedResponse>, status: number, code = "bad_request") => {
  const summary = responses.map((response) => `${response.status} ${response.text.slice(0, 300)}`).join("\n")
  assert.strictEqual(responses.length, 1, summary)
  for (const response of responses) {
    assertResponseFormat(response)
    assert.deepStrictEqual(
      [response.status, valueAt(JSON.parse(response.text), "error", "code")],
      [status, code],
      summary,
    )
    // An error response lists at most twenty reasons, so it stays small even if the request is large.
    assert.isBelow(response.text.length, 65_536)
  }
}

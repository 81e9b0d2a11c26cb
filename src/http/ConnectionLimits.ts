/**
 * The Node server with its limits: timeouts, sizes, and one response at a time per connection.
 * Node parses the requests; `ProtocolErrors.ts` responds to invalid ones.
 */
import { Duration } from "effect"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { Duplex } from "node:stream"
import {
  getRejection,
  maxHeaderCount,
  maxRequestBodyBytes,
  maxRequestHeadBytes,
  type PartialRequest,
  type ProtocolError,
  type Rejection,
  sendProtocolError,
} from "./ProtocolErrors.ts"
import { decodePath, mcpPath, normalizeRequestTarget } from "./RequestTarget.ts"

export interface ConnectionTimeouts {
  /** Maximum time until all headers of a request have arrived. */
  readonly headers: Duration.Duration
  /** Maximum time until the complete request has arrived. */
  readonly request: Duration.Duration
  /**
   * Maximum time until the client has received the response; more than twice as long as the slowest query takes.
   * Extended by the same time if the service is still writing and the client has received `minProgressBytes`.
   */
  readonly response: Duration.Duration
  /** Time from the beginning of a shutdown until the remaining connections are closed. */
  readonly shutdown: Duration.Duration
}

export const defaultConnectionTimeouts: ConnectionTimeouts = {
  headers: Duration.seconds(10),
  request: Duration.seconds(30),
  response: Duration.minutes(3),
  shutdown: Duration.seconds(20),
}

const minProgressBytes = 65_536

const endlessResponses = new WeakSet<object>()

/** Lets a response take any time, as long as the client keeps reading, even if the service writes very little. */
export const exemptFromResponseTimeout = (response: object) => {
  endlessResponses.add(response)
}

/** Maximum number of queued requests per connection. With more, the service pauses reading until some are done. */
const maxQueuedRequests = 32

/**
 * How long an idle connection stays open: longer than the 60 seconds of most load balancers, which could otherwise
 * reuse a connection that is being closed.
 */
export const keepAliveTimeout = Duration.seconds(75)

const hasBody = ({ headers }: IncomingMessage) =>
  headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined

/** Whether a proxy could have parsed the request differently, which risks request smuggling (RFC 9112). */
const isAmbiguous = ({ headers, httpVersion, rawHeaders }: IncomingMessage) => {
  let hostCount = 0
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]
    if (name?.length === 4 && name.toLowerCase() === "host") hostCount += 1
  }
  return hostCount > 1 || (httpVersion === "1.0" && headers["transfer-encoding"] !== undefined)
}

/** Whether the handler itself reads the body, up to `maxRequestBodyBytes`. */
const isBodyRead = ({ method, url = "/" }: IncomingMessage) => method === "POST" && decodePath(url) === mcpPath

/**
 * Discards the request body, unless the handler reads it, and calls `proceed`. Calls `rejectTooLong` if the body is
 * too long.
 */
const discardBody = (
  request: IncomingMessage,
  response: ServerResponse,
  proceed: () => void,
  rejectTooLong: () => void,
) => {
  const { "content-length": contentLength = "0", expect } = request.headers
  if (!hasBody(request)) return proceed()
  if (Number(contentLength) > maxRequestBodyBytes) return rejectTooLong()
  if (expect !== undefined) response.writeContinue()
  if (isBodyRead(request)) return proceed()
  let remaining = maxRequestBodyBytes
  request.on("data", ({ length }: Buffer) => {
    remaining -= length
    if (remaining < 0) rejectTooLong()
  })
  return request.once("end", proceed)
}

interface QueueEntry {
  readonly begin: () => void
  /** Undefined if the entry is a protocol error. */
  readonly request: IncomingMessage | undefined
}

interface Connection {
  /** Requests and protocol errors in order of arrival; the first one is in progress. */
  readonly queue: Array<QueueEntry>
  /** Limits the time of the response in progress. */
  readonly timer: NodeJS.Timeout
  /** The current or last response; undefined before the first request. */
  response: ServerResponse | undefined
}

const enqueue = (queue: Array<QueueEntry>, entry: QueueEntry) => {
  queue.push(entry)
  if (queue.length === 1) entry.begin()
}

const toPartialRequest = ({ headers, method = "", url = "" }: IncomingMessage): PartialRequest => {
  const id = headers["x-request-id"]
  return { method, target: url, requestId: typeof id === "string" ? id : undefined }
}

/** Creates a server that calls `handle` for each valid request, in order and one at a time per connection. */
export const makeHttpServer = (
  timeouts: ConnectionTimeouts,
  { describeError, handle }: {
    readonly handle: (request: IncomingMessage, response: ServerResponse) => void
    readonly describeError: (rejection: Rejection) => ProtocolError
  },
  /** Whether clients should use other connections from now on, because the service will end. */
  isEnding: () => boolean = () => false,
) => {
  const connections = new Map<Duplex, Connection>()
  let isShuttingDown = false

  const makeErrorEntry = (socket: Duplex, rejection: Rejection): QueueEntry => ({
    request: undefined,
    begin: () => sendProtocolError(socket, describeError(rejection), rejection.request?.requestId),
  })

  /** Queues a protocol error behind the earlier responses, in place of the request that could not be parsed. */
  const reject = (socket: Duplex, rejection: Rejection) => {
    const queue = connections.get(socket)?.queue ?? []
    const last = queue.at(-1)
    if (last !== undefined && last.request === undefined) return
    const incomplete = last?.request?.complete === false ? last.request : undefined
    if (incomplete !== undefined) queue.pop()
    const known = incomplete === undefined ? rejection : { ...rejection, request: toPartialRequest(incomplete) }
    enqueue(queue, makeErrorEntry(socket, known))
  }

  /** Handles a request once all earlier responses on its connection are complete. */
  const handleInOrder = (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request
    const connection = connections.get(socket)
    if (connection === undefined) return handle(request, response)
    const { queue, timer } = connection
    const beginNext = () => {
      queue.shift()
      if (queue.length < maxQueuedRequests && socket.isPaused()) socket.resume()
      if (socket.writable) queue[0]?.begin()
    }
    /** Sends an error instead of the response, and drops all later requests on the connection. */
    const rejectAndClose = (status: Rejection["status"]) => {
      if (queue[0] !== entry) return
      queue.length = 0
      enqueue(queue, makeErrorEntry(socket, { status, request: toPartialRequest(request) }))
    }
    const proceed = () => {
      if (queue[0] === entry) handle(request, response)
    }
    const entry: QueueEntry = {
      request,
      begin: () => {
        timer.refresh()
        connection.response = response
        if (request.rawHeaders.length > 2 * maxHeaderCount) return rejectAndClose(431)
        if (isAmbiguous(request) || !normalizeRequestTarget(request)) return rejectAndClose(400)
        // After an upgrade request, Node ignores any further bytes, so the connection must be closed.
        if (isShuttingDown || isEnding() || request.headers.upgrade !== undefined) response.shouldKeepAlive = false
        response.once("close", beginNext)
        return discardBody(request, response, proceed, () => rejectAndClose(413))
      },
    }
    enqueue(queue, entry)
    if (queue.length > maxQueuedRequests) socket.pause()
  }

  const server = createServer({
    // Node must accept a request without Host so that the middleware can respond with a 400 with all the usual headers.
    requireHostHeader: false,
    shouldUpgradeCallback: () => false,
    maxHeaderSize: maxRequestHeadBytes,
    headersTimeout: Duration.toMillis(timeouts.headers),
    requestTimeout: Duration.toMillis(timeouts.request),
    keepAliveTimeout: Duration.toMillis(keepAliveTimeout),
    connectionsCheckingInterval: Duration.toMillis(timeouts.headers) / 10,
  }, handleInOrder)
  // 0 means no limit. Deno would drop the headers above a limit, so `handleInOrder` rejects such a request instead.
  server.maxHeadersCount = 0
  server.on("checkContinue", handleInOrder)
  server.on("checkExpectation", handleInOrder)
  // Without a listener, Node closes the connection of a CONNECT request without responding.
  server.on("connect", (request, socket) => {
    reject(socket, { status: "unknown method", request: toPartialRequest(request) })
  })
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    if (error.code === "ECONNRESET") socket.destroy()
    else reject(socket, getRejection(error))
  })
  server.on("connection", (socket) => {
    const queue: Array<QueueEntry> = []
    let receivedBytes = 0
    /** Whether the response is still being written and the client has received enough of it since the last check. */
    const isProgressing = (response: ServerResponse | undefined) => {
      const before = receivedBytes
      receivedBytes = socket.bytesWritten - socket.writableLength
      if (response?.headersSent !== true || response.writableEnded) return false
      if (!endlessResponses.has(response)) return receivedBytes - before >= minProgressBytes
      return socket.writableLength === 0 || receivedBytes > before
    }
    const connection: Connection = {
      queue,
      response: undefined,
      timer: setTimeout(() => {
        // Node closes an idle connection after `keepAliveTimeout`.
        if (queue.length === 0 || isProgressing(connection.response)) connection.timer.refresh()
        else socket.destroy()
      }, Duration.toMillis(timeouts.response)),
    }
    const { timer } = connection
    connections.set(socket, connection)
    socket.once("close", () => {
      clearTimeout(timer)
      queue.length = 0
      connections.delete(socket)
    })
  })

  /**
   * Closes each connection after its current response, and the remaining ones after `timeouts.shutdown`.
   * Node's `server.close` closes only idle connections.
   */
  const closeConnections = () => {
    isShuttingDown = true
    for (const { response } of connections.values()) {
      if (response === undefined) continue
      if (response.headersSent) response.once("close", () => server.closeIdleConnections())
      else response.shouldKeepAlive = false
    }
    setTimeout(() => server.closeAllConnections(), Duration.toMillis(timeouts.shutdown)).unref()
  }
  return { server, closeConnections }
}

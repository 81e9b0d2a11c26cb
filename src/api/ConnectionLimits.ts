/**
 * Creates the Node.js HTTP server and enforces its limits: timeouts, sizes, and one response at a time per connection.
 * Node.js parses the requests. `ProtocolErrors.ts` responds to invalid ones.
 */
import { Duration, Predicate } from "effect"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { Socket } from "node:net"
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

/** Time limits for a connection to the HTTP server. */
export interface ConnectionTimeouts {
  /** Time limit for receiving all headers of a request. */
  readonly headers: Duration.Duration
  /** Time limit for receiving a complete request. */
  readonly request: Duration.Duration
  /**
   * Time limit for delivering a response to the client, more than twice as long as the slowest query takes. When it
   * ends, the client gets the same time again if the response is still being written and the client has received at
   * least `minProgressBytes` in that time.
   */
  readonly response: Duration.Duration
  /** Time from the start of a shutdown until the remaining requests are aborted and their connections closed. */
  readonly shutdown: Duration.Duration
}

/** Determines which request bodies the request's handler reads. All others are discarded as they arrive. */
export interface RequestBodies {
  readonly isRead: (request: IncomingMessage) => boolean
  readonly maxBytes: number
}

/** Time limits for the public API. */
export const defaultConnectionTimeouts: ConnectionTimeouts = {
  headers: Duration.seconds(10),
  request: Duration.seconds(30),
  response: Duration.minutes(3),
  shutdown: Duration.seconds(20),
}

/** A client that receives fewer bytes of a response than this within the response time limit is disconnected. */
const minProgressBytes = 65_536

/**
 * For how long after the start of a shutdown clients may complete request bodies that they are sending, in
 * milliseconds.
 */
const bodyDelayMillis = 1000

/** For how long responses may still be sent after a shutdown has aborted the remaining requests, in milliseconds. */
const lastResponsesMillis = 1000

const endlessResponses = new WeakSet<object>()

/**
 * Exempts an endless response from the response time limit. It may send very little data, provided that the client
 * keeps reading.
 */
export const exemptFromResponseTimeout = (response: object) => {
  endlessResponses.add(response)
}

/**
 * Maximum number of requests waiting on one connection, which a client can send without waiting for responses. When it
 * is exceeded, the service stops reading from the connection until some requests have been handled.
 */
const maxQueuedRequests = 32

/**
 * How long an idle connection stays open. This is longer than the 60 seconds used by most load balancers, which could
 * otherwise reuse a connection that is being closed.
 */
export const keepAliveTimeout = Duration.seconds(75)

const hasBody = ({ headers }: IncomingMessage) =>
  headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined

/**
 * Returns whether `node:http` supports the request's HTTP version. The Node.js parser also accepts 0.9 and 2.0,
 * although `node:http` does not support them.
 */
const hasSupportedVersion = ({ httpVersion }: IncomingMessage) => httpVersion === "1.1" || httpVersion === "1.0"

/** Returns whether a `Host` value contains only characters that are valid in a host and port (RFC 3986, 3.2.2). */
const isValidHost = (host = "") => /^[\w.~!$&'()*+,;=%:[\]-]*$/.test(host)

/**
 * Returns whether a proxy in front of the service could have interpreted the request differently, which would allow
 * request smuggling (RFC 9112, 11.2).
 */
const isAmbiguous = ({ headers, httpVersion, rawHeaders }: IncomingMessage) => {
  let hostCount = 0
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]
    if (name?.length === 4 && name.toLowerCase() === "host") hostCount += 1
  }
  return hostCount > 1 || !isValidHost(headers.host) ||
    (httpVersion === "1.0" && headers["transfer-encoding"] !== undefined)
}

/** The request bodies that the public API reads, which are messages to the MCP server. All others are discarded. */
const mcpBodies: RequestBodies = {
  isRead: ({ method, url = "/" }) => method === "POST" && decodePath(url) === mcpPath,
  maxBytes: maxRequestBodyBytes,
}

/**
 * Calls `proceed` once the request's body no longer stands in the way of the response. A body that the handler reads is
 * left to it, and any other body is first received and discarded. Calls `rejectTooLong` instead if the body is longer
 * than `bodies.maxBytes`.
 */
const receiveBody = (
  request: IncomingMessage,
  response: ServerResponse,
  bodies: RequestBodies,
  proceed: () => void,
  rejectTooLong: () => void,
) => {
  const { "content-length": contentLength = "0", expect } = request.headers
  if (!hasBody(request)) return proceed()
  // Refuse a body that announces its length without receiving it.
  if (Number(contentLength) > bodies.maxBytes) return rejectTooLong()
  // A client that sends `Expect: 100-continue` waits for this before it sends the body.
  if (expect !== undefined) response.writeContinue()
  // The handler checks the length itself while it reads.
  if (bodies.isRead(request)) return proceed()
  // A chunked body does not announce its length. The listener also makes Node.js read the body.
  let remaining = bodies.maxBytes
  request.on("data", ({ length }: Buffer) => {
    remaining -= length
    if (remaining < 0) rejectTooLong()
  })
  return request.once("end", proceed)
}

interface QueueEntry {
  readonly begin: () => void
  /** Undefined if the entry is a protocol error, which is sent instead of a response to a request. */
  readonly request: IncomingMessage | undefined
}

interface Connection {
  /** Requests and protocol errors in order of arrival. The first entry is the one being handled. */
  readonly queue: Array<QueueEntry>
  /** Closes the connection if the current response takes longer than the response time limit. */
  readonly timer: NodeJS.Timeout
  /** The current response, or the most recent one. Undefined before the first request. */
  response: ServerResponse | undefined
  readonly received: ReceivedPackets
}

/**
 * Makes Node.js and Deno pass every packet to the socket's listeners. By default, their parsers read directly from the
 * operating system, so the service could not see the start of an incomplete request, which contains its path. See
 * docs/decisions/0164-packets-of-incomplete-requests.md.
 */
const exposePackets = (socket: Duplex) => {
  const handle = Predicate.hasProperty(socket, "_handle") ? socket._handle : undefined
  if (Predicate.isObject(handle)) Object.assign(handle, { _consumed: true })
}

/**
 * When a connection has more stored packets than this, they are joined into one. A client could otherwise send every
 * byte as a separate packet, and each would take the memory of a buffer.
 */
const maxReceivedPackets = 64

/**
 * The most recent packets received on a connection. They contain at least the part of the current request head that has
 * arrived so far.
 */
class ReceivedPackets {
  packets: Array<Buffer> = []
  #bytes = 0

  /** Adds a packet, and removes packets that are too old to be part of the current request head. */
  add(packet: Buffer) {
    this.packets.push(packet)
    this.#bytes += packet.length
    for (let [first] = this.packets; first !== undefined; [first] = this.packets) {
      if (this.#bytes - first.length < maxRequestHeadBytes) break
      this.#bytes -= first.length
      this.packets.shift()
    }
    if (this.packets.length > maxReceivedPackets) this.packets = [Buffer.concat(this.packets)]
  }

  /**
   * Removes all but the last packet. Must be called when a request head has ended in that packet: the next head begins
   * in the same packet or in a later one.
   */
  keepLast() {
    const last = this.packets.at(-1)
    if (last === undefined || this.packets.length === 1) return
    this.packets.length = 0
    this.packets.push(last)
    this.#bytes = last.length
  }
}

/** Adds an entry to a connection's queue. Begins it immediately if the queue was empty. */
const enqueue = (queue: Array<QueueEntry>, entry: QueueEntry) => {
  queue.push(entry)
  if (queue.length === 1) entry.begin()
}

const toPartialRequest = ({ headers, method = "", url = "" }: IncomingMessage): PartialRequest => {
  const id = headers["x-request-id"]
  return { method, target: url, requestId: typeof id === "string" ? id : undefined }
}

/**
 * Tracks a new connection in `connections` until it closes. Closes the connection if a response takes longer than
 * `timeoutMillis`, unless the client is still receiving enough of the response.
 */
const trackConnection = (connections: Map<Duplex, Connection>, socket: Socket, timeoutMillis: number) => {
  const queue: Array<QueueEntry> = []
  let receivedBytes = 0
  /**
   * Returns whether the response is still being written and the client has received enough of it since the last call.
   * An endless response may send very little. For it, it is enough that the client has read everything sent, or has
   * read more since the last call.
   */
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
    received: new ReceivedPackets(),
    timer: setTimeout(() => {
      // Idle connections are closed by Node.js after `keepAliveTimeout`, not by this timer.
      if (queue.length === 0 || isProgressing(connection.response)) connection.timer.refresh()
      else socket.destroy()
    }, timeoutMillis),
  }
  const { received, timer } = connection
  connections.set(socket, connection)
  socket.prependListener("data", (packet: Buffer) => received.add(packet))
  socket.once("close", () => {
    clearTimeout(timer)
    queue.length = 0
    connections.delete(socket)
  })
}

/**
 * Creates the HTTP server, which calls `handle` for each valid request. Requests on the same connection are handled in
 * order and one at a time. `bodies` determines which request bodies `handle` reads. Returns the server, and a function
 * that shuts it down.
 */
export const makeHttpServer = (
  timeouts: ConnectionTimeouts,
  { describeError, endRequests, handle }: {
    readonly handle: (request: IncomingMessage, response: ServerResponse) => void
    /** Aborts the requests in progress. Requests whose response has not begun get an error response. */
    readonly endRequests?: () => void
    readonly describeError: (rejection: Rejection) => ProtocolError
  },
  /** Returns whether the service is about to shut down. Clients are then asked to use other connections. */
  isEnding: () => boolean = () => false,
  bodies = mcpBodies,
) => {
  const connections = new Map<Duplex, Connection>()
  let isShuttingDown = false

  const makeErrorEntry = (socket: Duplex, rejection: Rejection): QueueEntry => ({
    request: undefined,
    begin: () => sendProtocolError(socket, describeError(rejection), rejection.request?.requestId),
  })

  /**
   * Queues a protocol error, which is sent after the responses to earlier requests on the connection, in place of a
   * response to the request that could not be parsed.
   */
  const reject = (socket: Duplex, rejection: Rejection) => {
    const queue = connections.get(socket)?.queue ?? []
    const last = queue.at(-1)
    // Only one error is sent per connection, because it closes the connection.
    if (last !== undefined && last.request === undefined) return
    // If the error is in the body of the last request, it replaces the response to that request.
    const incomplete = last?.request?.complete === false ? last.request : undefined
    if (incomplete !== undefined) queue.pop()
    const known = incomplete === undefined ? rejection : { ...rejection, request: toPartialRequest(incomplete) }
    enqueue(queue, makeErrorEntry(socket, known))
  }

  /** Closes a connection during a shutdown, unless a complete request on it is still waiting for its response. */
  const closeUnlessBusy = (socket: Duplex, { queue }: Connection) => {
    if (!queue.some(({ request }) => request?.complete ?? true)) socket.end(() => socket.destroy())
  }

  /** Handles a request after all earlier responses on its connection have been completed. */
  const handleInOrder = (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request
    // A shutdown has closed the connection. Do not handle the request, because it would be charged without getting a
    // response.
    if (!socket.writable) return
    const connection = connections.get(socket)
    if (connection === undefined) return handle(request, response)
    const { queue, received, timer } = connection
    received.keepLast()
    const beginNext = () => {
      queue.shift()
      if (queue.length < maxQueuedRequests && socket.isPaused()) socket.resume()
      if (socket.writable) queue[0]?.begin()
      if (isShuttingDown) closeUnlessBusy(socket, connection)
    }
    /** Sends an error in place of this request's response, and discards all later requests on the connection. */
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
        if (!hasSupportedVersion(request) || isAmbiguous(request) || !normalizeRequestTarget(request)) {
          return rejectAndClose(400)
        }
        // After an upgrade request, Node.js ignores all further bytes, so the connection must be closed.
        if (isShuttingDown || isEnding() || request.headers.upgrade !== undefined) response.shouldKeepAlive = false
        response.once("close", beginNext)
        return receiveBody(request, response, bodies, proceed, () => rejectAndClose(413))
      },
    }
    enqueue(queue, entry)
    if (queue.length > maxQueuedRequests) socket.pause()
  }

  const server = createServer({
    // Node.js must accept requests without `Host`, so that the pipeline can respond with a 400 that has all the usual
    // headers.
    requireHostHeader: false,
    shouldUpgradeCallback: () => false,
    maxHeaderSize: maxRequestHeadBytes,
    headersTimeout: Duration.toMillis(timeouts.headers),
    requestTimeout: Duration.toMillis(timeouts.request),
    keepAliveTimeout: Duration.toMillis(keepAliveTimeout),
    connectionsCheckingInterval: Duration.toMillis(timeouts.headers) / 10,
  }, handleInOrder)
  // 0 means no limit. With a limit, Deno would silently drop excess headers. `handleInOrder` rejects such requests
  // instead.
  server.maxHeadersCount = 0
  server.on("checkContinue", handleInOrder)
  server.on("checkExpectation", handleInOrder)
  // Without this listener, Node.js would close the connection of a CONNECT request without responding.
  server.on("connect", (request, socket) => {
    reject(socket, { status: "unknown method", request: toPartialRequest(request) })
  })
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    if (error.code === "ECONNRESET") socket.destroy()
    else reject(socket, getRejection(error, connections.get(socket)?.received.packets ?? []))
  })
  // `exposePackets` must run before the listener that Node.js itself registered, which starts the parser.
  server.prependListener("connection", exposePackets)
  server.on("connection", (socket) => trackConnection(connections, socket, Duration.toMillis(timeouts.response)))

  /**
   * Shuts the server down. Each connection closes once all complete requests on it have been responded to. A request
   * body that is still arriving has `bodyDelayMillis` to be completed. After `timeouts.shutdown`, the remaining
   * requests are aborted and their connections closed.
   */
  const closeConnections = () => {
    isShuttingDown = true
    for (const [socket, connection] of connections) {
      const { queue, response } = connection
      if (queue.length === 0) closeUnlessBusy(socket, connection)
      else if (response?.headersSent === false) response.shouldKeepAlive = false
    }
    setTimeout(() => connections.forEach((connection, socket) => closeUnlessBusy(socket, connection)), bodyDelayMillis)
      .unref()
    setTimeout(() => {
      endRequests?.()
      setTimeout(() => server.closeAllConnections(), lastResponsesMillis).unref()
    }, Duration.toMillis(timeouts.shutdown)).unref()
  }
  return { server, closeConnections }
}

/**
 * Creates the Node.js HTTP server and enforces its limits: timeouts, sizes, and one response at a time per connection.
 * Node.js parses the requests. `ProtocolErrors.ts` responds to invalid ones.
 */
import { Duration, Predicate } from "effect"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { Socket } from "node:net"
import type { Duplex } from "node:stream"
import {
  makeProtocolRejection,
  maxHeaderCount,
  maxRequestBodyBytes,
  maxRequestHeadBytes,
  type PartialRequest,
  type ProtocolError,
  type ProtocolRejection,
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
   * Time limit for delivering a response to the client. It is more than twice as long as the slowest query takes. When
   * the limit is reached, the client gets the same time again if the response is still being written and the client has
   * received at least `minProgressBytes` since the limit was last set.
   */
  readonly response: Duration.Duration
  /** Time from the start of a shutdown until the remaining requests are aborted and their connections closed. */
  readonly shutdown: Duration.Duration
}

/** Determines which request bodies are read by the request's handler. All others are discarded as they arrive. */
export interface RequestBodyRules {
  readonly isRead: (request: IncomingMessage) => boolean
  /** Maximum size of a body, whether it is read or discarded. */
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
 * Time after the start of a shutdown in which clients may complete the request bodies that they are sending, in
 * milliseconds.
 */
const bodyDelayMillis = 1000

/** Time in which responses may still be sent after a shutdown has aborted the remaining requests, in milliseconds. */
const lastResponsesMillis = 1000

/** Responses that have no time limit, because they are endless streams. */
const endlessResponses = new WeakSet<object>()

/**
 * Exempts an endless response from the response time limit. It may send very little data, provided that the client
 * keeps reading.
 */
export const exemptFromResponseTimeout = (response: object) => {
  endlessResponses.add(response)
}

/**
 * Maximum number of requests that may wait on one connection. A client can send requests without waiting for the
 * responses to earlier ones (pipelining). When the maximum is exceeded, the service stops reading from the connection
 * until some requests have been handled.
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

/** The only request bodies that the public API reads: messages to the MCP server. All others are discarded. */
const mcpBodies: RequestBodyRules = {
  isRead: ({ method, url = "/" }) => method === "POST" && decodePath(url) === mcpPath,
  maxBytes: maxRequestBodyBytes,
}

/**
 * Calls `proceed` when the request can be handled: immediately if it has no body or if its handler reads the body, and
 * otherwise after the body has been received and discarded. Calls `rejectTooLong` instead if the body is longer than
 * `bodies.maxBytes`.
 */
const receiveBody = (
  request: IncomingMessage,
  response: ServerResponse,
  bodies: RequestBodyRules,
  proceed: () => void,
  rejectTooLong: () => void,
) => {
  const { "content-length": contentLength = "0", expect } = request.headers
  if (!hasBody(request)) return proceed()
  // Refuse a body whose announced length is too long before any of it is received.
  if (Number(contentLength) > bodies.maxBytes) return rejectTooLong()
  // A client that sends `Expect: 100-continue` waits for this before it sends the body.
  if (expect !== undefined) response.writeContinue()
  // While it reads a body of unknown length, the handler checks the length itself.
  if (bodies.isRead(request)) return proceed()
  // A chunked body does not announce its length. The listener also makes Node.js read the body.
  let remaining = bodies.maxBytes
  request.on("data", ({ length }: Buffer) => {
    remaining -= length
    if (remaining < 0) rejectTooLong()
  })
  return request.once("end", proceed)
}

/** A request or a protocol error in a connection's queue. */
interface QueueEntry {
  /** Handles the request or sends the error. Called when all earlier responses on the connection are complete. */
  readonly begin: () => void
  /** Undefined if the entry is a protocol error, which is sent instead of a response to a request. */
  readonly request: IncomingMessage | undefined
}

/** The state of an open connection. */
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
 * operating system, so the service could not see the start of an incomplete request, which contains its path. Both
 * runtimes do so only if the private property `_consumed` of the socket's handle is not set. See
 * docs/decisions/0164-packets-of-incomplete-requests.md.
 */
const exposePackets = (socket: Duplex) => {
  const handle = Predicate.hasProperty(socket, "_handle") ? socket._handle : undefined
  if (Predicate.isObject(handle)) Object.assign(handle, { _consumed: true })
}

/**
 * When more packets than this are stored for a connection, they are joined into one. A client could otherwise send
 * every byte as a separate packet, and each would take the memory of a buffer.
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

/** Selects the parts of a request on which its error response depends. */
const toPartialRequest = ({ headers, method = "", url = "" }: IncomingMessage): PartialRequest => {
  const id = headers["x-request-id"]
  return { method, target: url, requestId: typeof id === "string" ? id : undefined }
}

/**
 * Builds a function that returns whether the given response is still being written to the socket and the client has
 * received enough of it since the previous call. An endless response may send very little. For it, it is enough that
 * the client has read everything sent, or has read more since the previous call.
 */
const makeProgressCheck = (socket: Socket) => {
  let receivedBytes = 0
  return (response: ServerResponse | undefined) => {
    const receivedBefore = receivedBytes
    receivedBytes = socket.bytesWritten - socket.writableLength
    if (response?.headersSent !== true || response.writableEnded) return false
    if (!endlessResponses.has(response)) return receivedBytes - receivedBefore >= minProgressBytes
    return socket.writableLength === 0 || receivedBytes > receivedBefore
  }
}

/**
 * Tracks a new connection in `connections` until it closes. Closes the connection if a response takes longer than
 * `timeoutMillis`, unless the client is still receiving enough of the response.
 */
const trackConnection = (connections: Map<Duplex, Connection>, socket: Socket, timeoutMillis: number) => {
  const queue: Array<QueueEntry> = []
  const isProgressing = makeProgressCheck(socket)
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
  // Before the listener of Node.js, whose parser may call an error handler that needs the packet.
  socket.prependListener("data", (packet: Buffer) => received.add(packet))
  socket.once("close", () => {
    clearTimeout(timer)
    queue.length = 0
    connections.delete(socket)
  })
}

/** The service's functions that the HTTP server calls. */
interface ServerCallbacks {
  /** Handles a valid request. */
  readonly handle: (request: IncomingMessage, response: ServerResponse) => void
  /** Aborts the requests in progress. Requests whose response has not begun get an error response. */
  readonly endRequests?: () => void
  /** Returns the error response to a request that is invalid or exceeds a limit. */
  readonly describeError: (rejection: ProtocolRejection) => ProtocolError
}

/** A request in its connection's queue. */
class QueuedRequest implements QueueEntry {
  readonly request: IncomingMessage
  readonly #response: ServerResponse
  readonly #socket: Socket
  readonly #connection: Connection
  readonly #queues: ConnectionQueues

  constructor(request: IncomingMessage, response: ServerResponse, connection: Connection, queues: ConnectionQueues) {
    this.request = request
    this.#response = response
    this.#socket = request.socket
    this.#connection = connection
    this.#queues = queues
  }

  /** Checks the request, receives its body, and handles the request. */
  begin() {
    const { request } = this
    const response = this.#response
    this.#connection.timer.refresh()
    this.#connection.response = response
    // `rawHeaders` contains the name and the value of each header as separate elements.
    if (request.rawHeaders.length > 2 * maxHeaderCount) return this.#rejectAndClose(431)
    if (!hasSupportedVersion(request) || isAmbiguous(request) || !normalizeRequestTarget(request)) {
      return this.#rejectAndClose(400)
    }
    // After an upgrade request, Node.js ignores all further bytes, so the connection must be closed.
    if (this.#queues.isShuttingDown() || request.headers.upgrade !== undefined) response.shouldKeepAlive = false
    response.once("close", () => this.#queues.beginNext(this.#socket, this.#connection))
    const proceed = () => {
      if (this.#isCurrent()) this.#queues.callbacks.handle(request, response)
    }
    return receiveBody(request, response, this.#queues.bodies, proceed, () => this.#rejectAndClose(413))
  }

  /**
   * Returns whether the request is first in its queue. It leaves the queue when it is rejected or its connection
   * closes.
   */
  #isCurrent() {
    return this.#connection.queue[0] === this
  }

  /** Sends an error in place of this request's response, and discards all later requests on the connection. */
  #rejectAndClose(status: ProtocolRejection["status"]) {
    if (!this.#isCurrent()) return
    const { queue } = this.#connection
    queue.length = 0
    enqueue(queue, this.#queues.makeErrorEntry(this.#socket, { status, request: toPartialRequest(this.request) }))
  }
}

/**
 * The open connections of an HTTP server. Each has a queue, so that its requests are handled in order and one at a
 * time.
 */
class ConnectionQueues {
  readonly connections = new Map<Duplex, Connection>()
  readonly callbacks: ServerCallbacks
  readonly bodies: RequestBodyRules
  readonly #isEnding: () => boolean
  #hasShutdownBegun = false

  constructor(callbacks: ServerCallbacks, bodies: RequestBodyRules, isEnding: () => boolean) {
    this.callbacks = callbacks
    this.bodies = bodies
    this.#isEnding = isEnding
  }

  /** Returns whether a shutdown has begun or is about to begin. */
  isShuttingDown() {
    return this.#hasShutdownBegun || this.#isEnding()
  }

  /** Handles a request after all earlier responses on its connection have been completed. */
  handleInOrder(request: IncomingMessage, response: ServerResponse) {
    const { socket } = request
    // A shutdown has closed the connection. Do not handle the request, because it would be charged without getting a
    // response.
    if (!socket.writable) return
    const connection = this.connections.get(socket)
    if (connection === undefined) return this.callbacks.handle(request, response)
    const { queue, received } = connection
    received.keepLast()
    enqueue(queue, new QueuedRequest(request, response, connection, this))
    if (queue.length > maxQueuedRequests) socket.pause()
  }

  /** Removes the first entry of a connection's queue, whose response has been completed, and begins the next entry. */
  beginNext(socket: Socket, connection: Connection) {
    const { queue } = connection
    queue.shift()
    if (queue.length < maxQueuedRequests && socket.isPaused()) socket.resume()
    if (socket.writable) queue[0]?.begin()
    if (this.#hasShutdownBegun) this.#closeUnlessBusy(socket, connection)
  }

  /**
   * Queues a protocol error, which is sent after the responses to earlier requests on the connection, in place of a
   * response to the request that could not be parsed.
   */
  reject(socket: Duplex, rejection: ProtocolRejection) {
    const queue = this.connections.get(socket)?.queue ?? []
    const last = queue.at(-1)
    // Only one error is sent per connection, because it closes the connection.
    if (last !== undefined && last.request === undefined) return
    // If the error is in the body of the last request, it replaces the response to that request.
    const incomplete = last?.request?.complete === false ? last.request : undefined
    if (incomplete !== undefined) queue.pop()
    const rejected = incomplete === undefined ? rejection : { ...rejection, request: toPartialRequest(incomplete) }
    enqueue(queue, this.makeErrorEntry(socket, rejected))
  }

  makeErrorEntry(socket: Duplex, rejection: ProtocolRejection): QueueEntry {
    return {
      request: undefined,
      begin: () => sendProtocolError(socket, this.callbacks.describeError(rejection), rejection.request?.requestId),
    }
  }

  /** Begins a shutdown. Closes idle connections, and lets each other connection close after its current response. */
  beginShutdown() {
    this.#hasShutdownBegun = true
    for (const [socket, connection] of this.connections) {
      const { queue, response } = connection
      if (queue.length === 0) this.#closeUnlessBusy(socket, connection)
      else if (response?.headersSent === false) response.shouldKeepAlive = false
    }
  }

  /** Closes all connections on which no complete request is waiting for its response. */
  closeIdle() {
    this.connections.forEach((connection, socket) => this.#closeUnlessBusy(socket, connection))
  }

  /** Closes a connection during a shutdown, unless a complete request on it is still waiting for its response. */
  #closeUnlessBusy(socket: Duplex, { queue }: Connection) {
    if (!queue.some(({ request }) => request?.complete ?? true)) socket.end(() => socket.destroy())
  }
}

/** Creates a Node.js HTTP server that adds every request and every protocol error to the queue of its connection. */
const createQueueingServer = (timeouts: ConnectionTimeouts, queues: ConnectionQueues) => {
  const handleInOrder = (request: IncomingMessage, response: ServerResponse) => queues.handleInOrder(request, response)
  const server = createServer({
    // Node.js must accept requests without `Host`, so that the pipeline can respond with a 400 that has all the usual
    // headers.
    requireHostHeader: false,
    // The service speaks no other protocol, so it ignores `Upgrade` and handles the request as usual.
    shouldUpgradeCallback: () => false,
    maxHeaderSize: maxRequestHeadBytes,
    headersTimeout: Duration.toMillis(timeouts.headers),
    requestTimeout: Duration.toMillis(timeouts.request),
    keepAliveTimeout: Duration.toMillis(keepAliveTimeout),
    // How often Node.js looks for connections that have exceeded one of these limits: by at most a tenth.
    connectionsCheckingInterval: Duration.toMillis(timeouts.headers) / 10,
  }, handleInOrder)
  // 0 means no limit. With a limit, Deno would silently drop excess headers. `QueuedRequest` rejects requests with too
  // many headers instead.
  server.maxHeadersCount = 0
  // Without these listeners, Node.js would respond to requests with the header `Expect` by itself, out of order.
  server.on("checkContinue", handleInOrder)
  server.on("checkExpectation", handleInOrder)
  // Without this listener, Node.js would close the connection of a CONNECT request without responding.
  server.on("connect", (request, socket) => {
    queues.reject(socket, { status: "unknown method", request: toPartialRequest(request) })
  })
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    // The client has closed the connection, so nobody would read a response.
    if (error.code === "ECONNRESET") socket.destroy()
    else queues.reject(socket, makeProtocolRejection(error, queues.connections.get(socket)?.received.packets ?? []))
  })
  // `exposePackets` must run before the listener that Node.js itself registered, which starts the parser.
  server.prependListener("connection", exposePackets)
  server.on("connection", (socket) => trackConnection(queues.connections, socket, Duration.toMillis(timeouts.response)))
  return server
}

/**
 * Creates the HTTP server, which calls `callbacks.handle` for each valid request. Requests on the same connection are
 * handled in order and one at a time. `bodies` determines which request bodies the handler reads. Returns the server,
 * and a function that shuts it down.
 */
export const makeHttpServer = (
  timeouts: ConnectionTimeouts,
  callbacks: ServerCallbacks,
  /** Returns whether the service is about to shut down. Clients are then asked to use other connections. */
  isEnding: () => boolean = () => false,
  bodies = mcpBodies,
) => {
  const queues = new ConnectionQueues(callbacks, bodies, isEnding)
  const server = createQueueingServer(timeouts, queues)

  /**
   * Shuts the server down. Each connection closes once all complete requests on it have been responded to. A request
   * body that is still arriving has `bodyDelayMillis` to be completed. After `timeouts.shutdown`, the remaining
   * requests are aborted and their connections closed.
   */
  const closeConnections = () => {
    queues.beginShutdown()
    setTimeout(() => queues.closeIdle(), bodyDelayMillis).unref()
    setTimeout(() => {
      callbacks.endRequests?.()
      setTimeout(() => server.closeAllConnections(), lastResponsesMillis).unref()
    }, Duration.toMillis(timeouts.shutdown)).unref()
  }
  return { server, closeConnections }
}

/**
 * What a client may do with a connection: how long it may take and how much it may send before there is a request, and
 * that its requests take turns, so that no connection holds more than one answer.
 */
import { Duration } from "effect"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { Duplex } from "node:stream"
import { getParserErrorStatus, maxHeaderCount, mostBody, mostHead, sendProtocolError } from "./ProtocolErrors.ts"
import { normalizeTarget } from "./RequestTarget.ts"

/** For how long is waited for a client. */
export interface ConnectionTimeouts {
  /** Until the headers of a request are there. */
  readonly headers: Duration.Duration
  /** Until all of it is there. */
  readonly request: Duration.Duration
  /**
   * From the request on until its answer has been taken. The slowest query needs less than half of it. One that is sent
   * while it is read may take longer, as long as the client takes some of it in each such time.
   */
  readonly answer: Duration.Duration
  /** Until its answer has been taken when the service is told to end; then it is cut off. */
  readonly end: Duration.Duration
}

export const defaultConnectionTimeouts: ConnectionTimeouts = {
  headers: Duration.seconds(10),
  request: Duration.seconds(30),
  answer: Duration.minutes(3),
  end: Duration.seconds(20),
}

/** So much of an answer that is still being sent, in bytes, a client that goes on reading takes at least. */
const leastTaken = 65_536

/** So many requests may wait on a connection before no more is read from it. */
const mostWaiting = 32

/**
 * So long a connection stays open between requests, in milliseconds: longer than balancers keep theirs, or they would
 * send a request into a connection that is being closed.
 */
const idle = 75_000

const hasBody = ({ headers }: IncomingMessage) =>
  headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined

/** RFC 9112: what a proxy on the way could have read differently. Node reads it, in one of the ways. */
const isAmbiguous = ({ headers, httpVersion, rawHeaders }: IncomingMessage) => {
  let hosts = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]
    if (name?.length === 4 && name.toLowerCase() === "host") hosts += 1
  }
  return hosts > 1 || (httpVersion === "1.0" && headers["transfer-encoding"] !== undefined)
}

/** Nobody reads a body, but the next request begins where it ends. */
const afterBody = (
  request: IncomingMessage,
  response: ServerResponse,
  proceed: () => void,
  tooLong: () => void,
) => {
  const { "content-length": announced = "0", expect } = request.headers
  if (!hasBody(request)) return proceed()
  if (Number(announced) > mostBody) return tooLong()
  if (expect !== undefined) response.writeContinue()
  let left = mostBody
  request.on("data", ({ length }: Buffer) => {
    left -= length
    if (left < 0) tooLong()
  })
  return request.once("end", proceed)
}

interface Turn {
  readonly begin: () => void
  /** Undefined: a refusal. */
  readonly request: IncomingMessage | undefined
}

/** Of one connection: whose turn it is comes first. */
type Line = Array<Turn>

interface Connection {
  readonly line: Line
  readonly timer: NodeJS.Timeout
  /** The answer that is being given. */
  response: ServerResponse | undefined
}

const join = (line: Line, turn: Turn) => {
  line.push(turn)
  if (line.length === 1) turn.begin()
}

const refusal = (socket: Duplex, status: number): Turn => ({
  request: undefined,
  begin: () => sendProtocolError(socket, status),
})

export const makeHttpServer = ({ answer, end: farewell, headers, request: whole }: ConnectionTimeouts) => {
  const connections = new Map<Duplex, Connection>()
  let ending = false

  /** When what came before was answered; a request that cannot be read to its end is refused in its own place. */
  const refuse = (socket: Duplex, status: number) => {
    const line = connections.get(socket)?.line ?? []
    const last = line.at(-1)
    if (last !== undefined && last.request === undefined) return
    if (last?.request?.complete === false) line.pop()
    join(line, refusal(socket, status))
  }

  /** Lets a request in when those before it on its connection have been answered, and their answers taken. */
  const inTurn = (request: IncomingMessage, response: ServerResponse, enter: () => void) => {
    const { socket } = request
    const connection = connections.get(socket)
    if (connection === undefined) return enter()
    const { line, timer } = connection
    const next = () => {
      line.shift()
      if (line.length < mostWaiting && socket.isPaused()) socket.resume()
      if (socket.writable) line[0]?.begin()
    }
    /** Whoever comes after it on the connection is not answered either. */
    const end = (status: number) => {
      if (line[0] !== turn) return
      line.length = 0
      join(line, refusal(socket, status))
    }
    const proceed = () => {
      if (line[0] === turn) enter()
    }
    const turn: Turn = {
      request,
      begin: () => {
        timer.refresh()
        connection.response = response
        if (request.rawHeaders.length > 2 * maxHeaderCount) return end(431)
        if (isAmbiguous(request) || !normalizeTarget(request)) return end(400)
        // There is no other protocol here, but Node drops what was sent along as if it belonged to one.
        if (ending || request.headers.upgrade !== undefined) response.shouldKeepAlive = false
        response.once("close", next)
        return afterBody(request, response, proceed, () => end(413))
      },
    }
    join(line, turn)
    if (line.length > mostWaiting) socket.pause()
  }

  const server = createServer({
    // What Node would answer by itself goes the way of every request.
    requireHostHeader: false,
    shouldUpgradeCallback: () => false,
    maxHeaderSize: mostHead,
    headersTimeout: Duration.toMillis(headers),
    requestTimeout: Duration.toMillis(whole),
    keepAliveTimeout: idle,
    connectionsCheckingInterval: Duration.toMillis(headers) / 10,
  })
  // Whoever sends too many is told so; Deno would leave some of them out.
  server.maxHeadersCount = 0
  server.on("checkExpectation", (request, response) => server.emit("request", request, response))
  // CONNECT asks for a tunnel; Node would close the connection without an answer.
  server.on("connect", (_request, socket) => refuse(socket, 400))
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    if (error.code === "ECONNRESET") socket.destroy()
    else refuse(socket, getParserErrorStatus(error))
  })
  server.on("connection", (socket) => {
    const line: Line = []
    let taken = 0
    /** Whether it is not all there yet, and the client has taken some of it since it was last looked at. */
    const goesOn = (response: ServerResponse | undefined) => {
      const before = taken
      taken = socket.bytesWritten - socket.writableLength
      return response?.headersSent === true && !response.writableEnded && taken - before >= leastTaken
    }
    const connection: Connection = {
      line,
      response: undefined,
      timer: setTimeout(() => {
        if (goesOn(connection.response)) connection.timer.refresh()
        else socket.destroy()
      }, Duration.toMillis(answer)),
    }
    const { timer } = connection
    connections.set(socket, connection)
    socket.once("close", () => {
      clearTimeout(timer)
      line.length = 0
      connections.delete(socket)
    })
  })

  /** Node would keep a connection open whose request is under way when the server closes. */
  const endConnections = () => {
    ending = true
    for (const { response } of connections.values()) {
      if (response === undefined) continue
      if (response.headersSent) response.once("close", () => server.closeIdleConnections())
      else response.shouldKeepAlive = false
    }
    setTimeout(() => server.closeAllConnections(), Duration.toMillis(farewell)).unref()
  }
  return { server, inTurn, endConnections }
}

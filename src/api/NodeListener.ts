/** Connects the pipeline to the Node.js HTTP server: passes each request to the pipeline, and sends the response. */
import { Cause, Clock, Context, Effect, Exit, Fiber, Layer, Scope, Stream } from "effect"
import type { IncomingMessage, ServerResponse } from "node:http"
import { getMonotonicMillis } from "../postgres/metrics/MonotonicTime.ts"
import { BodyAborted, type FinishedResponse } from "../contract/rules/EndpointResult.ts"
import { type ApiRequest, type ClientConnection, getHeader } from "../contract/rules/ApiRequest.ts"
import { resolveRequestId } from "../contract/rules/RequestIds.ts"
import { exemptFromResponseTimeout } from "./ConnectionLimits.ts"
import { maxRequestBodyBytes } from "./ProtocolErrors.ts"
import { RequestPipeline } from "./RequestPipeline.ts"
import { makeClientAddressResolver } from "./TrustedProxies.ts"
import { makeProtocolErrorDescriber } from "./UnroutedResponses.ts"

/**
 * Reads a request body as text. Fails with the status of the error response: 413 if the body is too long, or 400 if the
 * connection breaks.
 */
const readBody = (request: IncomingMessage): Effect.Effect<string, 400 | 413> =>
  Effect.callback<string, 400 | 413>((resume) => {
    const chunks: Array<Buffer> = []
    let size = 0
    request.on("data", (chunk: Buffer) => {
      size += chunk.length
      if (size > maxRequestBodyBytes) resume(Effect.fail(413))
      else chunks.push(chunk)
    })
    request.once("end", () => resume(Effect.succeed(Buffer.concat(chunks).toString("utf8"))))
    request.once("error", () => resume(Effect.fail(400)))
  })

/**
 * Bodies shorter than this many bytes are passed to Node.js as strings, because it sends a string together with the
 * headers in a single write.
 */
const maxTextBytes = 2_048

const toBuffer = ({ buffer, byteLength, byteOffset }: Uint8Array) => Buffer.from(buffer, byteOffset, byteLength)

/** Waits until Node.js accepts more of the response, which is when the client has read most of what was written. */
const waitForDrain = (response: ServerResponse) =>
  Effect.callback<void>((resume) => {
    const proceed = () => resume(Effect.void)
    response.once("drain", proceed)
    return Effect.sync(() => response.off("drain", proceed))
  })

/**
 * Sends a streamed body, followed by its trailers. If producing the body fails, closes the connection, so that the
 * client notices that the body is incomplete.
 */
const sendStream = (
  response: ServerResponse,
  stream: Stream.Stream<Uint8Array, unknown>,
  trailers: FinishedResponse["trailers"],
) =>
  Stream.runForEach(stream, (chunk) => response.write(chunk) ? Effect.void : waitForDrain(response)).pipe(
    Effect.andThen(Effect.sync(() => {
      if (trailers !== undefined) response.addTrailers(trailers)
      response.end()
    })),
    Effect.catchIf((error) => error instanceof BodyAborted, () => Effect.sync(() => response.destroy())),
    Effect.orDie,
    Effect.interruptible,
  )

/**
 * Sends a response. Returns an effect only if the body is a stream, which is sent while that effect runs. Everything
 * else is sent immediately.
 */
const send = (
  request: ApiRequest,
  response: ServerResponse,
  { body, headers, isEndless, status, trailers }: FinishedResponse,
): Effect.Effect<void> | undefined => {
  // The client has disconnected, so there is no one to send to.
  if (response.destroyed) return undefined
  if (body !== undefined && request.method === "HEAD") {
    // For a HEAD request, Node.js does not add the `transfer-encoding` that a GET request would get.
    const isChunked = !(body instanceof Uint8Array) && request.httpVersion !== "1.0"
    response.writeHead(status, isChunked ? { ...headers, "transfer-encoding": "chunked" } : headers)
    response.end()
    return undefined
  }
  response.writeHead(status, headers)
  if (body === undefined) {
    response.end()
    return undefined
  }
  if (body instanceof Uint8Array) {
    // Node.js sends a string together with the headers in a single write, which is faster for small bodies. Latin-1
    // maps every byte to one character and back, so it preserves all bytes.
    if (body.length < maxTextBytes) response.end(toBuffer(body).toString("latin1"), "latin1")
    else response.end(body)
    return undefined
  }
  if (isEndless) exemptFromResponseTimeout(response)
  return sendStream(response, body, trailers)
}

/**
 * Calls a function that handles a request. Turns an exception into a defect, because an uncaught exception in a Node.js
 * event listener would end the process.
 */
const catchExceptions = (handleRequest: () => Effect.Effect<void> | undefined) => {
  try {
    return handleRequest()
  } catch (defect) {
    return Effect.die(defect)
  }
}

/** The connection on which a request was received over HTTP. */
class NodeConnection implements ClientConnection {
  readonly #request: IncomingMessage
  readonly #response: ServerResponse

  constructor(request: IncomingMessage, response: ServerResponse) {
    this.#request = request
    this.#response = response
  }

  readBody() {
    return readBody(this.#request)
  }

  disconnect() {
    this.#response.destroy()
  }

  hasDisconnected() {
    return this.#response.destroyed
  }
}

/**
 * A request received over HTTP. It is a class rather than an object literal, because V8 would allocate an object
 * literal directly in the old generation (see `RequestInProgress`).
 */
class NodeRequest implements ApiRequest {
  readonly id: string
  readonly method: string
  readonly target: string
  readonly headers: ApiRequest["headers"]
  readonly rawHeaders: ReadonlyArray<string>
  readonly httpVersion: string
  readonly address: string | undefined
  readonly peerAddress: string | undefined
  readonly startedAt: number
  readonly arrivedAt: number
  readonly purpose = "response"
  readonly via = null
  readonly client: ClientConnection

  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    address: string | undefined,
    startedAt: number,
    arrivedAt: number,
  ) {
    this.id = resolveRequestId(getHeader(request, "x-request-id"), startedAt)
    this.method = request.method ?? "GET"
    this.target = request.url ?? "/"
    this.headers = request.headers
    this.rawHeaders = request.rawHeaders
    this.httpVersion = request.httpVersion
    this.address = address
    this.peerAddress = request.socket.remoteAddress
    this.startedAt = startedAt
    this.arrivedAt = arrivedAt
    this.client = new NodeConnection(request, response)
  }
}

/** The functions that the Node.js HTTP server calls. */
export class NodeListener extends Context.Service<NodeListener, {
  /** Handles a request and sends its response. */
  readonly handle: (request: IncomingMessage, response: ServerResponse) => void
  /** Interrupts the requests in progress during a shutdown. Requests whose response has not begun get a 503. */
  readonly endRequests: () => void
  /** Returns the error response to a request that is rejected before it can be routed. */
  readonly describeError: Effect.Success<typeof makeProtocolErrorDescriber>
}>()("tickerline/api/NodeListener") {
  static readonly layer = Layer.effect(
    NodeListener,
    Effect.gen(function* () {
      const { respond } = yield* RequestPipeline
      const describeError = yield* makeProtocolErrorDescriber
      const resolveAddress = yield* makeClientAddressResolver
      const clock = yield* Clock.Clock
      const context = yield* Effect.context<never>()
      const requestScope = yield* Scope.fork(yield* Effect.scope, "parallel")
      const runFork = Effect.runForkWith(context)

      const toApiRequest = (request: IncomingMessage, response: ServerResponse) => {
        const address = resolveAddress(request.socket.remoteAddress, getHeader(request, "x-forwarded-for"))
        return new NodeRequest(request, response, address, clock.currentTimeMillisUnsafe(), getMonotonicMillis(clock))
      }

      /**
       * Runs the part of a request that does not end immediately, such as waiting for a query or sending a stream, in a
       * fiber. Interrupts the fiber if the client disconnects, and closes the connection if the effect fails.
       */
      const runInFiber = (response: ServerResponse, id: string | undefined, rest: Effect.Effect<void>) => {
        const guarded = Effect.onError(rest, (cause) => {
          if (!response.writableEnded) response.destroy()
          return Cause.hasInterruptsOnly(cause)
            ? Effect.void
            : Effect.annotateLogs(Effect.logError("A response was not sent to its end", cause), "request_id", id)
        })
        const fiber = Fiber.runIn(runFork(guarded), requestScope)
        const hasEnded = fiber.pollUnsafe() !== undefined
        if (hasEnded) return
        response.once("close", () => {
          if (!response.writableEnded) fiber.interruptUnsafe()
        })
      }

      /**
       * Handles a request. If its response is available immediately and not a stream, it is sent without a fiber.
       * Otherwise, a fiber waits for the response, sends it, and then closes the request's scope.
       */
      const handle = (nodeRequest: IncomingMessage, response: ServerResponse) => {
        // Created only if the request has resources to close.
        let scope: Scope.Closeable | undefined
        const getScope = () => scope ??= Scope.makeUnsafe()
        let id: string | undefined
        const sending = catchExceptions(() => {
          const request = toApiRequest(nodeRequest, response)
          id = request.id
          const responding = respond(request, getScope)
          if (!Effect.isEffect(responding)) return send(request, response, responding)
          // Uninterruptible, because even an interrupted request gets a response. The steps of the pipeline are made
          // interruptible individually.
          return Effect.uninterruptible(
            Effect.flatMap(responding, (finished) => send(request, response, finished) ?? Effect.void),
          )
        })
        if (sending === undefined && scope === undefined) return
        runInFiber(
          response,
          id,
          Effect.onExit(
            sending ?? Effect.void,
            (exit) => scope === undefined ? Effect.void : Scope.close(scope, exit),
          ),
        )
      }
      const endRequests = () => void runFork(Scope.close(requestScope, Exit.void))
      return NodeListener.of({ handle, endRequests, describeError })
    }),
  )
}

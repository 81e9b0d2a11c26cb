/**
 * Serves the protocol versions in which clients start with `initialize`, but without sessions. Each message gets a new
 * connection, which is initialized, used once and then closed (docs/decisions/0112-mcp-server.md).
 */
import { Context, Deferred, Effect, Layer, Option, Predicate, Queue } from "effect"
import { McpProtocol, McpServer } from "effect/ai"
import { HttpServerRequest } from "effect/http"
import { RpcSerialization, RpcServer } from "effect/rpc"

/** The supported protocol versions in which clients start with the method `initialize`, newest first. */
const protocols = [McpProtocol.v2025_11_25, McpProtocol.v2025_06_18] as const

/** The protocol version to assume if a message does not state one. Clients may omit it after the initialization. */
export const defaultProtocolVersion = McpProtocol.v2025_06_18.protocolVersion

/**
 * Returns the version in the header `MCP-Protocol-Version`, or undefined if that version is not supported. If the
 * header is missing, returns the oldest version.
 */
export const findInitializedProtocolVersion = (header: string | undefined) =>
  header === undefined
    ? defaultProtocolVersion
    : protocols.map(({ protocolVersion }) => protocolVersion).find((version) => version === header)

/** A JSON-RPC request. */
export interface JsonRpcRequest {
  readonly id: string | number
  readonly method: string
  readonly params?: unknown
}

/** Returns the `initialize` request that a client would have sent at the start of a session with this version. */
const makeInitialization = (version: string) => ({
  id: "initialization",
  method: "initialize",
  params: { protocolVersion: version, capabilities: {}, clientInfo: { name: "unknown", version: "0" } },
})

/** Extracts a tool's own error from the encoded `Cause` in which Effect wraps it. Returns other errors unchanged. */
const unwrapError = (error: unknown): unknown =>
  Predicate.isTagged(error, "Cause") && Predicate.hasProperty(error, "data") && Array.isArray(error.data) &&
    Predicate.hasProperty(error.data[0], "error")
    ? error.data[0].error
    : error

/**
 * Replaces the capabilities in an `initialize` or `server/discover` result with those that this server has. Effect's
 * server also announces logging, completions and subscriptions. This server offers no completions, and notifications
 * would require a session.
 */
export const announceCapabilities = (result: unknown): unknown =>
  Predicate.isObject(result) && Predicate.hasProperty(result, "capabilities")
    ? { ...result, capabilities: { tools: {}, resources: {} } }
    : result

/**
 * The MCP methods that this server supports: those of the announced capabilities (tools and resources), and those that
 * are part of the protocol itself.
 */
export const supportedMcpMethods: ReadonlySet<string> = new Set([
  "initialize",
  "ping",
  "server/discover",
  "tools/list",
  "tools/call",
  "resources/list",
  "resources/templates/list",
  "resources/read",
])

/** Corrects a response of Effect's server: it unwraps a tool's error, and replaces the announced capabilities. */
const normalizeResponse = (response: unknown, isInitialization: boolean): unknown => {
  if (!Predicate.isObject(response)) return response
  if (Predicate.hasProperty(response, "error")) return { ...response, error: unwrapError(response.error) }
  return isInitialization && Predicate.hasProperty(response, "result")
    ? { ...response, result: announceCapabilities(response.result) }
    : response
}

const serialization = RpcSerialization.jsonRpc({ controlMessages: false })

type WriteMessage = Parameters<Parameters<typeof RpcServer.Protocol.make>[0]>[0]

/**
 * Responds to messages that use protocol versions before 2026-07-28, which require a session. Effect's MCP server runs
 * permanently in the background. It communicates over connections that exist only within this process. For each
 * message, `handleRequest` opens a connection, sends `initialize` on it, sends the message, and closes it. So no
 * session remains in memory, and any process of the service can respond to any message.
 */
export class SessionlessMcpServer extends Context.Service<SessionlessMcpServer, {
  /** Returns the JSON-RPC response to a request that uses the given protocol version. */
  readonly handleRequest: (request: JsonRpcRequest, version: string) => Effect.Effect<unknown>
}>()("tickerline/site/SessionlessMcpServer") {
  static readonly layer = (
    server: { readonly name: string; readonly version: string; readonly instructions: string },
  ) =>
    Layer.effect(
      SessionlessMcpServer,
      Effect.gen(function* () {
        /** For each open connection, by its id: the function that receives the server's next response. */
        const connections = new Map<number, (response: unknown) => void>()
        /** The ids of connections that have been closed, for which Effect's server then releases its state. */
        const disconnects = yield* Queue.make<number>()
        /** Completed when Effect's server has started, with the function that passes messages to it. */
        const ready = yield* Deferred.make<WriteMessage>()
        let lastId = 0

        /** The transport for Effect's server. The server calls `send` with each response. */
        const protocol = yield* RpcServer.Protocol.make((write) =>
          Effect.as(Deferred.succeed(ready, write), {
            disconnects,
            send: (id, response) =>
              Effect.sync(() => {
                // Effect encodes a JSON-RPC response only as text. Undefined means that there is nothing to send.
                const encoded = serialization.makeUnsafe().encode(response)
                if (typeof encoded === "string") connections.get(id)?.(JSON.parse(encoded))
              }),
            end: () => Effect.void,
            clientIds: Effect.sync(() => new Set(connections.keys())),
            initialMessage: Effect.succeed(Option.none()),
            supportsAck: false,
            supportsTransferables: false,
            supportsSpanPropagation: false,
            supportsNotifications: false,
            codecFor: serialization.codecFor,
          })
        )
        yield* McpServer.run({ ...server, protocols }).pipe(
          Effect.provideService(RpcServer.Protocol, protocol),
          Effect.forkScoped,
        )
        const writeMessage = yield* Deferred.await(ready)

        /**
         * Passes a message to the MCP server. The HTTP request is removed from the context, because Effect would start
         * a session if it were there.
         */
        const write = (...message: Parameters<WriteMessage>) =>
          Effect.updateContext(
            writeMessage(...message),
            (context: Context.Context<never>) => Context.omit(HttpServerRequest.HttpServerRequest)(context),
          )

        /** Sends a request over a connection and waits for the response. */
        const exchange = Effect.fnUntraced(
          function* (connectionId: number, { id, method, params = {} }: JsonRpcRequest) {
            const reply = yield* Deferred.make<unknown>()
            connections.set(connectionId, (response) => Deferred.doneUnsafe(reply, Effect.succeed(response)))
            yield* write(connectionId, { _tag: "Request", id, tag: method, payload: params, headers: [] })
            return yield* Deferred.await(reply)
          },
        )

        /** Closes a connection, and makes Effect's server release what it stores for it. */
        const close = (id: number) =>
          Effect.suspend(() => {
            connections.delete(id)
            return Effect.andThen(write(id, { _tag: "Eof" }), Queue.offer(disconnects, id))
          })

        const handleRequest = (request: JsonRpcRequest, version: string) =>
          Effect.suspend(() => {
            const id = lastId += 1
            const isInitialization = request.method === "initialize"
            // A client that sends `initialize` itself initializes the connection with its own message.
            const initialize = isInitialization ? Effect.void : exchange(id, makeInitialization(version))
            return initialize.pipe(
              Effect.andThen(exchange(id, request)),
              Effect.map((response) => normalizeResponse(response, isInitialization)),
              Effect.ensuring(close(id)),
            )
          })
        return SessionlessMcpServer.of({ handleRequest })
      }),
    )
}

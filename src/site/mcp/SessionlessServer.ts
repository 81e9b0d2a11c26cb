/**
 * Serves the protocol versions in which clients start with `initialize`, but without sessions. Each message gets a new
 * connection, which is initialized, used once and then closed (docs/decisions/0112-mcp-server.md).
 */
import { Context, Deferred, Effect, Layer, Option, Predicate, Queue } from "effect"
import { McpProtocol, McpServer } from "effect/ai"
import { HttpServerRequest } from "effect/http"
import { RpcSerialization, RpcServer } from "effect/rpc"

/** Protocol versions in which clients start with `initialize`, newest first. */
const protocols = [McpProtocol.v2025_11_25, McpProtocol.v2025_06_18] as const

/** The version to assume if a message does not state one. Clients may omit it after the initialization. */
export const oldestVersion = McpProtocol.v2025_06_18.protocolVersion

/**
 * Returns the version in the header `MCP-Protocol-Version`, or undefined if that version is not supported. If the
 * header is missing, returns the oldest version.
 */
export const findInitializedProtocolVersion = (header: string | undefined) =>
  header === undefined
    ? oldestVersion
    : protocols.map(({ protocolVersion }) => protocolVersion).find((version) => version === header)

/** A JSON-RPC request. */
export interface JsonRpcRequest {
  readonly id: string | number
  readonly method: string
  readonly params?: unknown
}

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

/** Methods required by the announced capabilities, plus methods that are part of the protocol itself. */
export const servedMethods: ReadonlySet<string> = new Set([
  "initialize",
  "ping",
  "server/discover",
  "tools/list",
  "tools/call",
  "resources/list",
  "resources/templates/list",
  "resources/read",
])

const normalizeResponse = (response: unknown, isInitialization: boolean): unknown => {
  if (!Predicate.isObject(response)) return response
  if (Predicate.hasProperty(response, "error")) return { ...response, error: unwrapError(response.error) }
  return isInitialization && Predicate.hasProperty(response, "result")
    ? { ...response, result: announceCapabilities(response.result) }
    : response
}

const serialization = RpcSerialization.jsonRpc({ controlMessages: false })

type WriteMessage = Parameters<Parameters<typeof RpcServer.Protocol.make>[0]>[0]

/** Responds to messages that use protocol versions before 2026-07-28. */
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
        /** The functions that receive responses, by connection id. */
        const connections = new Map<number, (response: unknown) => void>()
        const disconnects = yield* Queue.make<number>()
        const ready = yield* Deferred.make<WriteMessage>()
        let lastId = 0

        const protocol = yield* RpcServer.Protocol.make((write) =>
          Effect.as(Deferred.succeed(ready, write), {
            disconnects,
            send: (id, response) =>
              Effect.sync(() => {
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

        const close = (id: number) =>
          Effect.suspend(() => {
            connections.delete(id)
            return Effect.andThen(write(id, { _tag: "Eof" }), Queue.offer(disconnects, id))
          })

        const handleRequest = (request: JsonRpcRequest, version: string) =>
          Effect.suspend(() => {
            const id = lastId += 1
            const isInitialization = request.method === "initialize"
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

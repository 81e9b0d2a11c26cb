/**
 * The `mcp` command: connects a desktop client, through standard input and output, to a service's `/mcp` endpoint.
 * Reads one message per line, and prints one reply per line. Nothing else is written to standard output.
 */
import { Console, Duration, Effect, FiberMap, Option, Redacted, Schema, Stdio, Stream } from "effect"
import { Command } from "effect/cli"
import { FetchHttpClient, HttpClient, HttpClientRequest } from "effect/http"
import { mcpPath } from "../../api/RequestTarget.ts"
import { requireHttpUrls, serviceConnectionFlags, withPipeableExamples } from "./CommandParts.ts"
import { findClientApiKey } from "./query/QueryRequest.ts"
import { apiBaseUrl } from "./ServeSettings.ts"

/** The time limit for a request. It exceeds the duration of the API's slowest query. */
const timeout = Duration.minutes(2)

const Id = Schema.Union([Schema.String, Schema.Number])
const optional = <S extends Schema.Top>(schema: S) => Schema.optionalKey(schema)

const versionKey = "io.modelcontextprotocol/protocolVersion"

const Message = Schema.fromJsonString(Schema.Struct({
  id: optional(Id),
  method: optional(Schema.String),
  params: optional(Schema.Struct({
    _meta: optional(Schema.Struct({ [versionKey]: optional(Schema.String) })),
    name: optional(Schema.String),
    uri: optional(Schema.String),
    requestId: optional(Id),
  })),
}))
type Message = typeof Message.Type
const parseMessage = Schema.decodeOption(Message)

const InitializeReply = Schema.fromJsonString(
  Schema.Struct({ result: Schema.Struct({ protocolVersion: Schema.String }) }),
)
const parseInitializeReply = Schema.decodeOption(InitializeReply)

const ApiErrorBody = Schema.fromJsonString(Schema.Struct({ error: Schema.Struct({ message: Schema.String }) }))
const parseApiError = Schema.decodeOption(ApiErrorBody)

const RpcMessage = Schema.fromJsonString(Schema.Struct({ jsonrpc: Schema.Literal("2.0") }))
const parseRpcMessage = Schema.decodeOption(RpcMessage)

/** Encodes a header value if it is not printable ASCII, as protocol version 2026-07-28 requires. */
const encodeHeader = (text: string) =>
  /^[\x20-\x7e]*$/.test(text) ? text : `=?base64?${Buffer.from(text).toString("base64")}?=`

/**
 * Returns the HTTP headers that repeat the protocol version, method, and name of a message. From protocol version
 * 2026-07-28, each message states its version, and all three headers are sent. Before, the version was negotiated by
 * `initialize` (`negotiated`), and only its header is sent, with every later message.
 */
const makeMessageHeaders = ({ method = "", params }: Message, negotiated: string | undefined) => {
  const statedVersion = params?._meta?.[versionKey]
  const version = statedVersion ?? negotiated
  const name = params?.name ?? params?.uri
  return {
    ...(version === undefined || method === "initialize" ? {} : { "mcp-protocol-version": version }),
    ...(statedVersion === undefined ? {} : { "mcp-method": encodeHeader(method) }),
    ...(statedVersion === undefined || name === undefined ? {} : { "mcp-name": encodeHeader(name) }),
  }
}

const formatError = (id: string | number | null, code: number, message: string) =>
  JSON.stringify({ jsonrpc: "2.0", id, error: { code, message } })

const internalErrorCode = -32603
const parseErrorCode = -32700

/**
 * Returns the reply to print for the response to a request. If the response is not a JSON-RPC message, such as an error
 * of the API or a web page, the reply is a JSON-RPC error. A reply is one line.
 */
const toReply = (id: string | number, text: string, url: string) =>
  Option.isSome(parseRpcMessage(text)) ? text.replaceAll(/[\r\n]/g, "") : formatError(
    id,
    internalErrorCode,
    Option.match(parseApiError(text), {
      onNone: () => `${url} is not an MCP server.`,
      onSome: ({ error }) => error.message,
    }),
  )

/**
 * Creates the function that sends a message to the service's MCP endpoint at `url`, with the API key if there is one.
 * The function takes the message both as it was read (`line`) and parsed. It returns the line to print: the service's
 * reply, or a JSON-RPC error if there is no valid reply. For a notification, which is a message without an ID and
 * expects no reply, it returns undefined.
 */
const makeMessageSender = Effect.fnUntraced(function* (url: string, key: Option.Option<Redacted.Redacted>) {
  const client = yield* HttpClient.HttpClient
  const credentials = Option.match(key, {
    onNone: () => ({}),
    onSome: (key) => ({ authorization: `Bearer ${Redacted.value(key)}` }),
  })
  /** The protocol version from the reply to `initialize`, which later messages must state. */
  let negotiated: string | undefined

  const post = Effect.fnUntraced(function* (line: string, message: Message) {
    const response = yield* client.execute(
      HttpClientRequest.post(url).pipe(
        HttpClientRequest.bodyText(line, "application/json"),
        HttpClientRequest.setHeaders({
          accept: "application/json, text/event-stream",
          ...credentials,
          ...makeMessageHeaders(message, negotiated),
        }),
      ),
    )
    return yield* response.text
  })

  const unreachable = `Nothing answers at ${url}. Start the service, or correct --url.`

  return Effect.fnUntraced(function* (line: string, message: Message) {
    const { id, method } = message
    const reply = yield* post(line, message).pipe(
      Effect.timeout(timeout),
      Effect.match({
        onFailure: () => id === undefined ? undefined : formatError(id, internalErrorCode, unreachable),
        onSuccess: (text) => id === undefined ? undefined : toReply(id, text, url),
      }),
    )
    if (reply !== undefined && method === "initialize") {
      negotiated = Option.getOrUndefined(parseInitializeReply(reply))?.result.protocolVersion
    }
    return reply
  })
})

/**
 * Forwards messages to the service until standard input ends, and then waits for the replies to all requests. Each
 * request, which is a message with an ID, runs in its own fiber of `running`, so that a slow one does not delay others
 * and can be cancelled by its ID. Notifications are sent in order.
 */
const forwardMessages = Effect.fnUntraced(function* (baseUrl: string, key: Option.Option<Redacted.Redacted>) {
  const { stdin } = yield* Stdio.Stdio
  const running = yield* FiberMap.make<string | number, void, never>()
  const send = yield* makeMessageSender(`${baseUrl.replace(/\/$/, "")}${mcpPath}`, key)

  const forward = Effect.fnUntraced(function* (line: string, message: Message) {
    const reply = yield* send(line, message)
    if (reply !== undefined) yield* Console.log(reply)
  })

  const handleLine = Effect.fnUntraced(function* (line: string) {
    const message = parseMessage(line)
    if (Option.isNone(message)) return yield* Console.log(formatError(null, parseErrorCode, "Parse error"))
    const { id, method, params } = message.value
    // Interrupting the fiber closes the connection, and that cancels the request.
    if (method === "notifications/cancelled" && params?.requestId !== undefined) {
      return yield* FiberMap.remove(running, params.requestId)
    }
    if (id === undefined) return yield* forward(line, message.value)
    return yield* FiberMap.run(running, id, forward(line, message.value))
  })

  yield* stdin.pipe(
    Stream.decodeText(),
    Stream.splitLines,
    Stream.filter((line) => line.trim() !== ""),
    Stream.runForEach(handleLine),
  )
  yield* FiberMap.awaitEmpty(running)
})

/** `mcp`: connects a desktop client to a service. */
export const mcpCommand = Command.make(
  "mcp",
  serviceConnectionFlags,
  Effect.fnUntraced(function* ({ keyFile, url }) {
    yield* requireHttpUrls("mcp", Option.toArray(url))
    const key = yield* findClientApiKey(keyFile, Option.isNone(url))
    const baseUrl = Option.isSome(url) ? url.value : yield* apiBaseUrl
    yield* Effect.scoped(forwardMessages(baseUrl, key))
  }),
).pipe(
  Command.withDescription("Connect an MCP client, through standard input and output, to a service"),
  withPipeableExamples({
    "mcp --url https://api.example.com --key-file key": "The command of a desktop client",
  }),
  Command.provide(FetchHttpClient.layer),
)

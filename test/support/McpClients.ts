/**
 * Clients for the MCP server: the official SDK, and raw JSON-RPC messages.
 *
 * ```ts
 * const client = yield* connectOverHttp(port, key)
 * const { isError, value } = yield* callTool(client, "find_endpoint", { search: "news" })
 * ```
 */
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client"
import { Effect } from "effect"

/**
 * The ways in which the SDK negotiates the protocol version: `legacy` starts with an `initialize` message, and `auto`
 * does not need one.
 */
export const negotiationModes = ["legacy", "auto"] as const
/** One of the `negotiationModes`. */
export type NegotiationMode = typeof negotiationModes[number]

/** The newest protocol version that each negotiation mode can reach. */
export const newestProtocolVersion: Readonly<Record<NegotiationMode, string>> = {
  legacy: "2025-11-25",
  auto: "2026-07-28",
}

/** Creates an SDK client without connecting it. */
export const makeSdkClient = (mode: NegotiationMode) =>
  new Client({ name: "test", version: "1.0.0" }, { versionNegotiation: { mode } })

/** Connects an SDK client over HTTP. The connection closes when the scope closes. */
export const connectOverHttp = (port: number, key: string, mode: NegotiationMode = "auto") =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const client = makeSdkClient(mode)
      const url = new URL(`http://127.0.0.1:${port}/mcp`)
      await client.connect(
        new StreamableHTTPClientTransport(url, { requestInit: { headers: { "X-API-Key": key } } }),
      )
      return client
    }),
    (client) => Effect.promise(() => client.close()),
  )

/** The result of a tool call. */
export interface ToolResult {
  readonly isError: boolean
  /** The `structuredContent`, or for an error, the JSON parsed from its text. */
  readonly value: unknown
  readonly text: string
}

/** Calls a tool. The SDK validates `structuredContent` against the tool's output schema. */
export const callTool = (client: Client, name: string, args: Readonly<Record<string, unknown>>) =>
  Effect.promise(async (): Promise<ToolResult> => {
    const { content, isError, structuredContent } = await client.callTool({ name, arguments: { ...args } })
    const [block] = content
    const text = block?.type === "text" ? block.text : ""
    return { isError: isError === true, text, value: structuredContent ?? JSON.parse(text) }
  })

/** Options for sending a message. */
export interface PostOptions {
  readonly headers?: Readonly<Record<string, string>>
  readonly method?: string
  readonly path?: string
}

/** Sends a request body to `/mcp`. */
export const postMcpMessage = (
  port: number,
  body: unknown,
  { headers = {}, method = "POST", path = "/mcp" }: PostOptions = {},
) =>
  Effect.promise(async () => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      method,
      headers: {
        "Content-Type": "application/json",
        Accept: "application/json, text/event-stream",
        ...headers,
      },
      ...(method === "GET" || method === "OPTIONS" ? {} : {
        body: typeof body === "string" ? body : JSON.stringify(body),
      }),
    })
    const text = await response.text()
    const json: unknown = text.startsWith("{") ? JSON.parse(text) : undefined
    return { status: response.status, headers: Object.fromEntries(response.headers), text, json }
  })

/**
 * An API request, as every processing step sees it. A step that needs to change a value creates a modified copy of the
 * request.
 */
import type { Effect } from "effect"
import type { RequestHeaderName } from "./RequestHeaders.ts"

/** The connection to the client that sent a request. */
export interface ClientConnection {
  /** Reads the request body. If the body is too long or cannot be read, fails with the HTTP status to respond with. */
  readonly readBody: () => Effect.Effect<string, 400 | 413>
  /** Closes the connection immediately. */
  readonly disconnect: () => void
  /** Returns whether the connection was closed before the response was complete. */
  readonly hasDisconnected: () => boolean
}

/** An API request, sent either by an HTTP client or by a tool of `/mcp`. */
export interface ApiRequest {
  /** The request id: the value of the header `X-Request-Id`, and of `request_id` in errors (D12, request ids). */
  readonly id: string
  readonly method: string
  /** The path and query string, byte for byte as the client sent them. */
  readonly target: string
  /** The headers as parsed by Node, keyed by lower-case name. */
  readonly headers: { readonly [Name in RequestHeaderName]?: string | ReadonlyArray<string> | undefined }
  /** Alternating header names and values, as the client sent them. */
  readonly rawHeaders: ReadonlyArray<string>
  /** `1.0` or `1.1`. HTTP/1.0 has no trailers and does not require the header `Host`. */
  readonly httpVersion: string
  /**
   * The client's IP address. Undefined if the request came through a trusted proxy that does not identify the client.
   */
  readonly address: string | undefined
  /** The IP address at the other end of the connection, which is either the client or a proxy. */
  readonly peerAddress: string | undefined
  /** The arrival time in milliseconds since 1970. */
  readonly startedAt: number
  /** The arrival time on the monotonic clock, in milliseconds. */
  readonly arrivedAt: number
  /**
   * `estimate` means that the request is executed only to predict its cost. Such a request is neither counted nor
   * charged (D28, estimates).
   */
  readonly purpose: "response" | "estimate"
  /**
   * `mcp` if a tool of the MCP server sent the request. Such a request does not count against the rate limit, because
   * the message to `/mcp` that called the tool has already been counted. Null if the request arrived over HTTP.
   */
  readonly via: "mcp" | null
  readonly client: ClientConnection
  /**
   * Asks whether the usage of this request may be recorded; if it returns false, nothing is recorded. An MCP message
   * and the request that its tool sends share one such function, so that only one of the two is recorded. `cost` is in
   * microdollars.
   */
  readonly claimUsage?: (cost: number) => boolean
}

/** Returns the value of a header. Returns undefined if the header is missing or occurs more than once. */
export const getHeader = ({ headers }: Pick<ApiRequest, "headers">, name: RequestHeaderName) => {
  const value = headers[name]
  return typeof value === "string" ? value : undefined
}

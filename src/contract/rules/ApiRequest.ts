/**
 * A request, as all steps of its processing see it. A step that needs different values creates a new request with them.
 */
import type { Effect } from "effect"
import type { RequestHeaderName } from "./RequestHeaders.ts"

/** The connection of the client that sent a request. */
export interface ClientConnection {
  /** Reads the body. Fails with the status of the response if it is too long, or cannot be read. */
  readonly readBody: () => Effect.Effect<string, 400 | 413>
  /** Closes the connection immediately. */
  readonly disconnect: () => void
  /** Whether the connection has closed before the end of the response. */
  readonly hasDisconnected: () => boolean
}

/** A request to the API, from an HTTP client or from a tool of `/mcp`. */
export interface ApiRequest {
  /** The header `X-Request-Id`, and `request_id` in errors (D12, request ids). */
  readonly id: string
  readonly method: string
  /** The path and query as the client sent them, byte for byte. */
  readonly target: string
  /** The headers by lower-case name, as Node parses them. */
  readonly headers: { readonly [Name in RequestHeaderName]?: string | ReadonlyArray<string> | undefined }
  /** Names and values in turn, as the client sent them. */
  readonly rawHeaders: ReadonlyArray<string>
  /** `1.0` or `1.1`. HTTP/1.0 has no trailers and does not require the header `Host`. */
  readonly httpVersion: string
  /** The client's address; undefined if a trusted proxy names no client. */
  readonly address: string | undefined
  /** The address at the other end of the connection: the client or a proxy. */
  readonly peerAddress: string | undefined
  /** Time at which the request arrived, ms since 1970. */
  readonly startedAt: number
  /** The same time on the monotonic clock, ms. */
  readonly arrivedAt: number
  /**
   * `estimate` means that the request only runs to predict its cost. It is neither counted nor charged (D28,
   * estimates).
   */
  readonly purpose: "response" | "estimate"
  /**
   * `mcp` if a tool of `/mcp` sent the request: then the message to `/mcp` has already been counted. Null if it arrived
   * over HTTP.
   */
  readonly via: "mcp" | null
  readonly client: ClientConnection
  /**
   * Called before the request is recorded in the usage. Returns false if it must not be recorded. `cost` is in
   * microdollars.
   */
  readonly claimUsage?: (cost: number) => boolean
}

/** Returns the value of a header; undefined if it is missing or has several values. */
export const getHeader = ({ headers }: Pick<ApiRequest, "headers">, name: RequestHeaderName) => {
  const value = headers[name]
  return typeof value === "string" ? value : undefined
}

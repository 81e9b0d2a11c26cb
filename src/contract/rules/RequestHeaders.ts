/**
 * The request headers that the service reads. Each is declared here once, and `ApiRequest` gives access to no others.
 */

/** Headers that a web page's scripts may set, so CORS must allow them (D10). */
const settableNames = [
  "Accept",
  "Authorization",
  "B3",
  "Content-Encoding",
  "Content-Type",
  "If-None-Match",
  "Last-Event-ID",
  "MCP-Protocol-Version",
  "Mcp-Method",
  "Mcp-Name",
  "Mcp-Session-Id",
  "Traceparent",
  "Tracestate",
  "User-Agent",
  "X-API-Key",
  "X-Request-Id",
] as const

/** Headers set by browsers or proxies rather than by a web page's scripts. CORS does not have to allow them. */
type OtherName =
  | "accept-encoding"
  | "content-length"
  | "expect"
  | "host"
  | "origin"
  | "transfer-encoding"
  | "x-forwarded-for"

/** The lower-case name of a request header that the service reads. */
export type RequestHeaderName = Lowercase<typeof settableNames[number]> | OtherName

/** Header names that CORS allows a web page's scripts to set (D10). */
export const corsAllowedHeaderNames: ReadonlyArray<string> = settableNames

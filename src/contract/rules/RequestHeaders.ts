/** The request headers that the service reads, each declared once. `ApiRequest` does not give access to any others. */

/** Headers that scripts in web pages may set, so CORS must allow them (D10). */
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

/** Headers that scripts cannot set, because the browser does. CORS need not allow them. */
type OtherName =
  | "accept-encoding"
  | "content-length"
  | "expect"
  | "host"
  | "origin"
  | "transfer-encoding"
  | "x-forwarded-for"

/** The lower-case name of a header that the service reads. */
export type RequestHeaderName = Lowercase<typeof settableNames[number]> | OtherName

/** The headers that CORS allows scripts to set (D10). */
export const corsAllowedHeaderNames: ReadonlyArray<string> = settableNames

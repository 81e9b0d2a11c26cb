/** Parses request targets: the path or URL in the first line of an HTTP request. */
import type { IncomingMessage } from "node:http"

/** Matches a target that is a whole URL. The groups are its authority and everything after that. */
const absoluteForm = /^https?:\/\/([^/?#]*)(.*)$/i

/**
 * Returns whether the text is a host with an optional port. It must not contain a user name (RFC 9110, 4.2.4).
 */
const isAuthority = (text: string) => text !== "" && !/[@\\]/.test(text) && URL.canParse(`http://${text}`)

/**
 * Parses the target of a request line. Returns its path and query unchanged, and the host if the target is a whole URL,
 * which is called absolute form (RFC 9112, 3.2). Returns undefined if the target is malformed, or if its form is not
 * valid for the method.
 */
export const parseRequestTarget = (method: string, target: string) => {
  if (target.startsWith("/")) return { target, host: undefined }
  if (target === "*") return method === "OPTIONS" ? { target, host: undefined } : undefined
  const [, host = "", path = ""] = absoluteForm.exec(target) ?? []
  if (!isAuthority(host)) return undefined
  return { target: path.startsWith("/") ? path : `/${path}`, host }
}

/**
 * Replaces a target that is a whole URL (absolute form) with its path and query, and sets `Host` to the URL's host (RFC
 * 9112, 3.2.2). Returns false if the target is malformed.
 */
export const normalizeRequestTarget = (request: IncomingMessage) => {
  const { headers, method = "GET", url = "" } = request
  const parsed = parseRequestTarget(method, url)
  if (parsed === undefined) return false
  request.url = parsed.target
  // Do not add a missing `Host` header. The pipeline must refuse such a request even if its target contains a host.
  if (parsed.host !== undefined && headers.host !== undefined) headers.host = parsed.host
  return true
}

/** Returns whether all percent escapes decode to valid UTF-8. */
export const isDecodableUrl = (target: string) => {
  if (!target.includes("%")) return true
  try {
    decodeURIComponent(target.replaceAll("+", " "))
    return true
  } catch {
    return false
  }
}

/**
 * Returns a target's decoded path without the query. Removes a trailing slash, because every path works with and
 * without one. If the path cannot be decoded, its escapes are left unchanged.
 */
export const decodePath = (target: string) => {
  const [path = target] = target.split("?", 1)
  const decoded = isDecodableUrl(path) ? decodeURI(path) : path
  return decoded.length > 1 && decoded.endsWith("/") ? decoded.slice(0, -1) : decoded
}

/** Path of the MCP server. Request bodies sent to other paths are discarded. */
export const mcpPath = "/mcp"

/** The former prefix of all endpoint paths. Requests with this prefix are redirected to `/v1/` (§9.1, redirects). */
export const legacyPathPrefix = "/enterprise/v1/"

/** Returns whether the target has the former prefix and must be redirected. */
export const hasLegacyPathPrefix = (target: string) => target.startsWith(legacyPathPrefix)

/**
 * The maximum length of a path segment for the routers of the public API and the admin API. With the router's default
 * of 100 characters, the admin API's routes would not match accounts with long names, and long unknown paths would not
 * reach the 404 route.
 */
export const maxParamLength = 1_000_000

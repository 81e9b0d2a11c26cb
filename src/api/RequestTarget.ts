/** Parses request targets: the paths and URLs in the first lines of requests. */
import type { IncomingMessage } from "node:http"

const absoluteForm = /^https?:\/\/([^/?#]*)(.*)$/i

/** Whether the text is a host with an optional port. A user name before the host is invalid (RFC 9110, 4.2.4). */
const isAuthority = (text: string) => text !== "" && !/[@\\]/.test(text) && URL.canParse(`http://${text}`)

/**
 * Returns the path and query byte for byte, and the host of an absolute-form target (RFC 9112, 3.2).
 * Returns undefined if the target is malformed or its form is invalid for the method.
 */
export const parseTarget = (method: string, target: string) => {
  if (target.startsWith("/")) return { target, host: undefined }
  if (target === "*") return method === "OPTIONS" ? { target, host: undefined } : undefined
  const [, host = "", path = ""] = absoluteForm.exec(target) ?? []
  if (!isAuthority(host)) return undefined
  return { target: path.startsWith("/") ? path : `/${path}`, host }
}

/**
 * Rewrites an absolute-form target to origin form, and `Host` to the target's host (RFC 9112, 3.2.2).
 * Returns false if the target is malformed.
 */
export const normalizeRequestTarget = (request: IncomingMessage) => {
  const { headers, method = "GET", url = "" } = request
  const parsed = parseTarget(method, url)
  if (parsed === undefined) return false
  request.url = parsed.target
  // A missing `Host` header is not added: the pipeline must refuse such a request, even if its target contains a host.
  if (parsed.host !== undefined && headers.host !== undefined) headers.host = parsed.host
  return true
}

/** Whether all percent escapes decode to valid UTF-8. */
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
 * Returns the decoded path without the query and without a trailing slash, because every path works with and without
 * one. If the path cannot be decoded, returns it unchanged.
 */
export const decodePath = (target: string) => {
  const [path = target] = target.split("?", 1)
  const decoded = isDecodableUrl(path) ? decodeURI(path) : path
  return decoded.length > 1 && decoded.endsWith("/") ? decoded.slice(0, -1) : decoded
}

/** The path of the MCP server. Request bodies on all other paths are discarded. */
export const mcpPath = "/mcp"

/** The former prefix of all endpoint paths. Requests to such paths are redirected to `/v1/` (§9.1, redirects). */
export const legacyPathPrefix = "/enterprise/v1/"

/** Whether the target has the former prefix, and is therefore redirected. */
export const isLegacyRequestTarget = (target: string) => target.startsWith(legacyPathPrefix)

/**
 * The maximum length of a path segment for routers. With their default of 100 characters, the routes of the admin API
 * would miss accounts with long names, and a long unknown path would not reach the 404 route.
 */
export const maxParamLength = 1_000_000

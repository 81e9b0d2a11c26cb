/** Request targets: their form, whether they can be decoded, the path that they name, and its name in traces. */
import { Option } from "effect"
import type { HttpServerRequest } from "effect/http"
import type { IncomingMessage } from "node:http"
import * as Endpoints from "../catalogue/Endpoints.ts"

const absolute = /^https?:\/\/([^/?#]*)(.*)$/i

/** A host that may be followed by a port; user names are refused (RFC 9110, 4.2.4). */
const isAuthority = (text: string) => text !== "" && !/[@\\]/.test(text) && URL.canParse(`http://${text}`)

/**
 * The path and query of a target, byte for byte, and the host that its absolute form names (RFC 9112, 3.2).
 * Undefined if the target has none of the forms that the method allows.
 */
const originForm = (method: string, target: string) => {
  if (target.startsWith("/")) return { target, host: undefined }
  if (target === "*") return method === "OPTIONS" ? { target, host: undefined } : undefined
  const [, host = "", rest = ""] = absolute.exec(target) ?? []
  if (!isAuthority(host)) return undefined
  return { target: rest.startsWith("/") ? rest : `/${rest}`, host }
}

/**
 * Rewrites an absolute-form target to origin form, so that all that follows sees one form; its host replaces `Host`
 * (RFC 9112, 3.2.2). False if the target is malformed.
 */
export const normalizeTarget = (request: IncomingMessage) => {
  const { headers, method = "GET", url = "" } = request
  const form = originForm(method, url)
  if (form === undefined) return false
  request.url = form.target
  // A request without Host is refused later, whatever its target names.
  if (form.host !== undefined && headers.host !== undefined) headers.host = form.host
  return true
}

export const isDecodable = (target: string) => {
  if (!target.includes("%")) return true
  try {
    decodeURIComponent(target.replaceAll("+", " "))
    return true
  } catch {
    return false
  }
}

/** The path as routes are written; what cannot be decoded stays as it is. */
export const decodePath = (target: string) => {
  const path = target.split("?", 1)[0] ?? target
  return isDecodable(path) ? decodeURI(path) : path
}

/** §9.1: the pattern of addresses that moved to `/v1/*`. */
export const legacyPrefix = "/enterprise/v1/"
export const isLegacyTarget = (target: string) => target.startsWith(legacyPrefix)

/** What a trace of the request is called: of all paths that lead nowhere the same. */
export const getSpanName = ({ method, url }: HttpServerRequest.HttpServerRequest) =>
  `${method} ${
    Option.match(Endpoints.findEndpoint(decodePath(url)), { onNone: () => "other", onSome: ({ row }) => row.path })
  }`

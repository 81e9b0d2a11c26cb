/** D17, RFC 9110: the tag of an answer, and whether a client has it already. */
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { hash } from "node:crypto"

/** Strong: of the bytes themselves, so it changes exactly when they do. Compressed they are other bytes (`-gzip`). */
export const computeEtag = (bytes: Uint8Array) => `"${hash("sha1", bytes, "base64url")}"`

/** How the tag of what is sent compressed differs. */
export const addEncodingToEtag = (etag: string, encoding: string) => `${etag.slice(0, -1)}-${encoding}"`

const tag = /(?:W\/)?"([^"]*)"/g
const encoding = /-(br|gzip|zstd)$/

/**
 * The tag in `If-None-Match` by which the client has the answer, as it was sent: a list, any of which may be weak and
 * that of a compressed form, or `*`.
 */
export const matchIfNoneMatch = (sent: string | undefined, etag: string): string | undefined => {
  if (sent === undefined) return undefined
  if (sent === etag || sent.trim() === "*") return etag
  for (const [found, opaque = ""] of sent.matchAll(tag)) {
    if (`"${opaque.replace(encoding, "")}"` === etag) return found.replace(/^W\//, "")
  }
  return undefined
}

/** For what is the same for everybody and changes only with a release. */
export const staticCacheHeaders = { "Cache-Control": "public, max-age=300" }

/** How these bytes are answered: with their tag, and with 304 to a client that has them. */
export const makeConditionalResponder = (
  bytes: Uint8Array,
  contentType: string,
  headers: Readonly<Record<string, string>>,
) => {
  const etag = computeEtag(bytes)
  const full = HttpServerResponse.uint8Array(bytes, { contentType, headers: { ...headers, ETag: etag } })
  return ({ headers: { "if-none-match": sent } }: HttpServerRequest.HttpServerRequest) => {
    const has = matchIfNoneMatch(sent, etag)
    return has === undefined ? full : HttpServerResponse.empty({ status: 304, headers: { ...headers, ETag: has } })
  }
}

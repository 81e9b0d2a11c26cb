/** `ETag` and `If-None-Match` (D17, RFC 9110). */
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { createXXHash128 } from "hash-wasm"

const xxHash = await createXXHash128()

/** Returns a strong ETag: a hash of the uncompressed body. docs/decisions/0142-etag-hash.md */
export const computeEtag = (bytes: Uint8Array) => `"${xxHash.init().update(bytes).digest()}"`

/** Adds a suffix to the strong ETag of a compressed body, because its bytes differ: `"abc"` becomes `"abc-gzip"`. */
export const addEncodingToEtag = (etag: string, encoding: string) => `${etag.slice(0, -1)}-${encoding}"`

export const addToVary = (vary: string | undefined, names: string) => vary === undefined ? names : `${vary}, ${names}`

export const addAcceptEncodingToVary = (vary = "") =>
  vary === "" || /accept-encoding/i.test(vary) ? vary || "Accept-Encoding" : `${vary}, Accept-Encoding`

/**
 * Adds the content encoding to `ETag`, and `Accept-Encoding` to `Vary`.
 * Effect's compression does not add `Vary` to a 304, which has no body but needs the same `Vary` as its 200.
 */
export const addEncodingToEtagAndVary = (response: HttpServerResponse.HttpServerResponse) => {
  const { "content-encoding": encoding, etag, vary } = response.headers
  return etag === undefined ? response : HttpServerResponse.setHeaders(response, {
    ETag: encoding === undefined ? etag : addEncodingToEtag(etag.replace(/^W\//, ""), encoding),
    Vary: addAcceptEncodingToVary(vary),
  })
}

const entityTag = /(?:W\/)?"([^"]*)"/g
const encodingSuffix = /-(br|gzip|zstd)$/

/**
 * Returns the tag in `If-None-Match` that matches the ETag, regardless of `W/` and the suffix of a content encoding.
 * The returned tag lacks `W/`. Returns the ETag itself for `*`, and undefined if no tag matches.
 */
export const matchIfNoneMatch = (ifNoneMatch: string | undefined, etag: string): string | undefined => {
  if (ifNoneMatch === undefined) return undefined
  if (ifNoneMatch === etag || ifNoneMatch.trim() === "*") return etag
  for (const [tag, opaque = ""] of ifNoneMatch.matchAll(entityTag)) {
    if (`"${opaque.replace(encodingSuffix, "")}"` === etag) return tag.replace(/^W\//, "")
  }
  return undefined
}

/** Caching headers for public content that changes only with a release. */
export const staticCacheHeaders = { "Cache-Control": "public, max-age=300" }

/** Returns a function that responds to a request with the bytes and their ETag, or with 304 if the client has them. */
export const makeStaticBodyResponder = (
  bytes: Uint8Array,
  contentType: string,
  headers: Readonly<Record<string, string>>,
) => {
  const etag = computeEtag(bytes)
  const full = HttpServerResponse.uint8Array(bytes, { contentType, headers: { ...headers, ETag: etag } })
  return ({ headers: { "if-none-match": ifNoneMatch } }: HttpServerRequest.HttpServerRequest) => {
    const match = matchIfNoneMatch(ifNoneMatch, etag)
    return match === undefined ? full : HttpServerResponse.empty({ status: 304, headers: { ...headers, ETag: match } })
  }
}

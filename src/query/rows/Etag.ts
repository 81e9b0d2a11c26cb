/** The `ETag` of a response body, and the strong comparison of ETags (D17, RFC 9110). */
import { createXXHash128 } from "hash-wasm"

const xxHash = await createXXHash128()

/** Returns a strong ETag: a hash of the uncompressed body (docs/decisions/0142-etag-hash.md). */
export const computeEtag = (bytes: Uint8Array) => `"${xxHash.init().update(bytes).digest()}"`

const etagPattern = /(?:W\/)?"[^"]*"/g

/** Returns whether the text is a comma-separated list of entity tags. RFC 9110 allows empty list elements (5.6.1.2). */
const isListOfTags = (text: string) =>
  text.replaceAll(etagPattern, "tag").split(",").every((element) => ["", "tag"].includes(element.trim()))

/**
 * Returns whether `If-Match` permits changing a resource with this ETag. It must be `*`, or a list that contains the
 * ETag. A weak tag never matches (RFC 9110, 13.1.1).
 */
export const matchesIfMatch = (ifMatch: string, etag: string) =>
  ifMatch.trim() === "*" ||
  (isListOfTags(ifMatch) && Array.from(ifMatch.matchAll(etagPattern)).some(([tag]) => tag === etag))

/** `ETag` and `If-None-Match` (D17, RFC 9110). */
import { computeEtag } from "../rows/Etag.ts"
import { makePage, type Page } from "../rules/Answer.ts"

/** Adds a suffix to the strong ETag of a compressed body, because its bytes differ: `"abc"` becomes `"abc-gzip"`. */
export const addEncodingToEtag = (etag: string, encoding: string) => `${etag.slice(0, -1)}-${encoding}"`

export const addToVary = (vary: string | undefined, names: string) => vary === undefined ? names : `${vary}, ${names}`

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
export const staticCacheHeaders = { "cache-control": "public, max-age=300" }

/** Makes the page of a body that is the same for every client. */
export const makeStaticPage = (
  body: Uint8Array,
  contentType: string,
  { "cache-control": cacheControl, ...headers }: Readonly<Record<string, string>>,
  records = 0,
): Page => makePage({ body, contentType, records, headers, cacheControl, etag: computeEtag(body) })

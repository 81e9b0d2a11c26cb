/** Creates pages that are the same for every client and change only between releases. */
import { computeEtag } from "../query/rows/Etag.ts"
import { makePage, type Page } from "../contract/rules/EndpointResult.ts"

/** Caching headers for public content that changes only between releases. */
export const staticCacheHeaders = { "cache-control": "public, max-age=300" }

/** Creates a page whose body is the same for every client. */
export const makeStaticPage = (
  body: Uint8Array,
  contentType: string,
  { "cache-control": cacheControl, ...headers }: Readonly<Record<string, string>>,
  records = 0,
): Page => makePage({ body, contentType, records, headers, cacheControl, etag: computeEtag(body) })

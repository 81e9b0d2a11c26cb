/**
 * Builds the response for a result: status, headers (D14) and cost (D27). Cached responses are built by
 * `ResponseCache.ts` instead. They have the headers of the original response, except those that differ for each
 * request.
 */
import { Effect } from "effect"
import { computeDataCost } from "../accounts/billing/Pricing.ts"
import type { FinishedResponse, Page } from "../contract/rules/EndpointResult.ts"
import { getHeader } from "../contract/rules/ApiRequest.ts"
import { formatLinks } from "../contract/rules/LinkHeader.ts"
import { makeNextPageTarget, type NextPage } from "../contract/rules/Paging.ts"
import { BaseUrl } from "./BaseUrl.ts"
import type { RequestInProgress } from "./RequestInProgress.ts"
import { addToVary, makeCorsHeaders } from "./Cors.ts"

type Headers = Readonly<Record<string, string>>

/** The header that states a response's cost in microdollars (D27). Exports send it as a trailer. */
export const costHeader = "x-cost-microdollars"

/** Headers for certain statuses (§7.2, errors). */
const statusHeaders: Readonly<Record<number, Headers>> = {
  401: { "www-authenticate": "Bearer" },
  503: { "retry-after": "5" },
}

/**
 * Returns whether bodies with this content type are compressed. Event streams are not, because each event must be sent
 * immediately.
 */
export const isCompressible = (type: string) =>
  /^(text\/(?!event-stream)|application\/(json|javascript|xml|x-ndjson|[\w.-]+\+(json|xml))|image\/svg)/.test(type)

/** Matches an entity tag in `If-None-Match`. The group is the text within its quotation marks. */
const entityTag = /(?:W\/)?"([^"]*)"/g
const encodingSuffix = /-(br|gzip|zstd)$/

/**
 * Returns the first tag in `If-None-Match` that matches the response's ETag, or undefined if none does. The comparison
 * ignores a `W/` prefix and the suffix of a content encoding: `W/"abc-gzip"` matches `"abc"`, and `"abc-gzip"` is
 * returned. Returns the ETag itself for `*`.
 */
export const matchIfNoneMatch = (ifNoneMatch: string | undefined, etag: string): string | undefined => {
  if (ifNoneMatch === undefined) return undefined
  if (ifNoneMatch === etag || ifNoneMatch.trim() === "*") return etag
  for (const [tag, opaque = ""] of ifNoneMatch.matchAll(entityTag)) {
    if (`"${opaque.replace(encodingSuffix, "")}"` === etag) return tag.replace(/^W\//, "")
  }
  return undefined
}

const addAcceptEncodingToVary = (vary: string | undefined) =>
  vary !== undefined && /accept-encoding/i.test(vary) ? vary : addToVary(vary, "Accept-Encoding")

const noHeaders: Headers = {}

/** The properties of a response that determine its headers. */
interface Head {
  readonly status: number
  readonly contentType: string | undefined
  /** Size of the body in bytes. Undefined for streams and for some responses without a body. */
  readonly contentLength: number | undefined
  readonly cacheControl: string | undefined
  readonly etag: string | undefined
  readonly headers: Headers
  /** Headers that describe the body. A 304 omits them. */
  readonly bodyHeaders: Headers
  /** Set if there are further results, to which a `Link` header refers. */
  readonly nextPage: NextPage | undefined
  /** Cost of the response in microdollars. Undefined if it is not known yet when the response begins. */
  readonly cost: number | undefined
}

/**
 * Builds two functions: `finishPage`, which creates the response for a page of rows or a document, and `finishPlain`,
 * which creates all other responses. Called once, at startup.
 */
export const makeResponseBuilder = Effect.gen(function* () {
  const base = yield* BaseUrl
  const addCorsHeaders = yield* makeCorsHeaders

  /**
   * Builds the headers of a response. Some headers are defined in several places, of which the last in this list wins:
   * the properties of the body, the headers of the result, the headers for the status, and the headers that are added
   * to every response to the request.
   */
  const makeHeaders = (progress: RequestInProgress, head: Head): Headers => {
    const { account, headers: common, isRecorded, links, request } = progress
    const { bodyHeaders, cacheControl, contentLength, contentType, cost, etag, nextPage, status } = head
    const headers: Record<string, string> = {}
    if (contentType !== undefined) headers["content-type"] = contentType
    if (contentLength !== undefined) headers["content-length"] = String(contentLength)
    if (etag !== undefined) headers["etag"] = etag
    Object.assign(headers, head.headers, bodyHeaders, statusHeaders[status], common)
    headers["cache-control"] ??= cacheControl ?? (account === undefined ? "no-store" : "private, no-store")
    const allLinks = nextPage === undefined
      ? links
      : [...links, { path: makeNextPageTarget(request.target, nextPage), attributes: `rel="next"` }]
    if (allLinks.length > 0) headers["link"] = formatLinks(base, allLinks)
    // Prevents browsers from interpreting a response as a page or a script (OWASP API8).
    headers["x-content-type-options"] = "nosniff"
    headers["x-api-version"] = "v1"
    headers["x-request-id"] = request.id
    addCorsHeaders(request, headers)
    // Such a response depends on `Accept-Encoding`: its body may be compressed, and its ETag then differs.
    if (etag !== undefined || (contentType !== undefined && isCompressible(contentType))) {
      headers["vary"] = addAcceptEncodingToVary(headers["vary"])
    }
    // A request that is not recorded as usage is not charged, so it has no cost to state.
    if (isRecorded && cost !== undefined) headers[costHeader] = String(cost)
    return headers
  }

  /** Builds the response for a page, either with the full body or as a 304 if the client already has the same body. */
  const finishPage = (progress: RequestInProgress, page: Page): FinishedResponse => {
    const { price, request } = progress
    // An estimate always needs the full body, whose size determines the cost.
    const matchingTag = page.etag === undefined || request.purpose === "estimate"
      ? undefined
      : matchIfNoneMatch(getHeader(request, "if-none-match"), page.etag)
    const isFull = matchingTag === undefined
    const bytes = isFull ? page.body.length : 0
    const cost = isFull && request.method !== "HEAD" ? computeDataCost(bytes, price) : 0
    const status = isFull ? 200 : 304
    const headers = makeHeaders(progress, {
      status,
      contentType: isFull ? page.contentType : undefined,
      contentLength: isFull ? bytes : undefined,
      cacheControl: page.cacheControl,
      etag: matchingTag ?? page.etag,
      headers: page.headers,
      bodyHeaders: isFull ? page.bodyHeaders : noHeaders,
      nextPage: page.nextPage,
      cost,
    })
    return {
      status,
      headers,
      body: isFull ? page.body : undefined,
      trailers: undefined,
      isEndless: false,
      records: page.records,
      bytes,
      cost,
      price,
      total: page.total,
      // In the metrics, a 304 counts as cached, because the client has the body in its own cache.
      isCached: page.isCached || !isFull,
    }
  }

  /**
   * Builds a response without an `ETag`: an error, a redirect, or a body of unknown size. `stream` is set if the body
   * is a stream.
   */
  const finishPlain = (
    progress: RequestInProgress,
    { body, contentType, headers, status }: Pick<FinishedResponse, "status" | "headers" | "body"> & {
      readonly contentType: string | undefined
    },
    stream?: { readonly trailers: Headers | undefined; readonly isEndless: boolean },
  ): FinishedResponse => {
    const bytes = body instanceof Uint8Array ? body.length : 0
    return {
      status,
      headers: makeHeaders(progress, {
        status,
        contentType,
        // Without a content length, Node.js would send an empty chunked body for GET, but omit the header for HEAD.
        contentLength: body instanceof Uint8Array || (body === undefined && status !== 204) ? bytes : undefined,
        cacheControl: headers["cache-control"],
        etag: undefined,
        headers,
        bodyHeaders: stream?.trailers === undefined ? noHeaders : { trailer: trailerNames },
        nextPage: undefined,
        // The cost of a stream is known only when it ends.
        cost: stream === undefined ? 0 : undefined,
      }),
      body,
      trailers: stream?.trailers,
      isEndless: stream?.isEndless === true,
      records: 0,
      bytes,
      cost: 0,
      price: progress.price,
      total: undefined,
      isCached: false,
    }
  }
  return { finishPage, finishPlain }
})

/** The names of the trailers that follow the body of an export (RFC 9110, 6.5). */
const trailerNames = "Unencoded-Digest, X-Cost-Microdollars"

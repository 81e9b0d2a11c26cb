/**
 * Compresses responses of at least 1 KiB with zstd, Brotli or gzip, depending on what the client accepts (RFC 9110,
 * 12.5.3).
 */
import { Effect, Stream } from "effect"
import { type HttpBody, HttpPlatform, HttpServerResponse } from "effect/http"
import { LRUCache } from "lru-cache"
import Negotiator from "negotiator"
import type { FinishedResponse } from "../contract/rules/EndpointResult.ts"
import { type ApiRequest, getHeader } from "../contract/rules/ApiRequest.ts"
import { isCompressible } from "./ResponseBuilder.ts"

/** Returns whether a request body is compressed. Compressed request bodies are not supported and are refused. */
export const isCompressed = (contentEncoding: string | undefined) =>
  contentEncoding !== undefined && !/^\s*(identity)?\s*$/i.test(contentEncoding)

/** The message and headers of the 415 response to a compressed request body (RFC 9110, 15.5.16). */
export const compressedBodyRefusal = {
  message: "The body is compressed. Send it without Content-Encoding.",
  headers: { "accept-encoding": "identity" },
}

/** Supported algorithms in order of preference. The order matters if the client accepts several of them equally. */
const algorithms = ["zstd", "br", "gzip"] as const
type Algorithm = typeof algorithms[number]

/**
 * Compression levels for bodies that are built per request. For rows encoded as JSON, low levels save the most bytes
 * per millisecond of CPU time.
 */
const levels: Readonly<Record<Algorithm, number>> = { zstd: 1, br: 3, gzip: 4 }

const minBytes = 1024

/** The part of the package `negotiator` that is used here. Its published types lack the option `preferred`. */
interface EncodingNegotiator {
  readonly encodings: (
    available: ReadonlyArray<string>,
    options: { readonly preferred: ReadonlyArray<string> },
  ) => ReadonlyArray<string>
}

/**
 * Returns the available encodings that the client accepts, in the client's order of preference. The result may include
 * `identity`.
 */
const negotiateEncodings = (acceptEncoding: string, available: ReadonlyArray<string>) => {
  const negotiator: EncodingNegotiator = new Negotiator({ headers: { "accept-encoding": acceptEncoding } })
  return negotiator.encodings([...available, "identity"], { preferred: algorithms })
}

/**
 * Adds a suffix to a compressed body's strong ETag, because the compressed bytes differ: `"abc"` becomes `"abc-gzip"`.
 */
export const addEncodingToEtag = (etag: string, encoding: string) => `${etag.slice(0, -1)}-${encoding}"`

/**
 * Compression levels for static bodies, which are the same for every client. The levels are high, because each body is
 * compressed only once.
 */
const staticLevels: Readonly<Record<Algorithm, number>> = { zstd: 12, br: 7, gzip: 9 }

/**
 * Caches the compressed versions of each static body, by algorithm. Each version is created when it is first requested.
 */
const compressedBodies = new WeakMap<Uint8Array, Map<string, Promise<HttpBody.HttpBody>>>()

/** Marks the body of a static page, so that it is compressed only once per algorithm. Returns the same bytes. */
export const cacheCompressedBodies = (bytes: Uint8Array) => {
  compressedBodies.set(bytes, new Map())
  return bytes
}

/**
 * Returns a static body compressed with the given algorithm, from `bodies` if it was compressed before. If compression
 * fails, the next request tries again.
 */
export const getCompressedBody = <Body>(
  bodies: Map<string, Promise<Body>>,
  algorithm: string,
  compress: () => Promise<Body>,
): Promise<Body> => {
  const existing = bodies.get(algorithm)
  if (existing !== undefined) return existing
  const compressed = compress()
  bodies.set(algorithm, compressed)
  compressed.catch(() => bodies.delete(algorithm))
  return compressed
}

interface Negotiated {
  /** The algorithm with which to compress the body. Undefined if it must not be compressed. */
  readonly algorithm: Algorithm | undefined
  readonly minBytes: number
}

const uncompressed: Negotiated = { algorithm: undefined, minBytes }

/**
 * Maximum number of cached `Accept-Encoding` values. A limit is necessary, because clients can send arbitrary values.
 */
const maxRememberedHeaders = 200

/** Builds the function that compresses responses. */
export const makeCompress = Effect.map(HttpPlatform.HttpPlatform, ({ compression }) => {
  // The runtime may not support all of them.
  const available = algorithms.filter((algorithm) => compression.algorithms.has(algorithm))
  const negotiated = new LRUCache<string, Negotiated>({ max: maxRememberedHeaders })

  const negotiate = (acceptEncoding: string | undefined): Negotiated => {
    if (acceptEncoding === undefined) return uncompressed
    const known = negotiated.get(acceptEncoding)
    if (known !== undefined) return known
    const accepted = negotiateEncodings(acceptEncoding, available)
    const found = {
      algorithm: available.find((algorithm) => algorithm === accepted[0]),
      // If the client refuses uncompressed bodies (`identity;q=0`), even small ones are compressed.
      minBytes: accepted.includes("identity") || accepted.length === 0 ? minBytes : 0,
    }
    negotiated.set(acceptEncoding, found)
    return found
  }

  const compressBody = (body: NonNullable<FinishedResponse["body"]>, contentType: string, algorithm: Algorithm) => {
    const isComplete = body instanceof Uint8Array
    const response = isComplete
      ? HttpServerResponse.uint8Array(body, { contentType })
      : HttpServerResponse.stream(body, { contentType })
    const bodies = isComplete ? compressedBodies.get(body) : undefined
    const level = (bodies === undefined ? levels : staticLevels)[algorithm]
    const compressed = Effect.map(compression.compressResponse(response, algorithm, { level }), ({ body }) => body)
    return bodies === undefined
      ? compressed
      : Effect.promise(() => getCompressedBody(bodies, algorithm, () => Effect.runPromise(compressed)))
  }

  /**
   * Compresses the body unless it is too small, already compressed, or the client accepts no supported algorithm.
   * Updates the ETag and the content length to match.
   */
  return (request: ApiRequest, response: FinishedResponse): Effect.Effect<FinishedResponse> | FinishedResponse => {
    const { body, headers } = response
    const contentType = headers["content-type"]
    if (body === undefined || contentType === undefined || !isCompressible(contentType)) return response
    const { algorithm, minBytes } = negotiate(getHeader(request, "accept-encoding"))
    const isTooSmall = body instanceof Uint8Array && body.length < minBytes
    if (algorithm === undefined || isTooSmall || headers["content-encoding"] !== undefined) return response
    return Effect.map(compressBody(body, contentType, algorithm), (compressed): FinishedResponse => {
      const { "content-length": _, ...rest } = headers
      const tag = headers["etag"] === undefined ? {} : { etag: addEncodingToEtag(headers["etag"], algorithm) }
      const isComplete = compressed._tag === "Uint8Array"
      return {
        ...response,
        headers: {
          ...rest,
          ...tag,
          "content-encoding": algorithm,
          ...(isComplete ? { "content-length": String(compressed.contentLength) } : {}),
        },
        body: isComplete ? compressed.body : compressed._tag === "Stream" ? compressed.stream : Stream.empty,
      }
    })
  }
})

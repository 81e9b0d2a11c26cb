/**
 * Compresses responses of at least 1 KiB with zstd, Brotli or gzip, whichever of them the client accepts (RFC 9110,
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

/** Minimum size of a body that is compressed. */
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

/** The compressed versions of each static body, by algorithm. Each version is created when it is first requested. */
const compressedBodies = new WeakMap<Uint8Array, Map<string, Promise<HttpBody.HttpBody>>>()

/** Marks a body as static, so that it is compressed only once per algorithm. Returns the same bytes. */
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

/** The compression of responses to clients that send a certain `Accept-Encoding`. */
interface CompressionChoice {
  /** The algorithm with which to compress the body. Undefined if it must not be compressed. */
  readonly algorithm: Algorithm | undefined
  /** Minimum size of a body that is compressed. */
  readonly minBytes: number
}

const noCompression: CompressionChoice = { algorithm: undefined, minBytes }

/**
 * Maximum number of cached `Accept-Encoding` values. A limit is necessary, because clients can send arbitrary values.
 */
const maxCachedHeaders = 200

/**
 * Builds a function that chooses how to compress responses for a value of `Accept-Encoding`. `available` contains the
 * algorithms that the runtime supports.
 */
const makeCompressionChooser = (available: ReadonlyArray<Algorithm>) => {
  const choices = new LRUCache<string, CompressionChoice>({ max: maxCachedHeaders })
  return (acceptEncoding: string | undefined): CompressionChoice => {
    if (acceptEncoding === undefined) return noCompression
    const cached = choices.get(acceptEncoding)
    if (cached !== undefined) return cached
    const accepted = negotiateEncodings(acceptEncoding, available)
    const choice = {
      // The header's most preferred encoding. Undefined if that is an uncompressed body (`identity`).
      algorithm: available.find((algorithm) => algorithm === accepted[0]),
      // If the client refuses uncompressed bodies (`identity;q=0`), even small ones are compressed. If it accepts
      // nothing that is available either, the body is sent uncompressed anyway.
      minBytes: accepted.includes("identity") || accepted.length === 0 ? minBytes : 0,
    }
    choices.set(acceptEncoding, choice)
    return choice
  }
}

/**
 * Compresses a body, which is either a stream or complete. A static body, which is the same for every client (it is in
 * `compressedBodies`), is compressed only once per algorithm, at a higher level.
 */
const compressBody = (
  compression: HttpPlatform.Compression,
  body: NonNullable<FinishedResponse["body"]>,
  contentType: string,
  algorithm: Algorithm,
): Effect.Effect<HttpBody.HttpBody> => {
  const isComplete = body instanceof Uint8Array
  const response = isComplete
    ? HttpServerResponse.uint8Array(body, { contentType })
    : HttpServerResponse.stream(body, { contentType })
  const staticBodies = isComplete ? compressedBodies.get(body) : undefined
  const level = (staticBodies === undefined ? levels : staticLevels)[algorithm]
  const compressed = Effect.map(compression.compressResponse(response, algorithm, { level }), ({ body }) => body)
  return staticBodies === undefined
    ? compressed
    : Effect.promise(() => getCompressedBody(staticBodies, algorithm, () => Effect.runPromise(compressed)))
}

/** Returns the response with its compressed body, and with an ETag and content length that match it. */
const withCompressedBody = (
  response: FinishedResponse,
  compressed: HttpBody.HttpBody,
  algorithm: Algorithm,
): FinishedResponse => {
  const { "content-length": _, ...headers } = response.headers
  const etag = headers["etag"] === undefined ? {} : { etag: addEncodingToEtag(headers["etag"], algorithm) }
  const common = { ...headers, ...etag, "content-encoding": algorithm }
  if (compressed._tag === "Uint8Array") {
    const length = { "content-length": String(compressed.contentLength) }
    return { ...response, headers: { ...common, ...length }, body: compressed.body }
  }
  return { ...response, headers: common, body: compressed._tag === "Stream" ? compressed.stream : Stream.empty }
}

/** Builds the function that compresses responses. */
export const makeResponseCompressor = Effect.map(HttpPlatform.HttpPlatform, ({ compression }) => {
  // The runtime may not support all algorithms.
  const available = algorithms.filter((algorithm) => compression.algorithms.has(algorithm))
  const chooseCompression = makeCompressionChooser(available)

  /**
   * Compresses the body unless it is too small, already compressed, or the client accepts no supported algorithm.
   * Updates the ETag and the content length to match.
   */
  return (request: ApiRequest, response: FinishedResponse): Effect.Effect<FinishedResponse> | FinishedResponse => {
    const { body, headers } = response
    const contentType = headers["content-type"]
    if (body === undefined || contentType === undefined || !isCompressible(contentType)) return response
    const { algorithm, minBytes } = chooseCompression(getHeader(request, "accept-encoding"))
    const isTooSmall = body instanceof Uint8Array && body.length < minBytes
    if (algorithm === undefined || isTooSmall || headers["content-encoding"] !== undefined) return response
    return Effect.map(
      compressBody(compression, body, contentType, algorithm),
      (compressed) => withCompressedBody(response, compressed, algorithm),
    )
  }
})

/** Compresses responses of 1 KiB or more with zstd, Brotli or gzip. */
import { Effect } from "effect"
import { HttpBody, HttpMiddleware, HttpPlatform, HttpServerResponse } from "effect/http"
import { promisify } from "node:util"
import { brotliCompress, constants, gzip, zstdCompress } from "node:zlib"
import { addAcceptEncodingToVary } from "./ConditionalRequests.ts"

/** Compresses at low levels, because these save the most bytes of JSON rows per millisecond. */
const compress = HttpMiddleware.compression({
  algorithms: ["zstd", "br", "gzip"],
  minSize: 1024,
  compressible: (type) =>
    /^(text\/(?!event-stream)|application\/(json|javascript|xml|x-ndjson|[\w.-]+\+(json|xml))|image\/svg)/.test(type),
  levels: { zstd: 1, br: 3, gzip: 4 },
})

type Compressor = (bytes: Uint8Array) => Promise<Uint8Array>

/** Compressors at high levels, for static bodies that are compressed only once. */
const compressors: Readonly<Record<string, Compressor>> = {
  zstd: (bytes) => promisify(zstdCompress)(bytes, { params: { [constants.ZSTD_c_compressionLevel]: 12 } }),
  br: (bytes) => promisify(brotliCompress)(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 7 } }),
  gzip: (bytes) => promisify(gzip)(bytes, { level: 9 }),
}

type CompressedBodies = Map<string, Promise<Uint8Array>>

/** The compressed bodies for each uncompressed static body, by algorithm. Each is created on the first request. */
const compressedBodies = new WeakMap<Uint8Array, CompressedBodies>()

/** Marks a static body so that it is compressed only once with each algorithm. Returns the same bytes. */
export const cacheCompressedBodies = (bytes: Uint8Array) => {
  compressedBodies.set(bytes, new Map())
  return bytes
}

/** Returns `bytes`, compressed with the algorithm. If the compression fails, the next request tries again. */
export const getCompressedBody = (
  bodies: CompressedBodies,
  algorithm: string,
  compressor: Compressor,
  bytes: Uint8Array,
): Promise<Uint8Array> => {
  const existing = bodies.get(algorithm)
  if (existing !== undefined) return existing
  const compressed = compressor(bytes)
  bodies.set(algorithm, compressed)
  compressed.catch(() => bodies.delete(algorithm))
  return compressed
}

const withCachedBodies = (platform: HttpPlatform.HttpPlatform["Service"]): HttpPlatform.HttpPlatform["Service"] => ({
  ...platform,
  compression: {
    ...platform.compression,
    compressResponse: (response, algorithm, options) => {
      const { body, headers } = response
      const bodies = body._tag === "Uint8Array" ? compressedBodies.get(body.body) : undefined
      const compressor = compressors[algorithm]
      if (body._tag !== "Uint8Array" || bodies === undefined || compressor === undefined) {
        return platform.compression.compressResponse(response, algorithm, options)
      }
      return Effect.map(
        Effect.promise(() => getCompressedBody(bodies, algorithm, compressor, body.body)),
        (bytes) =>
          HttpServerResponse.setHeaders(
            HttpServerResponse.setBody(response, HttpBody.uint8Array(bytes, body.contentType)),
            { "content-encoding": algorithm, vary: addAcceptEncodingToVary(headers["vary"]) },
          ),
      )
    },
  },
})

export const makeCompressionMiddleware = Effect.map(
  HttpPlatform.HttpPlatform,
  (platform) => {
    const cachingPlatform = withCachedBodies(platform)
    return <E, R>(httpApp: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
      Effect.provideService(compress(httpApp), HttpPlatform.HttpPlatform, cachingPlatform)
  },
)

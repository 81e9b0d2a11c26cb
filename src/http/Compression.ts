/** Compresses responses of 1 KiB or more with zstd, Brotli or gzip, whichever the client prefers (RFC 9110, 12.5.3). */
import { Effect } from "effect"
import { HttpBody, HttpMiddleware, HttpPlatform, HttpServerRequest, HttpServerResponse } from "effect/http"
import Negotiator from "negotiator"
import { promisify } from "node:util"
import { brotliCompress, constants, gzip, zstdCompress } from "node:zlib"
import { addAcceptEncodingToVary } from "./ConditionalRequests.ts"

/** Best first. The order decides between algorithms that the client prefers equally. */
const algorithms = ["zstd", "br", "gzip"] as const

/** Compresses at low levels, because these save the most bytes of JSON rows per millisecond. */
const makeCompression = (minSize: number) =>
  HttpMiddleware.compression({
    algorithms,
    minSize,
    compressible: (type) =>
      /^(text\/(?!event-stream)|application\/(json|javascript|xml|x-ndjson|[\w.-]+\+(json|xml))|image\/svg)/.test(type),
    levels: { zstd: 1, br: 3, gzip: 4 },
  })

const compress = makeCompression(1024)

/** For clients that refuse uncompressed bodies. */
const compressAnySize = makeCompression(0)

/** The published types lack the option `preferred`. */
interface EncodingNegotiator {
  readonly encodings: (
    available: ReadonlyArray<string>,
    options: { readonly preferred: ReadonlyArray<string> },
  ) => ReadonlyArray<string>
}

/** Returns the available encodings that the client accepts, perhaps with `identity`, the most preferred one first. */
const negotiateEncodings = (acceptEncoding: string | undefined, available: ReadonlyArray<string>) => {
  const negotiator: EncodingNegotiator = new Negotiator({ headers: { "accept-encoding": acceptEncoding } })
  return negotiator.encodings([...available, "identity"], { preferred: algorithms })
}

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

/** Makes the platform use the compressed static bodies, and offer only the given algorithm. */
const makePlatform = (
  platform: HttpPlatform.HttpPlatform["Service"],
  offered: typeof algorithms[number] | undefined,
): HttpPlatform.HttpPlatform["Service"] => ({
  ...platform,
  compression: {
    algorithms: new Set(offered === undefined ? [] : [offered]),
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
    // Older versions of Node lack zstd.
    const available = algorithms.filter((algorithm) => platform.compression.algorithms.has(algorithm))
    const uncompressed = makePlatform(platform, undefined)
    const platforms = new Map<string, HttpPlatform.HttpPlatform["Service"]>(
      available.map((algorithm) => [algorithm, makePlatform(platform, algorithm)]),
    )
    return <E, R>(httpApp: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
      Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers }) => {
        const accepted = negotiateEncodings(headers["accept-encoding"], available)
        const middleware = accepted.includes("identity") || accepted.length === 0 ? compress : compressAnySize
        const chosen = platforms.get(accepted[0] ?? "identity") ?? uncompressed
        return Effect.provideService(middleware(httpApp), HttpPlatform.HttpPlatform, chosen)
      })
  },
)

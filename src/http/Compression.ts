/** Compresses responses of 1 KiB or more with zstd, Brotli or gzip. */
import { Effect } from "effect"
import { HttpBody, HttpMiddleware, HttpPlatform, HttpServerResponse } from "effect/http"
import { promisify } from "node:util"
import { brotliCompress, constants, gzip, zstdCompress } from "node:zlib"
import { addEncodingToVary } from "./ConditionalRequests.ts"

/** Uses low compression levels, which save the most bytes per millisecond on JSON rows. */
const compress = HttpMiddleware.compression({
  algorithms: ["zstd", "br", "gzip"],
  minSize: 1024,
  compressible: (type) =>
    /^(text\/|application\/(json|javascript|xml|x-ndjson|[\w.-]+\+(json|xml))|image\/svg)/.test(type),
  levels: { zstd: 1, br: 3, gzip: 4 },
})

/** Compressors at high levels, for static bodies that are compressed only once. */
const compressors: Readonly<Record<string, (bytes: Uint8Array) => Promise<Uint8Array>>> = {
  zstd: (bytes) => promisify(zstdCompress)(bytes, { params: { [constants.ZSTD_c_compressionLevel]: 12 } }),
  br: (bytes) => promisify(brotliCompress)(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 7 } }),
  gzip: (bytes) => promisify(gzip)(bytes, { level: 9 }),
}

/** Compressed forms of static bodies, by algorithm. Each form is created on its first request. */
const compressedForms = new WeakMap<Uint8Array, Map<string, Promise<Uint8Array>>>()

/** Marks a static body so that each of its compressed forms is computed only once. Returns the same bytes. */
export const cacheCompressedForms = (bytes: Uint8Array) => {
  compressedForms.set(bytes, new Map())
  return bytes
}

const withCachedForms = (platform: HttpPlatform.HttpPlatform["Service"]): HttpPlatform.HttpPlatform["Service"] => ({
  ...platform,
  compression: {
    ...platform.compression,
    compressResponse: (response, algorithm, options) => {
      const { body, headers } = response
      const forms = body._tag === "Uint8Array" ? compressedForms.get(body.body) : undefined
      const compressor = compressors[algorithm]
      if (body._tag !== "Uint8Array" || forms === undefined || compressor === undefined) {
        return platform.compression.compressResponse(response, algorithm, options)
      }
      const form = forms.get(algorithm) ?? compressor(body.body)
      forms.set(algorithm, form)
      return Effect.map(Effect.promise(() => form), (bytes) =>
        HttpServerResponse.setHeaders(
          HttpServerResponse.setBody(response, HttpBody.uint8Array(bytes, body.contentType)),
          { "content-encoding": algorithm, vary: addEncodingToVary(headers["vary"]) },
        ))
    },
  },
})

export const makeCompressionMiddleware = Effect.map(
  HttpPlatform.HttpPlatform,
  (platform) => {
    const cachingPlatform = withCachedForms(platform)
    return <E, R>(httpApp: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
      Effect.provideService(compress(httpApp), HttpPlatform.HttpPlatform, cachingPlatform)
  },
)

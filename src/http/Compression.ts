/** What is sent is compressed for clients that ask for it, where it is long enough to gain by it. */
import { Effect } from "effect"
import { HttpBody, HttpMiddleware, HttpPlatform, HttpServerResponse } from "effect/http"
import { promisify } from "node:util"
import { brotliCompress, constants, gzip, zstdCompress } from "node:zlib"
import { addEncodingToEtag } from "./ConditionalRequests.ts"

/** The levels at which the JSON of rows gains most for the time it takes. */
const compress = HttpMiddleware.compression({
  algorithms: ["zstd", "br", "gzip"],
  minSize: 1024,
  compressible: (type) =>
    /^(text\/|application\/(json|javascript|xml|x-ndjson|[\w.-]+\+(json|xml))|image\/svg)/.test(type),
  levels: { zstd: 1, br: 3, gzip: 4 },
})

/** What is compressed once can be compressed well. */
const thoroughly: Readonly<Record<string, (bytes: Uint8Array) => Promise<Uint8Array>>> = {
  zstd: (bytes) => promisify(zstdCompress)(bytes, { params: { [constants.ZSTD_c_compressionLevel]: 12 } }),
  br: (bytes) => promisify(brotliCompress)(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 7 } }),
  gzip: (bytes) => promisify(gzip)(bytes, { level: 9 }),
}

/** The compressed forms of bodies that are the same for everybody, made when the first client asks for them. */
const forms = new WeakMap<Uint8Array, Map<string, Promise<Uint8Array>>>()

/** The bytes themselves; as the body of a response they are compressed once, and not for each client. */
export const cacheCompressedForms = (bytes: Uint8Array) => {
  forms.set(bytes, new Map())
  return bytes
}

/** As Effect says it of what it compresses itself. */
const varying = (already = "") =>
  already === "" || /accept-encoding/i.test(already) ? already || "Accept-Encoding" : `${already}, Accept-Encoding`

const keeping = (platform: HttpPlatform.HttpPlatform["Service"]): HttpPlatform.HttpPlatform["Service"] => ({
  ...platform,
  compression: {
    ...platform.compression,
    compressResponse: (response, algorithm, options) => {
      const { body, headers } = response
      const kept = body._tag === "Uint8Array" ? forms.get(body.body) : undefined
      const make = thoroughly[algorithm]
      if (body._tag !== "Uint8Array" || kept === undefined || make === undefined) {
        return platform.compression.compressResponse(response, algorithm, options)
      }
      const form = kept.get(algorithm) ?? make(body.body)
      kept.set(algorithm, form)
      return Effect.map(Effect.promise(() => form), (bytes) =>
        HttpServerResponse.setHeaders(
          HttpServerResponse.setBody(response, HttpBody.uint8Array(bytes, body.contentType)),
          { "content-encoding": algorithm, vary: varying(headers["vary"]) },
        ))
    },
  },
})

/** A middleware for whatever serves. */
export const makeCompressionMiddleware = Effect.map(
  HttpPlatform.HttpPlatform,
  (platform) => {
    const ours = keeping(platform)
    return <E, R>(served: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
      Effect.provideService(compress(served), HttpPlatform.HttpPlatform, ours)
  },
)

/**
 * D17: a tag stays strong, and a compressed form has one of its own. The compression skips responses without a body,
 * so the `Vary` of a 304 is completed here.
 */
export const addEncodingToValidators = (response: HttpServerResponse.HttpServerResponse) => {
  const { "content-encoding": encoding, etag, vary } = response.headers
  return etag === undefined ? response : HttpServerResponse.setHeaders(response, {
    ETag: encoding === undefined ? etag : addEncodingToEtag(etag.replace(/^W\//, ""), encoding),
    Vary: varying(vary),
  })
}

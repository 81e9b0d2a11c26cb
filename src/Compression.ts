/** What is sent is compressed for clients that ask for it, where it is long enough to gain by it. */
import { Effect } from "effect"
import { HttpMiddleware, HttpPlatform, HttpServerResponse } from "effect/http"
import { encodedTag } from "./cache/Revalidation.ts"

/** The levels at which the JSON of rows gains most for the time it takes. */
const compress = HttpMiddleware.compression({
  algorithms: ["zstd", "br", "gzip"],
  minSize: 1024,
  compressible: (type) =>
    /^(text\/|application\/(json|javascript|xml|x-ndjson|[\w.-]+\+(json|xml))|image\/svg)/.test(type),
  levels: { zstd: 1, br: 3, gzip: 4 },
})

/** A middleware for whatever serves. */
export const compression = Effect.map(
  HttpPlatform.HttpPlatform,
  (platform) => <E, R>(served: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
    Effect.provideService(compress(served), HttpPlatform.HttpPlatform, platform),
)

/** D17: the tag stays strong. Compressed the bytes are others, but from one tag the other follows. */
export const withStrongTag = (response: HttpServerResponse.HttpServerResponse) => {
  const { "content-encoding": encoding, etag } = response.headers
  return etag === undefined || encoding === undefined
    ? response
    : HttpServerResponse.setHeader(response, "ETag", encodedTag(etag.replace(/^W\//, ""), encoding))
}

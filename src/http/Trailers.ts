/** Sends the cost and digest of an export as trailers (RFC 9110, 6.5), because they are known only at its end. */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Effect, Predicate, Stream } from "effect"
import { HttpBody, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { digestHeaderName } from "../rows/ListFormats.ts"
import type { RequestContext } from "./RequestContext.ts"

const trailerNames = `${digestHeaderName}, X-Cost-Microdollars`

/** Whether the response may have trailers. They need a body in chunked encoding, which HEAD and HTTP/1.0 lack. */
const supportsTrailers = ({ method, source }: HttpServerRequest.HttpServerRequest) =>
  method !== "HEAD" && !(Predicate.hasProperty(source, "httpVersion") && source.httpVersion === "1.0")

/** Announces the trailers of an export in the `Trailer` header and sends them after the body. */
export const addExportTrailers = (
  request: HttpServerRequest.HttpServerRequest,
  response: HttpServerResponse.HttpServerResponse,
  { response: { streamedExport } }: RequestContext,
) => {
  const { body } = response
  if (streamedExport === undefined || body._tag !== "Stream" || !supportsTrailers(request)) return response
  const addTrailers = Effect.sync(() =>
    NodeHttpServerRequest.toServerResponse(request).addTrailers(streamedExport.trailers)
  )
  const stream = Stream.concat(body.stream, Stream.fromEffectDrain(addTrailers))
  return HttpServerResponse.setHeader(
    HttpServerResponse.setBody(response, HttpBody.stream(stream, body.contentType)),
    "Trailer",
    trailerNames,
  )
}

/** What is said at the end of a whole list: only then are its cost and its digest known (RFC 9110, 6.5). */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Effect, Predicate, Stream } from "effect"
import { HttpBody, type HttpServerRequest, HttpServerResponse } from "effect/http"
import type { RequestContext } from "./RequestContext.ts"
import { digestHeaderName } from "../rows/Formats.ts"

const announced = `${digestHeaderName}, X-Cost-Microdollars`

/** HTTP/1.0 knows no chunks, and so nothing after them. */
const hasChunks = ({ method, source }: HttpServerRequest.HttpServerRequest) =>
  method !== "HEAD" && !(Predicate.hasProperty(source, "httpVersion") && source.httpVersion === "1.0")

/** Names the trailers of a response that is sent while it is read, and sends them after its last byte. */
export const withTrailers = (
  request: HttpServerRequest.HttpServerRequest,
  response: HttpServerResponse.HttpServerResponse,
  { streamedExport: whole }: RequestContext,
) => {
  const { body } = response
  if (whole === undefined || body._tag !== "Stream" || !hasChunks(request)) return response
  const add = Effect.sync(() => NodeHttpServerRequest.toServerResponse(request).addTrailers(whole.trailers))
  const stream = Stream.concat(body.stream, Stream.fromEffectDrain(add))
  return HttpServerResponse.setHeader(
    HttpServerResponse.setBody(response, HttpBody.stream(stream, body.contentType)),
    "Trailer",
    announced,
  )
}

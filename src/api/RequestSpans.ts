/** Records a span for each request while tracing is enabled, and continues the client's trace (W3C `traceparent`). */
import { Clock, Effect, Exit, Option, References, Tracer } from "effect"
import { Headers, HttpTraceContext } from "effect/http"
import { redactApiKeys } from "../contract/rules/ApiErrors.ts"
import type { EventualResponse, FinishedResponse } from "../contract/rules/EndpointResult.ts"
import { type ApiRequest, getHeader } from "../contract/rules/ApiRequest.ts"

const serverError = Exit.fail("The response has a status of 500 or above")

/**
 * Builds the function that records a span for a request. If tracing is disabled, it returns the response unchanged.
 * Otherwise it returns an effect that records a span while the response is being produced.
 */
export const makeSpanRecorder = Effect.gen(function* () {
  const isEnabled = yield* References.TracerEnabled
  const clock = yield* Clock.Clock

  const endSpan = (span: Tracer.Span, { headers, method, target }: ApiRequest, { status }: FinishedResponse) => {
    const [path = "", query] = redactApiKeys(target).split("?", 2)
    span.attribute("http.request.method", method)
    span.attribute("url.path", path)
    if (query !== undefined) span.attribute("url.query", query)
    if (headers["user-agent"] !== undefined) span.attribute("user_agent.original", headers["user-agent"])
    span.attribute("http.response.status_code", status)
    span.end(clock.currentTimeNanosUnsafe(), status >= 500 ? serverError : Exit.void)
  }

  /**
   * Records a span named after the method and the path as declared in the contract. A request from an MCP tool has no
   * separate span, because the message's span includes it.
   */
  return (
    request: ApiRequest,
    route: string | undefined,
    response: EventualResponse,
  ): EventualResponse => {
    if (!isEnabled || request.via === "mcp") return response
    const parent = Option.getOrUndefined(HttpTraceContext.fromHeaders(Headers.fromInput({
      traceparent: getHeader(request, "traceparent"),
      tracestate: getHeader(request, "tracestate"),
      b3: getHeader(request, "b3"),
    })))
    const starting = Effect.makeSpan(`${request.method} ${route ?? "other"}`, { kind: "server", parent })
    const responding = Effect.isEffect(response) ? response : Exit.succeed(response)
    return Effect.flatMap(starting, (span) =>
      Effect.tap(
        Effect.withParentSpan(responding, span),
        (finished) => Effect.sync(() => endSpan(span, request, finished)),
      ))
  }
})

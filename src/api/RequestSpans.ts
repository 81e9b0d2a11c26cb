/** Records a span for each request while tracing is on, and continues the client's trace (W3C `traceparent`). */
import { Clock, Effect, Exit, Option, References, Tracer } from "effect"
import { Headers, HttpTraceContext } from "effect/http"
import { redactApiKeys } from "../contract/rules/Errors.ts"
import type { EventualResponse, FinishedResponse } from "../contract/rules/EndpointResult.ts"
import { type ApiRequest, getHeader } from "../contract/rules/ApiRequest.ts"

const serverError = Exit.fail("The response has a status of 500 or above")

/** Creates the function that records the span of a request. It returns the response unchanged. */
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
   * A span is named after the method and the declared path. Requests from MCP tools have no spans of their own, because
   * the span of the message includes them.
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
    return Effect.flatMap(
      Effect.makeSpan(`${request.method} ${route ?? "other"}`, { kind: "server", parent }),
      (span) =>
        Effect.tap(
          Effect.withParentSpan(Effect.isEffect(response) ? response : Exit.succeed(response), span),
          (response) => Effect.sync(() => endSpan(span, request, response)),
        ),
    )
  }
})

/** Runs requests to the API inside the process, with the same pipeline and router as requests from clients. */
import { Effect } from "effect"
import { HttpEffect, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { RequestContext } from "./RequestContext.ts"
import { RequestPipeline } from "./RequestPipeline.ts"

/** Makes a function that runs a request with the given `RequestContext`. It succeeds with the response. */
export const makeInternalRequester = Effect.gen(function* () {
  const router = yield* HttpRouter.HttpRouter
  const { dispatch } = yield* RequestPipeline

  return Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest, context: RequestContext) {
    let captured = HttpServerResponse.empty()
    const capture = (_: unknown, response: HttpServerResponse.HttpServerResponse) =>
      Effect.sync(() => {
        captured = response
      })
    yield* HttpEffect.toHandled(dispatch(router.asHttpEffect()), capture).pipe(
      Effect.provideService(HttpServerRequest.HttpServerRequest, request.modify({ url: context.target })),
      Effect.provideService(RequestContext, context),
    )
    return captured
  })
})

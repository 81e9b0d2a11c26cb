/** Calls the API for the tools, inside this process: docs/decisions/0112-mcp-server.md */
import { Clock, Context, Effect, Layer } from "effect"
import { Headers, HttpMiddleware, HttpServerRequest } from "effect/http"
import { costHeader } from "../accounts/AuthorizationLayer.ts"
import { conflictingCredentials, readRequestCredential } from "../accounts/keys/Credentials.ts"
import { makeInternalRequester } from "../http/InternalRequests.ts"
import { makeRequestContext, RequestContext } from "../http/RequestContext.ts"
import { McpCaller } from "./McpCaller.ts"
import { MaxResultTokensConfig } from "./ResultSize.ts"
import { failWithApiError, type McpToolError } from "./ToolErrors.ts"

export interface InternalApiResponse {
  readonly headers: Headers.Headers
  readonly text: string
  readonly request_id: string
}

export class InternalApiClient extends Context.Service<InternalApiClient, {
  /** Sends a GET request with the caller's key. Fails unless the response is 200. */
  readonly send: (
    path: string,
    parameters: URLSearchParams,
  ) => Effect.Effect<InternalApiResponse, McpToolError, McpCaller>
}>()("tickerline/mcp/InternalApiClient") {
  static readonly layer = Layer.effect(
    InternalApiClient,
    Effect.gen(function* () {
      const run = yield* makeInternalRequester
      const clock = yield* Clock.Clock
      const maxTokens = yield* MaxResultTokensConfig
      const decoder = new TextDecoder()

      const send = Effect.fnUntraced(function* (path: string, parameters: URLSearchParams) {
        const { rateLimitHeaders, request } = yield* McpCaller
        const { id, response: message } = yield* RequestContext
        const query = parameters.toString()
        const target = query === "" ? path : `${path}?${query}`
        const startedAt = clock.currentTimeMillisUnsafe()
        const context = makeRequestContext({ id, target, startedAt, via: "mcp" })
        // The caller is authenticated, so credentials cannot conflict. The check below only narrows the type.
        const credential = readRequestCredential(request)
        const headers = credential === conflictingCredentials ? {} : { "x-api-key": credential }
        const { remoteAddress } = request
        const inner = HttpServerRequest.fromWeb(new Request("http://localhost/", { headers })).modify({ remoteAddress })
        Object.assign(context.response.headers, rateLimitHeaders)
        // The span of the request would contain its URL, and so the arguments of the tool.
        const response = yield* Effect.provideService(
          run(inner, context),
          HttpMiddleware.TracerDisabledWhen,
          () => true,
        )
        message.isRecorded = context.response.account_id !== undefined
        message.headers[costHeader] = response.headers[costHeader.toLowerCase()] ?? "0"
        const text = response.body._tag === "Uint8Array" ? decoder.decode(response.body.body) : ""
        if (response.status !== 200) return yield* failWithApiError(text, response.headers["retry-after"], maxTokens)
        return { headers: response.headers, text, request_id: id }
      })
      return InternalApiClient.of({ send })
    }),
  )
}

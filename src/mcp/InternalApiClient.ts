/** Calls the API for the tools, inside this process: docs/decisions/0112-mcp-server.md */
import { Clock, Context, Effect, Layer } from "effect"
import { Headers, HttpServerRequest } from "effect/http"
import { conflictingCredentials, readRequestCredential } from "../accounts/keys/Credentials.ts"
import { makeInternalRequester } from "../http/InternalRequests.ts"
import { makeRequestContext, RequestContext } from "../http/RequestContext.ts"
import { McpCaller } from "./McpCaller.ts"
import { MaxResultTokensConfig } from "./ResultSize.ts"
import { failWithApiError, type McpToolError } from "./ToolErrors.ts"

export interface InternalApiResponse {
  readonly headers: Headers.Headers
  readonly text: string
  /** Whether the response needed no database query. */
  readonly cached: boolean
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
        const { request } = yield* McpCaller
        const { id } = yield* RequestContext
        const query = parameters.toString()
        const target = query === "" ? path : `${path}?${query}`
        const startedAt = clock.currentTimeMillisUnsafe()
        const context = makeRequestContext({ id, target, startedAt, via: "mcp" })
        // The caller is authenticated, so credentials cannot conflict. The check below only narrows the type.
        const credential = readRequestCredential(request)
        const headers = credential === conflictingCredentials ? {} : { "x-api-key": credential }
        const { remoteAddress } = request
        const inner = HttpServerRequest.fromWeb(new Request("http://localhost/", { headers })).modify({ remoteAddress })
        const response = yield* run(inner, context)
        const text = response.body._tag === "Uint8Array" ? decoder.decode(response.body.body) : ""
        if (response.status !== 200) return yield* failWithApiError(text, response.headers["retry-after"], maxTokens)
        return { headers: response.headers, text, cached: context.response.cached, request_id: id }
      })
      return InternalApiClient.of({ send })
    }),
  )
}

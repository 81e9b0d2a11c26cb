/** Calls the API on behalf of the MCP tools, within the same process. See docs/decisions/0112-mcp-server.md. */
import { Clock, Effect } from "effect"
import { McpRequestContext } from "./McpRequestContext.ts"
import { MaxResultTokensConfig } from "./ResultSize.ts"
import { failWithApiError } from "./ToolErrors.ts"

const decoder = new TextDecoder()

/**
 * Returns a function that sends a GET request to the API with the key of the MCP message's sender. It returns the
 * response headers, the body as text, and the request id. If the response status is not 200, it fails with the error
 * in the response, to which it adds advice for the model.
 */
export const makeInternalApiClient = Effect.map(
  Effect.all([Clock.Clock, MaxResultTokensConfig]),
  ([clock, maxTokens]) =>
    Effect.fnUntraced(function* (path: string, parameters: URLSearchParams) {
      const { rateLimitHeaders, request, run } = yield* McpRequestContext
      const query = parameters.toString()
      const { body, headers, status } = yield* run({
        ...request,
        method: "GET",
        target: query === "" ? path : `${path}?${query}`,
        // No other headers are needed, because the key is read from the raw headers.
        headers: { host: request.headers["host"] },
        startedAt: clock.currentTimeMillisUnsafe(),
        via: "mcp",
      })
      const text = body instanceof Uint8Array ? decoder.decode(body) : ""
      if (status !== 200) return yield* failWithApiError(text, headers["retry-after"], maxTokens)
      return { headers: { ...headers, ...rateLimitHeaders }, text, request_id: request.id }
    }),
)

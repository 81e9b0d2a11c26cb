/** Routes that are not in the contract. `site/` and `mcp/` implement them. */
import { Context, type Effect } from "effect"
import type { RateLimitExceeded } from "../contract/AccountErrors.ts"
import type { AdmittedRequest } from "../query/EndpointHandler.ts"
import type { Answer } from "../contract/rules/Answer.ts"
import type { ApiRequest } from "../contract/rules/ApiRequest.ts"
import type { ErrorAnswer } from "./ErrorResponses.ts"

interface PageRoute {
  readonly path: `/${string}`
  readonly answer: (request: ApiRequest) => Effect.Effect<Answer | ErrorAnswer>
}

/** The pages of the documentation, and their paths. */
export class DocumentationPages extends Context.Service<DocumentationPages, {
  readonly routes: ReadonlyArray<PageRoute>
  /** Every path that can be requested with GET (D10). */
  readonly paths: ReadonlySet<string>
}>()("tickerline/api/DocumentationPages") {}

/** A message to `/mcp` of a known account. */
export interface McpMessage {
  readonly request: ApiRequest
  readonly account: AdmittedRequest["account"]
  /** Rate limit headers. */
  readonly headers: Readonly<Record<string, string>>
  /** Set if the account exceeds its rate limit. */
  readonly refusal: RateLimitExceeded | undefined
  readonly scope: AdmittedRequest["scope"]
  /** Answers the requests of tools, like those that arrived over HTTP. */
  readonly run: AdmittedRequest["run"]
}

export interface McpReply {
  readonly answer: Answer | ErrorAnswer
  /** The status in usage, if it differs from the response's. */
  readonly recordedStatus?: number | undefined
}

/** The MCP server at `/mcp`. */
export class McpEndpoint extends Context.Service<McpEndpoint, {
  /** Returns the answer to a request that is not a message: of a foreign web page, or with another method than POST. */
  readonly answerOther: (request: ApiRequest) => Answer | ErrorAnswer | undefined
  readonly answer: (message: McpMessage) => Effect.Effect<McpReply>
}>()("tickerline/api/McpEndpoint") {}

/** Declares the routes outside the contract: the documentation and the MCP server. Both are implemented in `site/`. */
import { Context, type Effect } from "effect"
import type { RateLimitExceeded } from "../contract/AccountErrors.ts"
import type { AdmittedRequest } from "../query/EndpointHandler.ts"
import type { EndpointResult } from "../contract/rules/EndpointResult.ts"
import type { ApiRequest } from "../contract/rules/ApiRequest.ts"
import type { ErrorResult } from "./ErrorResponses.ts"

/** A documentation page, or a path pattern for several pages. */
interface PageRoute {
  readonly path: `/${string}`
  readonly respond: (request: ApiRequest) => Effect.Effect<EndpointResult | ErrorResult>
}

/** The documentation pages and their paths. */
export class DocumentationPages extends Context.Service<DocumentationPages, {
  readonly routes: ReadonlyArray<PageRoute>
  /** All documentation paths that can be requested with GET (D10). */
  readonly paths: ReadonlySet<string>
}>()("tickerline/api/DocumentationPages") {}

/** A message to `/mcp` from an authenticated account. */
export interface McpMessage {
  readonly request: ApiRequest
  readonly account: AdmittedRequest["account"]
  /** Rate limit headers. */
  readonly headers: Readonly<Record<string, string>>
  /** Set if the account has exceeded its rate limit. */
  readonly refusal: RateLimitExceeded | undefined
  readonly scope: AdmittedRequest["scope"]
  /** Runs the API requests made by tools, in the same way as requests received over HTTP. */
  readonly run: AdmittedRequest["run"]
}

/** The response to a message, and how the message is recorded in usage. */
export interface McpReply {
  readonly result: EndpointResult | ErrorResult
  /** The status recorded in usage, if it differs from the response status. */
  readonly recordedStatus?: number | undefined
}

/** The MCP server at `/mcp`. */
export class McpEndpoint extends Context.Service<McpEndpoint, {
  /**
   * Returns the response to a request that is not an MCP message, because it comes from a web page of another origin or
   * because its method is not POST. Returns undefined for a message.
   */
  readonly respondToNonMessage: (request: ApiRequest) => EndpointResult | ErrorResult | undefined
  readonly respond: (message: McpMessage) => Effect.Effect<McpReply>
}>()("tickerline/api/McpEndpoint") {}

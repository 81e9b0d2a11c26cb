/** Routes that are not in the contract: the documentation and the MCP server. `site/` implements both. */
import { Context, type Effect } from "effect"
import type { RateLimitExceeded } from "../contract/AccountErrors.ts"
import type { AdmittedRequest } from "../query/EndpointHandler.ts"
import type { EndpointResult } from "../contract/rules/EndpointResult.ts"
import type { ApiRequest } from "../contract/rules/ApiRequest.ts"
import type { ErrorResult } from "./ErrorResponses.ts"

/** A page, or a pattern of paths, of the documentation. */
interface PageRoute {
  readonly path: `/${string}`
  readonly respond: (request: ApiRequest) => Effect.Effect<EndpointResult | ErrorResult>
}

/** The pages of the documentation, and their paths. */
export class DocumentationPages extends Context.Service<DocumentationPages, {
  readonly routes: ReadonlyArray<PageRoute>
  /** Every path that can be requested with GET (D10). */
  readonly paths: ReadonlySet<string>
}>()("tickerline/api/DocumentationPages") {}

/** A message to `/mcp` from a known account. */
export interface McpMessage {
  readonly request: ApiRequest
  readonly account: AdmittedRequest["account"]
  /** Rate limit headers. */
  readonly headers: Readonly<Record<string, string>>
  /** Set if the account exceeds its rate limit. */
  readonly refusal: RateLimitExceeded | undefined
  readonly scope: AdmittedRequest["scope"]
  /** Handles the requests that tools make, in the same way as requests that arrive over HTTP. */
  readonly run: AdmittedRequest["run"]
}

/** The response to a message, and how usage lists it. */
export interface McpReply {
  readonly result: EndpointResult | ErrorResult
  /** The status in usage, if it differs from the response's. */
  readonly recordedStatus?: number | undefined
}

/** The MCP server at `/mcp`. */
export class McpEndpoint extends Context.Service<McpEndpoint, {
  /**
   * Returns the response to a request that is not a message, because it comes from a web page of another origin or its
   * method is not POST. Returns undefined for a message.
   */
  readonly respondToOther: (request: ApiRequest) => EndpointResult | ErrorResult | undefined
  readonly respond: (message: McpMessage) => Effect.Effect<McpReply>
}>()("tickerline/api/McpEndpoint") {}

/** Lets MCP tools access the sender of the MCP message that called them. */
import { Context } from "effect"
import type { AdmittedRequest } from "../../query/EndpointHandler.ts"

/** The account that sent the MCP message being handled, and the HTTP request that contained the message. */
export class McpRequestContext extends Context.Service<
  McpRequestContext,
  Pick<AdmittedRequest, "account" | "request" | "run"> & {
    /**
     * The rate limit headers of the MCP message. A message and the API request that its tool sends count as one
     * request, so the response to the API request has no such headers.
     */
    readonly rateLimitHeaders: Readonly<Record<string, string>>
  }
>()("tickerline/site/McpRequestContext") {}

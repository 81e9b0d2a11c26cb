/** Tells tools who sent an MCP message. */
import { Context } from "effect"
import type { AdmittedRequest } from "../../query/EndpointHandler.ts"

/** The account and the HTTP request of the MCP message that a tool handles. */
export class McpCaller extends Context.Service<
  McpCaller,
  Pick<AdmittedRequest, "account" | "request" | "run"> & {
    /** The headers that state the rate limit. A message counts once, together with the request that its tool sends. */
    readonly rateLimitHeaders: Readonly<Record<string, string>>
  }
>()("tickerline/site/McpCaller") {}

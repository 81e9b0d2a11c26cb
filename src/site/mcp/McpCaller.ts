/** The account and the HTTP request of an MCP message, for its tools. */
import { Context } from "effect"
import type { AdmittedRequest } from "../../query/EndpointHandler.ts"

export class McpCaller extends Context.Service<
  McpCaller,
  Pick<AdmittedRequest, "account" | "request" | "run"> & {
    /** The headers that state the rate limit, which counts a message once: also for the request that its tool sends. */
    readonly rateLimitHeaders: Readonly<Record<string, string>>
  }
>()("tickerline/site/McpCaller") {}

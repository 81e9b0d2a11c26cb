/** Lets tools access the sender of an MCP message. */
import { Context } from "effect"
import type { AdmittedRequest } from "../../query/EndpointHandler.ts"

/** The account that sent the MCP message being handled, and the HTTP request that contained the message. */
export class McpCaller extends Context.Service<
  McpCaller,
  Pick<AdmittedRequest, "account" | "request" | "run"> & {
    /** The rate limit headers. A message and the API request that its tool sends count as one request. */
    readonly rateLimitHeaders: Readonly<Record<string, string>>
  }
>()("tickerline/site/McpCaller") {}

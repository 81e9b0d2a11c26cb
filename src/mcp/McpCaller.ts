/** The account and the HTTP request of an MCP request, for its tools. */
import { Context } from "effect"
import type { HttpServerRequest } from "effect/http"
import type { CurrentAccount } from "../accounts/keys/Authentication.ts"

export class McpCaller extends Context.Service<McpCaller, {
  readonly account: typeof CurrentAccount.Service
  readonly request: HttpServerRequest.HttpServerRequest
  /** The headers that state the rate limit, which counts a message once: also for the request that its tool sends. */
  readonly rateLimitHeaders: Readonly<Record<string, string>>
}>()("tickerline/mcp/McpCaller") {}

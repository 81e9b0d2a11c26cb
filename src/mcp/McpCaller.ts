import { Context } from "effect"
import type { HttpServerRequest } from "effect/http"
import type { CurrentAccount } from "../accounts/keys/Authentication.ts"

/** The sender of an MCP request. */
export class McpCaller extends Context.Service<McpCaller, {
  readonly account: typeof CurrentAccount.Service
  readonly request: HttpServerRequest.HttpServerRequest
}>()("tickerline/mcp/McpCaller") {}

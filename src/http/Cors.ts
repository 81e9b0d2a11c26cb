/** CORS (D10): web pages from the origins in `CORS_ORIGINS` may call the API. By default, none may. */
import { Config, Effect, Schema } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { corsExposedHeaderNames } from "../rules/ResponseHeaders.ts"
import { addToVary } from "./ConditionalRequests.ts"
import { decodePath, mcpPath } from "./RequestTarget.ts"

/** The methods that every endpoint supports. The MCP server supports POST instead. */
export const allowedEndpointMethods = "GET, HEAD"

const parseOrigins = (text: string) => text.split(",").map((entry) => entry.trim()).filter((entry) => entry !== "")

/** Whether the entry is an origin as browsers send it: scheme, host and non-default port, without a path. */
const isOrigin = (entry: string) =>
  URL.canParse(entry) &&
  (/^https?:/.test(entry) ? new URL(entry).origin === entry : /^[a-z][a-z\d+.-]*:\/\/[^/?#@]+$/.test(entry))

const OriginList = Schema.String.check(
  Schema.makeFilter((text: string) => {
    const invalid = parseOrigins(text).find((entry) => !isOrigin(entry))
    return invalid === undefined || `${invalid} is not an origin such as https://app.example.com, without a path`
  }),
)

export const CorsOriginsConfig = Config.schema(OriginList, "CORS_ORIGINS").pipe(
  Config.withDefault(""),
  Config.map(parseOrigins),
)

const apiHeaders = {
  "Access-Control-Allow-Methods": allowedEndpointMethods,
  "Access-Control-Allow-Headers": "Authorization, X-API-Key, X-Request-Id, If-None-Match, Last-Event-ID",
}

const mcpHeaders = {
  "Access-Control-Allow-Methods": "POST",
  "Access-Control-Allow-Headers":
    "Authorization, X-API-Key, X-Request-Id, Content-Type, MCP-Protocol-Version, Mcp-Method, Mcp-Name",
}

const makeCorsHeaders = (
  origins: ReadonlyArray<string>,
  { headers: { origin }, url }: HttpServerRequest.HttpServerRequest,
): Record<string, string> =>
  origin === undefined || !origins.includes(origin) ? {} : {
    "Access-Control-Allow-Origin": origin,
    ...(decodePath(url) === mcpPath ? mcpHeaders : apiHeaders),
    "Access-Control-Expose-Headers": corsExposedHeaderNames.join(", "),
    "Access-Control-Max-Age": "86400",
  }

/** Returns a function that adds the CORS headers for the request's origin to a response. */
export const makeCorsHeaderSetter = Effect.map(
  CorsOriginsConfig,
  (origins) => (request: HttpServerRequest.HttpServerRequest, response: HttpServerResponse.HttpServerResponse) =>
    origins.length === 0 ? response : HttpServerResponse.setHeaders(response, {
      Vary: addToVary(response.headers["vary"], "Origin"),
      ...makeCorsHeaders(origins, request),
    }),
)

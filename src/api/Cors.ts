/**
 * CORS (D10): web pages from the origins listed in `CORS_ORIGINS` may call the API. By default, no origins are allowed.
 */
import { Config, Effect, Schema } from "effect"
import { type ApiRequest, getHeader } from "../contract/rules/ApiRequest.ts"
import { corsAllowedHeaderNames } from "../contract/rules/RequestHeaders.ts"
import { corsExposedHeaderNames } from "../contract/rules/ResponseHeaders.ts"
import { decodePath, mcpPath } from "./RequestTarget.ts"

/** Methods supported by every endpoint. The MCP server supports POST instead. */
export const allowedEndpointMethods = "GET, HEAD"

/** Splits the setting into its comma-separated entries. */
const parseOrigins = (text: string) => text.split(",").map((entry) => entry.trim()).filter((entry) => entry !== "")

/** Returns whether the entry is an origin as browsers send it: scheme, host and non-default port, without a path. */
const isOrigin = (entry: string) =>
  URL.canParse(entry) &&
  (/^https?:/.test(entry) ? new URL(entry).origin === entry : /^[a-z][a-z\d+.-]*:\/\/[^/?#@]+$/.test(entry))

/** A comma-separated list of origins. */
const OriginList = Schema.String.check(
  Schema.makeFilter((text: string) => {
    const invalid = parseOrigins(text).find((entry) => !isOrigin(entry))
    return invalid === undefined || `${invalid} is not an origin such as https://app.example.com, without a path`
  }),
)

/** The setting `CORS_ORIGINS`, which lists the origins whose web pages may call the API. */
export const CorsOriginsConfig = Config.schema(OriginList, "CORS_ORIGINS").pipe(
  Config.withDefault(""),
  Config.map(parseOrigins),
)

/** Adds names of request headers to the value of a `Vary` header. */
export const addToVary = (vary: string | undefined, names: string) => vary === undefined ? names : `${vary}, ${names}`

/** CORS headers that are the same for all origins and paths. */
const sharedHeaders = {
  "access-control-allow-headers": corsAllowedHeaderNames.join(", "),
  "access-control-expose-headers": corsExposedHeaderNames.join(", "),
  "access-control-max-age": "86400",
}

/** Builds the function that adds the CORS headers for the request's origin to the response headers. */
export const makeCorsHeaders = Effect.map(
  CorsOriginsConfig,
  (origins) => (request: ApiRequest, headers: Record<string, string>) => {
    if (origins.length === 0) return
    headers["vary"] = addToVary(headers["vary"], "Origin")
    const origin = getHeader(request, "origin")
    if (origin === undefined || !origins.includes(origin)) return
    Object.assign(headers, {
      "access-control-allow-origin": origin,
      "access-control-allow-methods": decodePath(request.target) === mcpPath ? "POST" : allowedEndpointMethods,
      ...sharedHeaders,
    })
  },
)

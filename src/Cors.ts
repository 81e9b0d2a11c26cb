/** D10: web pages of configured origins may call the API; of no others, and none unless configured. */
import { Config, Effect } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"

/** The methods that every endpoint answers. */
export const allowed = "GET, HEAD"

const Origins = Config.String("CORS_ORIGINS").pipe(
  Config.withDefault(""),
  Config.map((text) => text.split(",").map((origin) => origin.trim()).filter((origin) => origin !== "")),
)

/** Browsers of configured origins may read everything that the exchange says. */
const exposedHeaders = [
  "Content-Disposition",
  "Deprecation",
  "ETag",
  "Link",
  "Retry-After",
  "Sunset",
  "Unencoded-Digest",
  "X-API-Version",
  "X-Cost-Microdollars",
  "X-Dropped-Tickers",
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-RateLimit-Reset",
  "X-Request-Id",
  "X-Row-Count",
]

const corsHeaders = (origins: ReadonlyArray<string>, origin: string | undefined): Record<string, string> =>
  origin === undefined || !origins.includes(origin) ? {} : {
    "Access-Control-Allow-Origin": origin,
    "Access-Control-Allow-Methods": allowed,
    "Access-Control-Allow-Headers": "Authorization, X-API-Key, X-Request-Id, If-None-Match",
    "Access-Control-Expose-Headers": exposedHeaders.join(", "),
    "Access-Control-Max-Age": "86400",
  }

/** Adds to a response what the page of this origin may do with it. */
export const shared = Effect.map(
  Origins,
  (origins) => (request: HttpServerRequest.HttpServerRequest, response: HttpServerResponse.HttpServerResponse) =>
    origins.length === 0 ? response : HttpServerResponse.setHeaders(response, {
      Vary: response.headers["vary"] === undefined ? "Origin" : `${response.headers["vary"]}, Origin`,
      ...corsHeaders(origins, request.headers["origin"]),
    }),
)

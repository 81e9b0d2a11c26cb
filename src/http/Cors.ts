/** D10: web pages of configured origins may call the API; of no others, and none unless configured. */
import { Config, Effect, Schema } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"

/** The methods that every endpoint answers. */
export const allowedMethods = "GET, HEAD"

const entriesOf = (text: string) => text.split(",").map((entry) => entry.trim()).filter((entry) => entry !== "")

/** An origin as browsers send it: a scheme, a host and a port that is not the scheme's own; no path. */
const isOrigin = (entry: string) =>
  URL.canParse(entry) &&
  (/^https?:/.test(entry) ? new URL(entry).origin === entry : /^[a-z][a-z\d+.-]*:\/\/[^/?#@]+$/.test(entry))

const Listed = Schema.String.check(
  Schema.makeFilter((text: string) => {
    const wrong = entriesOf(text).find((entry) => !isOrigin(entry))
    return wrong === undefined || `${wrong} is not an origin such as https://app.example.com, without a path`
  }),
)

export const CorsOriginsConfig = Config.schema(Listed, "CORS_ORIGINS").pipe(
  Config.withDefault(""),
  Config.map(entriesOf),
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
    "Access-Control-Allow-Methods": allowedMethods,
    "Access-Control-Allow-Headers": "Authorization, X-API-Key, X-Request-Id, If-None-Match",
    "Access-Control-Expose-Headers": exposedHeaders.join(", "),
    "Access-Control-Max-Age": "86400",
  }

/** Adds to a response what the page of this origin may do with it. */
export const makeCorsHeaderSetter = Effect.map(
  CorsOriginsConfig,
  (origins) => (request: HttpServerRequest.HttpServerRequest, response: HttpServerResponse.HttpServerResponse) =>
    origins.length === 0 ? response : HttpServerResponse.setHeaders(response, {
      Vary: response.headers["vary"] === undefined ? "Origin" : `${response.headers["vary"]}, Origin`,
      ...corsHeaders(origins, request.headers["origin"]),
    }),
)

/** The headers of responses, each declared once; OpenAPI describes every response with them. */

/** As a header object of OpenAPI; `required` if every response that can carry the header does. */
interface Declared {
  readonly description: string
  readonly required: boolean
  readonly schema: Readonly<Record<string, unknown>>
}

const text = (description: string, example: string, schema: Readonly<Record<string, unknown>> = {}): Declared => ({
  description,
  required: true,
  schema: { type: "string", ...schema, examples: [example] },
})

const count = (description: string, example: number): Declared => ({
  description,
  required: true,
  schema: { type: "integer", minimum: 0, examples: [example] },
})

const optional = (declared: Declared): Declared => ({ ...declared, required: false })

export const responseHeaders = {
  "X-API-Version": text("The version that served the request.", "v1"),
  "X-Request-Id": text(
    "Identifies the request; the same value as `request_id` in an error. Your own `X-Request-Id` is kept if it has " +
      "1 to 128 characters of `A-Z a-z 0-9 . _ -`.",
    "0199f0c4-8a3e-7c51-9d0b-2f1f6a3b7c55",
    { maxLength: 128 },
  ),
  "X-Content-Type-Options": text("Browsers must not guess another content type.", "nosniff"),
  "Vary": optional(text("The request headers that the response depends on.", "Accept, Accept-Encoding")),
  "Deprecation": text("The day the deprecation was announced: `@` and Unix seconds (RFC 9745).", "@1793491200"),
  "Sunset": text(
    "The date after which the endpoint may stop responding, as an HTTP date (RFC 8594).",
    "Mon, 01 Nov 2027 00:00:00 GMT",
  ),
  "Link": optional(text(
    "Links by relation (RFC 8288): `next` is the page that follows; `successor-version` replaces a deprecated " +
      "endpoint, and `deprecation` is its documentation.",
    `</v1/news?page=2>; rel="next"`,
  )),
  "WWW-Authenticate": text("How to send a key.", "Bearer"),
  "Allow": text("The methods that every endpoint answers.", "GET, HEAD"),
  "Retry-After": count("Seconds to wait before the next attempt.", 5),
  "X-RateLimit-Limit": count("How many requests the account may send in a minute.", 200),
  "X-RateLimit-Remaining": count("How many requests are left.", 199),
  "X-RateLimit-Reset": count("Seconds until the limit is complete again.", 60),
  "X-Cost-Microdollars": count(
    "What the response cost, in millionths of a USD. With `limit=all` it is a trailer.",
    125,
  ),
  "ETag": optional(
    text("Changes exactly when the body does. Send it as `If-None-Match` to get 304.", `"Yx0bWl7uV3kqv2Jm0c9xIcC1d0E"`),
  ),
  "Cache-Control": text("Who may keep the response, and for how long.", "private, no-cache"),
  "X-Dropped-Tickers": optional(text(
    "The invalid symbols that were dropped: at most 20, percent-encoded, comma-separated. Missing if there are none.",
    "%40%40,A_B",
  )),
  "X-Row-Count": optional(count("How many rows the file has, without the header of CSV.", 100)),
  "Content-Disposition": optional(text("The file name of CSV.", `attachment; filename="news.csv"`)),
  "Unencoded-Digest": optional(text(
    "The SHA-256 of CSV and NDJSON before compression. With `limit=all` it is a trailer.",
    "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:",
  )),
  "Trailer": optional(
    text("With `limit=all`: the trailers that follow the last byte.", "Unencoded-Digest, X-Cost-Microdollars"),
  ),
} satisfies Readonly<Record<string, Declared>>

export type HeaderName = keyof typeof responseHeaders

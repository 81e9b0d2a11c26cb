/** The response headers. Each is declared here once, for OpenAPI, CORS and the response cache. */
import { Record, Struct } from "effect"

/**
 * The fields of an OpenAPI header object that are declared here. If `required` is true, every response documented with
 * this header contains it.
 */
interface HeaderObject {
  readonly description: string
  readonly required: boolean
  readonly schema: Readonly<Record<string, unknown>>
}

interface HeaderDeclaration extends HeaderObject {
  /**
   * Whether the response cache may store the header. `shared` headers are stored and sent to every account.
   * `perRequest` headers are computed anew for each request (D17, caching). `never` prevents any response that contains
   * the header from being stored.
   */
  readonly caching: "shared" | "perRequest" | "never"
}

const declare = (description: string, schema: Readonly<Record<string, unknown>>): HeaderDeclaration => ({
  description,
  required: true,
  schema,
  caching: "never",
})

const text = (description: string, example: string, schema: Readonly<Record<string, unknown>> = {}) =>
  declare(description, { type: "string", ...schema, examples: [example] })

const count = (description: string, example: number) =>
  declare(description, { type: "integer", minimum: 0, examples: [example] })

const optional = (header: HeaderDeclaration): HeaderDeclaration => ({ ...header, required: false })
const shared = (header: HeaderDeclaration): HeaderDeclaration => ({ ...header, caching: "shared" })
const perRequest = (header: HeaderDeclaration): HeaderDeclaration => ({ ...header, caching: "perRequest" })

const declarations = {
  "X-API-Version": shared(text("The version that served the request.", "v1")),
  "X-Request-Id": perRequest(text(
    "Identifies the request; the same value as `request_id` in an error. Your own `X-Request-Id` is kept if it has " +
      "1 to 128 characters of `A-Z a-z 0-9 . _ -`.",
    "0199f0c4-8a3e-7c51-9d0b-2f1f6a3b7c55",
    { maxLength: 128 },
  )),
  "X-Content-Type-Options": shared(text("Browsers must not guess another content type.", "nosniff")),
  "Vary": shared(optional(
    text("The request headers that the response depends on.", "Accept, Accept-Encoding"),
  )),
  "Deprecation": shared(
    text("The day the deprecation was announced: `@` and Unix seconds (RFC 9745).", "@1793491200"),
  ),
  "Sunset": shared(text(
    "The date after which the endpoint may stop responding, as an HTTP date (RFC 8594).",
    "Mon, 01 Nov 2027 00:00:00 GMT",
  )),
  "Link": shared(optional(text(
    "Links by relation (RFC 8288): `next` is the page that follows; `successor-version` replaces a deprecated " +
      "endpoint, and `deprecation` is its documentation.",
    `</v1/news?page=2>; rel="next"`,
  ))),
  "WWW-Authenticate": text("How to send a key.", "Bearer"),
  "Allow": text("The methods that every endpoint answers.", "GET, HEAD"),
  "Retry-After": count("Seconds to wait before the next attempt.", 5),
  "X-RateLimit-Limit": perRequest(count("How many requests the account may send in a minute.", 200)),
  "X-RateLimit-Remaining": perRequest(count("How many requests are left.", 199)),
  "X-RateLimit-Reset": perRequest(count("Seconds until the complete limit is available again.", 60)),
  "X-Cost-Microdollars": perRequest(count(
    "What the response cost, in millionths of a US dollar. With `limit=all` it is a trailer.",
    125,
  )),
  "ETag": shared(optional(
    text("Changes exactly when the body does. Send it as `If-None-Match` to get 304.", `"Yx0bWl7uV3kqv2Jm0c9xIcC1d0E"`),
  )),
  "Cache-Control": shared(text("Who may keep the response, and for how long.", "private, no-cache")),
  "X-Dropped-Tickers": shared(optional(text(
    "The invalid symbols that were dropped: at most 20, percent-encoded, comma-separated. Missing if there are none.",
    "%40%40,A_B",
  ))),
  "X-Lineage": shared(optional(text(
    "With `follow_lineage=true`: the symbols of each company, oldest first, each former one with the first day of " +
      "the next. `;outside=` counts omitted rows: those of the symbols on days when no requested company used them. " +
      "At most 4 KB: companies with one symbol are left out first, then the last ones, and `;more=` counts them.",
    "OSTK..2023-11-06, BYON..2025-08-29, BBBY..2026-08-17, NXH",
  ))),
  "X-Primary-Tickers": shared(optional(text(
    "Requested symbols whose rows carry another symbol of the company, or another spelling, each with that symbol. " +
      "Missing if there are none.",
    "GOOG=GOOGL, BRK.B=BRK-B",
  ))),
  "X-As-Of": shared(optional(text(
    "With `as_of`: the moment whose response this is, with six decimals.",
    "2026-03-01T23:59:59.999999-05:00",
  ))),
  "X-Omitted-Types": optional(text(
    "The requested types whose events are omitted because the account may not use their endpoint, comma-separated. " +
      "Missing if there are none.",
    "filing,news",
  )),
  "X-Empty-Reason": shared(optional(text(
    "With `explain=true`: why there are no rows. `page_beyond_end`; `filtered`, and the filters `without` which there" +
      " are rows; `symbol_not_used` by the company then; `no_rows_for_symbol`; `unknown_symbol`; `no_rows`; " +
      "`undetermined`.",
    `filtered;without="min_gap"`,
  ))),
  "X-Row-Count": shared(optional(count("How many rows the file has, without the header of CSV.", 100))),
  "Content-Disposition": shared(optional(text("The file name of CSV or Parquet.", `attachment; filename="news.csv"`))),
  "Unencoded-Digest": shared(optional(text(
    "The SHA-256 of CSV, NDJSON and Parquet before compression. With `limit=all` it is a trailer.",
    "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:",
  ))),
  "Trailer": optional(
    text("With `limit=all`: the trailers that follow the last byte.", "Unencoded-Digest, X-Cost-Microdollars"),
  ),
} satisfies Readonly<Record<string, HeaderDeclaration>>

/** The name of a response header that the service sends. */
export type ResponseHeaderName = keyof typeof declarations

/** Header descriptions for OpenAPI. */
export const openApiResponseHeaders = Record.map(declarations, Struct.pick(["description", "required", "schema"]))

const selectNames = (isSelected: (header: HeaderDeclaration) => boolean) =>
  Object.entries<HeaderDeclaration>(declarations).flatMap(([name, header]) => isSelected(header) ? [name] : [])

/** The headers that CORS exposes to browser scripts (D10), which are all of them. */
export const corsExposedHeaderNames = Object.keys(declarations).toSorted()

const selectLowerCaseNames = (caching: HeaderDeclaration["caching"]) =>
  selectNames((header) => header.caching === caching).map((name) => name.toLowerCase())

/** Lower-case names of headers that have the same value for every account. */
export const accountIndependentHeaderNames: ReadonlySet<string> = new Set([
  "content-encoding",
  "content-length",
  "content-type",
  ...selectLowerCaseNames("shared"),
])

/** Lower-case names of headers that are computed anew for each request. */
export const perRequestHeaderNames: ReadonlySet<string> = new Set(selectLowerCaseNames("perRequest"))

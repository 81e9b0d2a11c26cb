/** Response metadata from the headers: D5 (ticker lists), D12 (request ids), D18 (rate limits), D27 (prices). */
import { DateTime, Duration, Option, Result } from "effect"
import { Headers } from "effect/http"
import { findLink } from "../contract/rules/LinkHeader.ts"

/** The announced deprecation of an endpoint (§9.4, deprecation). */
export interface DeprecationNotice {
  /** The announcement date, `YYYY-MM-DD`. */
  readonly announced: string
  /** The date after which the endpoint may stop responding, `YYYY-MM-DD`; null if no date is set. */
  readonly sunset: string | null
  /** The URL of the replacement, from the `Link` header. */
  readonly successor: string | null
  /** The URL of the documentation, from the `Link` header. */
  readonly documentation: string | null
}

/**
 * The symbols that a company has used over time (`X-Lineage`). With `follow_lineage`, a response includes the company's
 * rows under all of these symbols.
 */
export interface FollowedLineage {
  /**
   * The symbols, oldest first. A symbol was in use until the day before `until`, a date in the format `YYYY-MM-DD`. For
   * the current symbol, `until` is null.
   */
  readonly periods: ReadonlyArray<{ readonly ticker: string; readonly until: string | null }>
  /**
   * The number of rows that were omitted because none of the requested companies used the symbol on the row's date. 100
   * means 100 or more.
   */
  readonly omitted_rows: number
}

/**
 * The contents of the response headers. A value is null if its header is missing, for example because a proxy removed
 * it.
 */
export interface ResponseMetadata {
  readonly status: number
  /** The request id, for use in `/v1/usage` and when contacting support. */
  readonly request_id: string
  /** The number of requests sent to obtain this response; 1 means that there were no retries. */
  readonly attempts: number
  readonly api_version: string | null
  /**
   * The cost in millionths of a US dollar. Null if the header is missing, as for exports, which state the cost in a
   * trailer.
   */
  readonly cost_microdollars: number | null
  /** The account's rate limit in requests per minute. After `reset_seconds`, the full limit is available again. */
  readonly rate_limit: {
    readonly limit: number
    readonly remaining: number
    readonly reset_seconds: number
  } | null
  /** With `as_of`: the point in time that the data reflects, such as `2026-06-01T08:30:00.000000-05:00`. */
  readonly as_of: string | null
  /** Invalid symbols that the service dropped; at most 20 are listed. */
  readonly dropped_tickers: ReadonlyArray<string>
  /** One entry per company. Empty without `follow_lineage`. */
  readonly lineages: ReadonlyArray<FollowedLineage>
  /** The number of companies not included in `lineages` because the header would have become too long. */
  readonly more_lineages: number
  /** Requested event types that `/v1/timeline` omitted because the account or the key does not have access to them. */
  readonly omitted_types: ReadonlyArray<string>
  /** With `explain`: the reason why there are no rows, such as `unknown_symbol` or `filtered;without="min_gap"`. */
  readonly empty_reason: string | null
  /** The URL of the next page, from the `Link` header. Null on the last page. */
  readonly next_page: string | null
  readonly deprecated: DeprecationNotice | null
  /** The minimum delay before a retry after a 429 or 503. */
  readonly retry_after_seconds: number | null
}

const parseInteger = (text: string | undefined) => text !== undefined && /^\d+$/.test(text) ? Number(text) : null

/** Decodes percent-encoded text. If it is invalid, returns it unchanged. */
const decodeOrKeep = (text: string) => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Splits a comma-separated list. Returns an empty list if the header is missing. */
const splitList = (text: string | undefined) => (text ?? "").split(",").map((entry) => entry.trim()).filter(Boolean)

/** Parses the headers that announce a deprecation: `Deprecation`, such as `@1767225600`, `Sunset` and `Link`. */
const parseDeprecation = (headers: Headers.Headers): DeprecationNotice | null => {
  const [, seconds] = /^@(-?\d{1,12})$/.exec(headers["deprecation"] ?? "") ?? []
  if (seconds === undefined) return null
  const announced = DateTime.make(Number(seconds) * 1000)
  if (Option.isNone(announced)) return null
  const sunset = headers["sunset"] === undefined ? undefined : Headers.parseHttpDate(headers["sunset"])
  return {
    announced: DateTime.formatIsoDate(announced.value),
    sunset: sunset !== undefined && Result.isSuccess(sunset) ? DateTime.formatIsoDate(sunset.success) : null,
    successor: findLink(headers["link"], "successor-version"),
    documentation: findLink(headers["link"], "deprecation"),
  }
}

/**
 * Parses the header `X-Lineage`, such as `OSTK..2023-11-06, BYON;outside=3, AAPL;more=7`. The example describes two
 * companies. The first used OSTK before 2023-11-06 and has used BYON since; 3 of its rows were omitted. The second has
 * always used AAPL. 7 more companies are not listed. An entry without a date is a company's current symbol and
 * therefore the last of that company's entries.
 */
const parseLineages = (header: string | undefined): Pick<ResponseMetadata, "lineages" | "more_lineages"> => {
  const lineages: Array<FollowedLineage> = []
  /** Returns the value of a parameter such as `outside=3`, or 0 if it is missing. `100+` means 100 or more. */
  const readCount = (parameters: ReadonlyArray<string>, name: string) => {
    const found = parameters.find((parameter) => parameter.startsWith(`${name}=`))
    return parseInteger(found?.slice(name.length + 1).replace("+", "")) ?? 0
  }
  let more_lineages = 0
  let periods: Array<FollowedLineage["periods"][number]> = []
  for (const entry of splitList(header)) {
    const [symbol = "", ...parameters] = entry.split(";")
    const [, ticker = symbol, until = null] = /^(.+)\.\.(\d{4}-\d\d-\d\d)$/.exec(symbol) ?? []
    periods.push({ ticker, until })
    if (until !== null) continue
    // The entry is the last one of its company.
    lineages.push({ periods, omitted_rows: readCount(parameters, "outside") })
    more_lineages += readCount(parameters, "more")
    periods = []
  }
  return { lineages, more_lineages }
}

/** Parses the `X-RateLimit-…` headers. Returns null if one of them is missing. */
const parseRateLimit = (headers: Headers.Headers): ResponseMetadata["rate_limit"] => {
  const [limit, remaining, reset_seconds] = ["limit", "remaining", "reset"].map((name) =>
    parseInteger(headers[`x-ratelimit-${name}`]) ?? undefined
  )
  return limit === undefined || remaining === undefined || reset_seconds === undefined
    ? null
    : { limit, remaining, reset_seconds }
}

/** Converts `Retry-After`, which contains either seconds or a date, to a delay in milliseconds. */
const parseRetryAfterMillis = (headers: Headers.Headers, now: number): number | null => {
  const parsed = headers["retry-after"] === undefined ? undefined : Headers.parseRetryAfter(headers["retry-after"])
  if (parsed === undefined || Result.isFailure(parsed)) return null
  return Duration.toMillis(Headers.retryAfterDelay(parsed.success, now))
}

/**
 * Reads the metadata from the response headers.
 *
 * @internal
 */
export const readResponseMetadata = (
  { attempts, headers, now, sentRequestId, status }: {
    readonly status: number
    readonly headers: Headers.Headers
    readonly attempts: number
    /** The current time in milliseconds since 1970. */
    readonly now: number
    /** The request id to use if the response has no `X-Request-Id`. */
    readonly sentRequestId: string
  },
): ResponseMetadata => {
  const retryAfterMillis = parseRetryAfterMillis(headers, now)
  return {
    status,
    request_id: headers["x-request-id"] ?? sentRequestId,
    attempts,
    api_version: headers["x-api-version"] ?? null,
    cost_microdollars: parseInteger(headers["x-cost-microdollars"]),
    rate_limit: parseRateLimit(headers),
    as_of: headers["x-as-of"] ?? null,
    dropped_tickers: splitList(headers["x-dropped-tickers"]).map(decodeOrKeep),
    ...parseLineages(headers["x-lineage"]),
    omitted_types: splitList(headers["x-omitted-types"]),
    empty_reason: headers["x-empty-reason"] ?? null,
    next_page: findLink(headers["link"], "next"),
    deprecated: parseDeprecation(headers),
    retry_after_seconds: retryAfterMillis === null ? null : Math.ceil(retryAfterMillis / 1000),
  }
}

/** The metadata in the headers of a response: D5 (ticker lists), D12 (request ids), D18 (rate limits), D27 (prices). */
import { DateTime, Duration, Option, Result } from "effect"
import { Headers } from "effect/http"
import { findLink } from "../contract/rules/Links.ts"

/** The deprecation of an endpoint (§9.4, deprecation). */
export interface DeprecationNotice {
  /** Date of the announcement, `YYYY-MM-DD`. */
  readonly announced: string
  /** Date after which the endpoint may stop responding, `YYYY-MM-DD`; null if none is set. */
  readonly sunset: string | null
  /** URL of the replacement, as in the `Link` header. */
  readonly successor: string | null
  /** URL of the documentation, as in the `Link` header. */
  readonly documentation: string | null
}

/**
 * A company's symbols over time (`X-Lineage`). With `follow_lineage`, a response contains its rows under all of them.
 */
export interface FollowedLineage {
  /** Oldest first. A symbol was used until the day before `until`; the current one has null. Dates are `YYYY-MM-DD`. */
  readonly periods: ReadonlyArray<{ readonly ticker: string; readonly until: string | null }>
  /** Number of omitted rows, from days when no requested company used the symbol. 100 means 100 or more. */
  readonly omitted_rows: number
}

/**
 * What the headers of a response say. A value is null if the response lacks the header, which a proxy may have removed.
 */
export interface ResponseMetadata {
  readonly status: number
  /** Identifies the request in `/v1/usage` and in messages to support. */
  readonly request_id: string
  /** Requests sent for this response; 1 without retries. */
  readonly attempts: number
  readonly api_version: string | null
  /** Cost in millionths of a US dollar; null without the header, as for exports, whose cost is in a trailer. */
  readonly cost_microdollars: number | null
  /** The account's requests per minute. The full limit is available again after `reset_seconds`. */
  readonly rate_limit: {
    readonly limit: number
    readonly remaining: number
    readonly reset_seconds: number
  } | null
  /** With `as_of`: the time whose data the response contains, such as `2026-06-01T08:30:00.000000-05:00`. */
  readonly as_of: string | null
  /** Invalid symbols that the service ignored, at most 20. */
  readonly dropped_tickers: ReadonlyArray<string>
  /** One entry per company; empty without `follow_lineage`. */
  readonly lineages: ReadonlyArray<FollowedLineage>
  /** Number of companies that are missing in `lineages`, because the header would have been too long. */
  readonly more_lineages: number
  /** The requested types of events that `/v1/timeline` omitted because the account or the key may not see them. */
  readonly omitted_types: ReadonlyArray<string>
  /** With `explain`: why there are no rows, such as `unknown_symbol` or `filtered;without="min_gap"`. */
  readonly empty_reason: string | null
  /** URL of the next page of a list, as in the `Link` header; null on the last page. */
  readonly next_page: string | null
  readonly deprecated: DeprecationNotice | null
  /** Minimum delay before a retry, after a 429 or 503. */
  readonly retry_after_seconds: number | null
}

const parseInteger = (text: string | undefined) => text !== undefined && /^\d+$/.test(text) ? Number(text) : null

/** Decodes percent-encoded text. Returns invalid text unchanged. */
const decodeOrKeep = (text: string) => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

const splitList = (text: string | undefined) => (text ?? "").split(",").map((entry) => entry.trim()).filter(Boolean)

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
 * Parses `X-Lineage`, such as `OSTK..2023-11-06, BYON;outside=3, AAPL;more=7`. Only a company's last symbol has no
 * date, so it marks the end of that company's symbols.
 */
const parseLineages = (header: string | undefined): Pick<ResponseMetadata, "lineages" | "more_lineages"> => {
  const lineages: Array<FollowedLineage> = []
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
    lineages.push({ periods, omitted_rows: readCount(parameters, "outside") })
    more_lineages += readCount(parameters, "more")
    periods = []
  }
  return { lineages, more_lineages }
}

const parseRateLimit = (headers: Headers.Headers): ResponseMetadata["rate_limit"] => {
  const [limit, remaining, reset_seconds] = ["limit", "remaining", "reset"].map((name) =>
    parseInteger(headers[`x-ratelimit-${name}`]) ?? undefined
  )
  return limit === undefined || remaining === undefined || reset_seconds === undefined
    ? null
    : { limit, remaining, reset_seconds }
}

/** Converts `Retry-After`, which contains seconds or a date, to milliseconds from now. */
const parseRetryAfterMillis = (headers: Headers.Headers, now: number): number | null => {
  const parsed = headers["retry-after"] === undefined ? undefined : Headers.parseRetryAfter(headers["retry-after"])
  if (parsed === undefined || Result.isFailure(parsed)) return null
  return Duration.toMillis(Headers.retryAfterDelay(parsed.success, now))
}

/**
 * Reads the metadata of a response.
 *
 * @internal
 */
export const readResponseMetadata = (
  { attempts, headers, now, sentRequestId, status }: {
    readonly status: number
    readonly headers: Headers.Headers
    readonly attempts: number
    /** The current time in epoch milliseconds. */
    readonly now: number
    /** Used if the response has no `X-Request-Id`. */
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

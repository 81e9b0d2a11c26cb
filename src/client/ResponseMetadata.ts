/** What the headers of an answer tell beside its body (D5, D8, D12, D14, D18, D27, §9.4). */
import { DateTime, Duration, Option, Result } from "effect"
import { Headers } from "effect/http"

/** §9.4 */
export interface DeprecationNotice {
  /** The day it was announced, `YYYY-MM-DD`. */
  readonly announced: string
  /** The day after which it may stop responding, `YYYY-MM-DD`; null while none is committed. */
  readonly sunset: string | null
  /** The address of what replaces it. */
  readonly successor: string | null
  /** The address of a page for people. */
  readonly documentation: string | null
}

/** What an answer tells of itself. A proxy may take headers away: then `null`. */
export interface ResponseMetadata {
  readonly status: number
  /** Quote it to support; `/v1/usage` lists the request under it. */
  readonly request_id: string
  /** What was sent until this came, 1 where nothing was sent again. */
  readonly attempts: number
  readonly api_version: string | null
  /** Millionths of a USD; null: it had no price. */
  readonly cost_microdollars: number | null
  /** Of the account and the minute. `reset_seconds`: when all of it is there again. */
  readonly rate_limit: {
    readonly limit: number
    readonly remaining: number
    readonly reset_seconds: number
  } | null
  /** Symbols that are none and were left out of the answer, at most 20. */
  readonly dropped_tickers: ReadonlyArray<string>
  readonly deprecated: DeprecationNotice | null
  /** What to wait after a 429 or 503, seconds, at least. */
  readonly retry_after_seconds: number | null
}

const number = (text: string | undefined) => text !== undefined && /^\d+$/.test(text) ? Number(text) : null

const decoded = (text: string) => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

const day = (date: DateTime.DateTime) => DateTime.formatIsoDate(date)

/** The address of the link of this relation. */
const target = (links: string | undefined, rel: string) => {
  for (const [, address = "", attributes = ""] of (links ?? "").matchAll(/<([^>]*)>([^<]*)/g)) {
    const [, quoted = "", bare = ""] = /;\s*rel=(?:"([^"]*)"|([^\s;,"]+))/i.exec(attributes) ?? []
    if (`${quoted} ${bare}`.split(" ").includes(rel)) return address
  }
  return null
}

const deprecatedIn = (headers: Headers.Headers): DeprecationNotice | null => {
  const [, seconds] = /^@(-?\d{1,12})$/.exec(headers["deprecation"] ?? "") ?? []
  if (seconds === undefined) return null
  const announced = DateTime.make(Number(seconds) * 1000)
  if (Option.isNone(announced)) return null
  const sunset = headers["sunset"] === undefined ? undefined : Headers.parseHttpDate(headers["sunset"])
  return {
    announced: day(announced.value),
    sunset: sunset !== undefined && Result.isSuccess(sunset) ? day(sunset.success) : null,
    successor: target(headers["link"], "successor-version"),
    documentation: target(headers["link"], "deprecation"),
  }
}

const rateLimitIn = (headers: Headers.Headers): ResponseMetadata["rate_limit"] => {
  const [limit, remaining, reset_seconds] = ["limit", "remaining", "reset"].map((name) =>
    number(headers[`x-ratelimit-${name}`]) ?? undefined
  )
  return limit === undefined || remaining === undefined || reset_seconds === undefined
    ? null
    : { limit, remaining, reset_seconds }
}

/**
 * `Retry-After`, as seconds or as a date, in milliseconds from now.
 *
 * @internal
 */
export const retryAfterMillis = (headers: Headers.Headers, now: number): number | null => {
  const read = headers["retry-after"] === undefined ? undefined : Headers.parseRetryAfter(headers["retry-after"])
  if (read === undefined || Result.isFailure(read)) return null
  return Duration.toMillis(Headers.retryAfterDelay(read.success, now))
}

/** @internal */
export const readResponseMetadata = (
  { attempts, headers, now, request_id, status }: {
    readonly status: number
    readonly headers: Headers.Headers
    readonly attempts: number
    readonly now: number
    /** The one sent, where the answer has none. */
    readonly request_id: string
  },
): ResponseMetadata => {
  const wait = retryAfterMillis(headers, now)
  return {
    status,
    request_id: headers["x-request-id"] ?? request_id,
    attempts,
    api_version: headers["x-api-version"] ?? null,
    cost_microdollars: number(headers["x-cost-microdollars"]),
    rate_limit: rateLimitIn(headers),
    dropped_tickers: (headers["x-dropped-tickers"] ?? "").split(",").filter((text) => text !== "").map(decoded),
    deprecated: deprecatedIn(headers),
    retry_after_seconds: wait === null ? null : Math.ceil(wait / 1000),
  }
}

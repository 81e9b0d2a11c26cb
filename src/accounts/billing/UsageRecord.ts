/** What is recorded about each request (D29, usage). */

/**
 * A completed request, or the part of an endless stream that was sent since its previous record. A stream is recorded
 * once a minute.
 */
export interface UsageRecord {
  /** Unix time in milliseconds. */
  readonly requested_at: number
  readonly account_id: number
  readonly key_id: number
  readonly request_id: string
  readonly endpoint: string
  readonly status_code: number
  readonly records_returned: number
  readonly bytes: number
  readonly cost_microdollars: number
  /** The price from which the cost was calculated, or 0 if the request was free. */
  readonly price_per_gb_microdollars: number
  readonly duration_ms: number
  /** Whether the response was a 304. */
  readonly cached: boolean
  readonly deprecated: boolean
  /** `mcp` if a tool of `/mcp` sent the request, or null for an ordinary HTTP request. */
  readonly via: "mcp" | null
  /** The export's reservation, which ends when this record is written. Null if nothing was reserved. */
  readonly reservation_id: string | null
}

/**
 * The properties that many requests share. Each distinct combination is stored once, as a row of `usage_request_kinds`,
 * to which requests refer by its id.
 */
export type RequestKind = Pick<
  UsageRecord,
  "endpoint" | "status_code" | "cached" | "deprecated" | "via" | "price_per_gb_microdollars"
>

/** Returns whether two requests are of the same kind. */
export const isSameKind = (one: RequestKind, other: RequestKind) =>
  one.endpoint === other.endpoint && one.status_code === other.status_code && one.cached === other.cached &&
  one.price_per_gb_microdollars === other.price_per_gb_microdollars && one.via === other.via &&
  one.deprecated === other.deprecated

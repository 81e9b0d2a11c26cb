/** What is recorded about a request (D29, usage). */

/** A completed request, or one installment of an endless stream. */
export interface UsageRecord {
  /** Milliseconds since 1970. */
  readonly requested_at: number
  readonly account_id: number
  readonly key_id: number
  readonly request_id: string
  readonly endpoint: string
  readonly status_code: number
  readonly records_returned: number
  readonly bytes: number
  readonly cost_microdollars: number
  /** The price from which the cost was calculated; 0 if the request costs nothing. */
  readonly price_per_gb_microdollars: number
  readonly duration_ms: number
  /** Whether the response was a 304. */
  readonly cached: boolean
  readonly deprecated: boolean
  /** `mcp` if a tool of `/mcp` sent the request; null if it came as an ordinary HTTP request. */
  readonly via: "mcp" | null
  /** The reservation of an export, which ends when this record is written; null if nothing was reserved. */
  readonly reservation_id: string | null
}

/** The properties that many requests have in common. They are stored once, as a row of `usage_request_kinds`. */
export type RequestKind = Pick<
  UsageRecord,
  "endpoint" | "status_code" | "cached" | "deprecated" | "via" | "price_per_gb_microdollars"
>

/** Whether two requests are of the same kind. */
export const isSameKind = (one: RequestKind, other: RequestKind) =>
  one.endpoint === other.endpoint && one.status_code === other.status_code && one.cached === other.cached &&
  one.price_per_gb_microdollars === other.price_per_gb_microdollars && one.via === other.via &&
  one.deprecated === other.deprecated

/** The methods of the Promise client for an endpoint. These types are published as they are, without Effect. */
import type { ResponseMetadata } from "./ResponseMetadata.ts"

/** The options of one call. */
export interface CallOptions {
  /** Cancels the call at any time; the call then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

/** The query is optional if every query parameter is optional. */
export type CallArguments<Query> = {} extends Query ? [query?: Query, options?: CallOptions]
  : [query: Query, options?: CallOptions]

/**
 * An endpoint. Bodies are returned as the service sends them: datetimes are text with the offset `-05:00`, decimals are
 * text with all their digits (`"12.34"`), and integers are numbers. Calls reject with a `TickerlineError`.
 */
export interface Resource<Query, Body> {
  /** Sends the request, with the retries in the client's options. */
  readonly get: (...query: CallArguments<Query>) => Promise<Body>
  /** Like `get`, but also returns the metadata in the headers: cost, limits, dropped tickers, request id. */
  readonly getWithMetadata: (
    ...query: CallArguments<Query>
  ) => Promise<{ readonly body: Body; readonly metadata: ResponseMetadata }>
}

/** A complete list that is being downloaded. */
export interface DownloadedFile {
  /** The number of rows; null if the response does not state it. */
  readonly rows: number | null
  readonly metadata: ResponseMetadata
  /** Can be read only once. Rejects with `no_answer` if the response is cut off. */
  readonly bytes: AsyncIterable<Uint8Array>
}

/**
 * The query of a request for pages. Exports (`limit=all`, CSV, NDJSON, Parquet) are files, which `download` returns.
 */
export type PageQuery<Query> = Omit<Query, "limit" | "format"> & {
  /** Rows per page, at most 100; 10 by default. */
  readonly limit?: number | undefined
  /** Pages are always JSON. */
  readonly format?: "json" | undefined
}

/** An endpoint with paginated responses. A loop requests each page only when it needs the rows. */
export interface List<Query, Body extends { readonly results: ReadonlyArray<unknown> }>
  extends Resource<PageQuery<Query>, Body> {
  /** All pages from the query's `page` (default: 1) to the last. */
  readonly pages: (...query: CallArguments<PageQuery<Query>>) => AsyncIterable<Body>
  /** The rows of all pages. `limit` sets the number of rows per request; 100 needs the fewest requests. */
  readonly rows: (...query: CallArguments<PageQuery<Query>>) => AsyncIterable<Body["results"][number]>
  /**
   * The complete list as a file: Parquet, or the `format` of the query. `limit` is always `all`.
   *
   * ```ts
   * const { bytes } = await tickerline.news.download({ ticker: "GAP7", format: "csv" })
   * await writeFile("news.csv", bytes)
   * ```
   *
   * The promise rejects with the service's error if the list cannot be sent, and `bytes` with `no_answer` if the
   * connection breaks before the end. `fetch` hides trailers, so the cost and the digest of the file are unknown.
   */
  readonly download: (...query: CallArguments<Query>) => Promise<DownloadedFile>
}

/** How to follow the changes. */
export interface FollowOptions extends CallOptions {
  /** `stream` waits for changes on an open connection; `polling` requests them again and again. Default: `stream`. */
  readonly via?: "stream" | "polling" | undefined
  /** With `polling`: the delay before the next request, unless more changes are available; 1,000 by default. */
  readonly intervalMs?: number | undefined
}

/** The endpoint that lists changes. */
export interface ChangeFeed<Query, Body extends { readonly results: ReadonlyArray<unknown> }>
  extends Resource<Query, Body> {
  /**
   * The changes from the query's `after` on, endlessly, each exactly once. Reconnects after a lost connection and after
   * 429, 502, 503 and 504, and continues after the last change. Rejects with the service's error if reconnecting cannot
   * help, such as `cursor_expired`. After more than ten failures in a row, it rejects with the last one.
   */
  readonly follow: (
    query?: Omit<Query, "limit">,
    options?: FollowOptions,
  ) => AsyncIterable<Body["results"][number]>
}

/**
 * The methods that the Promise client provides for each endpoint. These types do not depend on Effect and are published
 * unchanged.
 */
import type { ResponseMetadata } from "./ResponseMetadata.ts"

/** The options for a single call. */
export interface CallOptions {
  /** Cancels the call at any time. The call then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

/** The query is optional if all query parameters are optional. */
export type CallArguments<Query> = {} extends Query ? [query?: Query, options?: CallOptions]
  : [query: Query, options?: CallOptions]

/**
 * The methods of an endpoint. Response bodies are returned as the service sends them: timestamps are strings with the
 * offset `-05:00`, decimals are strings with all their digits (`"12.34"`), and integers are numbers. Calls reject with
 * a `TickerlineError`.
 */
export interface Resource<Query, Body> {
  /** Sends the request, retrying it as configured in the client's options. */
  readonly get: (...query: CallArguments<Query>) => Promise<Body>
  /**
   * Like `get`, but also returns the response metadata from the headers, such as the cost, rate limits, dropped tickers
   * and the request id.
   */
  readonly getWithMetadata: (
    ...query: CallArguments<Query>
  ) => Promise<{ readonly body: Body; readonly metadata: ResponseMetadata }>
}

/** A complete list, downloaded as a file. */
export interface DownloadedFile {
  /** The number of rows, or null if the response does not state it. */
  readonly rows: number | null
  readonly metadata: ResponseMetadata
  /** The file contents, which can be read only once. If the response is cut off, reading rejects with `no_answer`. */
  readonly bytes: AsyncIterable<Uint8Array>
}

/**
 * The query for a request that returns pages. Exports (`limit=all`, CSV, NDJSON, Parquet) are files; use `download` for
 * them.
 */
export type PageQuery<Query> = Omit<Query, "limit" | "format"> & {
  /** The number of rows per page, at most 100. Default: 10. */
  readonly limit?: number | undefined
  /** Pages are always in JSON. */
  readonly format?: "json" | undefined
}

/**
 * The methods of an endpoint with paginated responses. When iterating, each page is requested only when its rows are
 * needed.
 */
export interface List<Query, Body extends { readonly results: ReadonlyArray<unknown> }>
  extends Resource<PageQuery<Query>, Body> {
  /** Iterates over all pages, from the query's `page` (default: 1) to the last one. */
  readonly pages: (...query: CallArguments<PageQuery<Query>>) => AsyncIterable<Body>
  /**
   * Iterates over the rows of all pages. `limit` sets the number of rows per request; the maximum of 100 results in the
   * fewest requests.
   */
  readonly rows: (...query: CallArguments<PageQuery<Query>>) => AsyncIterable<Body["results"][number]>
  /**
   * Downloads the complete list as a file, in the query's `format` or else as Parquet. `limit` is always set to `all`.
   *
   * ```ts
   * const { bytes } = await tickerline.news.download({ ticker: "GAP7", format: "csv" })
   * await writeFile("news.csv", bytes)
   * ```
   *
   * If the list cannot be sent, the promise rejects with the service's error. If the connection breaks before the end,
   * reading `bytes` rejects with `no_answer`. `fetch` does not expose trailers, so the cost and the digest of the file
   * are unknown.
   */
  readonly download: (...query: CallArguments<Query>) => Promise<DownloadedFile>
}

/** Options for following the change feed. */
export interface FollowOptions extends CallOptions {
  /** `stream` receives changes over an open connection; `polling` sends repeated requests. Default: `stream`. */
  readonly via?: "stream" | "polling" | undefined
  /**
   * For `polling`: the delay before the next request in milliseconds. There is no delay if more changes are already
   * available. Default: 1,000.
   */
  readonly intervalMs?: number | undefined
}

/** The methods of the endpoint that lists changes. */
export interface ChangeFeed<Query, Body extends { readonly results: ReadonlyArray<unknown> }>
  extends Resource<Query, Body> {
  /**
   * Iterates over the changes after the query's `after` indefinitely and delivers each change exactly once. After a
   * lost connection or a 429, 502, 503 or 504, it reconnects and continues after the last change. If reconnecting
   * cannot help, it rejects with the service's error, such as `cursor_expired`. After more than ten consecutive
   * failures, it rejects with the last error.
   */
  readonly follow: (
    query?: Omit<Query, "limit">,
    options?: FollowOptions,
  ) => AsyncIterable<Body["results"][number]>
}

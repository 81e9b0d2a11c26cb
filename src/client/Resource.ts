/** The calls that the Promise client offers for an endpoint, as types without Effect. */
import type { ResponseMetadata } from "./ResponseMetadata.ts"

/** An answer that comes in pages (D8). */
export interface ResultPage {
  readonly results: ReadonlyArray<unknown>
  readonly page: number
  readonly has_more: boolean
}

export interface CallOptions {
  /** Ends the call, whatever it waits for; it is rejected with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

/** The query may be left out if no parameter is required. */
export type CallArguments<Query> = {} extends Query ? [query?: Query, options?: CallOptions]
  : [query: Query, options?: CallOptions]

/**
 * An endpoint. Answers are as the service sends them, snake_case and with `-05:00` datetimes as text; decimals are text
 * with all of their digits (`"12.34"`), whole numbers are numbers. Calls are rejected with a `TickerlineError`.
 */
export interface Resource<Query, Answer> {
  readonly get: (...query: CallArguments<Query>) => Promise<Answer>
  /** The same, with the response headers: cost, limits, dropped tickers, request id. */
  readonly getWithHeaders: (
    ...query: CallArguments<Query>
  ) => Promise<{ readonly answer: Answer; readonly told: ResponseMetadata }>
}

/** An endpoint whose answer comes in pages. The loop requests a page when it reaches it. */
export interface List<Query, Answer extends ResultPage> extends Resource<Query, Answer> {
  /** From the query's `page` on, the first by default, to the last. */
  readonly pages: (...query: CallArguments<Query>) => AsyncIterable<Answer>
  /** The rows of these pages. `limit` sets the rows per request; 100 needs the fewest requests. */
  readonly rows: (...query: CallArguments<Query>) => AsyncIterable<Answer["results"][number]>
}

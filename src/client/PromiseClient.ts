/**
 * Entry point of `tickerline` and `tickerline/promise`: the client for programs that do not use Effect. The published
 * type declarations contain no Effect types (see `clients/typescript/build.ts`).
 *
 * ```ts
 * const tickerline = createClient({ baseUrl: "https://api.example.com", apiKey })
 * const { results: [chain] } = await tickerline.tickerChanges.get({ ticker: "OSTK" })
 * for await (const row of tickerline.intradayRunners.rows({ limit: 100 })) console.log(row.ticker, row.high_time)
 * ```
 */
import { Cause, Effect, Exit, Redacted, Result, Stream } from "effect"
import { FetchHttpClient, HttpClient } from "effect/http"
import { followChanges, makeDecodingChangeReader } from "./ChangeFollower.ts"
import {
  type EndpointCaller,
  type FileBytes,
  formatDeprecationWarning,
  isResultPage,
  makeEndpointCaller,
  makeNextPageQuery,
} from "./EndpointCaller.ts"
import type { NoAnswer } from "./ClientErrors.ts"
import { type AnyQuery, type ResultPage, toEndpointName } from "./EndpointTypes.ts"
import type { TickerlineClient } from "./PromiseContract.ts"
import type { CallOptions, DownloadedFile, FollowOptions } from "./PromiseResource.ts"
import { promiseSchemas } from "./PromiseSchemas.ts"
import { type EndpointDecoder, makeEndpointDecoders } from "./ResponseDecoder.ts"
import type { DeprecationNotice, ResponseMetadata } from "./ResponseMetadata.ts"
import { toTickerlineError } from "./TickerlineError.ts"

export type { DetailsOf, ErrorCode, Row, TickerlineClient } from "./PromiseContract.ts"
export type { CallOptions, ChangeFeed, DownloadedFile, FollowOptions, List, Resource } from "./PromiseResource.ts"
export type { DeprecationNotice, FollowedLineage, ResponseMetadata } from "./ResponseMetadata.ts"
export { TickerlineError } from "./TickerlineError.ts"

/** The options for a Promise client. */
export interface PromiseClientOptions {
  /** The service's URL, such as `https://api.example.com`, optionally with a path prefix before `/v1`. */
  readonly baseUrl: string | URL
  /** The API key. Not needed for endpoints that require no key. */
  readonly apiKey?: string | undefined
  /**
   * The maximum number of retries per request, after a 429, 502, 503 or 504 or a lost connection. Default: 3. Set it to
   * 0 to disable retries.
   */
  readonly retries?: number | undefined
  /**
   * The maximum delay before a retry in milliseconds. Default: 30,000. If `Retry-After` is longer, the call fails
   * immediately.
   */
  readonly longestWaitMs?: number | undefined
  /**
   * The maximum duration of a single attempt in milliseconds. Default: 60,000. Once started, downloads and event
   * streams may take longer.
   */
  readonly timeoutMs?: number | undefined
  /** Identifies your program in the `User-Agent` header. Browsers ignore it. */
  readonly userAgent?: string | undefined
  /** Additional headers to send with every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** A replacement for the global `fetch`, for example to use a proxy or for tests. */
  readonly fetch?: typeof globalThis.fetch | undefined
  /** Called after the final response of every call, including error responses, for example to add up costs. */
  readonly onResponse?: ((path: string, metadata: ResponseMetadata) => void) | undefined
  /** Called once for each deprecated endpoint that is used. By default, prints a warning to the console. */
  readonly onDeprecated?: ((path: string, deprecated: DeprecationNotice) => void) | undefined
}

/** Makes a call use the `fetch` function from the options and send no trace headers. */
type PrepareCall = <Outcome>(call: Effect.Effect<Outcome, NoAnswer>) => Effect.Effect<Outcome, NoAnswer>

/** The methods of an endpoint without the types of its query and body, for code that handles all endpoints alike. */
interface UntypedResource {
  readonly get: (query: never, options?: CallOptions) => Promise<unknown>
  readonly getWithMetadata: (
    query: never,
    options?: CallOptions,
  ) => Promise<{ readonly body: unknown; readonly metadata: ResponseMetadata }>
  readonly pages?: (query: never, options?: CallOptions) => AsyncIterable<ResultPage>
  readonly rows?: (query: never, options?: CallOptions) => AsyncIterable<unknown>
  readonly download?: (query: never, options?: CallOptions) => Promise<DownloadedFile>
  readonly follow?: (query: never, options?: FollowOptions) => AsyncIterable<unknown>
}

/** The outcome of a call that received a response: the decoded body or the decoded error, and the metadata. */
interface Outcome<Success> {
  readonly result: Result.Result<Success, unknown>
  readonly metadata: ResponseMetadata
}

/** Yields the chunks of a file. If the signal is aborted, throws its reason. */
async function* readBytes(bytes: FileBytes, metadata: ResponseMetadata, signal: AbortSignal | undefined) {
  try {
    for await (const chunk of Stream.toAsyncIterable(bytes)) {
      signal?.throwIfAborted()
      yield chunk
    }
  } catch (error) {
    signal?.throwIfAborted()
    throw toTickerlineError(error, metadata)
  }
}

/**
 * Yields the changes of a stream. If the signal is aborted, stops waiting for the next change and throws the signal's
 * reason, no matter how the stream ends as a consequence. Other errors are converted to `TickerlineError`.
 */
async function* readChanges(changes: Stream.Stream<unknown, unknown>, signal: AbortSignal | undefined) {
  signal?.throwIfAborted()
  const iterator = Stream.toAsyncIterable(changes)[Symbol.asyncIterator]()
  // `return` also ends the read that the loop below is waiting for.
  const stop = () => void iterator.return?.()
  signal?.addEventListener("abort", stop, { once: true })
  try {
    for await (const change of { [Symbol.asyncIterator]: () => iterator }) {
      signal?.throwIfAborted()
      yield change
    }
    signal?.throwIfAborted()
  } catch (error) {
    signal?.throwIfAborted()
    throw toTickerlineError(error, null)
  } finally {
    signal?.removeEventListener("abort", stop)
  }
}

/**
 * Creates the methods of an endpoint, which run the effects of `EndpointCaller` as promises. All endpoints get `get`
 * and `getWithMetadata`. The change feed also gets `follow`, and lists with pages also get `pages`, `rows` and
 * `download`.
 */
const makeResource = (
  endpoint: EndpointDecoder,
  { call, openEvents, openFile, retryPolicy }: EndpointCaller,
  prepare: PrepareCall,
): UntypedResource => {
  /**
   * Runs a call and returns the decoded body or the file (`success`), and the metadata. If the signal is aborted,
   * rejects with the signal's reason. If the call fails, rejects with a `TickerlineError`. Unexpected errors are
   * rethrown as they are.
   */
  const run = async <Success>(call: Effect.Effect<Outcome<Success>, NoAnswer>, signal: AbortSignal | undefined) => {
    signal?.throwIfAborted()
    const exit = await Effect.runPromiseExit(prepare(call), signal === undefined ? {} : { signal })
    if (Exit.isFailure(exit)) {
      signal?.throwIfAborted()
      throw toTickerlineError(Cause.squash(exit.cause), null)
    }
    const { metadata, result } = exit.value
    if (Result.isFailure(result)) throw toTickerlineError(result.failure, metadata)
    return { success: result.success, metadata }
  }
  const getWithMetadata = async (query: AnyQuery = {}, { signal }: CallOptions = {}) => {
    const { success, metadata } = await run(call(endpoint, query), signal)
    return { body: success, metadata }
  }
  const download = async (query: AnyQuery = {}, { signal }: CallOptions = {}) => {
    const { success: { bytes, rows }, metadata } = await run(openFile(endpoint, query), signal)
    return { rows, metadata, bytes: readBytes(bytes, metadata, signal) }
  }
  const get = async (query?: AnyQuery, options?: CallOptions) => (await getWithMetadata(query, options)).body
  async function* pages(query: AnyQuery = {}, options?: CallOptions) {
    for (let next: AnyQuery | undefined = query; next !== undefined;) {
      const { body, metadata } = await getWithMetadata(next, options)
      if (isResultPage(body)) yield body
      next = makeNextPageQuery(next, body, metadata)
    }
  }
  async function* rows(query?: AnyQuery, options?: CallOptions) {
    for await (const page of pages(query, options)) yield* page.results
  }
  /**
   * Iterates over the changes after `query.after` without end. `via` selects the event stream or repeated requests;
   * `intervalMs` is the delay between those requests. `followChanges` opens the connections and reconnects, and the
   * reader decodes what arrives and converts errors to `TickerlineError`. Nothing is sent until the caller iterates.
   */
  const follow = (query: AnyQuery = {}, { intervalMs, signal, via }: FollowOptions = {}) =>
    readChanges(
      followChanges(
        { openEvents: (path, query) => prepare(openEvents(path, query)), retryPolicy },
        makeDecodingChangeReader(endpoint, via, toTickerlineError),
        endpoint.path,
        query,
        { via, interval: intervalMs },
      ),
      signal,
    )
  // Only the change feed has a decoder for single changes.
  if (endpoint.decodeChange !== undefined) return { get, getWithMetadata, follow }
  return endpoint.hasPages ? { get, getWithMetadata, pages, rows, download } : { get, getWithMetadata }
}

/** Converts a callback to a function that returns an effect, which `makeEndpointCaller` expects. */
const toEffect = <Value>(callback: (path: string, value: Value) => void) => (path: string, value: Value) =>
  Effect.sync(() => callback(path, value))

const endpointDecoders = makeEndpointDecoders(promiseSchemas)

/** Creates a client. Throws a `TickerlineError` with the code `invalid_options` if the options are invalid. */
export const createClient = (options: PromiseClientOptions): TickerlineClient => {
  const { apiKey, longestWaitMs, onResponse, onDeprecated, retries, timeoutMs } = options
  const caller = Effect.runSync(
    makeEndpointCaller({
      baseUrl: options.baseUrl,
      apiKey: apiKey === undefined ? undefined : Redacted.make(apiKey),
      retries: { times: retries, longestWait: longestWaitMs },
      timeout: timeoutMs,
      userAgent: options.userAgent,
      headers: options.headers,
      onResponse: onResponse === undefined ? undefined : toEffect(onResponse),
      onDeprecated: toEffect(
        onDeprecated ?? ((path, deprecated) => console.warn(formatDeprecationWarning(path, deprecated))),
      ),
    }).pipe(Effect.result, Effect.provide(FetchHttpClient.layer)),
  )
  if (Result.isFailure(caller)) throw toTickerlineError(caller.failure, null)
  const prepare: PrepareCall = (call) =>
    call.pipe(
      // Trace headers must not be sent, because the service's CORS rules do not allow them from browsers.
      Effect.provideService(HttpClient.TracerPropagationEnabled, false),
      Effect.provideService(FetchHttpClient.Fetch, options.fetch ?? globalThis.fetch),
    )
  // TypeScript cannot verify that these values have the declared types, although both are derived from the contract.
  return Object.fromEntries(
    endpointDecoders.map((endpoint) => [
      toEndpointName(endpoint.path),
      makeResource(endpoint, caller.success, prepare),
    ]),
  ) as TickerlineClient
}

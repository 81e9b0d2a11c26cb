/**
 * Entry point of `tickerline/client`: the client for programs that use Effect.
 *
 * ```ts
 * const program = Effect.gen(function* () {
 *   const tickerline = yield* Tickerline
 *   const { results: [chain] } = yield* tickerline.tickerChanges.get({ ticker: "OSTK" })
 *   return chain.current_ticker
 * })
 * ```
 */
import { Context, Effect, Layer, Option, Stream } from "effect"
import { FetchHttpClient, type HttpClient } from "effect/http"
import {
  type ClientOptions,
  type DownloadedFile,
  type EndpointCaller,
  getRowsOfPage,
  makeEndpointCaller,
  makeNextPageQuery,
} from "./EndpointCaller.ts"
import { followChanges, type FollowOptions, makeDecodingChangeReader } from "./ChangeFollower.ts"
import type { CallFailure, InvalidOptions } from "./ClientErrors.ts"
import {
  type AnyQuery,
  type ChangePage,
  type ChangeStreamEndpoint,
  type EndpointName,
  type ErrorOf,
  type JsonEndpoint,
  type QueryOf,
  type ResponseBodyOf,
  type ResultPage,
  toEndpointName,
} from "./EndpointTypes.ts"
import { endpointSchemas } from "./EndpointSchemas.ts"
import type { PageQuery } from "./PromiseResource.ts"
import { type EndpointDecoder, makeEndpointDecoders } from "./ResponseDecoder.ts"
import type { ResponseMetadata } from "./ResponseMetadata.ts"

export * from "../contract/AccountErrors.ts"
export * from "../contract/rules/ApiErrors.ts"
export type { FollowOptions } from "./ChangeFollower.ts"
export type { ClientOptions, DownloadedFile } from "./EndpointCaller.ts"
export { type CallFailure, InvalidOptions, NoAnswer, UnknownCode, UnreadableAnswer } from "./ClientErrors.ts"
export type { DeprecationNotice, ResponseMetadata } from "./ResponseMetadata.ts"
export type { RetryOptions } from "./RetryPolicy.ts"

/** The argument is optional if all query parameters are optional. */
type CallArguments<Query> = {} extends Query ? [query?: Query] : [query: Query]

/**
 * The methods of an endpoint. In responses, decimals are strings with all their digits (D16, decimals), and timestamps
 * are `DateTime.Utc` values (§2.1, timestamps).
 */
export interface Resource<Query, Body, Error> {
  /** Sends the request, retrying it as configured in `ClientOptions.retries`. */
  readonly get: (...query: CallArguments<Query>) => Effect.Effect<Body, Error | CallFailure>
  /**
   * Like `get`, but also returns the response metadata from the headers, such as the cost, rate limits, dropped tickers
   * and the request id.
   */
  readonly getWithMetadata: (
    ...query: CallArguments<Query>
  ) => Effect.Effect<{ readonly body: Body; readonly metadata: ResponseMetadata }, Error | CallFailure>
}

/** The methods of an endpoint with paginated responses. The streams request a page only when its rows are needed. */
export interface List<Query, Body extends ResultPage, Error> extends Resource<PageQuery<Query>, Body, Error> {
  /** Streams all pages, from the query's `page` (default: 1) to the last one. */
  readonly pages: (...query: CallArguments<PageQuery<Query>>) => Stream.Stream<Body, Error | CallFailure>
  /**
   * Streams the rows of all pages. `limit` sets the number of rows per request; the maximum of 100 results in the
   * fewest requests.
   */
  readonly rows: (
    ...query: CallArguments<PageQuery<Query>>
  ) => Stream.Stream<Body["results"][number], Error | CallFailure>
  /**
   * Downloads the complete list as a file, in the query's `format` or else as Parquet. `limit` is always set to `all`.
   * If the list cannot be sent, the call fails with the service's error. If the response is cut off, the byte stream
   * fails with `NoAnswer`. `fetch` does not expose trailers, so the digest and the cost are unknown.
   */
  readonly download: (
    ...query: CallArguments<Query>
  ) => Effect.Effect<DownloadedFile & { readonly metadata: ResponseMetadata }, Error | CallFailure>
}

/** The methods of the endpoint that lists changes. */
export interface ChangeFeed<Query, Body extends ChangePage<unknown>, Error> extends Resource<Query, Body, Error> {
  /**
   * Streams the changes after the query's `after` indefinitely and delivers each change exactly once. After a lost
   * connection or a 429, 502, 503 or 504, it reconnects and continues after the last change. If reconnecting cannot
   * help, it fails with the service's error, such as `CursorExpired`. After more than ten consecutive failures, it
   * fails with the last error.
   */
  readonly follow: (
    query?: Omit<Query, "limit">,
    options?: FollowOptions,
  ) => Stream.Stream<Body["results"][number], Error | ErrorOf<ChangeStreamEndpoint> | CallFailure>
}

type EndpointResource<Query, Body, Error> = Body extends ResultPage ? List<Query, Body, Error>
  : Body extends ChangePage<unknown> ? ChangeFeed<Query, Body, Error>
  : Resource<Query, Body, Error>

/** All endpoints. Each name is derived from the path: `/v1/gap-stats-advanced` becomes `gapStatsAdvanced`. */
export type Client = {
  readonly [Endpoint in JsonEndpoint as EndpointName<Endpoint["path"]>]: EndpointResource<
    QueryOf<Endpoint>,
    ResponseBodyOf<Endpoint>,
    ErrorOf<Endpoint>
  >
}

/** The row type of an endpoint. `Row<"news">` is the type of the elements of `results` in a `/v1/news` response. */
export type Row<Name extends keyof Client> = Effect.Success<ReturnType<Client[Name]["get"]>> extends
  { readonly results: ReadonlyArray<infer Element> } ? Element : never

/** The methods of an endpoint without the types of its query and body, for code that handles all endpoints alike. */
interface UntypedResource {
  readonly get: (query: never) => Effect.Effect<unknown, unknown>
  readonly getWithMetadata: (
    query: never,
  ) => Effect.Effect<{ readonly body: unknown; readonly metadata: ResponseMetadata }, unknown>
  readonly pages?: (query: never) => Stream.Stream<unknown, unknown>
  readonly rows?: (query: never) => Stream.Stream<unknown, unknown>
  readonly download?: (
    query: never,
  ) => Effect.Effect<DownloadedFile & { readonly metadata: ResponseMetadata }, unknown>
  readonly follow?: (query: never, options?: FollowOptions) => Stream.Stream<unknown, unknown>
}

/**
 * Creates the methods of an endpoint. All endpoints get `get` and `getWithMetadata`. The change feed also gets
 * `follow`, and lists with pages also get `pages`, `rows` and `download`.
 */
const makeResource = (endpoint: EndpointDecoder, caller: EndpointCaller): UntypedResource => {
  const { call, openFile } = caller
  const getWithMetadata = Effect.fn(`Tickerline ${endpoint.path}`)(function* (query: AnyQuery = {}) {
    const { metadata, result } = yield* call(endpoint, query)
    return { body: yield* Effect.fromResult(result), metadata }
  })
  const get = (query?: AnyQuery) => Effect.map(getWithMetadata(query), ({ body }) => body)
  if (endpoint.decodeChange !== undefined) {
    const follow = (query: AnyQuery = {}, options: FollowOptions = {}) =>
      followChanges(caller, makeDecodingChangeReader(endpoint, options.via), endpoint.path, query, options)
    return { get, getWithMetadata, follow }
  }
  if (!endpoint.hasPages) return { get, getWithMetadata }
  const pages = (query: AnyQuery = {}) =>
    Stream.paginate(
      query,
      // Returns the elements to emit, here a single page, and the query for the next page, or `None` after the last.
      (pageQuery) =>
        Effect.map(getWithMetadata(pageQuery), ({ body, metadata }) => {
          const nextQuery = makeNextPageQuery(pageQuery, body, metadata)
          return [[body], Option.fromUndefinedOr(nextQuery)] as const
        }),
    )
  const rows = (query?: AnyQuery) => Stream.flattenIterable(Stream.map(pages(query), getRowsOfPage))
  const download = Effect.fn(`Tickerline ${endpoint.path}`)(function* (query: AnyQuery = {}) {
    const { metadata, result } = yield* openFile(endpoint, query)
    return { ...(yield* Effect.fromResult(result)), metadata }
  })
  return { get, getWithMetadata, pages, rows, download }
}

const endpointDecoders = makeEndpointDecoders(endpointSchemas)

/** Creates a client. Fails if the options are invalid. */
export const makeClient = (options: ClientOptions): Effect.Effect<Client, InvalidOptions, HttpClient.HttpClient> =>
  Effect.map(
    makeEndpointCaller(options),
    // TypeScript cannot verify that these values have the declared types, although both are derived from the contract.
    (caller) =>
      Object.fromEntries(
        endpointDecoders.map((endpoint) => [toEndpointName(endpoint.path), makeResource(endpoint, caller)]),
      ) as Client,
  )

/** The client as an Effect service. */
export class Tickerline extends Context.Service<Tickerline, Client>()("tickerline/client/Tickerline") {
  /** Uses the `HttpClient` that the program provides. */
  static readonly layer = (options: ClientOptions) => Layer.effect(this, makeClient(options))

  /** Uses the global `fetch`. */
  static readonly layerFetch = (options: ClientOptions) => Layer.provide(this.layer(options), FetchHttpClient.layer)
}

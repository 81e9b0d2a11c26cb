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
export * from "../contract/rules/Errors.ts"
export type { FollowOptions } from "./ChangeFollower.ts"
export type { ClientOptions, DownloadedFile } from "./EndpointCaller.ts"
export { type CallFailure, InvalidOptions, NoAnswer, UnknownCode, UnreadableAnswer } from "./ClientErrors.ts"
export type { DeprecationNotice, ResponseMetadata } from "./ResponseMetadata.ts"
export type { RetryOptions } from "./RetryPolicy.ts"

/** The argument is optional if every query parameter is optional. */
type CallArguments<Query> = {} extends Query ? [query?: Query] : [query: Query]

/**
 * An endpoint. In responses, decimals are text with all digits (D16, decimals), and datetimes are `DateTime.Utc` (§2.1,
 * timestamps).
 */
export interface Resource<Query, Body, Error> {
  /** Sends the request, with the retries of `ClientOptions.retries`. */
  readonly get: (...query: CallArguments<Query>) => Effect.Effect<Body, Error | CallFailure>
  /** Like `get`, but also returns the metadata in the headers: cost, limits, dropped tickers, request id. */
  readonly getWithMetadata: (
    ...query: CallArguments<Query>
  ) => Effect.Effect<{ readonly body: Body; readonly metadata: ResponseMetadata }, Error | CallFailure>
}

/** An endpoint with paginated responses. The streams request each page only when its rows are needed. */
export interface List<Query, Body extends ResultPage, Error> extends Resource<PageQuery<Query>, Body, Error> {
  /** All pages from the query's `page` (default: 1) to the last. */
  readonly pages: (...query: CallArguments<PageQuery<Query>>) => Stream.Stream<Body, Error | CallFailure>
  /** The rows of all pages. `limit` sets the number of rows per request; 100 needs the fewest requests. */
  readonly rows: (
    ...query: CallArguments<PageQuery<Query>>
  ) => Stream.Stream<Body["results"][number], Error | CallFailure>
  /**
   * The complete list as a file: Parquet, or the `format` of the query. `limit` is always `all`. The call fails with
   * the service's error if the list cannot be sent. The byte stream fails with `NoAnswer` if the response is cut off.
   * `fetch` hides trailers, so digest and cost are unknown.
   */
  readonly download: (
    ...query: CallArguments<Query>
  ) => Effect.Effect<DownloadedFile & { readonly metadata: ResponseMetadata }, Error | CallFailure>
}

/** The endpoint that lists changes. */
export interface ChangeFeed<Query, Body extends ChangePage<unknown>, Error> extends Resource<Query, Body, Error> {
  /**
   * The changes from the query's `after` on, endlessly, each exactly once. Reconnects after a lost connection and after
   * 429, 502, 503 and 504, and continues after the last change. Fails with the service's error if reconnecting cannot
   * help, such as `CursorExpired`. After more than ten failures in a row, it fails with the last one.
   */
  readonly follow: (
    query?: Omit<Query, "limit">,
    options?: FollowOptions,
  ) => Stream.Stream<Body["results"][number], Error | ErrorOf<ChangeStreamEndpoint> | CallFailure>
}

type EndpointResource<Query, Body, Error> = Body extends ResultPage ? List<Query, Body, Error>
  : Body extends ChangePage<unknown> ? ChangeFeed<Query, Body, Error>
  : Resource<Query, Body, Error>

/** Every endpoint, named after its path: `/v1/gap-stats-advanced` is `gapStatsAdvanced`. */
export type Client = {
  readonly [Endpoint in JsonEndpoint as EndpointName<Endpoint["path"]>]: EndpointResource<
    QueryOf<Endpoint>,
    ResponseBodyOf<Endpoint>,
    ErrorOf<Endpoint>
  >
}

/** The row type of an endpoint: `Row<"news">` is the type of an element in the `results` of `/v1/news`. */
export type Row<Name extends keyof Client> = Effect.Success<ReturnType<Client[Name]["get"]>> extends
  { readonly results: ReadonlyArray<infer Element> } ? Element : never

/** The resource for any endpoint, without the types of its query and body. */
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

/** Creates an endpoint's methods: `follow` for the change feed, and `pages`, `rows` and `download` for lists. */
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
      (query) =>
        Effect.map(
          getWithMetadata(query),
          ({ body, metadata }) => [[body], Option.fromUndefinedOr(makeNextPageQuery(query, body, metadata))] as const,
        ),
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
    // The compiler cannot check that the values match the types, although both are derived from the contract.
    (caller) =>
      Object.fromEntries(
        endpointDecoders.map((endpoint) => [toEndpointName(endpoint.path), makeResource(endpoint, caller)]),
      ) as Client,
  )

/** The client as an Effect service. */
export class Tickerline extends Context.Service<Tickerline, Client>()("tickerline/client/Tickerline") {
  /** Uses the program's `HttpClient`. */
  static readonly layer = (options: ClientOptions) => Layer.effect(this, makeClient(options))

  /** Uses the global `fetch`. */
  static readonly layerFetch = (options: ClientOptions) => Layer.provide(this.layer(options), FetchHttpClient.layer)
}

/**
 * `tickerline/client`: the API for programs in Effect.
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
import { type EndpointDecoder, endpointDecoders } from "./ResponseDecoder.ts"
import { type CallEndpoint, type ClientOptions, makeEndpointCaller, nextPageQuery, rowsOfPage } from "./Call.ts"
import type { AnyQuery, EndpointName, ErrorOf, JsonEndpoint, QueryOf, ResponseBodyOf, ResultPage } from "./Contract.ts"
import { endpointNameOf } from "./Contract.ts"
import type { CallFailure, InvalidOptions } from "./ClientErrors.ts"
import type { ResponseMetadata } from "./ResponseMetadata.ts"

export * from "../accounts/AccountErrors.ts"
export * from "../rules/Errors.ts"
export type { DeprecationNotice, ResponseMetadata } from "./ResponseMetadata.ts"
export type { ClientOptions } from "./Call.ts"
export type { RetryOptions } from "./RetryPolicy.ts"
export { type CallFailure, InvalidOptions, NoAnswer, UnknownCode, UnreadableAnswer } from "./ClientErrors.ts"

/** Parameters may be left out where none is needed. */
type Arguments<Query> = {} extends Query ? [query?: Query] : [query: Query]

/** An endpoint. Decimals are text with all of their digits (D16), datetimes `DateTime.Utc` (§2.1). */
export interface Resource<Query, Answer, Error> {
  /** Asks once. What is passing is asked again, see `Options.retries`. */
  readonly get: (...query: Arguments<Query>) => Effect.Effect<Answer, Error | CallFailure>
  /** The same, with what the headers tell: cost, limits, dropped tickers, request id. */
  readonly getWithHeaders: (
    ...query: Arguments<Query>
  ) => Effect.Effect<{ readonly answer: Answer; readonly told: ResponseMetadata }, Error | CallFailure>
}

type RowOfPage<Answer extends ResultPage> = Answer["results"][number]

/** An endpoint whose answer comes in pages. A page is asked for when somebody takes it. */
export interface List<Query, Answer extends ResultPage, Error> extends Resource<Query, Answer, Error> {
  /** From the query's `page` on, the first by default, to the last. */
  readonly pages: (...query: Arguments<Query>) => Stream.Stream<Answer, Error | CallFailure>
  /** The rows of these pages. `limit` is how many come with a request: 100 ask least often. */
  readonly rows: (...query: Arguments<Query>) => Stream.Stream<RowOfPage<Answer>, Error | CallFailure>
}

type EndpointResource<Query, Answer, Error> = Answer extends ResultPage ? List<Query, Answer, Error>
  : Resource<Query, Answer, Error>

/** Each endpoint of the contract under the name of its path: `/v1/gap-stats-advanced` is `gapStatsAdvanced`. */
export type Client = {
  readonly [Endpoint in JsonEndpoint as EndpointName<Endpoint["path"]>]: EndpointResource<
    QueryOf<Endpoint>,
    ResponseBodyOf<Endpoint>,
    ErrorOf<Endpoint>
  >
}

/** Before it is known which endpoint it is. */
interface UntypedResource {
  readonly get: (query: never) => Effect.Effect<unknown, unknown>
  readonly getWithHeaders: (
    query: never,
  ) => Effect.Effect<{ readonly answer: unknown; readonly told: ResponseMetadata }, unknown>
  readonly pages?: (query: never) => Stream.Stream<unknown, unknown>
  readonly rows?: (query: never) => Stream.Stream<unknown, unknown>
}

const resource = (plan: EndpointDecoder, ask: CallEndpoint): UntypedResource => {
  const getWithHeaders = Effect.fn(`Tickerline ${plan.path}`)(function* (query: AnyQuery = {}) {
    const { result, told } = yield* ask(plan, query)
    return { answer: yield* Effect.fromResult(result), told }
  })
  const get = (query?: AnyQuery) => Effect.map(getWithHeaders(query), ({ answer }) => answer)
  if (!plan.paged) return { get, getWithHeaders }
  const pages = (query: AnyQuery = {}) =>
    Stream.paginate(
      query,
      (query) =>
        Effect.map(get(query), (answer) => [[answer], Option.fromUndefinedOr(nextPageQuery(query, answer))] as const),
    )
  const rows = (query?: AnyQuery) => Stream.flattenIterable(Stream.map(pages(query), rowsOfPage))
  return { get, getWithHeaders, pages, rows }
}

/** Fails where no request can be sent with these options. */
export const makeClient = (options: ClientOptions): Effect.Effect<Client, InvalidOptions, HttpClient.HttpClient> =>
  Effect.map(
    makeEndpointCaller(options),
    // The types are read from the contract as the values are; here alone the compiler takes our word that they agree.
    (ask) =>
      Object.fromEntries(endpointDecoders.map((plan) => [endpointNameOf(plan.path), resource(plan, ask)])) as Client,
  )

/** The client as a service. */
export class Tickerline extends Context.Service<Tickerline, Client>()("tickerline/client/Tickerline") {
  /** Over the program's own `HttpClient`. */
  static readonly layer = (options: ClientOptions) => Layer.effect(this, makeClient(options))

  /** Over `fetch`, as it is in Node, Deno and browsers. */
  static readonly layerFetch = (options: ClientOptions) => Layer.provide(this.layer(options), FetchHttpClient.layer)
}

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
import { type Plan, plans } from "./ResponseDecoder.ts"
import { type Ask, asker, following, type Options, rowsIn } from "./Call.ts"
import type { AnswerOf, AnyQuery, Endpoints, ErrorOf, NameOf, Paged, QueryOf } from "./Contract.ts"
import { nameOf } from "./Contract.ts"
import type { Failure, InvalidOptions } from "./Failures.ts"
import type { Told } from "./ResponseMetadata.ts"

export * from "../accounts/AccountErrors.ts"
export * from "../rules/Errors.ts"
export type { Deprecated, Told } from "./ResponseMetadata.ts"
export type { Options } from "./Call.ts"
export type { Retries } from "./Retries.ts"
export { type Failure, InvalidOptions, NoAnswer, UnknownCode, UnreadableAnswer } from "./Failures.ts"

/** Parameters may be left out where none is needed. */
type Arguments<Query> = {} extends Query ? [query?: Query] : [query: Query]

/** An endpoint. Decimals are text with all of their digits (D16), datetimes `DateTime.Utc` (§2.1). */
export interface Resource<Query, Answer, Error> {
  /** Asks once. What is passing is asked again, see `Options.retries`. */
  readonly get: (...query: Arguments<Query>) => Effect.Effect<Answer, Error | Failure>
  /** The same, with what the headers tell: cost, limits, dropped tickers, request id. */
  readonly getWithHeaders: (
    ...query: Arguments<Query>
  ) => Effect.Effect<{ readonly answer: Answer; readonly told: Told }, Error | Failure>
}

type RowOf<Answer extends Paged> = Answer["results"][number]

/** An endpoint whose answer comes in pages. A page is asked for when somebody takes it. */
export interface List<Query, Answer extends Paged, Error> extends Resource<Query, Answer, Error> {
  /** From the query's `page` on, the first by default, to the last. */
  readonly pages: (...query: Arguments<Query>) => Stream.Stream<Answer, Error | Failure>
  /** The rows of these pages. `limit` is how many come with a request: 100 ask least often. */
  readonly rows: (...query: Arguments<Query>) => Stream.Stream<RowOf<Answer>, Error | Failure>
}

type Of<Query, Answer, Error> = Answer extends Paged ? List<Query, Answer, Error> : Resource<Query, Answer, Error>

/** Each endpoint of the contract under the name of its path: `/v1/gap-stats-advanced` is `gapStatsAdvanced`. */
export type Client = {
  readonly [Endpoint in Endpoints as NameOf<Endpoint["path"]>]: Of<
    QueryOf<Endpoint>,
    AnswerOf<Endpoint>,
    ErrorOf<Endpoint>
  >
}

/** Before it is known which endpoint it is. */
interface Unnamed {
  readonly get: (query: never) => Effect.Effect<unknown, unknown>
  readonly getWithHeaders: (
    query: never,
  ) => Effect.Effect<{ readonly answer: unknown; readonly told: Told }, unknown>
  readonly pages?: (query: never) => Stream.Stream<unknown, unknown>
  readonly rows?: (query: never) => Stream.Stream<unknown, unknown>
}

const resource = (plan: Plan, ask: Ask): Unnamed => {
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
        Effect.map(get(query), (answer) => [[answer], Option.fromUndefinedOr(following(query, answer))] as const),
    )
  const rows = (query?: AnyQuery) => Stream.flattenIterable(Stream.map(pages(query), rowsIn))
  return { get, getWithHeaders, pages, rows }
}

/** Fails where no request can be sent with these options. */
export const make = (options: Options): Effect.Effect<Client, InvalidOptions, HttpClient.HttpClient> =>
  Effect.map(
    asker(options),
    // The types are read from the contract as the values are; here alone the compiler takes our word that they agree.
    (ask) => Object.fromEntries(plans.map((plan) => [nameOf(plan.path), resource(plan, ask)])) as Client,
  )

/** The client as a service. */
export class Tickerline extends Context.Service<Tickerline, Client>()("tickerline/client/Tickerline") {
  /** Over the program's own `HttpClient`. */
  static readonly layer = (options: Options) => Layer.effect(this, make(options))

  /** Over `fetch`, as it is in Node, Deno and browsers. */
  static readonly layerFetch = (options: Options) => Layer.provide(this.layer(options), FetchHttpClient.layer)
}

/** How an endpoint of the contract is handled: its query is decoded, then it is answered. */
import { type Effect, Exit, Predicate, type Schema, type Scope } from "effect"
import type { PastSource } from "../postgres/Reader.ts"
import type { Answer, FinishedResponse, StreamUsageRecorder } from "../contract/rules/Answer.ts"
import type { ApiRequest } from "../contract/rules/ApiRequest.ts"
import { isTickerList } from "../contract/rules/Tickers.ts"
import { makeQueryDecoder, type QueryCodec, type RawSearchParameters } from "../contract/rules/Validation.ts"
import type { CurrentAccount } from "../contract/Authentication.ts"

/** A request whose query has been decoded. */
export interface ReceivedRequest {
  readonly request: ApiRequest
  /** What counts as now, in milliseconds since 1970: the arrival of the request, or the moment of `as_of`. */
  readonly now: number
}

/** A request of an account that may use the endpoint. */
export interface AdmittedRequest extends ReceivedRequest {
  readonly account: typeof CurrentAccount.Service
  /** The declared path of the endpoint, which is also its partition of the connection pool. */
  readonly route: string
  /** Where to read with `as_of`; undefined for the present. */
  readonly past: PastSource | undefined
  /** Returns the scope that closes when the response has been sent. */
  readonly scope: () => Scope.Scope
  /** Makes the recorder of an endless stream. */
  readonly makeStreamUsageRecorder: () => StreamUsageRecorder
  /** Answers another request inside the process, like one that arrived over HTTP. */
  readonly run: (request: ApiRequest) => Effect.Effect<FinishedResponse>
}

interface Handler<Request, E> {
  /** The schema of the query, which names the parameters in errors. */
  readonly query: Schema.Top
  /** Whether the parameter `ticker` is a list, whose invalid entries are dropped (D5). */
  readonly hasTickerList: boolean
  /** Whether the endpoint has the parameter `as_of`. */
  readonly hasMoment: boolean
  /** `now` is what counts as now, in milliseconds since 1970. */
  readonly decode: (
    parameters: RawSearchParameters,
    now: number,
  ) => Exit.Exit<(request: Request) => Effect.Effect<Answer, E>, Schema.SchemaError>
}

/** Handles an endpoint that needs a key. */
export interface KeyedHandler<E> extends Handler<AdmittedRequest, E> {
  readonly needsKey: true
}

/** Handles an endpoint for everybody. */
export interface PublicHandler<E> extends Handler<ReceivedRequest, E> {
  readonly needsKey: false
}

const makeAnyHandler = <Query, Request, E>(
  query: QueryCodec<Query>,
  answer: (query: Query, request: Request) => Effect.Effect<Answer, E>,
): Handler<Request, E> => {
  const decode = makeQueryDecoder(query)
  return {
    query,
    hasTickerList: isTickerList(query),
    hasMoment: Predicate.hasProperty(query, "fields") && Predicate.hasProperty(query.fields, "as_of"),
    decode: (parameters, now) => Exit.map(decode(parameters, now), (query) => (request) => answer(query, request)),
  }
}

export const makeHandler = <Query, E>(
  query: QueryCodec<Query>,
  answer: (query: Query, request: AdmittedRequest) => Effect.Effect<Answer, E>,
): KeyedHandler<E> => ({ ...makeAnyHandler(query, answer), needsKey: true })

export const makePublicHandler = <Query, E>(
  query: QueryCodec<Query>,
  answer: (query: Query, request: ReceivedRequest) => Effect.Effect<Answer, E>,
): PublicHandler<E> => ({ ...makeAnyHandler(query, answer), needsKey: false })

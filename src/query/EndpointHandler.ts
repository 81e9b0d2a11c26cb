/** What an endpoint's handler consists of: a decoder for its query, and a function that returns the response. */
import { type Effect, Exit, Predicate, type Schema, type Scope } from "effect"
import type { PastSource } from "../postgres/Reader.ts"
import type { EndpointResult, FinishedResponse, StreamUsageRecorder } from "../contract/rules/EndpointResult.ts"
import type { ApiRequest } from "../contract/rules/ApiRequest.ts"
import { isTickerList } from "../contract/rules/Tickers.ts"
import { makeQueryDecoder, type QueryCodec, type RawSearchParameters } from "../contract/rules/Validation.ts"
import type { CurrentAccount } from "../contract/Authentication.ts"

/** A request whose query has been decoded. */
export interface ReceivedRequest {
  readonly request: ApiRequest
  /** What counts as now, in milliseconds since 1970: when the request arrived, or the moment of `as_of`. */
  readonly now: number
}

/** A request from an account that may use the endpoint. */
export interface AdmittedRequest extends ReceivedRequest {
  readonly account: typeof CurrentAccount.Service
  /** The path as declared in the contract, which is also the endpoint's partition of the connection pool. */
  readonly route: string
  /** The past moment to read with `as_of`; undefined for the present. */
  readonly past: PastSource | undefined
  /** Returns the scope that closes when the response has been sent. */
  readonly scope: () => Scope.Scope
  /** Creates the recorder of usage for a stream that has no end. */
  readonly makeStreamUsageRecorder: () => StreamUsageRecorder
  /** Handles another request inside this process, as if it had arrived over HTTP. */
  readonly run: (request: ApiRequest) => Effect.Effect<FinishedResponse>
}

interface Handler<Request, E> {
  /** The schema of the query. Errors name its parameters. */
  readonly query: Schema.Top
  /** Whether the parameter `ticker` is a list, from which invalid entries are dropped (D5). */
  readonly hasTickerList: boolean
  /** Whether the endpoint has the parameter `as_of`. */
  readonly hasMoment: boolean
  /** `now` is what counts as now, in milliseconds since 1970. */
  readonly decode: (
    parameters: RawSearchParameters,
    now: number,
  ) => Exit.Exit<(request: Request) => Effect.Effect<EndpointResult, E>, Schema.SchemaError>
}

/** Handles an endpoint that requires a key. */
export interface KeyedHandler<E> extends Handler<AdmittedRequest, E> {
  readonly needsKey: true
}

/** Handles an endpoint that requires no key. */
export interface PublicHandler<E> extends Handler<ReceivedRequest, E> {
  readonly needsKey: false
}

const makeAnyHandler = <Query, Request, E>(
  query: QueryCodec<Query>,
  respond: (query: Query, request: Request) => Effect.Effect<EndpointResult, E>,
): Handler<Request, E> => {
  const decode = makeQueryDecoder(query)
  return {
    query,
    hasTickerList: isTickerList(query),
    hasMoment: Predicate.hasProperty(query, "fields") && Predicate.hasProperty(query.fields, "as_of"),
    decode: (parameters, now) => Exit.map(decode(parameters, now), (query) => (request) => respond(query, request)),
  }
}

/** Creates the handler of an endpoint that requires a key. */
export const makeHandler = <Query, E>(
  query: QueryCodec<Query>,
  respond: (query: Query, request: AdmittedRequest) => Effect.Effect<EndpointResult, E>,
): KeyedHandler<E> => ({ ...makeAnyHandler(query, respond), needsKey: true })

/** Creates the handler of an endpoint that requires no key. */
export const makePublicHandler = <Query, E>(
  query: QueryCodec<Query>,
  respond: (query: Query, request: ReceivedRequest) => Effect.Effect<EndpointResult, E>,
): PublicHandler<E> => ({ ...makeAnyHandler(query, respond), needsKey: false })

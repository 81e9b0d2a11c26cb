/** Endpoint handlers. A handler decodes the query of a request and returns a function that produces the response. */
import { type Effect, Exit, Predicate, type Schema, type Scope } from "effect"
import type { PastSource } from "../postgres/DatabaseReader.ts"
import type { EndpointResult, FinishedResponse, StreamUsageRecorder } from "../contract/rules/EndpointResult.ts"
import type { ApiRequest } from "../contract/rules/ApiRequest.ts"
import { isTickerList } from "../contract/rules/Tickers.ts"
import { makeQueryDecoder, type QueryCodec, type RawSearchParameters } from "../contract/rules/QueryValidation.ts"
import type { CurrentAccount } from "../contract/Authentication.ts"

/** A request whose query has been decoded. */
export interface ReceivedRequest {
  readonly request: ApiRequest
  /**
   * The current time for this request, in milliseconds since 1970: when the request arrived, or the timestamp in
   * `as_of`.
   */
  readonly now: number
}

/** A request from an account that may use the endpoint. */
export interface AdmittedRequest extends ReceivedRequest {
  readonly account: typeof CurrentAccount.Service
  /** The path as declared in the API contract. It also identifies the endpoint's partition of the connection pool. */
  readonly route: string
  /** The past state to read if the request has `as_of`. Undefined to read the current data. */
  readonly past: PastSource | undefined
  /** Returns a scope that closes when the response has been sent. */
  readonly scope: () => Scope.Scope
  /** Creates a usage recorder for an endless stream. */
  readonly makeStreamUsageRecorder: () => StreamUsageRecorder
  /** Handles another request within this process, as if it had arrived over HTTP. */
  readonly run: (request: ApiRequest) => Effect.Effect<FinishedResponse>
}

interface Handler<Request, E> {
  /** The query's schema. Error messages refer to the parameters by the names in this schema. */
  readonly query: Schema.Top
  /** Whether the parameter `ticker` is a list. Invalid entries are removed from a list (D5). */
  readonly hasTickerList: boolean
  /** Whether the endpoint has the parameter `as_of`, so that it can read past data. */
  readonly supportsAsOf: boolean
  /** Decodes a query. `now` is the current time for this request, in milliseconds since 1970. */
  readonly decode: (
    parameters: RawSearchParameters,
    now: number,
  ) => Exit.Exit<(request: Request) => Effect.Effect<EndpointResult, E>, Schema.SchemaError>
}

/** A handler for an endpoint that requires an API key. */
export interface KeyedHandler<E> extends Handler<AdmittedRequest, E> {
  readonly needsKey: true
}

/** A handler for an endpoint that does not require an API key. */
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
    supportsAsOf: Predicate.hasProperty(query, "fields") && Predicate.hasProperty(query.fields, "as_of"),
    decode: (parameters, now) => Exit.map(decode(parameters, now), (query) => (request) => respond(query, request)),
  }
}

/** Creates the handler for an endpoint that requires an API key. */
export const makeHandler = <Query, E>(
  query: QueryCodec<Query>,
  respond: (query: Query, request: AdmittedRequest) => Effect.Effect<EndpointResult, E>,
): KeyedHandler<E> => ({ ...makeAnyHandler(query, respond), needsKey: true })

/** Creates the handler for an endpoint that does not require an API key. */
export const makePublicHandler = <Query, E>(
  query: QueryCodec<Query>,
  respond: (query: Query, request: ReceivedRequest) => Effect.Effect<EndpointResult, E>,
): PublicHandler<E> => ({ ...makeAnyHandler(query, respond), needsKey: false })

/**
 * The pipeline of all endpoints that need a key, except `/estimate`: one effect per request, no middleware chain.
 * Why: docs/decisions/0090-request-pipeline.md
 */
import { Context, Effect, Layer, Schema, type Scope } from "effect"
import { FindMyWay, HttpRouter, HttpServerRequest, type HttpServerResponse } from "effect/http"
import { HttpApi, type HttpApiEndpoint } from "effect/http-api"
import { makeBillingChecks, makeExportWatcher, makeRequestAuthorizer } from "../accounts/AuthorizationLayer.ts"
import { BillingMiddleware } from "../accounts/Authorization.ts"
import type { CurrentAccount } from "../accounts/keys/Authentication.ts"
import { Authenticator } from "../accounts/keys/AuthenticationLayer.ts"
import { Api, PublicApi } from "../Api.ts"
import { AsOfReader } from "../history/AsOf.ts"
import { readAsOfParameter } from "../rules/AsOfParameter.ts"
import { AsOfTime } from "../rules/Dates.ts"
import { makeRouteAndDeprecationStep } from "../rules/Deprecation.ts"
import { TablesReadByEndpoint } from "../rules/EndpointAnnotations.ts"
import { makeQueryValidationError, queryParseOptions, type RawSearchParameters } from "../rules/Validation.ts"
import { type ApiError, respondToFailures } from "./ErrorResponses.ts"
import { makeOutermostMiddleware } from "./OutermostMiddleware.ts"

type HttpApp<E = never, R = never> = Effect.Effect<
  HttpServerResponse.HttpServerResponse,
  E,
  HttpServerRequest.HttpServerRequest | Scope.Scope | R
>

/** Responds to a request from the account. */
type Responder = (account: typeof CurrentAccount.Service) => HttpApp<ApiError>

/** An endpoint that the pipeline serves. */
export interface PipelineEndpoint {
  /** The path after `/v1`, with a leading slash. */
  readonly path: string
  /** Decodes the parameters of a request. Succeeds with the function that responds to the request. */
  readonly decode: (parameters: RawSearchParameters) => Effect.Effect<Responder, Schema.SchemaError>
}

/** Makes an endpoint whose parameters are decoded with the schema `query`. */
export const makePipelineEndpoint = <Query>(
  { path }: { readonly path: string },
  query: Schema.Codec<Query, unknown>,
  respond: (query: Query, account: typeof CurrentAccount.Service) => HttpApp<ApiError>,
): PipelineEndpoint => {
  const decode = Schema.decodeUnknownEffect(
    Schema.toCodecArrayFromSingle(Schema.toCodecStringTree(query)),
    queryParseOptions,
  )
  return {
    path,
    decode: (parameters) => Effect.map(decode(parameters), (query): Responder => (account) => respond(query, account)),
  }
}

interface DeclaredEndpoint {
  readonly endpoint: HttpApiEndpoint.Top
  readonly isPriced: boolean
}

/** Returns the endpoints of the contract that the pipeline must serve: all that are not in `PublicApi`. */
const listDeclaredEndpoints = () => {
  const found: Array<DeclaredEndpoint> = []
  HttpApi.reflect(Api, {
    predicate: ({ group }) => !(group.identifier in PublicApi.groups),
    onGroup: () => {},
    onEndpoint: ({ endpoint, middleware }) => {
      found.push({ endpoint, isPriced: Array.from(middleware).some(({ key }) => key === BillingMiddleware.key) })
    },
  })
  return found
}

/** Pairs each endpoint with its declaration in the contract. Throws if either has no counterpart. */
export const matchEndpointsWithContract = (endpoints: ReadonlyArray<PipelineEndpoint>) => {
  const unmatched = new Map(endpoints.map((endpoint) => [`/v1${endpoint.path}`, endpoint]))
  const matched = listDeclaredEndpoints().map((declared) => {
    const { path } = declared.endpoint
    const endpoint = unmatched.get(path)
    if (endpoint === undefined) throw new Error(`Nothing serves the endpoint ${path}`)
    unmatched.delete(path)
    return { declared, endpoint }
  })
  for (const path of unmatched.keys()) throw new Error(`The contract has no endpoint ${path}`)
  return matched
}

type Handler = (parameters: RawSearchParameters) => HttpApp

export class RequestPipeline extends Context.Service<RequestPipeline, {
  /** Returns the app that serves the endpoints of the pipeline, and passes all other requests to the router. */
  readonly dispatch: <E, R>(router: HttpApp<E, R>) => HttpApp<E, R>
}>()("tickerline/http/RequestPipeline") {
  static readonly layer = <E, R>(endpoints: Effect.Effect<ReadonlyArray<PipelineEndpoint>, E, R>) =>
    Layer.effect(
      RequestPipeline,
      Effect.gen(function* () {
        const { authenticate } = yield* Authenticator
        const { authorize } = yield* makeRequestAuthorizer
        const { requireCredit, requireCreditFor } = yield* makeBillingChecks
        const watchExport = yield* makeExportWatcher
        const { readAt } = yield* AsOfReader
        const wrap = yield* makeOutermostMiddleware(new Set())
        const handlers = FindMyWay.make<Handler>(yield* HttpRouter.RouterConfig)

        const makeHandler = ({ decode }: PipelineEndpoint, { endpoint, isPriced }: DeclaredEndpoint): Handler => {
          const checkDeprecation = makeRouteAndDeprecationStep(endpoint)
          const tables = Context.get(endpoint.annotations, TablesReadByEndpoint)
          const respond = Effect.fnUntraced(function* (parameters: RawSearchParameters) {
            yield* checkDeprecation
            const request = yield* HttpServerRequest.HttpServerRequest
            const account = yield* authenticate(request)
            yield* authorize(account, endpoint)
            if (isPriced) yield* requireCredit(account, endpoint)
            const moment = readAsOfParameter(parameters)
            const decoding = Effect.mapError(
              decode(parameters),
              (error) => makeQueryValidationError(error, parameters, endpoint),
            )
            // With `as_of`, the dates in the parameters are validated against the requested time instead of today.
            const respondTo = yield* moment === undefined ? decoding : Effect.provideService(decoding, AsOfTime, moment)
            const responding = respondTo(account)
            const response = yield* moment === undefined ? responding : readAt(moment, tables, responding)
            if (isPriced) yield* requireCreditFor(account, request, response)
            yield* watchExport(account, endpoint)
            return response
          })
          return (parameters) => respondToFailures(respond(parameters))
        }

        for (const { declared, endpoint } of matchEndpointsWithContract(yield* endpoints)) {
          handlers.on("GET", `/v1${endpoint.path}`, makeHandler(endpoint, declared))
        }

        const dispatch = <E, R>(router: HttpApp<E, R>): HttpApp<E, R> =>
          Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ method, url }) => {
            const found = method === "GET" || method === "HEAD" ? handlers.find("GET", url) : undefined
            return found === undefined ? router : Effect.interruptible(wrap(found.handler(found.searchParams)))
          })
        return RequestPipeline.of({ dispatch })
      }),
    )
}

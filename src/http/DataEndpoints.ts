/**
 * The request pipeline of the data endpoints: one effect per request instead of a chain of middlewares.
 * Each step is a function that the middlewares of the other endpoints use, too (docs/decisions/0090-request-pipeline.md).
 */
import { Context, Effect, Layer, Schema, type Scope } from "effect"
import { FindMyWay, HttpPlatform, HttpRouter, HttpServerRequest, type HttpServerResponse } from "effect/http"
import { HttpApi } from "effect/http-api"
import { Billing } from "../accounts/Authorization.ts"
import { Api } from "../Api.ts"
import { makeAuthorizer, makeBilling } from "../accounts/AuthorizationMiddleware.ts"
import type { Account } from "../accounts/keys/Authentication.ts"
import { Authenticator } from "../accounts/keys/AuthenticationMiddleware.ts"
import { makeLifecycleCheck } from "../rules/Lifecycle.ts"
import { makeQueryError, type SearchParameters } from "../rules/Validation.ts"
import { type ApiError, respondToFailures } from "./ErrorResponses.ts"
import { makeRequestMiddleware } from "./Middleware.ts"

type HttpApp<E = never, R = never> = Effect.Effect<
  HttpServerResponse.HttpServerResponse,
  E,
  HttpServerRequest.HttpServerRequest | Scope.Scope | R
>

/** What the pipeline needs to know of an endpoint to decode its requests. */
export interface RequestContract<Query> {
  /** The path below `/v1`. */
  readonly path: string
  readonly query: Schema.Codec<Query, unknown>
}

type Handler = (parameters: SearchParameters) => HttpApp

type ReflectedEndpoint = Parameters<Parameters<typeof HttpApi.reflect>[1]["onEndpoint"]>[0]

/** All endpoints of the API by path. */
const reflectEndpoints = () => {
  const found = new Map<string, ReflectedEndpoint>()
  HttpApi.reflect(Api, { onGroup: () => {}, onEndpoint: (options) => void found.set(options.endpoint.path, options) })
  return found
}

export class DataEndpoints extends Context.Service<DataEndpoints, {
  /** Adds an endpoint. `handle` responds to a decoded query of an account. */
  readonly register: <Query>(
    contract: RequestContract<Query>,
    handle: (query: Query, account: typeof Account.Service) => HttpApp<ApiError>,
  ) => void
  /** Returns the app that responds to requests for data endpoints, and passes all others to the router. */
  readonly dispatch: <E, R>(router: HttpApp<E, R>) => HttpApp<E, R>
}>()("tickerline/http/DataEndpoints") {
  static readonly layer = Layer.effect(
    DataEndpoints,
    Effect.gen(function* () {
      const { authenticate } = yield* Authenticator
      const authorize = yield* makeAuthorizer
      const { limitExport, requireCredit } = yield* makeBilling
      const wrap = yield* makeRequestMiddleware(new Set())
      const platform = yield* HttpPlatform.HttpPlatform
      const endpoints = reflectEndpoints()
      const routes = FindMyWay.make<Handler>(yield* HttpRouter.RouterConfig)

      const register = <Query>(
        contract: RequestContract<Query>,
        handle: (query: Query, account: typeof Account.Service) => HttpApp<ApiError>,
      ) => {
        const path = `/v1${contract.path}` as const
        const declared = endpoints.get(path)
        if (declared === undefined) throw new Error(`The contract has no endpoint ${path}`)
        const { endpoint, mergedAnnotations, middleware } = declared
        const isPriced = Array.from(middleware).some(({ key }) => key === Billing.key)
        const checkLifecycle = makeLifecycleCheck(endpoint)
        const decode = Schema.decodeUnknownEffect(
          Schema.toCodecArrayFromSingle(Schema.toCodecStringTree(contract.query)),
          Context.getOrUndefined(mergedAnnotations, HttpApi.QueryParseOptions),
        )

        const respond = Effect.fnUntraced(function* (parameters: SearchParameters) {
          yield* checkLifecycle
          const account = yield* authenticate(yield* HttpServerRequest.HttpServerRequest)
          yield* authorize(account, endpoint)
          if (isPriced) yield* requireCredit(account, endpoint)
          const query = yield* Effect.mapError(
            decode(parameters),
            (error) => makeQueryError(error, parameters, endpoint),
          )
          const response = yield* handle(query, account)
          if (isPriced) yield* limitExport(account)
          return response
        })
        routes.on("GET", path, (parameters) => respondToFailures(respond(parameters)))
      }

      const dispatch = <E, R>(router: HttpApp<E, R>): HttpApp<E, R> =>
        Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ method, url }) => {
          const found = method === "GET" || method === "HEAD" ? routes.find("GET", url) : undefined
          return found === undefined ? router : Effect.interruptible(
            Effect.provideService(wrap(found.handler(found.searchParams)), HttpPlatform.HttpPlatform, platform),
          )
        })
      return DataEndpoints.of({ register, dispatch })
    }),
  )
}

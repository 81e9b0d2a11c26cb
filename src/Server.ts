/** Composes all layers of the service. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Context, Effect, Layer, Scope } from "effect"
import { HttpMiddleware, HttpRouter, HttpServer, type HttpServerRequest, type HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import type { IncomingMessage, ServerResponse } from "node:http"
import * as Authorization from "./accounts/AuthorizationMiddleware.ts"
import * as Authentication from "./accounts/keys/AuthenticationMiddleware.ts"
import { Metering } from "./accounts/billing/Metering.ts"
import * as UsagePartitions from "./accounts/billing/UsagePartitions.ts"
import { RateLimit } from "./accounts/limits/RateLimit.ts"
import { Api } from "./Api.ts"
import { QueryCache } from "./lists/QueryCache.ts"
import { DataEndpoints } from "./http/DataEndpoints.ts"
import { ResponseCache } from "./http/ResponseCache.ts"
import { RecentKeys } from "./accounts/keys/RecentKeys.ts"
import { DatasetVersions } from "./lists/DatasetVersions.ts"
import { catalogueHandlers } from "./catalogue/Http.ts"
import { priceListLayer } from "./catalogue/PriceList.ts"
import { changelogHandlers } from "./changelog/Http.ts"
import { Database } from "./db/Database.ts"
import { HealthProbe } from "./db/health/HealthProbe.ts"
import { ReadRouter } from "./db/replicas/ReadRouter.ts"
import * as Middleware from "./http/Middleware.ts"
import * as Jobs from "./jobs/JobRunner.ts"
import { ExportCursors } from "./lists/ExportCursors.ts"
import { ListHandlers } from "./lists/ListHandlers.ts"
import { sendEmailsJob } from "./mail/EmailSender.ts"
import { RequestMetrics } from "./observability/RequestMetrics.ts"
import * as Tracing from "./observability/Tracing.ts"
import { UnexpectedErrorMiddleware, ValidationMiddleware } from "./rules/Validation.ts"
import { LifecycleMiddleware } from "./rules/Lifecycle.ts"
import { makeTrustedProxiesMiddleware } from "./http/TrustedProxies.ts"
import * as Site from "./site/Http.ts"
import { getSpanName } from "./http/RequestTarget.ts"
import { accountHandlers } from "./v1/account/Http.ts"
import { afterhoursStatsHandlers } from "./v1/afterhours-stats/Http.ts"
import { datasetsHandlers } from "./v1/datasets/Http.ts"
import { dilutionDataHandlers } from "./v1/dilution-data/Http.ts"
import { floatOutstandingHandlers } from "./v1/float-outstanding/Http.ts"
import { gapStatsHandlers } from "./v1/gap-stats/Http.ts"
import { historicalFloatProHandlers } from "./v1/historical-float-pro/Http.ts"
import { historicalTickersHandlers } from "./v1/historical-tickers/Http.ts"
import { intradayRunnersHandlers } from "./v1/intraday-runners/Http.ts"
import { nasdaqComplianceHandlers } from "./v1/nasdaq-compliance/Http.ts"
import { newsHandlers } from "./v1/news/Http.ts"
import { overviewHandlers } from "./v1/overview/Http.ts"
import { ownershipHandlers } from "./v1/ownership/Http.ts"
import { premarketStatsHandlers } from "./v1/premarket-stats/Http.ts"
import { pumpAndDumpTrackerHandlers } from "./v1/pump-and-dump-tracker/Http.ts"
import { registrationsHandlers } from "./v1/registrations/Http.ts"
import { researchReportsHandlers } from "./v1/research-reports/Http.ts"
import { screenerHandlers } from "./v1/screener/Http.ts"
import { splitStatusHandlers } from "./v1/split-status/Http.ts"
import { tickerChangesHandlers } from "./v1/ticker-changes/Http.ts"
import { usageHandlers } from "./v1/usage/Http.ts"

const handlers = Layer.mergeAll(
  tickerChangesHandlers,
  historicalTickersHandlers,
  intradayRunnersHandlers,
  dilutionDataHandlers,
  registrationsHandlers,
  pumpAndDumpTrackerHandlers,
  splitStatusHandlers,
  nasdaqComplianceHandlers,
  newsHandlers,
  gapStatsHandlers,
  premarketStatsHandlers,
  afterhoursStatsHandlers,
  researchReportsHandlers,
  floatOutstandingHandlers,
  historicalFloatProHandlers,
  ownershipHandlers,
  screenerHandlers,
  overviewHandlers,
  accountHandlers,
  usageHandlers,
  datasetsHandlers,
  catalogueHandlers,
  changelogHandlers,
)

const apiMiddleware = Layer.mergeAll(
  Authentication.authenticationLayer,
  Authorization.authorizationLayer,
  Authorization.billingLayer,
  ValidationMiddleware.layer,
  UnexpectedErrorMiddleware.layer,
  LifecycleMiddleware.layer,
)

/** Rate limits, usage and prices. */
const accounting = Layer.mergeAll(RateLimit.layer, Metering.layer, priceListLayer)

const caches = Layer.provideMerge(QueryCache.layer, DatasetVersions.layer)

const lists = Layer.provide(ListHandlers.layer, ExportCursors.layer)

/** The documentation pages. The middleware needs their paths to choose between 404 and 405. */
const documentation = Layer.effect(Middleware.DocumentationPaths, Site.SiteAddresses).pipe(Layer.provide(Site.layer))

/** Background jobs, each of which runs in one process at a time. */
export const jobs = Jobs.jobsLayer([sendEmailsJob, UsagePartitions.usagePartitionsJob])

/** Every route except those of the data endpoints, with their middleware. */
const routes = HttpApiBuilder.layer(Api).pipe(
  Layer.provide(handlers),
  Layer.provide(apiMiddleware),
  Layer.merge(Layer.provide(Middleware.layer, documentation)),
)

/** Everything that the routes need, except `SqlClient`. */
const services = lists.pipe(
  Layer.provideMerge(DataEndpoints.layer),
  Layer.provideMerge(ResponseCache.layer),
  Layer.provideMerge(Authentication.Authenticator.layer),
  Layer.provideMerge(RecentKeys.layer),
  Layer.provideMerge(RequestMetrics.layer),
  Layer.provideMerge(accounting),
  Layer.provideMerge(caches),
  Layer.provideMerge(Layer.merge(Database.layer, ReadRouter.layer)),
  // Released last, because the layers above write to the database on release: without the probe, they could hang.
  Layer.provideMerge(HealthProbe.layer),
)

const httpConfiguration = Layer.mergeAll(
  // The router does not match longer paths, but unknown paths of any length must reach the route for 404.
  Layer.succeed(HttpRouter.RouterConfig, {
    maxParamLength: 1_000_000,
    caseSensitive: true,
    ignoreDuplicateSlashes: false,
  }),
  Layer.succeed(HttpMiddleware.SpanNameGenerator, getSpanName),
  Tracing.layer,
)

/** Responds to every request: to those for data endpoints without the router. */
class HttpApp extends Context.Service<
  HttpApp,
  Effect.Effect<
    HttpServerResponse.HttpServerResponse,
    unknown,
    HttpServerRequest.HttpServerRequest | Scope.Scope
  >
>()("tickerline/HttpApp") {
  static readonly layer = Layer.effect(
    HttpApp,
    Effect.gen(function* () {
      const router = yield* HttpRouter.HttpRouter
      const { dispatch } = yield* DataEndpoints
      const resolveAddress = yield* makeTrustedProxiesMiddleware
      return resolveAddress(dispatch(router.asHttpEffect()))
    }),
  ).pipe(Layer.provide(routes), Layer.provide(HttpRouter.layer))
}

/** The service for any `HttpServer`, without the response cache. Tests use it. */
export const layer = Layer.unwrap(Effect.map(HttpApp, (httpApp) => HttpServer.serve(httpApp))).pipe(
  Layer.merge(jobs),
  Layer.provide(HttpApp.layer),
  Layer.provide(services),
  Layer.provide(httpConfiguration),
)

/** Responds to a request of a Node server: from the response cache, otherwise with `HttpApp`. */
export class RequestListener extends Context.Service<
  RequestListener,
  (request: IncomingMessage, response: ServerResponse) => void
>()("tickerline/RequestListener") {
  static readonly layer = Layer.effect(
    RequestListener,
    Effect.gen(function* () {
      const { respond } = yield* ResponseCache
      const scope = yield* Scope.fork(yield* Effect.scope, "parallel")
      const handle = yield* NodeHttpServer.makeHandler(yield* HttpApp, { scope })
      return (request: IncomingMessage, response: ServerResponse) =>
        respond(request, response, () => handle(request, response))
    }),
  ).pipe(
    Layer.provide(HttpApp.layer),
    Layer.provideMerge(services),
    Layer.provide(httpConfiguration),
  )
}

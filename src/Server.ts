/** Composes all layers of the service. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Context, Effect, Layer, Scope } from "effect"
import { HttpMiddleware, HttpRouter } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import type { IncomingMessage, ServerResponse } from "node:http"
import * as Authorization from "./accounts/AuthorizationMiddleware.ts"
import * as Authentication from "./accounts/keys/AuthenticationMiddleware.ts"
import { Metering } from "./accounts/billing/Metering.ts"
import * as UsagePartitions from "./accounts/billing/UsagePartitions.ts"
import { RateLimit } from "./accounts/limits/RateLimit.ts"
import { Api } from "./Api.ts"
import { QueryCache } from "./lists/QueryCache.ts"
import { ResponseCache } from "./http/ResponseCache.ts"
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
import * as TrustedProxies from "./http/TrustedProxies.ts"
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

/** Lists, their caches and exports. */
const lists = ListHandlers.layer.pipe(
  Layer.provide(ExportCursors.layer),
  Layer.provideMerge(QueryCache.layer),
  Layer.provideMerge(DatasetVersions.layer),
)

/** The documentation pages. The middleware needs their paths to choose between 404 and 405. */
const documentation = Layer.effect(Middleware.DocumentationPaths, Site.SiteAddresses).pipe(Layer.provide(Site.layer))

/** Background jobs, each of which runs in one process at a time. */
export const jobs = Jobs.jobsLayer([sendEmailsJob, UsagePartitions.usagePartitionsJob])

/** All routes with their middleware. */
const routes = HttpApiBuilder.layer(Api).pipe(
  Layer.provide(handlers),
  Layer.provide(apiMiddleware),
  Layer.merge(Layer.provide(Middleware.layer, documentation)),
  Layer.merge(TrustedProxies.layer),
)

/** Everything that the routes need, except `SqlClient`. */
const services = ResponseCache.layer.pipe(
  Layer.provideMerge(RequestMetrics.layer),
  Layer.provideMerge(accounting),
  Layer.provideMerge(lists),
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

/** The service for any `HttpServer`, as tests use it. Here the response cache stores responses but never sends them. */
export const layer = HttpRouter.serve(Layer.merge(routes, jobs), { disableLogger: true, disableListenLog: true }).pipe(
  Layer.provide(services),
  Layer.provide(httpConfiguration),
)

/** Handles a request of a Node server: responds from the response cache, otherwise through the router. */
export class RequestListener extends Context.Service<
  RequestListener,
  (request: IncomingMessage, response: ServerResponse) => void
>()("tickerline/RequestListener") {
  static readonly layer = Layer.effect(
    RequestListener,
    Effect.gen(function* () {
      const { respond } = yield* ResponseCache
      const httpApp = yield* HttpRouter.toHttpEffect(routes)
      const scope = yield* Scope.fork(yield* Effect.scope, "parallel")
      const handle = yield* NodeHttpServer.makeHandler(httpApp, { scope })
      return (request: IncomingMessage, response: ServerResponse) =>
        respond(request, response, () => handle(request, response))
    }),
  ).pipe(
    Layer.provideMerge(services),
    Layer.provide(httpConfiguration),
  )
}

/** Composes all layers of the service. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Array, Context, Effect, Layer, Scope } from "effect"
import { HttpMiddleware, HttpRouter, HttpServer, type HttpServerRequest, type HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import type { IncomingMessage, ServerResponse } from "node:http"
import { authorizationLayer } from "./accounts/AuthorizationLayer.ts"
import { authenticationLayer, Authenticator } from "./accounts/keys/AuthenticationLayer.ts"
import { PrepaidBalances } from "./accounts/billing/PrepaidBalances.ts"
import { KeyWatcher } from "./accounts/keys/KeyWatcher.ts"
import { UsageMetering } from "./accounts/billing/UsageMetering.ts"
import * as UsagePartitions from "./accounts/billing/UsagePartitions.ts"
import { AccountRateLimiter } from "./accounts/limits/AccountRateLimiter.ts"
import { PublicApi } from "./Api.ts"
import { AsOfReader } from "./history/AsOf.ts"
import { AnsweringSymbols } from "./lineage/AnsweringSymbols.ts"
import { LineageIndex } from "./lineage/LineageIndex.ts"
import { LineageResolver } from "./lineage/LineageResolver.ts"
import { QueryCache } from "./lists/QueryCache.ts"
import { RequestPipeline } from "./http/RequestPipeline.ts"
import { ResponseCache } from "./http/ResponseCache.ts"
import { ApiKeyCache } from "./accounts/keys/ApiKeyCache.ts"
import { DatasetVersions } from "./lists/DatasetVersions.ts"
import { catalogueHandlers } from "./catalogue/Http.ts"
import { priceListLayer } from "./catalogue/PriceList.ts"
import { changelogHandlers } from "./changelog/Http.ts"
import { Database } from "./db/Database.ts"
import { HealthProbe } from "./db/health/HealthProbe.ts"
import { ReadRouter } from "./db/replicas/ReadRouter.ts"
import { ChangeFeed } from "./history/ChangeFeed.ts"
import { ChangeStream } from "./history/ChangeStream.ts"
import { CorrectionCountReader, correctionCountsJob } from "./history/CorrectionCounts.ts"
import { dayStartJob } from "./history/DayStart.ts"
import { historyPartitionsJob } from "./history/HistoryRetention.ts"
import * as Middleware from "./http/OutermostMiddleware.ts"
import { DocumentationPaths, ProtocolErrorDescriber } from "./http/UnroutedResponses.ts"
import { ingestJob } from "./ingest/edgar/IngestJob.ts"
import * as Jobs from "./jobs/JobRunner.ts"
import { ExportCursors } from "./lists/ExportCursors.ts"
import { ListEndpointFactory } from "./lists/ListEndpoints.ts"
import { emailSenderJob } from "./mail/EmailSender.ts"
import * as Mcp from "./mcp/Http.ts"
import { RequestMetrics } from "./observability/RequestMetrics.ts"
import * as Tracing from "./observability/Tracing.ts"
import { UnexpectedErrorMiddleware, ValidationMiddleware } from "./rules/Validation.ts"
import { DeprecationMiddleware } from "./rules/Deprecation.ts"
import { makeTrustedProxiesMiddleware } from "./http/TrustedProxies.ts"
import * as Site from "./site/Http.ts"
import { getRequestSpanName } from "./http/RequestTarget.ts"
import { accountEndpoints } from "./v1/account/Http.ts"
import { afterhoursStatsEndpoints } from "./v1/afterhours-stats/Http.ts"
import { changesEndpoints } from "./v1/changes/Http.ts"
import { correctionsHandlers } from "./v1/corrections/Http.ts"
import { datasetsEndpoints } from "./v1/datasets/Http.ts"
import { dilutionDataEndpoints } from "./v1/dilution-data/Http.ts"
import { floatOutstandingEndpoints } from "./v1/float-outstanding/Http.ts"
import { gapStatsEndpoints } from "./v1/gap-stats/Http.ts"
import { historicalFloatProEndpoints } from "./v1/historical-float-pro/Http.ts"
import { historicalTickersEndpoints } from "./v1/historical-tickers/Http.ts"
import { intradayRunnersEndpoints } from "./v1/intraday-runners/Http.ts"
import { nasdaqComplianceEndpoints } from "./v1/nasdaq-compliance/Http.ts"
import { newsEndpoints } from "./v1/news/Http.ts"
import { overviewEndpoints } from "./v1/overview/Http.ts"
import { ownershipEndpoints } from "./v1/ownership/Http.ts"
import { premarketStatsEndpoints } from "./v1/premarket-stats/Http.ts"
import { pumpAndDumpTrackerEndpoints } from "./v1/pump-and-dump-tracker/Http.ts"
import { registrationsEndpoints } from "./v1/registrations/Http.ts"
import { researchReportsEndpoints } from "./v1/research-reports/Http.ts"
import { screenerEndpoints } from "./v1/screener/Http.ts"
import { splitStatusEndpoints } from "./v1/split-status/Http.ts"
import { tickerChangesEndpoints } from "./v1/ticker-changes/Http.ts"
import { timelineEndpoints } from "./v1/timeline/Http.ts"
import { usageEndpoints } from "./v1/usage/Http.ts"

/** The endpoints of the request pipeline. All of them need a key. */
const pipelineEndpoints = Effect.map(
  Effect.all([
    tickerChangesEndpoints,
    historicalTickersEndpoints,
    intradayRunnersEndpoints,
    dilutionDataEndpoints,
    registrationsEndpoints,
    pumpAndDumpTrackerEndpoints,
    splitStatusEndpoints,
    nasdaqComplianceEndpoints,
    newsEndpoints,
    gapStatsEndpoints,
    premarketStatsEndpoints,
    afterhoursStatsEndpoints,
    researchReportsEndpoints,
    floatOutstandingEndpoints,
    historicalFloatProEndpoints,
    ownershipEndpoints,
    screenerEndpoints,
    timelineEndpoints,
    changesEndpoints,
    overviewEndpoints,
    accountEndpoints,
    usageEndpoints,
    datasetsEndpoints,
  ]),
  Array.flatten,
)

const apiMiddleware = Layer.mergeAll(
  authenticationLayer,
  authorizationLayer,
  ValidationMiddleware.layer,
  UnexpectedErrorMiddleware.layer,
  DeprecationMiddleware.layer,
)

/** Rate limits, usage, prices and balances. */
const accounting = Layer.mergeAll(AccountRateLimiter.layer, UsageMetering.layer, priceListLayer).pipe(
  Layer.provideMerge(PrepaidBalances.layer),
)

const caches = Layer.mergeAll(QueryCache.layer, LineageResolver.layer, AnsweringSymbols.layer, AsOfReader.layer).pipe(
  Layer.provideMerge(LineageIndex.layer),
  Layer.provideMerge(DatasetVersions.layer),
)

const lists = Layer.provide(ListEndpointFactory.layer, ExportCursors.layer)

/** The documentation pages. Their paths tell the middleware whether to respond with 404 or 405. */
const documentation = Layer.effect(DocumentationPaths, Site.SitePaths).pipe(Layer.provide(Site.layer))

const allJobs = [
  emailSenderJob,
  UsagePartitions.usagePartitionsJob,
  historyPartitionsJob,
  correctionCountsJob,
  dayStartJob,
  ingestJob,
]
type Preparation = ReturnType<typeof allJobs[number]["prepare"]>

/** Background jobs, each of which runs in one process at a time. */
export const backgroundJobsLayer = Jobs.jobRunnerLayer<Effect.Error<Preparation>, Effect.Services<Preparation>>(allJobs)

/** All routes outside the request pipeline, with their middleware. */
const routes = HttpApiBuilder.layer(PublicApi).pipe(
  Layer.provide(Layer.mergeAll(catalogueHandlers, changelogHandlers, correctionsHandlers)),
  Layer.provide(apiMiddleware),
  Layer.merge(Layer.provide(Layer.merge(Middleware.layer, ProtocolErrorDescriber.layer), documentation)),
  Layer.merge(Mcp.layer),
)

/** Everything that the routes need, except `SqlClient`. */
const services = RequestPipeline.layer(pipelineEndpoints).pipe(
  Layer.provideMerge(lists),
  Layer.provideMerge(Layer.merge(ChangeStream.layer, CorrectionCountReader.layer)),
  Layer.provideMerge(ChangeFeed.layer),
  Layer.provideMerge(ResponseCache.layer),
  Layer.provideMerge(Layer.merge(Authenticator.layer, KeyWatcher.layer)),
  Layer.provideMerge(ApiKeyCache.layer),
  Layer.provideMerge(RequestMetrics.layer),
  Layer.provideMerge(accounting),
  Layer.provideMerge(caches),
  Layer.provideMerge(Layer.merge(Database.layer, ReadRouter.layer)),
  // Released last, because the layers above write to the database on release and could hang without the probe.
  Layer.provideMerge(HealthProbe.layer),
)

const httpConfiguration = Layer.mergeAll(
  Layer.succeed(HttpRouter.RouterConfig, {
    // The default of 100 characters would reject long unknown paths before they reach the 404 route.
    maxParamLength: 1_000_000,
    caseSensitive: true,
    ignoreDuplicateSlashes: false,
  }),
  Layer.succeed(HttpMiddleware.SpanNameGenerator, getRequestSpanName),
  Tracing.layer,
)

/** Responds to every request. Requests to endpoints of the request pipeline bypass the router. */
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
      const { dispatch } = yield* RequestPipeline
      const resolveAddress = yield* makeTrustedProxiesMiddleware
      return resolveAddress(dispatch(router.asHttpEffect()))
    }),
  ).pipe(Layer.provideMerge(routes), Layer.provide(HttpRouter.layer))
}

/** The service for any `HttpServer`, without the response cache. Tests use it. */
export const layer = Layer.unwrap(Effect.map(HttpApp, (httpApp) => HttpServer.serve(httpApp))).pipe(
  Layer.merge(backgroundJobsLayer),
  Layer.provide(HttpApp.layer),
  Layer.provide(services),
  Layer.provide(httpConfiguration),
)

export class NodeRequestListener extends Context.Service<NodeRequestListener, {
  /** Responds from the response cache if possible, otherwise with `HttpApp`. */
  readonly handle: (request: IncomingMessage, response: ServerResponse) => void
  readonly describeError: ProtocolErrorDescriber["Service"]["describe"]
}>()("tickerline/NodeRequestListener") {
  static readonly layer = Layer.effect(
    NodeRequestListener,
    Effect.gen(function* () {
      const { respond } = yield* ResponseCache
      const scope = yield* Scope.fork(yield* Effect.scope, "parallel")
      const handle = yield* NodeHttpServer.makeHandler(yield* HttpApp, { scope })
      return {
        handle: (request: IncomingMessage, response: ServerResponse) =>
          respond(request, response, () => handle(request, response)),
        describeError: (yield* ProtocolErrorDescriber).describe,
      }
    }),
  ).pipe(
    Layer.provide(HttpApp.layer),
    Layer.provideMerge(services),
    Layer.provide(httpConfiguration),
  )
}

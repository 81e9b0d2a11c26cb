/** Every layer, in one picture. */
import { Layer } from "effect"
import { HttpMiddleware, HttpRouter } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as Gate from "./accounts/AuthorizationMiddleware.ts"
import * as KeyCheck from "./accounts/keys/AuthenticationMiddleware.ts"
import { Metering } from "./accounts/billing/Metering.ts"
import * as Partitions from "./accounts/billing/UsagePartitions.ts"
import { RateLimit } from "./accounts/limits/RateLimit.ts"
import { RecentKeys } from "./http/RecentKeys.ts"
import { Api } from "./Api.ts"
import { QueryCache } from "./lists/QueryCache.ts"
import { ResponseCache } from "./http/ResponseCache.ts"
import { DatasetVersions } from "./lists/DatasetVersions.ts"
import * as Catalogue from "./catalogue/Http.ts"
import * as Prices from "./catalogue/PriceList.ts"
import * as Changelog from "./changelog/Http.ts"
import { Database } from "./db/Database.ts"
import { HealthProbe } from "./db/health/HealthProbe.ts"
import { ReadRouter } from "./db/replicas/ReadRouter.ts"
import * as Edge from "./http/Middleware.ts"
import * as Jobs from "./jobs/JobRunner.ts"
import { ExportCursors } from "./lists/ExportCursors.ts"
import { ListHandlers } from "./lists/ListHandlers.ts"
import * as Sender from "./mail/Sender.ts"
import { RequestMetrics } from "./observability/RequestMetrics.ts"
import * as Traces from "./observability/Tracing.ts"
import { UnexpectedErrorMiddleware, ValidationMiddleware } from "./rules/Validation.ts"
import { LifecycleMiddleware } from "./rules/Lifecycle.ts"
import * as Proxies from "./http/TrustedProxies.ts"
import { FastPath } from "./http/FastPath.ts"
import * as Site from "./site/Http.ts"
import { getSpanName } from "./http/RequestTarget.ts"
import * as Account from "./v1/account/Http.ts"
import * as AfterhoursStats from "./v1/afterhours-stats/Http.ts"
import * as Datasets from "./v1/datasets/Http.ts"
import * as DilutionData from "./v1/dilution-data/Http.ts"
import * as FloatOutstanding from "./v1/float-outstanding/Http.ts"
import * as GapStats from "./v1/gap-stats/Http.ts"
import * as HistoricalFloatPro from "./v1/historical-float-pro/Http.ts"
import * as HistoricalTickers from "./v1/historical-tickers/Http.ts"
import * as IntradayRunners from "./v1/intraday-runners/Http.ts"
import * as NasdaqCompliance from "./v1/nasdaq-compliance/Http.ts"
import * as News from "./v1/news/Http.ts"
import * as Overview from "./v1/overview/Http.ts"
import * as Ownership from "./v1/ownership/Http.ts"
import * as PremarketStats from "./v1/premarket-stats/Http.ts"
import * as PumpAndDumpTracker from "./v1/pump-and-dump-tracker/Http.ts"
import * as Registrations from "./v1/registrations/Http.ts"
import * as ResearchReports from "./v1/research-reports/Http.ts"
import * as Screener from "./v1/screener/Http.ts"
import * as SplitStatus from "./v1/split-status/Http.ts"
import * as TickerChanges from "./v1/ticker-changes/Http.ts"
import * as Usage from "./v1/usage/Http.ts"

const Handlers = Layer.mergeAll(
  TickerChanges.tickerChangesHandlers,
  HistoricalTickers.historicalTickersHandlers,
  IntradayRunners.intradayRunnersHandlers,
  DilutionData.dilutionDataHandlers,
  Registrations.registrationsHandlers,
  PumpAndDumpTracker.pumpAndDumpTrackerHandlers,
  SplitStatus.splitStatusHandlers,
  NasdaqCompliance.nasdaqComplianceHandlers,
  News.newsHandlers,
  GapStats.gapStatsHandlers,
  PremarketStats.premarketStatsHandlers,
  AfterhoursStats.afterhoursStatsHandlers,
  ResearchReports.researchReportsHandlers,
  FloatOutstanding.floatOutstandingHandlers,
  HistoricalFloatPro.historicalFloatProHandlers,
  Ownership.ownershipHandlers,
  Screener.screenerHandlers,
  Overview.overviewHandlers,
  Account.accountHandlers,
  Usage.usageHandlers,
  Datasets.datasetsHandlers,
  Catalogue.catalogueHandlers,
  Changelog.changelogHandlers,
)

const Policies = Layer.mergeAll(
  KeyCheck.authenticationLayer,
  Gate.authorizationLayer,
  Gate.billingLayer,
  ValidationMiddleware.layer,
  UnexpectedErrorMiddleware.layer,
  LifecycleMiddleware.layer,
)

/** What an account's requests are counted, priced and recorded by. */
const Accounting = Layer.mergeAll(RateLimit.layer, Metering.layer, Prices.priceListLayer, RecentKeys.layer)

/** What was answered before, and whether it still holds. */
const Memory = Layer.merge(QueryCache.layer, ResponseCache.layer).pipe(Layer.provideMerge(DatasetVersions.layer))

/** The pages of the documentation; the edge knows where they are, to tell a wrong method from a wrong path. */
const Documentation = Layer.effect(Edge.DocumentationPaths, Site.SiteAddresses).pipe(Layer.provide(Site.layer))

/** Pages from memory or the database, and whole lists. */
const Listed = ListHandlers.layer.pipe(Layer.provide(ExportCursors.layer), Layer.provideMerge(Memory))

/** What one process does for all. */
const Once = Jobs.jobsLayer([Sender.sendEmailsJob, Partitions.usagePartitionsJob])

/** Everything but the socket and the `SqlClient`. */
const Routes = HttpApiBuilder.layer(Api).pipe(
  Layer.provide(Handlers),
  Layer.provide(Policies),
  Layer.merge(Layer.provide(Edge.layer, Documentation)),
  Layer.merge(Proxies.layer),
  Layer.merge(Once),
  Layer.provideMerge(FastPath.layer),
  Layer.provide(RequestMetrics.layer),
  Layer.provide(Accounting),
  Layer.provide(Listed),
  Layer.provide(Layer.merge(Database.layer, ReadRouter.layer)),
  // Made first and ended last: what is written at the end finds the database by it.
  Layer.provide(HealthProbe.layer),
)

/** The service on whatever socket `HttpServer` is; a path of any length finds the answer that it leads nowhere. */
export const layer = HttpRouter.serve(Routes, { disableLogger: true, disableListenLog: true }).pipe(
  Layer.provide(
    Layer.succeed(HttpRouter.RouterConfig, {
      maxParamLength: 1_000_000,
      caseSensitive: true,
      ignoreDuplicateSlashes: false,
    }),
  ),
  Layer.provide(Layer.succeed(HttpMiddleware.SpanNameGenerator, getSpanName)),
  Layer.provide(Traces.layer),
)

/** Composes all layers of the service. */
import { Effect, Layer, type Option } from "effect"
import type { HttpApiEndpoint } from "effect/http-api"
import { erasureJob } from "./accounts/AccountErasure.ts"
import type { PublicHandler } from "./accounts/EndpointHandler.ts"
import type { AuthenticationMiddleware } from "./accounts/keys/Authentication.ts"
import { Authenticator } from "./accounts/keys/Authenticator.ts"
import { PrepaidBalances } from "./accounts/billing/PrepaidBalances.ts"
import { KeyWatcher } from "./accounts/keys/KeyWatcher.ts"
import { UsageMetering } from "./accounts/billing/UsageMetering.ts"
import { usageConversionJob } from "./accounts/billing/UsageConversion.ts"
import * as UsagePartitions from "./accounts/billing/UsagePartitions.ts"
import { usageSettlementJob } from "./accounts/billing/UsageSettlement.ts"
import { AccountRateLimiter } from "./accounts/limits/AccountRateLimiter.ts"
import { Api } from "./Api.ts"
import { auditRetentionJob } from "./audit/AuditLog.ts"
import { PastReader } from "./history/PastReader.ts"
import { AnsweringSymbols } from "./lineage/AnsweringSymbols.ts"
import { LineageIndex } from "./lineage/LineageIndex.ts"
import { LineageResolver } from "./lineage/LineageResolver.ts"
import { QueryCache } from "./lists/QueryCache.ts"
import type { ApiFailure } from "./http/ErrorResponses.ts"
import { NodeListener } from "./http/NodeListener.ts"
import { type EndpointHandler, RequestPipeline } from "./http/RequestPipeline.ts"
import { DatasetVersions } from "./db/versions/DatasetVersions.ts"
import { endpointsByDataset } from "./catalogue/DatasetEndpoints.ts"
import { findEndpoint, formatEndpointSuggestion } from "./catalogue/Endpoints.ts"
import { catalogueHandlers } from "./catalogue/Http.ts"
import { priceListLayer } from "./catalogue/PriceList.ts"
import { changelogHandlers } from "./changelog/Http.ts"
import { Reader } from "./db/Reader.ts"
import { HealthProbe } from "./db/health/HealthProbe.ts"
import { ReadRouter } from "./db/replicas/ReadRouter.ts"
import { ChangeFeedReader } from "./history/ChangeFeed.ts"
import { ChangeStream } from "./history/ChangeStream.ts"
import { CorrectionCountReader, correctionCountsJob } from "./history/CorrectionCounts.ts"
import { dayStartJob } from "./history/DayStart.ts"
import { historyPartitionsJob } from "./history/HistoryRetention.ts"
import { EndpointDirectory, ProtocolErrorDescriber } from "./http/UnroutedResponses.ts"
import { ingestJob } from "./ingest/edgar/IngestJob.ts"
import * as Jobs from "./jobs/JobRunner.ts"
import { ExportCursors } from "./lists/ExportCursors.ts"
import { ListEndpointFactory } from "./lists/ListEndpoints.ts"
import { emailSenderJob } from "./mail/EmailSender.ts"
import { budgetNoticesJob } from "./mail/BudgetNotices.ts"
import { keyExpiryJob } from "./mail/KeyExpiryNotices.ts"
import * as Mcp from "./mcp/Http.ts"
import { RequestMetrics } from "./observability/RequestMetrics.ts"
import * as Tracing from "./observability/Tracing.ts"
import * as Site from "./site/Http.ts"
import { accountHandlers } from "./v1/account/Http.ts"
import { afterhoursStatsHandlers } from "./v1/afterhours-stats/Http.ts"
import { changesHandlers } from "./v1/changes/Http.ts"
import { correctionsHandlers } from "./v1/corrections/Http.ts"
import { makeDatasetsHandlers } from "./v1/datasets/Http.ts"
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
import { timelineHandlers } from "./v1/timeline/Http.ts"
import { usageHandlers } from "./v1/usage/Http.ts"
import { datasetEventsJob } from "./webhooks/DatasetEvents.ts"
import { webhookRetentionJob } from "./webhooks/WebhookRetention.ts"
import { webhookSenderJob } from "./webhooks/WebhookSender.ts"

/** An endpoint that needs a key may have any handler; any other must have one that needs no account. */
type HandlerOf<Endpoint extends HttpApiEndpoint.Top> = AuthenticationMiddleware extends
  HttpApiEndpoint.Middleware<Endpoint> ? EndpointHandler : PublicHandler<ApiFailure>

type HandlersOf<Groups> = {
  readonly [Group in keyof Groups]: Groups[Group] extends { readonly endpoints: infer Endpoints } ? {
      readonly [Name in keyof Endpoints]: Endpoints[Name] extends HttpApiEndpoint.Top ? HandlerOf<Endpoints[Name]>
        : never
    }
    : never
}

/** The handler of every endpoint. A missing one does not compile. */
const handlers = Effect.all({
  tickerChanges: tickerChangesHandlers,
  historicalTickers: historicalTickersHandlers,
  intradayRunners: intradayRunnersHandlers,
  dilutionData: dilutionDataHandlers,
  registrations: registrationsHandlers,
  pumpAndDumpTracker: pumpAndDumpTrackerHandlers,
  splitStatus: splitStatusHandlers,
  nasdaqCompliance: nasdaqComplianceHandlers,
  news: newsHandlers,
  gapStats: gapStatsHandlers,
  premarketStats: premarketStatsHandlers,
  afterhoursStats: afterhoursStatsHandlers,
  researchReports: researchReportsHandlers,
  floatOutstanding: floatOutstandingHandlers,
  historicalFloatPro: historicalFloatProHandlers,
  ownership: ownershipHandlers,
  screener: screenerHandlers,
  timeline: timelineHandlers,
  changes: changesHandlers,
  overview: overviewHandlers,
  account: accountHandlers,
  usage: usageHandlers,
  datasets: makeDatasetsHandlers(endpointsByDataset),
  catalogue: catalogueHandlers,
  changelog: changelogHandlers,
  corrections: correctionsHandlers,
}) satisfies Effect.Effect<HandlersOf<typeof Api.groups>, unknown, unknown>

/** Rate limits, usage, prices and balances. */
const accounting = Layer.mergeAll(AccountRateLimiter.layer, UsageMetering.layer, priceListLayer).pipe(
  Layer.provideMerge(PrepaidBalances.layer),
)

const caches = Layer.mergeAll(QueryCache.layer, LineageResolver.layer, AnsweringSymbols.layer, PastReader.layer).pipe(
  Layer.provideMerge(LineageIndex.layer),
  Layer.provideMerge(DatasetVersions.layer),
)

const lists = Layer.provide(ListEndpointFactory.layer, ExportCursors.layer)

const allJobs = [
  emailSenderJob,
  budgetNoticesJob,
  keyExpiryJob,
  UsagePartitions.usagePartitionsJob,
  usageSettlementJob,
  usageConversionJob,
  erasureJob,
  historyPartitionsJob,
  auditRetentionJob,
  correctionCountsJob,
  dayStartJob,
  ingestJob,
  datasetEventsJob,
  webhookSenderJob,
  webhookRetentionJob,
]
type Preparation = ReturnType<typeof allJobs[number]["prepare"]>

/** Background jobs, each of which runs in one process at a time. */
export const backgroundJobsLayer = Jobs.jobRunnerLayer<
  Effect.Error<Preparation>,
  Effect.Services<Preparation | Option.Option.Value<Effect.Success<Preparation>>>
>(allJobs)

/** Everything that answers requests, except `SqlClient`. */
const services = NodeListener.layer.pipe(
  Layer.provide(RequestPipeline.layer(Api, handlers)),
  Layer.provide(ProtocolErrorDescriber.layer),
  Layer.provide(Layer.merge(Site.layer, Mcp.layer)),
  Layer.provide(Layer.succeed(EndpointDirectory, { find: findEndpoint, suggest: formatEndpointSuggestion })),
  Layer.provideMerge(lists),
  Layer.provideMerge(Layer.merge(ChangeStream.layer, CorrectionCountReader.layer)),
  Layer.provideMerge(ChangeFeedReader.layer),
  Layer.provideMerge(Layer.merge(Authenticator.layer, KeyWatcher.layer)),
  Layer.provideMerge(RequestMetrics.layer),
  Layer.provideMerge(accounting),
  Layer.provideMerge(caches),
  Layer.provideMerge(Reader.layer),
  Layer.provideMerge(ReadRouter.layer),
  // Released last, because the layers above write to the database on release and could hang without the probe.
  Layer.provideMerge(HealthProbe.layer),
)

/** The service for a Node server: its request listener, and what the rest of the process needs of it. */
export const layer = Layer.provide(services, Tracing.layer)

/**
 * Assembles the service: its endpoints, its background jobs, the documentation site, the MCP server, and the layers
 * that they depend on. The metrics server and the admin API listen on separate ports, which the `serve` command opens.
 */
import { Effect, Layer, type Option } from "effect"
import { Api } from "./contract/Api.ts"
import { auditRetentionJob } from "./postgres/AuditLog.ts"
import { DatabaseReader } from "./postgres/DatabaseReader.ts"
import { HealthProbe } from "./postgres/health/HealthProbe.ts"
import * as Jobs from "./postgres/jobs/JobRunner.ts"
import { RequestMetrics } from "./postgres/metrics/RequestMetrics.ts"
import * as Tracing from "./postgres/metrics/Tracing.ts"
import { ReadRouter } from "./postgres/replicas/ReadRouter.ts"
import { DatasetVersions } from "./postgres/versions/DatasetVersions.ts"
import { erasureJob } from "./accounts/AccountErasure.ts"
import { PrepaidBalances } from "./accounts/billing/PrepaidBalances.ts"
import { UsageMetering } from "./accounts/billing/UsageMetering.ts"
import * as UsagePartitions from "./accounts/billing/UsagePartitions.ts"
import { usageSettlementJob } from "./accounts/billing/UsageSettlement.ts"
import { Authenticator } from "./accounts/keys/Authenticator.ts"
import { KeyWatcher } from "./accounts/keys/KeyWatcher.ts"
import { AccountRateLimiter } from "./accounts/limits/AccountRateLimiter.ts"
import { ChangeFeedReader } from "./query/history/ChangeFeed.ts"
import { ChangeStream } from "./query/history/ChangeStream.ts"
import { CorrectionCountReader, correctionCountsJob } from "./query/history/CorrectionCounts.ts"
import { feedDayStartJob } from "./query/history/FeedDayStart.ts"
import { historyPartitionsJob } from "./query/history/HistoryRetention.ts"
import { PastReader } from "./query/history/PastReader.ts"
import { StoredSymbols } from "./query/lineage/StoredSymbols.ts"
import { SymbolSpellings } from "./query/lineage/SymbolSpellings.ts"
import { LineageIndex } from "./query/lineage/LineageIndex.ts"
import { LineageResolver } from "./query/lineage/LineageResolver.ts"
import { ExportCursors } from "./query/lists/ExportCursors.ts"
import { ListEndpointFactory } from "./query/lists/ListEndpoints.ts"
import { CacheMemory } from "./query/lists/CacheMemory.ts"
import { QueryCache } from "./query/lists/QueryCache.ts"
import { NodeListener } from "./api/NodeListener.ts"
import { RequestPipeline } from "./api/RequestPipeline.ts"
import type { HandlersOf } from "./api/Routes.ts"
import { EndpointDirectory } from "./api/UnroutedResponses.ts"
import { endpointsByDataset } from "./api/catalogue/DatasetEndpoints.ts"
import { findEndpoint, formatEndpointSuggestion } from "./api/catalogue/Endpoints.ts"
import { catalogueHandlers } from "./api/catalogue/Handlers.ts"
import { priceListLayer } from "./api/catalogue/PriceList.ts"
import { changelogHandlers } from "./api/changelog/Handlers.ts"
import { accountHandlers } from "./api/endpoints/account.ts"
import { afterhoursStatsHandlers } from "./api/endpoints/afterhours-stats.ts"
import { changesHandlers } from "./api/endpoints/changes.ts"
import { correctionsHandlers } from "./api/endpoints/corrections.ts"
import { makeDatasetsHandlers } from "./api/endpoints/datasets.ts"
import { dilutionDataHandlers } from "./api/endpoints/dilution-data.ts"
import { floatOutstandingHandlers } from "./api/endpoints/float-outstanding.ts"
import { gapStatsHandlers } from "./api/endpoints/gap-stats.ts"
import { historicalFloatProHandlers } from "./api/endpoints/historical-float-pro.ts"
import { historicalTickersHandlers } from "./api/endpoints/historical-tickers.ts"
import { intradayRunnersHandlers } from "./api/endpoints/intraday-runners.ts"
import { nasdaqComplianceHandlers } from "./api/endpoints/nasdaq-compliance.ts"
import { newsHandlers } from "./api/endpoints/news.ts"
import { overviewHandlers } from "./api/endpoints/overview.ts"
import { ownershipHandlers } from "./api/endpoints/ownership.ts"
import { premarketStatsHandlers } from "./api/endpoints/premarket-stats.ts"
import { pumpAndDumpTrackerHandlers } from "./api/endpoints/pump-and-dump-tracker.ts"
import { registrationsHandlers } from "./api/endpoints/registrations.ts"
import { researchReportsHandlers } from "./api/endpoints/research-reports.ts"
import { screenerHandlers } from "./api/endpoints/screener.ts"
import { splitStatusHandlers } from "./api/endpoints/split-status.ts"
import { tickerChangesHandlers } from "./api/endpoints/ticker-changes.ts"
import { timelineHandlers } from "./api/endpoints/timeline.ts"
import { usageHandlers } from "./api/endpoints/usage.ts"
import { ingestJob } from "./ingest/edgar/schedule/IngestJob.ts"
import { budgetNoticesJob } from "./outbox/mail/BudgetNotices.ts"
import { emailSenderJob } from "./outbox/mail/EmailSenderJob.ts"
import { keyExpiryJob } from "./outbox/mail/KeyExpiryNotices.ts"
import { datasetEventsJob } from "./outbox/webhooks/DatasetEvents.ts"
import { webhookRetentionJob } from "./outbox/webhooks/WebhookRetention.ts"
import { webhookSenderJob } from "./outbox/webhooks/WebhookSenderJob.ts"
import * as Site from "./site/DocumentationSite.ts"
import * as Mcp from "./site/mcp/McpHttpEndpoint.ts"

/** The handlers of all endpoints, by endpoint group. The code does not compile if a handler is missing. */
const endpoints = Effect.all({
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

/** Background jobs. Each job runs in only one process at a time. */
const jobs = [
  emailSenderJob,
  budgetNoticesJob,
  keyExpiryJob,
  UsagePartitions.usagePartitionsJob,
  usageSettlementJob,
  erasureJob,
  historyPartitionsJob,
  auditRetentionJob,
  correctionCountsJob,
  feedDayStartJob,
  ingestJob,
  datasetEventsJob,
  webhookSenderJob,
  webhookRetentionJob,
]
type Preparation = ReturnType<typeof jobs[number]["prepare"]>

/** Runs the background jobs. */
export const backgroundJobsLayer = Jobs.jobRunnerLayer<
  Effect.Error<Preparation>,
  Effect.Services<Preparation | Option.Option.Value<Effect.Success<Preparation>>>
>(jobs)

/**
 * Everything that the service serves in addition to the endpoints: the documentation site, and tools for language
 * models (MCP).
 */
const surfaces = Layer.merge(Site.layer, Mcp.layer)

/** Rate limiting, usage metering, prices, and account balances. */
const accounting = Layer.mergeAll(AccountRateLimiter.layer, UsageMetering.layer, priceListLayer).pipe(
  Layer.provideMerge(PrepaidBalances.layer),
)

const caches = Layer.mergeAll(
  QueryCache.layer,
  LineageResolver.layer,
  StoredSymbols.layer,
  SymbolSpellings.layer,
  PastReader.layer,
).pipe(
  Layer.provideMerge(Layer.merge(LineageIndex.layer, CacheMemory.layer)),
  Layer.provideMerge(DatasetVersions.layer),
)

const lists = Layer.provide(ListEndpointFactory.layer, ExportCursors.layer)

/** Everything that request handling needs, from the HTTP listener down to the database. Requires `SqlClient`. */
const services = NodeListener.layer.pipe(
  Layer.provide(RequestPipeline.layer(Api, endpoints)),
  Layer.provide(surfaces),
  Layer.provide(Layer.succeed(EndpointDirectory, { find: findEndpoint, suggest: formatEndpointSuggestion })),
  Layer.provideMerge(lists),
  Layer.provideMerge(Layer.merge(ChangeStream.layer, CorrectionCountReader.layer)),
  Layer.provideMerge(ChangeFeedReader.layer),
  Layer.provideMerge(Layer.merge(Authenticator.layer, KeyWatcher.layer)),
  Layer.provideMerge(RequestMetrics.layer),
  Layer.provideMerge(accounting),
  Layer.provideMerge(caches),
  Layer.provideMerge(DatabaseReader.layer),
  Layer.provideMerge(ReadRouter.layer),
  // The health probe must be released last: the layers above write to the database during their own release, and
  // without the probe, such a write would wait forever for a database that no longer responds.
  Layer.provideMerge(HealthProbe.layer),
)

/**
 * The service as a layer for a Node server: provides the request listener, and the services that the rest of the
 * process uses.
 */
export const layer = Layer.provide(services, Tracing.layer)

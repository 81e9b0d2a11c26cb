/** The API contract: every endpoint and its middleware. */
import { HttpApi, OpenApi } from "effect/http-api"
import { AuthorizationMiddleware, BillingMiddleware } from "./Authorization.ts"
import { AuthenticationMiddleware } from "./Authentication.ts"
import { CatalogueApiGroup } from "./endpoints/catalogue.ts"
import { ChangelogApiGroup } from "./endpoints/changelog.ts"
import { DeprecationMiddleware, UnexpectedErrorMiddleware, ValidationMiddleware } from "./rules/ErrorMiddleware.ts"
import { queryParseOptions } from "./rules/QueryValidation.ts"
import { AccountApiGroup } from "./endpoints/account.ts"
import { AfterhoursStatsApiGroup } from "./endpoints/afterhours-stats.ts"
import { ChangesApiGroup } from "./endpoints/changes.ts"
import { CorrectionsApiGroup } from "./endpoints/corrections.ts"
import { DatasetsApiGroup } from "./endpoints/datasets.ts"
import { DilutionDataApiGroup } from "./endpoints/dilution-data.ts"
import { FloatOutstandingApiGroup } from "./endpoints/float-outstanding.ts"
import { GapStatsApiGroup } from "./endpoints/gap-stats.ts"
import { HistoricalFloatProApiGroup } from "./endpoints/historical-float-pro.ts"
import { HistoricalTickersApiGroup } from "./endpoints/historical-tickers.ts"
import { IntradayRunnersApiGroup } from "./endpoints/intraday-runners.ts"
import { NasdaqComplianceApiGroup } from "./endpoints/nasdaq-compliance.ts"
import { NewsApiGroup } from "./endpoints/news.ts"
import { OverviewApiGroup } from "./endpoints/overview.ts"
import { OwnershipApiGroup } from "./endpoints/ownership.ts"
import { PremarketStatsApiGroup } from "./endpoints/premarket-stats.ts"
import { PumpAndDumpTrackerApiGroup } from "./endpoints/pump-and-dump-tracker.ts"
import { RegistrationsApiGroup } from "./endpoints/registrations.ts"
import { ResearchReportsApiGroup } from "./endpoints/research-reports.ts"
import { ScreenerApiGroup } from "./endpoints/screener.ts"
import { SplitStatusApiGroup } from "./endpoints/split-status.ts"
import { TickerChangesApiGroup } from "./endpoints/ticker-changes.ts"
import { TimelineApiGroup } from "./endpoints/timeline.ts"
import { UsageApiGroup } from "./endpoints/usage.ts"

/**
 * The contract of all endpoints. The middleware classes only declare the security scheme and errors that clients see.
 * They never run, because `api/RequestPipeline.ts` serves the endpoints. Each middleware applies only to the endpoints
 * added before it.
 */
export class Api extends HttpApi.make("tickerline")
  .add(
    TickerChangesApiGroup,
    HistoricalTickersApiGroup,
    IntradayRunnersApiGroup,
    DilutionDataApiGroup,
    RegistrationsApiGroup,
    PumpAndDumpTrackerApiGroup,
    SplitStatusApiGroup,
    NasdaqComplianceApiGroup,
    NewsApiGroup,
    GapStatsApiGroup,
    PremarketStatsApiGroup,
    AfterhoursStatsApiGroup,
    ResearchReportsApiGroup,
    FloatOutstandingApiGroup,
    HistoricalFloatProApiGroup,
    OwnershipApiGroup,
    ScreenerApiGroup,
    TimelineApiGroup,
    ChangesApiGroup,
  )
  .middleware(BillingMiddleware)
  .add(OverviewApiGroup, AccountApiGroup, UsageApiGroup, DatasetsApiGroup)
  .prefix("/v1")
  .middleware(AuthorizationMiddleware)
  .middleware(AuthenticationMiddleware)
  .add(CatalogueApiGroup, ChangelogApiGroup, CorrectionsApiGroup)
  .middleware(ValidationMiddleware)
  .middleware(UnexpectedErrorMiddleware)
  .middleware(DeprecationMiddleware)
  .annotate(HttpApi.QueryParseOptions, queryParseOptions)
  .annotateMerge(OpenApi.annotations({
    title: "Tickerline",
    version: "v1",
    description: "Market data about listed securities. Every datetime has the fixed offset -05:00 all year. " +
      "Clients must ignore unknown response fields.",
    license: { name: "MIT", identifier: "MIT" },
  })) {}

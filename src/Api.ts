/** The contract of the API: every endpoint and its middleware. */
import { HttpApi, OpenApi } from "effect/http-api"
import { AuthorizationMiddleware, BillingMiddleware } from "./accounts/Authorization.ts"
import { AuthenticationMiddleware } from "./accounts/keys/Authentication.ts"
import { CatalogueApiGroup } from "./catalogue/Api.ts"
import { ChangelogApiGroup } from "./changelog/Api.ts"
import { DeprecationMiddleware, UnexpectedErrorMiddleware, ValidationMiddleware } from "./rules/ContractErrors.ts"
import { queryParseOptions } from "./rules/Validation.ts"
import { AccountApiGroup } from "./v1/account/Api.ts"
import { AfterhoursStatsApiGroup } from "./v1/afterhours-stats/Api.ts"
import { ChangesApiGroup } from "./v1/changes/Api.ts"
import { CorrectionsApiGroup } from "./v1/corrections/Api.ts"
import { DatasetsApiGroup } from "./v1/datasets/Api.ts"
import { DilutionDataApiGroup } from "./v1/dilution-data/Api.ts"
import { FloatOutstandingApiGroup } from "./v1/float-outstanding/Api.ts"
import { GapStatsApiGroup } from "./v1/gap-stats/Api.ts"
import { HistoricalFloatProApiGroup } from "./v1/historical-float-pro/Api.ts"
import { HistoricalTickersApiGroup } from "./v1/historical-tickers/Api.ts"
import { IntradayRunnersApiGroup } from "./v1/intraday-runners/Api.ts"
import { NasdaqComplianceApiGroup } from "./v1/nasdaq-compliance/Api.ts"
import { NewsApiGroup } from "./v1/news/Api.ts"
import { OverviewApiGroup } from "./v1/overview/Api.ts"
import { OwnershipApiGroup } from "./v1/ownership/Api.ts"
import { PremarketStatsApiGroup } from "./v1/premarket-stats/Api.ts"
import { PumpAndDumpTrackerApiGroup } from "./v1/pump-and-dump-tracker/Api.ts"
import { RegistrationsApiGroup } from "./v1/registrations/Api.ts"
import { ResearchReportsApiGroup } from "./v1/research-reports/Api.ts"
import { ScreenerApiGroup } from "./v1/screener/Api.ts"
import { SplitStatusApiGroup } from "./v1/split-status/Api.ts"
import { TickerChangesApiGroup } from "./v1/ticker-changes/Api.ts"
import { TimelineApiGroup } from "./v1/timeline/Api.ts"
import { UsageApiGroup } from "./v1/usage/Api.ts"

/**
 * The contract of every endpoint. A middleware declares what clients see: the security scheme, and errors. It applies
 * to the endpoints that were added before it; nothing executes it. `http/RequestPipeline.ts` serves the endpoints.
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

/** Every endpoint, in one picture. */
import { HttpApi, OpenApi } from "effect/http-api"
import { Admission, Charged } from "./accounts/Authorization.ts"
import { Authentication } from "./accounts/keys/Authentication.ts"
import { Catalogue } from "./catalogue/Api.ts"
import { Changes } from "./changelog/Api.ts"
import { Unexpected, Validation } from "./rules/Validation.ts"
import { Lifecycle } from "./rules/Lifecycle.ts"
import { Accounts } from "./v1/account/Api.ts"
import { AfterhoursStats } from "./v1/afterhours-stats/Api.ts"
import { Datasets } from "./v1/datasets/Api.ts"
import { DilutionData } from "./v1/dilution-data/Api.ts"
import { FloatOutstandings } from "./v1/float-outstanding/Api.ts"
import { GapStats } from "./v1/gap-stats/Api.ts"
import { HistoricalFloatPro } from "./v1/historical-float-pro/Api.ts"
import { HistoricalTickers } from "./v1/historical-tickers/Api.ts"
import { IntradayRunners } from "./v1/intraday-runners/Api.ts"
import { NasdaqCompliance } from "./v1/nasdaq-compliance/Api.ts"
import { News } from "./v1/news/Api.ts"
import { Overviews } from "./v1/overview/Api.ts"
import { Ownerships } from "./v1/ownership/Api.ts"
import { PremarketStats } from "./v1/premarket-stats/Api.ts"
import { PumpAndDumpTracker } from "./v1/pump-and-dump-tracker/Api.ts"
import { Registrations } from "./v1/registrations/Api.ts"
import { ResearchReports } from "./v1/research-reports/Api.ts"
import { Screener } from "./v1/screener/Api.ts"
import { SplitStatuses } from "./v1/split-status/Api.ts"
import { TickerChanges } from "./v1/ticker-changes/Api.ts"
import { Usages } from "./v1/usage/Api.ts"

/** The first middleware is the innermost; each touches only what stands above it. */
export class Api extends HttpApi.make("tickerline")
  .add(
    TickerChanges,
    HistoricalTickers,
    IntradayRunners,
    DilutionData,
    Registrations,
    PumpAndDumpTracker,
    SplitStatuses,
    NasdaqCompliance,
    News,
    GapStats,
    PremarketStats,
    AfterhoursStats,
    ResearchReports,
    FloatOutstandings,
    HistoricalFloatPro,
    Ownerships,
    Screener,
  )
  .middleware(Charged)
  .add(Overviews, Accounts, Usages, Datasets)
  .prefix("/v1")
  .middleware(Admission)
  .middleware(Authentication)
  .add(Catalogue, Changes)
  .middleware(Validation)
  .middleware(Unexpected)
  .middleware(Lifecycle)
  .annotate(HttpApi.QueryParseOptions, { onExcessProperty: "error", errors: "all" })
  .annotateMerge(OpenApi.annotations({
    title: "Tickerline",
    version: "v1",
    description: "Market data about listed securities. Every datetime carries the fixed offset -05:00, all year. " +
      "Clients must ignore unknown response fields.",
    license: { name: "MIT", identifier: "MIT" },
  })) {}

/** Every endpoint, in one picture. */
import { HttpApi, OpenApi } from "effect/http-api"
import { Authentication } from "./account/Authentication.ts"
import { Catalogue } from "./catalogue/Api.ts"
import { Unexpected, Validation } from "./policy/Failures.ts"
import { Lifecycle } from "./policy/Lifecycle.ts"
import { HistoricalTickers } from "./v1/historical-tickers/Api.ts"
import { IntradayRunners } from "./v1/intraday-runners/Api.ts"
import { TickerChanges } from "./v1/ticker-changes/Api.ts"

/** The first middleware is the innermost; each touches only what stands above it. */
export class Api extends HttpApi.make("tickerline")
  .add(TickerChanges, HistoricalTickers, IntradayRunners)
  .prefix("/v1")
  .middleware(Authentication)
  .add(Catalogue)
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

/** Every layer, in one picture. */
import { Layer } from "effect"
import { HttpRouter } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as KeyCheck from "./account/KeyCheck.ts"
import { Api } from "./Api.ts"
import * as Catalogue from "./catalogue/Http.ts"
import { Database } from "./db/Database.ts"
import * as Edge from "./Edge.ts"
import { Unexpected, Validation } from "./policy/Failures.ts"
import { Lifecycle } from "./policy/Lifecycle.ts"
import * as HistoricalTickers from "./v1/historical-tickers/Http.ts"
import * as IntradayRunners from "./v1/intraday-runners/Http.ts"
import * as TickerChanges from "./v1/ticker-changes/Http.ts"

const Handlers = Layer.mergeAll(
  TickerChanges.layer,
  HistoricalTickers.layer,
  IntradayRunners.layer,
  Catalogue.layer,
)

const Policies = Layer.mergeAll(KeyCheck.layer, Validation.layer, Unexpected.layer, Lifecycle.layer)

/** Everything but the socket and the `SqlClient`. */
const Routes = HttpApiBuilder.layer(Api).pipe(
  Layer.provide(Handlers),
  Layer.provide(Policies),
  Layer.provide(Database.layer),
  Layer.merge(Edge.layer),
)

/** The service on whatever socket `HttpServer` is; a path of any length finds the answer that it leads nowhere. */
export const layer = HttpRouter.serve(Routes, { disableLogger: true, disableListenLog: true }).pipe(
  Layer.provide(Layer.succeed(HttpRouter.RouterConfig, { maxParamLength: 1_000_000 })),
)

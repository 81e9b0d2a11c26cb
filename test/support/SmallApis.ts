/** Serves a small API with the service's own middleware, for rules that no endpoint of the service shows alone. */
import { Layer, Logger } from "effect"
import { HttpRouter } from "effect/http"
import * as AuthorizationMiddleware from "../../src/accounts/AuthorizationLayer.ts"
import { PrepaidBalances } from "../../src/accounts/billing/PrepaidBalances.ts"
import { UsageMetering } from "../../src/accounts/billing/UsageMetering.ts"
import { ApiKeyCache } from "../../src/accounts/keys/ApiKeyCache.ts"
import * as AuthenticationMiddleware from "../../src/accounts/keys/AuthenticationLayer.ts"
import { AccountRateLimiter } from "../../src/accounts/limits/AccountRateLimiter.ts"
import { Database } from "../../src/db/Database.ts"
import * as Middleware from "../../src/http/OutermostMiddleware.ts"
import { ResponseCache } from "../../src/http/ResponseCache.ts"
import { RequestMetrics } from "../../src/observability/RequestMetrics.ts"
import { DeprecationMiddleware } from "../../src/rules/Deprecation.ts"
import { UnexpectedErrorMiddleware, ValidationMiddleware } from "../../src/rules/Validation.ts"
import { httpServerLayer } from "./Service.ts"
import { databaseWithKeysLayer } from "./ServiceInstances.ts"

/** Serves the routes on a free port, with their own database and one API key per tier. */
export const serveRoutes = <E, R>(routes: Layer.Layer<never, E, R>) =>
  HttpRouter.serve(
    routes.pipe(
      Layer.provide(
        Layer.mergeAll(
          AuthenticationMiddleware.authenticationLayer,
          AuthorizationMiddleware.authorizationLayer,
          ValidationMiddleware.layer,
          UnexpectedErrorMiddleware.layer,
          DeprecationMiddleware.layer,
        ),
      ),
      Layer.merge(Middleware.layer),
      Layer.provide(AuthenticationMiddleware.Authenticator.layer),
      Layer.provide(ResponseCache.layer),
      Layer.provide(ApiKeyCache.layer),
      Layer.provide(Layer.mergeAll(AccountRateLimiter.layer, UsageMetering.layer, RequestMetrics.layer)),
      Layer.provide(PrepaidBalances.layer),
      Layer.provide(Database.layer),
    ),
    { disableLogger: true, disableListenLog: true },
  ).pipe(
    Layer.provide(Logger.layer([])),
    Layer.provideMerge(httpServerLayer),
    Layer.provideMerge(databaseWithKeysLayer),
  )

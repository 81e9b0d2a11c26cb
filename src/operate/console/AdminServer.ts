/** Serves the admin API and the console on a separate port, if `ADMIN_PORT` is set. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { PgClient } from "@effect/sql-pg"
import { ByteSize, Duration, Effect, Layer, Option, Scope } from "effect"
import { HttpIncomingMessage, HttpMiddleware, HttpRouter } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { ShutdownState } from "../../api/catalogue/ReadinessCheck.ts"
import { DirectConnectionConfig, makeConnectionConfig } from "../../postgres/pool/ConnectionSettings.ts"
import { describeProtocolError, withCommonResponses } from "./AdminResponses.ts"
import { initializeAdminMetrics, withAdminMetrics } from "./AdminMetrics.ts"
import { describeSqlError } from "../../postgres/FailureText.ts"
import { consoleLayer } from "./ConsoleRoutes.ts"
import { OpenIdConnect } from "./OpenIdConnect.ts"
import { signInLayer } from "./SignIn.ts"
import { defaultConnectionTimeouts, makeHttpServer } from "../../api/ConnectionLimits.ts"
import { maxParamLength } from "../../api/RequestTarget.ts"
import { findUrlFile } from "../../postgres/pool/PasswordRotation.ts"
import { adminAccessLayer, adminTransactionLayer } from "../admin/AdminRequests.ts"
import { adminConnections, AdminDatabaseUrlConfig, AdminHostConfig, AdminPortConfig } from "../admin/AdminSettings.ts"
import { AdminApi } from "../admin/AdminApi.ts"
import { adminHandlersLayer } from "../admin/AdminHandlers.ts"
import { tickerlineCommand } from "../../postgres/ProjectCommands.js"

const databaseLayer = Layer.unwrap(Effect.gen(function* () {
  const url = yield* AdminDatabaseUrlConfig
  const urlFile = yield* findUrlFile("ADMIN_DATABASE_URL", AdminDatabaseUrlConfig)
  const { config } = Option.isSome(url)
    ? yield* makeConnectionConfig({ url: url.value, urlFile, applicationName: "tickerline-admin", pooled: false })
    : yield* DirectConnectionConfig
  // Uses a separate connection pool, so that admins and customers never wait for each other.
  return PgClient.layer({ ...config, applicationName: "tickerline-admin", maxConnections: adminConnections })
}))

const maxBodySize = ByteSize.mebibytes(1)

const timeouts = { ...defaultConnectionTimeouts, request: Duration.seconds(10) }

/**
 * Disables Node's limit on body size. The handlers reject bodies above `maxBodySize` themselves: the API with a JSON
 * error, and the console with an error page.
 */
const bodies = { isRead: () => true, maxBytes: Number.POSITIVE_INFINITY }

const routesLayer = HttpApiBuilder.layer(AdminApi, { openapiPath: "/v1/openapi.json" }).pipe(
  Layer.provide(adminHandlersLayer),
  Layer.provide([adminAccessLayer, adminTransactionLayer]),
  Layer.merge([consoleLayer, signInLayer.pipe(Layer.provide(OpenIdConnect.layer))]),
)

/**
 * Logs a warning if the PostgreSQL role of the admin API cannot be used. The service starts even if the admin API
 * cannot connect.
 */
const warnOfUnusableRole = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`select from admin_tokens limit 1`
}).pipe(
  Effect.catch((error) =>
    Effect.logWarning(
      `The admin API cannot use its database: ${
        describeSqlError(error)
      }. Check ADMIN_DATABASE_URL, and grant its role ` +
        `the privileges with \`${tickerlineCommand} grant ROLE --admin\`.`,
    )
  ),
)

/**
 * Serves the admin API and the console on `ADMIN_PORT`, if that is set. `reusePort` allows several processes to share
 * the port.
 */
export const adminServerLayer = (reusePort: boolean) =>
  Layer.unwrap(Effect.gen(function* () {
    const port = yield* AdminPortConfig
    if (Option.isNone(port)) return Layer.empty
    const host = yield* AdminHostConfig
    /** Starts the server. When the scope closes, the server stops before the resources that it uses are released. */
    const serve = Effect.gen(function* () {
      yield* initializeAdminMetrics
      yield* warnOfUnusableRole
      const shutdown = yield* ShutdownState
      const routes = yield* HttpRouter.toHttpEffect(routesLayer).pipe(
        Effect.provideService(HttpRouter.RouterConfig, { maxParamLength }),
      )
      const handle = yield* NodeHttpServer.makeHandler(withCommonResponses(routes), {
        middleware: withAdminMetrics,
        // The routes run in a child scope that closes after the server, so that closing it does not interrupt a request
        // in progress.
        scope: yield* Scope.fork(yield* Effect.scope, "parallel"),
      })
      const { closeConnections, server } = makeHttpServer(
        timeouts,
        { handle, describeError: describeProtocolError },
        () => shutdown.begun,
        bodies,
      )
      yield* NodeHttpServer.make(() => server, { host, port: port.value, reusePort })
      yield* Effect.addFinalizer(() => Effect.sync(closeConnections))
    })
    return Layer.effectDiscard(serve).pipe(
      Layer.provide(NodeHttpServer.layerHttpServices),
      // Only customers' requests are traced, and not those of admins.
      Layer.provide(Layer.succeed(HttpMiddleware.TracerDisabledWhen, () => true)),
      Layer.provide(Layer.succeed(HttpIncomingMessage.MaxBodySize, maxBodySize)),
      Layer.provide(databaseLayer),
    )
  }))

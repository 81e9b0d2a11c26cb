/** Serves the admin API and the console on a port of its own, if `ADMIN_PORT` is set. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { PgClient } from "@effect/sql-pg"
import { ByteSize, Effect, Layer, Option, Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import { HttpIncomingMessage, HttpMiddleware, HttpRouter, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { createServer } from "node:http"
import { DirectConnectionConfig, makeConnectionConfig } from "../db/pool/ConnectionSettings.ts"
import { initializeAdminMetrics, withAdminMetrics } from "./AdminMetrics.ts"
import { describeSqlError } from "../observability/FailureText.ts"
import { consoleLayer } from "./ConsoleRoutes.ts"
import { OpenIdConnect } from "./OpenIdConnect.ts"
import { signInLayer } from "./SignIn.ts"
import { NotFound } from "../rules/Errors.ts"
import { findUrlFile } from "../db/pool/PasswordRotation.ts"
import { adminAccessLayer, adminTransactionLayer } from "../admin/AdminRequests.ts"
import { AdminDatabaseUrlConfig, AdminHostConfig, AdminPortConfig } from "../admin/AdminSettings.ts"
import { AdminApi } from "../admin/AdminApi.ts"
import { adminHandlersLayer } from "../admin/AdminHandlers.ts"

/** Connections of their own, so that admins and customers never wait for each other. */
const maxConnections = 3

const databaseLayer = Layer.unwrap(Effect.gen(function* () {
  const url = yield* AdminDatabaseUrlConfig
  const urlFile = yield* findUrlFile("ADMIN_DATABASE_URL", AdminDatabaseUrlConfig)
  const { config } = Option.isSome(url)
    ? yield* makeConnectionConfig({ url: url.value, urlFile, applicationName: "tickerline-admin", pooled: false })
    : yield* DirectConnectionConfig
  return PgClient.layer({ ...config, applicationName: "tickerline-admin", maxConnections })
}))

const maxBodySize = ByteSize.mebibytes(1)

const encodeNotFound = Schema.encodeSync(NotFound)

/** Answers a request for an unknown method and path like the other errors. */
const notFoundLayer = HttpRouter.add("*", "*", (request) => {
  const request_id = SecureRandom.uuidV7Unsafe()
  const message = `There is no endpoint ${request.method} ${request.url}. /v1/openapi.json lists all endpoints.`
  const body = encodeNotFound(new NotFound({ error: { message }, request_id }))
  return HttpServerResponse.json(body, { status: 404, headers: { "x-request-id": request_id } })
})

const routesLayer = HttpApiBuilder.layer(AdminApi, { openapiPath: "/v1/openapi.json" }).pipe(
  Layer.provide(adminHandlersLayer),
  Layer.provide([adminAccessLayer, adminTransactionLayer]),
  Layer.merge([notFoundLayer, consoleLayer, signInLayer.pipe(Layer.provide(OpenIdConnect.layer))]),
)

/** Warns of a role that cannot be used, because the service itself starts without the admin API's connections. */
const warnOfUnusableRole = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`select from admin_tokens limit 1`
}).pipe(
  Effect.catch((error) =>
    Effect.logWarning(
      `The admin API cannot use its database: ${
        describeSqlError(error)
      }. Check ADMIN_DATABASE_URL, and grant its role ` +
        "the privileges with `tickerline grant ROLE --admin`.",
    )
  ),
)

/** Serves on `ADMIN_PORT`, if it is set. `reusePort` lets several processes share the port. */
export const adminServerLayer = (reusePort: boolean) =>
  Layer.unwrap(Effect.gen(function* () {
    const port = yield* AdminPortConfig
    if (Option.isNone(port)) return Layer.empty
    const host = yield* AdminHostConfig
    return HttpRouter.serve(routesLayer, {
      disableLogger: true,
      disableListenLog: true,
      middleware: withAdminMetrics,
    }).pipe(
      Layer.merge(Layer.effectDiscard(Effect.andThen(initializeAdminMetrics, warnOfUnusableRole))),
      Layer.provide(NodeHttpServer.layer(() => createServer(), { host, port: port.value, reusePort })),
      Layer.provide(Layer.succeed(HttpMiddleware.TracerDisabledWhen, () => true)),
      Layer.provide(Layer.succeed(HttpIncomingMessage.MaxBodySize, maxBodySize)),
      Layer.provide(databaseLayer),
    )
  }))

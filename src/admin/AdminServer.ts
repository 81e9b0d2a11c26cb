/** Serves the admin API on a port of its own, if `ADMIN_PORT` is set. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { PgClient } from "@effect/sql-pg"
import { ByteSize, Config, Effect, Layer, Option } from "effect"
import { HttpIncomingMessage, HttpMiddleware, HttpRouter } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { createServer } from "node:http"
import { DirectConnectionConfig, makeConnectionConfig } from "../db/pool/ConnectionSettings.ts"
import { findUrlFile } from "../db/pool/PasswordRotation.ts"
import { adminAccessLayer, adminTransactionLayer } from "./AdminRequests.ts"
import { AdminDatabaseUrlConfig, AdminHostConfig, AdminPortConfig } from "./AdminSettings.ts"
import { AdminApi } from "./AdminApi.ts"
import { adminHandlersLayer } from "./AdminHandlers.ts"

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

export const adminRoutesLayer = HttpApiBuilder.layer(AdminApi, { openapiPath: "/v1/openapi.json" }).pipe(
  Layer.provide(adminHandlersLayer),
  Layer.provide([adminAccessLayer, adminTransactionLayer]),
)

const makeServer = (host: string, port: number) =>
  HttpRouter.serve(adminRoutesLayer, { disableLogger: true, disableListenLog: true }).pipe(
    Layer.provide(NodeHttpServer.layer(() => createServer(), { host, port })),
    Layer.provide(Layer.succeed(HttpMiddleware.TracerDisabledWhen, () => true)),
    Layer.provide(Layer.succeed(HttpIncomingMessage.MaxBodySize, maxBodySize)),
    Layer.provide(databaseLayer),
  )

export const adminServerLayer = Layer.unwrap(
  Effect.map(
    Config.all([AdminPortConfig, AdminHostConfig]),
    ([port, host]) => Option.match(port, { onNone: () => Layer.empty, onSome: (port) => makeServer(host, port) }),
  ),
)

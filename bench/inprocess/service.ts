/**
 * Builds the service in the same way as `serve`, but without a port, background jobs, or a metrics server. Streams
 * supplied by the caller connect it to PostgreSQL.
 */
import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { ConfigProvider, Context, Effect, Exit, Layer, Redacted, References, Scope } from "effect"
import type { Duplex } from "node:stream"
import { DirectConnectionConfig, makeConnectionConfig } from "../../src/postgres/pool/ConnectionSettings.ts"
import { pooledClientLayer } from "../../src/postgres/pool/PooledClient.ts"
import { BaseUrl } from "../../src/api/BaseUrl.ts"
import { defaultConnectionTimeouts, makeHttpServer } from "../../src/api/ConnectionLimits.ts"
import { NodeListener } from "../../src/api/NodeListener.ts"
import * as Server from "../../src/Server.ts"

/** Returns the stream for a new database connection. `openSocket` opens a socket to the server in the URL. */
type Connect = (openSocket: () => Duplex) => Duplex

/**
 * Provides the service's database connections, as `serve` creates them for the PostgreSQL server at `url`, except that
 * `connect` opens their streams.
 */
const databaseLayer = (url: string, connect: Connect) =>
  Layer.unwrap(Effect.gen(function* () {
    const { config, sockets } = yield* makeConnectionConfig({
      url: Redacted.make(url),
      applicationName: "tickerline",
      pooled: false,
    })
    const open = () => connect(sockets.open)
    const connection = {
      config: { ...config, stream: open },
      // Claims that bytes have been received. An in-memory server is never silent, and the health probe must not close
      // connections on a busy machine.
      sockets: { ...sockets, open, openForProbe: open, hasReceivedBytes: () => true, block: () => {} },
      pooler: undefined,
    }
    return Layer.merge(
      pooledClientLayer(connection.config, true),
      Layer.succeed(DirectConnectionConfig, connection),
    )
  }))

const serviceLayer = (url: string, connect: Connect) =>
  Server.layer.pipe(
    Layer.provideMerge(NodeHttpServer.layerHttpServices),
    Layer.provideMerge(databaseLayer(url, connect)),
    Layer.provideMerge(NodeServices.layer),
    Layer.provideMerge(NodeCrypto.layer),
    Layer.provideMerge(Layer.succeed(BaseUrl, "http://127.0.0.1:8080")),
    // Disables logging. A recorded timestamp of the database clock is outdated, and the service would log that.
    Layer.provideMerge(Layer.succeed(References.MinimumLogLevel, "None")),
  )

/**
 * Builds the service.
 *
 * @param connect opens a connection to PostgreSQL
 * @param isUncached whether the service runs with `CACHE_MEGABYTES=0`
 */
export const startService = async (url: string, connect: Connect, isUncached = false) => {
  const scope = Scope.makeUnsafe()
  const settings = ConfigProvider.fromUnknown(isUncached ? { CACHE_MEGABYTES: "0" } : {})
  const services = await Effect.runPromise(
    Layer.buildWithScope(
      Layer.provide(serviceLayer(url, connect), ConfigProvider.layerAdd(settings, { asPrimary: true })),
      scope,
    ),
  )
  const { server } = makeHttpServer(
    defaultConnectionTimeouts,
    Context.get(services, NodeListener),
  )
  return {
    server,
    services,
    stop: () => Effect.runPromise(Scope.close(scope, Exit.void)),
  }
}

/** A service that runs in this process. */
export type Service = Awaited<ReturnType<typeof startService>>

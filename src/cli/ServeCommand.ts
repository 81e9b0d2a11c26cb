/** `serve`: the database made ready, the socket opened, and a first request to try. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Config, Console, Context, Duration, Effect, Layer, Option } from "effect"
import { HttpServer } from "effect/http"
import type { ListenOptions } from "node:net"
import { BaseUrl, BaseUrlConfig } from "../http/BaseUrl.ts"
import { defaultConnectionTimeouts, makeHttpServer } from "../http/ConnectionLimits.ts"
import { ShutdownState } from "../catalogue/Readiness.ts"
import { EmbeddedHome, withDirectConnection } from "../db/Connection.ts"
import * as Migrations from "../db/migrations/Migrations.ts"
import * as FirstStart from "./FirstStart.ts"
import * as Prometheus from "../observability/PrometheusServer.ts"
import { documentationPath } from "../rules/Lifecycle.ts"
import { RequestListener } from "../Server.ts"
import { withProgressDisplay } from "./terminal/ProgressDisplay.ts"

export const HostConfig = Config.NonEmptyString("HOST").pipe(Config.withDefault("127.0.0.1"))
export const PortConfig = Config.Port("PORT").pipe(Config.withDefault(8080))

/** Several processes may listen on one port, one a core; Linux shares the connections out among them. */
export const ReusePortConfig = Config.Boolean("REUSE_PORT").pipe(Config.withDefault(false))

/** Told to end, it serves on for so long, and says that it is not ready any more. */
export const ShutdownDelayConfig = Config.Duration("SHUTDOWN_DELAY").pipe(Config.withDefault(Duration.zero))

/** Where clients reach the service, without a slash at the end. */
export const apiBaseUrl = Effect.gen(function* () {
  const configured = yield* BaseUrlConfig
  const [host, port] = [yield* HostConfig, yield* PortConfig]
  const local = `http://${
    host === "0.0.0.0" || host === "::" ? "localhost" : host.includes(":") ? `[${host}]` : host
  }:${port}`
  return Option.getOrElse(configured, () => local)
})

/**
 * Starts the service, and the server for metrics. The server listens only after all routes exist, because Node would
 * accept a request without a listener and never answer it.
 */
export const startServer = Effect.fnUntraced(
  function* (options: ListenOptions, timeouts = defaultConnectionTimeouts) {
    yield* Layer.build(Layer.fresh(Prometheus.layer))
    const services = yield* Layer.build(
      Layer.fresh(RequestListener.layer.pipe(Layer.provideMerge(NodeHttpServer.layerHttpServices))),
    )
    const { closeConnections, server } = makeHttpServer(timeouts, Context.get(services, RequestListener))
    const httpServer = yield* NodeHttpServer.make(() => server, options)
    yield* Effect.addFinalizer(() => Effect.sync(closeConnections))
    return Context.add(services, HttpServer.HttpServer, httpServer)
  },
)

/** Only an embedded database has a demo key that may be shown. */
const welcome = (base: string, demoKey: Option.Option<string>) =>
  [
    `Tickerline answers at ${base}`,
    `Documentation: ${base}${documentationPath}`,
    "Try it:",
    `  curl -H "Authorization: Bearer ${
      Option.getOrElse(demoKey, () => "<key>")
    }" "${base}/v1/ticker-changes?ticker=BYON"`,
    ...(Option.isSome(demoKey)
      ? []
      : ["Make a key with: npm run tickerline -- keys create --account NAME --tier basic"]),
  ].join("\n")

const prepare = Effect.gen(function* () {
  yield* withDirectConnection(Migrations.runMigrations)
  const { folder } = yield* EmbeddedHome
  return yield* Effect.transposeOption(Option.map(folder, FirstStart.prepareFirstStart))
})

/** Until it is interrupted: then it takes no more connections, ends what it has, and leaves the database. */
export const serveUntilInterrupted = Effect.gen(function* () {
  const address = yield* apiBaseUrl
  const delay = yield* ShutdownDelayConfig
  const ending = { begun: false }
  const demoKey = yield* withProgressDisplay(prepare)
  yield* startServer({ host: yield* HostConfig, port: yield* PortConfig, reusePort: yield* ReusePortConfig }).pipe(
    Effect.provideService(BaseUrl, address),
    Effect.provideService(ShutdownState, ending),
  )
  yield* Console.log(welcome(address, demoKey))
  return yield* Effect.onInterrupt(Effect.never, () => {
    ending.begun = true
    return Effect.sleep(delay)
  })
}).pipe(Effect.scoped)

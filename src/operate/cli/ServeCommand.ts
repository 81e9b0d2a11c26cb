/** The `serve` command: prepares the database, starts the server, and prints an example request. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Console, Context, Effect, FileSystem, Layer, Option, Path } from "effect"
import { HttpServer } from "effect/http"
import { createServer } from "node:http"
import type { ListenOptions } from "node:net"
import process from "node:process"
import { AdminHostConfig, AdminOriginConfig, AdminPortConfig } from "../admin/AdminSettings.ts"
import { adminServerLayer } from "../console/AdminServer.ts"
import { homePath } from "../console/ConsolePaths.ts"
import { recordAuditedSettings } from "../../postgres/AuditLog.ts"
import { customerSettings } from "../../api/catalogue/PriceList.ts"
import { ChangeStream } from "../../query/history/ChangeStream.ts"
import { BaseUrl } from "../../api/BaseUrl.ts"
import { defaultConnectionTimeouts, makeHttpServer } from "../../api/ConnectionLimits.ts"
import { NodeListener } from "../../api/NodeListener.ts"
import { ShutdownState } from "../../api/catalogue/ReadinessCheck.ts"
import { EmbeddedHomeDirectory, withDirectConnection } from "../../postgres/ConnectionLayers.ts"
import { requireSynchronizedClock } from "../../postgres/health/ClockComparison.ts"
import * as Migrations from "../../postgres/migrations/Migrations.ts"
import * as FirstStart from "./FirstStart.ts"
import { LogFormatConfig } from "./Logging.ts"
import { MetricsHostConfig, MetricsPortConfig } from "../../postgres/metrics/MetricsSettings.ts"
import { tickerlineCommand } from "../../postgres/ProjectCommands.js"
import * as Prometheus from "../../postgres/metrics/PrometheusServer.ts"
import { getPagePath } from "../../site/SitePage.ts"
import { documentationPath } from "../../contract/rules/Deprecation.ts"
import * as Server from "../../Server.ts"
import {
  apiBaseUrl,
  HostConfig,
  isLoopback,
  PortConfig,
  ReusePortConfig,
  ShutdownDelayConfig,
} from "./ServeSettings.ts"
import { stdoutCapabilities } from "./terminal/OutputCapabilities.ts"
import { withProgressDisplay } from "./terminal/ProgressDisplay.ts"

/**
 * Starts the metrics server, the service, the background jobs, and the admin API, in this order, and returns the
 * service's context. The API starts listening only after all routes exist, because Node never responds to a request
 * that arrives before a request listener is attached. When the scope closes, all of them stop in the opposite order.
 */
export const startServer = Effect.fnUntraced(
  function* (options: ListenOptions, timeouts = defaultConnectionTimeouts) {
    yield* Layer.build(Layer.fresh(Prometheus.layer))
    const services = yield* Layer.build(
      Layer.fresh(Server.layer.pipe(Layer.provideMerge(NodeHttpServer.layerHttpServices))),
    )
    const shutdown = yield* ShutdownState
    const listener = Context.get(services, NodeListener)
    const { closeConnections, server } = makeHttpServer(timeouts, listener, () => shutdown.begun)
    const httpServer = yield* NodeHttpServer.make(() => server, options)
    // Finalizers run in reverse order. The change streams end first, because they are requests that stay open and would
    // delay the shutdown until its time limit.
    yield* Effect.addFinalizer(() => Effect.sync(closeConnections))
    yield* Effect.addFinalizer(() => Context.get(services, ChangeStream).stop)
    // The jobs start last, because a process that cannot listen must not run jobs.
    yield* Effect.provide(Layer.build(Layer.fresh(Server.backgroundJobsLayer)), services)
    yield* Layer.build(Layer.fresh(adminServerLayer(yield* ReusePortConfig)))
    return Context.add(services, HttpServer.HttpServer, httpServer)
  },
)

/**
 * Listens on a port briefly to check that it is free. Closes any connection that is accepted meanwhile, such as a
 * health check: the client would get no response, and the check would wait for the connection forever.
 */
const tryToListen = (options: ListenOptions) =>
  NodeHttpServer.make(() => createServer().on("connection", (socket) => socket.destroy()), options)

/**
 * Fails if the service cannot listen on one of its ports. With `REUSE_PORT`, the API port is not checked: other
 * processes may be serving on it, and the kernel would route some of their connections to the check.
 */
export const requireFreePorts = Effect.gen(function* () {
  const [metricsPort, adminPort] = [yield* MetricsPortConfig, yield* AdminPortConfig]
  const reusesPort = yield* ReusePortConfig
  const attempts: ReadonlyArray<ListenOptions> = [
    ...(reusesPort ? [] : [{ host: yield* HostConfig, port: yield* PortConfig }]),
    ...(Option.isSome(metricsPort) ? [{ host: yield* MetricsHostConfig, port: metricsPort.value }] : []),
    ...(Option.isSome(adminPort) && !reusesPort ? [{ host: yield* AdminHostConfig, port: adminPort.value }] : []),
  ]
  yield* Effect.forEach(attempts, tryToListen)
}).pipe(Effect.scoped)

/** Returns a shell expression that expands to the key in the file. */
const formatKeyFromFile = Effect.fnUntraced(function* (file: string) {
  const path = yield* Path.Path
  // npm and Deno change the working directory, but the user's shell is still in the directory where it ran the command.
  const relative = path.relative(process.env["INIT_CWD"] ?? "", file)
  const shorter = relative.startsWith("..") ? file : relative
  return `$(cat ${/^[\w./-]+$/.test(shorter) ? shorter : `'${shorter.replaceAll("'", `'\\''`)}'`})`
})

/**
 * Returns a link that opens the lineage explorer with the demo key, which `site/browser/key-link.js` reads from the
 * link. Returns a link only if the output is a terminal, because other output is often logged, and only if nobody on
 * another machine could use the key.
 */
const findExplorerLink = Effect.fnUntraced(function* (baseUrl: string, demoKeyFile: Option.Option<string>) {
  const fs = yield* FileSystem.FileSystem
  const isPrivate = isLoopback(yield* HostConfig) && isLoopback(new URL(baseUrl).hostname)
  const isShown = (yield* stdoutCapabilities).isTerminal && (yield* LogFormatConfig) === "pretty"
  if (!isPrivate || !isShown || Option.isNone(demoKeyFile)) return Option.none<string>()
  const key = (yield* fs.readFileString(demoKeyFile.value)).trim()
  return Option.some(`${baseUrl}${getPagePath("explorer")}#key=${key}&symbol=OSTK`)
})

interface GreetingParts {
  readonly baseUrl: string
  /**
   * A shell expression that expands to the demo key. The key itself must not be printed, because output that does not
   * go to a terminal is often logged.
   */
  readonly demoKey: Option.Option<string>
  readonly explorerLink: Option.Option<string>
  readonly adminOrigin: Option.Option<string>
}

/** Returns the text that `serve` prints when it is ready: addresses, and an example request. */
const formatGreeting = ({ adminOrigin, baseUrl, demoKey, explorerLink }: GreetingParts) =>
  [
    `Tickerline is running at ${baseUrl}`,
    ...(Option.isSome(explorerLink) ? [`See a lineage: ${explorerLink.value} (contains the demo key)`] : []),
    `Documentation: ${baseUrl}${documentationPath}`,
    ...(Option.isSome(adminOrigin)
      ? [`Console: ${adminOrigin.value}${homePath} (the first sign-in: ${tickerlineCommand} admin invite --name NAME)`]
      : []),
    "Try it:",
    `  curl -H "Authorization: Bearer ${
      Option.getOrElse(demoKey, () => "<key>")
    }" "${baseUrl}/v1/ticker-changes?ticker=BYON"`,
    ...(Option.isSome(demoKey)
      ? []
      : [`Create a key with: ${tickerlineCommand} keys create --account NAME --tier basic`]),
  ].join("\n")

/**
 * Applies migrations, and prepares an embedded database for its first start. Returns the path of the demo key file, if
 * any.
 */
const prepareDatabase = Effect.gen(function* () {
  yield* requireSynchronizedClock
  yield* withDirectConnection(Migrations.runMigrations)
  yield* recordAuditedSettings(yield* customerSettings)
  const { folder } = yield* EmbeddedHomeDirectory
  return Option.isSome(folder) ? yield* FirstStart.prepareFirstStart(folder.value) : Option.none<string>()
})

/**
 * Serves until interrupted. Then waits for the shutdown delay, completes the open requests, and closes the database.
 */
export const serveUntilInterrupted = Effect.gen(function* () {
  const baseUrl = yield* apiBaseUrl
  const delay = yield* ShutdownDelayConfig
  // The HTTP server reads this state with every request. It is set at the stop signal, so that `/health/ready` reports
  // "not ready" while requests are still served during the delay.
  const shutdown = { begun: false }
  const demoKeyFile = yield* withProgressDisplay(prepareDatabase)
  yield* startServer({ host: yield* HostConfig, port: yield* PortConfig, reusePort: yield* ReusePortConfig }).pipe(
    Effect.provideService(BaseUrl, baseUrl),
    Effect.provideService(ShutdownState, shutdown),
  )
  const demoKey = yield* Effect.transposeOption(Option.map(demoKeyFile, formatKeyFromFile))
  const hasConsole = Option.isSome(yield* AdminPortConfig)
  yield* Console.log(formatGreeting({
    baseUrl,
    demoKey,
    explorerLink: yield* findExplorerLink(baseUrl, demoKeyFile),
    adminOrigin: hasConsole ? yield* AdminOriginConfig : Option.none(),
  }))
  // After the delay, the scope closes. This stops the server, which completes the open requests, and then everything
  // that was started before it.
  return yield* Effect.onInterrupt(Effect.never, () => {
    shutdown.begun = true
    return Effect.sleep(delay)
  })
}).pipe(Effect.scoped)

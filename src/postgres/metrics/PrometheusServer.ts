/** Serves `/metrics` for Prometheus on a separate port, if `METRICS_PORT` is set. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Effect, Layer, Option } from "effect"
import { HttpMiddleware, HttpRouter } from "effect/http"
import { PrometheusMetrics } from "effect/observability"
import { createServer } from "node:http"
import { MetricsHostConfig, MetricsPortConfig } from "./MetricsSettings.ts"
import * as Process from "./ProcessMetrics.ts"

const makeServer = (host: string, port: number) => {
  const server = createServer()
  // Without this, a connection that never completes a request would delay every shutdown.
  const closeConnections = Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))
  return Layer.effectDiscard(closeConnections).pipe(
    Layer.provideMerge(
      HttpRouter.serve(PrometheusMetrics.layerHttp(), { disableLogger: true, disableListenLog: true }),
    ),
    Layer.merge(Process.layer),
    Layer.provide(NodeHttpServer.layer(() => server, { host, port })),
    Layer.provide(Layer.succeed(HttpMiddleware.TracerDisabledWhen, () => true)),
  )
}

/** Starts the metrics server. Does nothing if `METRICS_PORT` is not set. */
export const layer = Layer.unwrap(Effect.gen(function* () {
  const port = yield* MetricsPortConfig
  const host = yield* MetricsHostConfig
  return Option.match(port, { onNone: () => Layer.empty, onSome: (port) => makeServer(host, port) })
}))

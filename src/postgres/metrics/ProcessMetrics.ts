/** Metrics about this process, under the names that Prometheus client libraries use. */
import { Effect, Layer } from "effect"
import { monitorEventLoopDelay } from "node:perf_hooks"
import process from "node:process"
import packageJson from "../../../package.json" with { type: "json" }
import { registerCounter, registerGauge } from "./CallbackMetrics.ts"

const nanosPerSecond = 1e9

/** Registers metrics for the version, memory, CPU time and event loop delay. */
export const layer = Layer.effectDiscard(Effect.gen(function* () {
  const started = Date.now() / 1000
  const delay = monitorEventLoopDelay({ resolution: 20 })
  delay.enable()
  yield* Effect.addFinalizer(() => Effect.sync(() => delay.disable()))

  yield* registerGauge({
    name: "tickerline_info",
    description: "Always 1. The label is the version of the service.",
    attributes: { version: packageJson.version },
    read: () => 1,
  })
  yield* registerGauge({
    name: "process_start_time_seconds",
    description: "Start time of the process, in seconds since 1970.",
    read: () => started,
  })
  yield* registerGauge({
    name: "process_resident_memory_bytes",
    description: "Resident memory.",
    read: () => process.memoryUsage.rss(),
  })
  yield* registerGauge({
    name: "nodejs_heap_size_used_bytes",
    description: "Used part of the JavaScript heap.",
    read: () => process.memoryUsage().heapUsed,
  })
  yield* registerCounter({
    name: "process_cpu_seconds_total",
    description: "CPU time of all threads.",
    read: () => {
      const { system, user } = process.cpuUsage()
      return (system + user) / 1e6
    },
  })
  yield* registerGauge({
    name: "nodejs_eventloop_lag_p99_seconds",
    description: "99th percentile of the event loop delay since the previous scrape.",
    read: () => {
      const lag = delay.percentile(99) / nanosPerSecond
      delay.reset()
      return lag
    },
  })
}))

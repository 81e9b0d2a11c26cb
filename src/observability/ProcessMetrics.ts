/** What the process itself takes, under the names that dashboards know from elsewhere. */
import { Effect, Layer } from "effect"
import { monitorEventLoopDelay } from "node:perf_hooks"
import process from "node:process"
import packageJson from "../../package.json" with { type: "json" }
import { registerCounter, registerGauge } from "./CallbackMetrics.ts"

const nanoseconds = 1e9

export const layer = Layer.effectDiscard(Effect.gen(function* () {
  const started = Date.now() / 1000
  const delay = monitorEventLoopDelay({ resolution: 20 })
  delay.enable()
  yield* Effect.addFinalizer(() => Effect.sync(() => delay.disable()))

  yield* registerGauge({
    name: "tickerline_info",
    description: "1, with the version of the service.",
    attributes: { version: packageJson.version },
    read: () => 1,
  })
  yield* registerGauge({
    name: "process_start_time_seconds",
    description: "When the service began, in seconds since 1970.",
    read: () => started,
  })
  yield* registerGauge({
    name: "process_resident_memory_bytes",
    description: "Memory that the process holds.",
    read: () => process.memoryUsage.rss(),
  })
  yield* registerGauge({
    name: "nodejs_heap_size_used_bytes",
    description: "What of it JavaScript's objects take.",
    read: () => process.memoryUsage().heapUsed,
  })
  yield* registerCounter({
    name: "process_cpu_seconds_total",
    description: "CPU time used, of all threads.",
    read: () => {
      const { system, user } = process.cpuUsage()
      return (system + user) / 1e6
    },
  })
  yield* registerGauge({
    name: "nodejs_eventloop_lag_p99_seconds",
    description: "The longest that 99 of 100 turns of the event loop waited since the last time this was read.",
    read: () => {
      const lag = delay.percentile(99) / nanoseconds
      delay.reset()
      return lag
    },
  })
}))

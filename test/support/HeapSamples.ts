/** Measures the memory of separate service processes, whose heap is not affected by other tests. */
import { Effect, Schedule } from "effect"
import type { RunningProcess } from "./Processes.ts"

/**
 * Returns a module to `--import` into a process. The process then prints the value of `expression` as JSON whenever it
 * receives SIGUSR2.
 */
export const printOnSignal = (expression: string) =>
  `data:text/javascript,${
    encodeURIComponent(`
      import { getHeapSpaceStatistics } from "node:v8"
      import { constants, PerformanceObserver } from "node:perf_hooks"
      let compactions = 0
      new PerformanceObserver((list) => {
        for (const { detail } of list.getEntries()) compactions += detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR
      }).observe({ entryTypes: ["gc"] })
      process.on("SIGUSR2", () => setImmediate(() => console.error("sample=" + JSON.stringify(${expression}))))
    `)
  }`

/** Sends SIGUSR2 to a process started with `printOnSignal`. Returns the value that the process prints. */
export const takeHeapSample = Effect.fnUntraced(function* ({ child, output }: RunningProcess) {
  const before = output.err.length
  child.kill("SIGUSR2")
  const printed = Effect.suspend(() => {
    const [, sample] = /sample=(.*)\n/.exec(output.err.slice(before)) ?? []
    return sample === undefined ? Effect.fail("not yet") : Effect.succeed(JSON.parse(sample) as unknown)
  })
  return yield* Effect.retry(printed, { schedule: Schedule.spaced("20 millis"), times: 1_000 })
})

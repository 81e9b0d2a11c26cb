/** Measures for how long a process does not return to its event loop. */
import { createHistogram, type RecordableHistogram } from "node:perf_hooks"

/** How late a timer of the process fired, in milliseconds: the 99.9th percentile, and the maximum. */
export interface EventLoopDelay {
  readonly p999: number
  readonly max: number
}

const intervalMillis = 1
const nanosPerMilli = 1e6

export const readDelay = (delays: RecordableHistogram): EventLoopDelay => ({
  p999: delays.percentile(99.9) / nanosPerMilli,
  max: delays.count === 0 ? 0 : delays.max / nanosPerMilli,
})

/**
 * Records how late a timer fires. It is a timer of our own, because `monitorEventLoopDelay` sees no delays on Deno, and
 * with `samplePerIteration` none of the time in which Node handles sockets. Returns what was recorded since the last
 * call.
 */
export const watchEventLoop = () => {
  let delays = createHistogram()
  let last = performance.now()
  setInterval(() => {
    const now = performance.now()
    delays.record(Math.max(1, Math.round((now - last - intervalMillis) * nanosPerMilli)))
    last = now
  }, intervalMillis).unref()
  return () => {
    const found = delays
    delays = createHistogram()
    return found
  }
}

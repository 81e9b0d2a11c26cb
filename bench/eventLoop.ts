/** Measures how long the event loop of a process is blocked. */
import { createHistogram, type RecordableHistogram } from "node:perf_hooks"

/** How late the process's timers fired, in milliseconds: the 99.9th percentile and the maximum. */
export interface EventLoopDelay {
  readonly p999: number
  readonly max: number
}

const intervalMillis = 1
const nanosPerMilli = 1e6

/** Converts a histogram of delays in nanoseconds. */
export const readDelay = (delays: RecordableHistogram): EventLoopDelay => ({
  p999: delays.percentile(99.9) / nanosPerMilli,
  max: delays.count === 0 ? 0 : delays.max / nanosPerMilli,
})

/**
 * Continuously records how late a timer fires. Returns a function that returns the delays recorded since its last call.
 *
 * `monitorEventLoopDelay` is not suitable: on Deno it does not detect delays, and with `samplePerIteration` it misses
 * the time that Node spends handling sockets.
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

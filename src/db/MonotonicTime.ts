/** Monotonic time, for measuring durations: unlike the wall clock, it never jumps back. */
import { Clock, Effect } from "effect"

/** A function that reads the monotonic clock, in milliseconds. Tests control it with `TestClock`. */
export const monotonicMillis = Effect.map(
  Clock.Clock,
  (clock) => () => Number(clock.monotonicTimeNanosUnsafe()) / 1_000_000,
)

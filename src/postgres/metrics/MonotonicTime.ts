/** Monotonic time, for measuring durations. Unlike the wall clock, it cannot be set back. */
import { Clock, Effect } from "effect"

/** Reads the monotonic clock, in milliseconds. `TestClock` drives it in tests. */
export const getMonotonicMillis = (clock: Clock.Clock) => Number(clock.monotonicTimeNanosUnsafe()) / 1_000_000

/** Makes the function that reads the monotonic clock, in milliseconds. */
export const makeMonotonicClock = Effect.map(Clock.Clock, (clock) => () => getMonotonicMillis(clock))

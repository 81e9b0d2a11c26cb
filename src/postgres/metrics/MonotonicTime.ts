/** Monotonic time, for measuring durations. Unlike the wall clock, it is never set back. */
import { Clock, Effect } from "effect"

/** Returns the monotonic time in milliseconds. In tests, `TestClock` controls it. */
export const getMonotonicMillis = (clock: Clock.Clock) => Number(clock.monotonicTimeNanosUnsafe()) / 1_000_000

/** Creates a function that returns the monotonic time in milliseconds. */
export const makeMonotonicClock = Effect.map(Clock.Clock, (clock) => () => getMonotonicMillis(clock))

/**
 * Retry delays that survive a restart. The number of attempts is stored, so no running fiber needs to keep the state of
 * the schedule.
 */
import { Duration, Effect, Pull, Schedule } from "effect"

/**
 * Returns how long `Effect.retry` would wait after the given number of failed attempts under this schedule, or
 * undefined if it would give up.
 */
export const getRetryDelay = <Error, Env>(
  schedule: Schedule.Schedule<unknown, unknown, Error, Env>,
  attempts: number,
): Effect.Effect<Duration.Duration | undefined, Error, Env> =>
  Effect.gen(function* () {
    const step = yield* Schedule.toStep(schedule)
    let delay = Duration.zero
    for (let attempt = 1; attempt <= attempts; attempt += 1) [, delay] = yield* step(0, undefined)
    return delay
  }).pipe(Pull.catchDone(() => Effect.succeed(undefined)))

/** Returns a schedule that starts with the delay `first`, doubles it up to `longest`, and never ends. */
export const doublingSchedule = (first: Duration.Input, longest: Duration.Input) =>
  Schedule.min([Schedule.exponential(first), Schedule.spaced(longest)])

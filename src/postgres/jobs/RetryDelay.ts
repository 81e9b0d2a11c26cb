/**
 * Delays between attempts that continue after a restart: the number of attempts is stored, so no fiber holds the
 * schedule.
 */
import { Duration, Effect, Pull, Schedule } from "effect"

/**
 * Returns how long `Effect.retry` would wait under the schedule after this many failures, or undefined if it would give
 * up.
 */
export const delayAfter = <Error, Env>(
  schedule: Schedule.Schedule<unknown, unknown, Error, Env>,
  attempts: number,
): Effect.Effect<Duration.Duration | undefined, Error, Env> =>
  Effect.gen(function* () {
    const step = yield* Schedule.toStep(schedule)
    let delay = Duration.zero
    for (let attempt = 1; attempt <= attempts; attempt += 1) [, delay] = yield* step(0, undefined)
    return delay
  }).pipe(Pull.catchDone(() => Effect.succeed(undefined)))

/** Starts with `first`, doubles up to `longest`, and never ends. */
export const doublingSchedule = (first: Duration.Input, longest: Duration.Input) =>
  Schedule.min([Schedule.exponential(first), Schedule.spaced(longest)])

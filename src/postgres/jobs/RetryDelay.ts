/** The delays between tries whose number is stored, because the tries go on after a restart. */
import { Duration, Effect, Pull, Schedule } from "effect"

/** Returns what `Effect.retry` waits with the schedule after so many failed attempts. Undefined if it gives up. */
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

/** Doubles the delay from `first` to `longest`, and never ends. */
export const doublingSchedule = (first: Duration.Input, longest: Duration.Input) =>
  Schedule.min([Schedule.exponential(first), Schedule.spaced(longest)])

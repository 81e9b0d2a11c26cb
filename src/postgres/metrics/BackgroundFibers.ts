/** Helpers for background loops without tracing, and for finalizers in which timeouts work. */
import { type Duration, Effect, Fiber } from "effect"

/** Forks an effect that belongs to no request. The effect runs without tracing until the scope closes. */
export const forkUntraced = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.forkScoped(Effect.withTracerEnabled(effect, false))

/** Runs an effect repeatedly in the background, with a pause before each run. Stops when the scope closes. */
export const repeatInBackground = <A, E, R>(effect: Effect.Effect<A, E, R>, pause: Duration.Duration) =>
  forkUntraced(Effect.forever(Effect.delay(effect, pause)))

/** Adds a finalizer that runs in a separate fiber. Timeouts have no effect in the fiber that closes the scope. */
export const addForkedFinalizer = <A, E, R>(finalizer: Effect.Effect<A, E, R>) =>
  Effect.addFinalizer(() => Effect.flatMap(Effect.forkDetach(finalizer), Fiber.await))

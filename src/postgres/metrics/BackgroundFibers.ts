/** Starts background loops without tracing, and finalizers in which timeouts work. */
import { type Duration, Effect, Fiber } from "effect"

/** Forks an effect that belongs to no request. It runs untraced until the scope closes. */
export const forkUntraced = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.forkScoped(Effect.withTracerEnabled(effect, false))

/** Runs an effect repeatedly in the background, with a pause before each run. */
export const repeatInBackground = <A, E, R>(effect: Effect.Effect<A, E, R>, pause: Duration.Duration) =>
  forkUntraced(Effect.forever(Effect.delay(effect, pause)))

/**
 * Adds a finalizer that runs in a fiber of its own, because timeouts have no effect in the fiber that closes the scope.
 */
export const addForkedFinalizer = <A, E, R>(finalizer: Effect.Effect<A, E, R>) =>
  Effect.addFinalizer(() => Effect.flatMap(Effect.forkDetach(finalizer), Fiber.await))

/**
 * Functions that continue synchronously when an effect's result is already available. A request that never has to wait,
 * such as one that is answered from the response cache, then needs no fiber.
 */
import { Effect, Exit } from "effect"

/** Returns whether the effect's result is already available, which means that the effect is an `Exit`. */
export const isSettled = <A, E, R>(effect: Effect.Effect<A, E, R>): effect is Exit.Exit<A, E> => Exit.isExit(effect)

/**
 * Like `Effect.flatMap`, but calls `next` immediately if the result is already available. In that case, exceptions
 * thrown by `next` are not caught.
 */
export const flatMapSync = <A, E, R, B, E2, R2>(
  effect: Effect.Effect<A, E, R>,
  next: (value: A) => Effect.Effect<B, E2, R2>,
): Effect.Effect<B, E | E2, R | R2> => {
  if (!isSettled(effect)) return Effect.flatMap(effect, next)
  return Exit.isSuccess(effect) ? next(effect.value) : Exit.failCause(effect.cause)
}

/**
 * Like `Effect.map`, but calls `change` immediately if the result is already available. In that case, exceptions thrown
 * by `change` are not caught.
 */
export const mapSync = <A, E, R, B>(
  effect: Effect.Effect<A, E, R>,
  change: (value: A) => B,
): Effect.Effect<B, E, R> => isSettled(effect) ? Exit.map(effect, change) : Effect.map(effect, change)

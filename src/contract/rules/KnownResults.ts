/** Continues with known results at once, so that a request that does not have to wait needs no fiber. */
import { Effect, Exit } from "effect"

/** Whether the result of an effect is known. */
export const isKnown = <A, E, R>(effect: Effect.Effect<A, E, R>): effect is Exit.Exit<A, E> => Exit.isExit(effect)

/** Like `Effect.flatMap`, but calls `next` at once if the result is known. It does not catch exceptions of `next`. */
export const flatMapKnown = <A, E, R, B, E2, R2>(
  effect: Effect.Effect<A, E, R>,
  next: (value: A) => Effect.Effect<B, E2, R2>,
): Effect.Effect<B, E | E2, R | R2> => {
  if (!isKnown(effect)) return Effect.flatMap(effect, next)
  return Exit.isSuccess(effect) ? next(effect.value) : Exit.failCause(effect.cause)
}

/** Like `Effect.map`, but calls `change` at once if the result is known. It does not catch exceptions of `change`. */
export const mapKnown = <A, E, R, B>(
  effect: Effect.Effect<A, E, R>,
  change: (value: A) => B,
): Effect.Effect<B, E, R> => isKnown(effect) ? Exit.map(effect, change) : Effect.map(effect, change)

/** Interrupts effects between two of their operations, as a disconnecting client may. */
import { Array, Effect, Fiber, References } from "effect"

/** Operations after which a fiber yields. */
const maxOperations = 100

/** More operations than the effects of these tests have. */
export const operationCounts = Array.range(1, 50)

/** Starts an effect in a fiber that yields after about this number of its operations. */
const startUntil = <A, E, R>(effect: Effect.Effect<A, E, R>, operations: number) => {
  let delayed: Effect.Effect<A, E, R> = Effect.suspend(() => effect)
  for (let left = maxOperations - operations; left > 0; left -= 1) {
    const next = delayed
    delayed = Effect.suspend(() => next)
  }
  return Effect.forkChild(Effect.provideService(delayed, References.MaxOpsBeforeYield, maxOperations), {
    startImmediately: true,
  })
}

/** Starts an effect again and again, so that it yields once after each operation. Then `test` receives its fiber. */
export const yieldAfterEachOperation = <A, E, R, E2, R2>(
  effect: (operations: number) => Effect.Effect<A, E, R>,
  test: (fiber: Fiber.Fiber<A, E>, operations: number) => Effect.Effect<void, E2, R2>,
) =>
  Effect.forEach(
    operationCounts,
    (operations) => Effect.flatMap(startUntil(effect(operations), operations), (fiber) => test(fiber, operations)),
    { discard: true },
  )

/** Interrupts an effect once after each of its operations. `check` runs after each interruption. */
export const interruptAfterEachOperation = <A, E, R, E2, R2>(
  effect: (operations: number) => Effect.Effect<A, E, R>,
  check: (operations: number) => Effect.Effect<void, E2, R2>,
) => yieldAfterEachOperation(effect, (fiber, operations) => Effect.andThen(Fiber.interrupt(fiber), check(operations)))

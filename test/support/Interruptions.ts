/** Interrupts effects between any two of their operations, as a disconnecting client may. */
import { Array, Deferred, Effect, Fiber, References } from "effect"

/** The number of operations after which a fiber always yields. */
const maxOperations = 100

/** Operation counts from 1 to 50, which is more operations than the effects in these tests have. */
export const operationCounts = Array.range(1, 50)

/** Starts an effect in a fiber that yields after about `operations` operations. */
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

/**
 * Runs an effect many times, so that it yields after one operation, then after two, and so on. Each time it yields,
 * passes its fiber to `test`.
 */
export const yieldAfterEachOperation = <A, E, R, E2, R2>(
  effect: (operations: number) => Effect.Effect<A, E, R>,
  test: (fiber: Fiber.Fiber<A, E>, operations: number) => Effect.Effect<void, E2, R2>,
) =>
  Effect.forEach(
    operationCounts,
    (operations) => Effect.flatMap(startUntil(effect(operations), operations), (fiber) => test(fiber, operations)),
    { discard: true },
  )

/** Interrupts an effect once after each of its operations. Runs `check` after each interruption. */
export const interruptAfterEachOperation = <A, E, R, E2, R2>(
  effect: (operations: number) => Effect.Effect<A, E, R>,
  check: (operations: number) => Effect.Effect<void, E2, R2>,
) => yieldAfterEachOperation(effect, (fiber, operations) => Effect.andThen(Fiber.interrupt(fiber), check(operations)))

/**
 * Waits for a signal from a fiber that is about to be interrupted or killed. If the fiber ends without the signal,
 * fails with the fiber's result, because the test would otherwise wait until its timeout.
 */
export const awaitWhileRunning = <A, E>(signal: Deferred.Deferred<void>, fiber: Fiber.Fiber<A, E>) =>
  Effect.raceFirst(
    Deferred.await(signal),
    Effect.flatMap(Fiber.await(fiber), (exit) => Effect.die(new Error(`The fiber ended too early: ${String(exit)}`))),
  )

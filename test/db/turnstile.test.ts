import { assert, describe, it } from "@effect/vitest"
import { Deferred, Duration, Effect, Exit, Fiber } from "effect"
import { turnstile } from "../../src/db/Turnstile.ts"

const refusal = "too long" as const

/** Effects that say when they begin, and end when they are told. */
const visits = Effect.fnUntraced(function* (count: number) {
  const began: Array<number> = []
  const ends = yield* Effect.all(Array.from({ length: count }, () => Deferred.make<void>()))
  const visit = (number: number) =>
    Effect.andThen(
      Effect.sync(() => began.push(number)),
      Effect.suspend(() => Deferred.await(ends[number] ?? Deferred.makeUnsafe<void>())),
    )
  const end = (number: number) =>
    Effect.suspend(() => Deferred.succeed(ends[number] ?? Deferred.makeUnsafe<void>(), undefined))
  return { began, end, visit }
})

describe("Turnstile", () => {
  it.effect("§8 as many at once as there are places, the others in the order in which they came", () =>
    Effect.gen(function* () {
      const { through } = turnstile(2, Duration.seconds(5), () => refusal)
      const { began, end, visit } = yield* visits(5)
      const fibers = yield* Effect.all(
        [0, 1, 2, 3].map((number) => Effect.forkChild(through(visit(number)), { startImmediately: true })),
      )
      assert.deepStrictEqual(began, [0, 1])
      yield* end(1)
      yield* Effect.yieldNow
      assert.deepStrictEqual(began, [0, 1, 2])
      // Who comes now does not overtake who waits.
      const late = yield* Effect.forkChild(through(visit(4)), { startImmediately: true })
      yield* end(0)
      yield* Effect.yieldNow
      assert.deepStrictEqual(began, [0, 1, 2, 3])
      yield* Effect.forEach([2, 3, 4], end)
      yield* Effect.forEach([...fibers, late], Fiber.join)
      assert.deepStrictEqual(began, [0, 1, 2, 3, 4])
    }))

  it.effect("§8 places come back from those who fail, are interrupted inside or go away while they wait", () =>
    Effect.gen(function* () {
      const { through } = turnstile(1, Duration.seconds(5), () => refusal)
      assert.isTrue(Exit.isFailure(yield* Effect.exit(through(Effect.fail("no")))))
      assert.isTrue(Exit.isFailure(yield* Effect.exit(through(Effect.die("no")))))
      const inside = yield* Effect.forkChild(through(Effect.never), { startImmediately: true })
      const waiting = yield* Effect.forkChild(through(Effect.never), { startImmediately: true })
      yield* Fiber.interrupt(waiting)
      yield* Fiber.interrupt(inside)
      assert.strictEqual(yield* through(Effect.succeed("in")), "in")
    }))

  it.live("§7.2 who waits for too long is refused, and those behind go on", () =>
    Effect.gen(function* () {
      const { through } = turnstile(1, Duration.millis(50), () => refusal)
      const inside = yield* Effect.forkChild(through(Effect.never), { startImmediately: true })
      assert.strictEqual(yield* Effect.flip(through(Effect.void)), refusal)
      yield* Fiber.interrupt(inside)
      assert.strictEqual(yield* through(Effect.succeed("in")), "in")
    }))
})

import { assert, describe, it } from "@effect/vitest"
import { Deferred, Duration, Effect, Exit, Fiber, Schema } from "effect"
import { makePoolQueue } from "../../../src/db/pool/PoolQueue.ts"

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

/** What a visitor does; one that comes, in which lane. */
const Step = Schema.Struct({
  does: Schema.Literals(["come", "come", "leave", "give up"]),
  lane: Schema.Literals(["a", "b", "c"]),
})

describe("Turnstile", () => {
  it.effect("§8 as many at once as there are places, the others in the order in which they came", () =>
    Effect.gen(function* () {
      const { through } = makePoolQueue(2, Duration.seconds(5), () => refusal)
      const { began, end, visit } = yield* visits(5)
      const fibers = yield* Effect.all(
        [0, 1, 2, 3].map((number) => Effect.forkChild(through("a")(visit(number)), { startImmediately: true })),
      )
      assert.deepStrictEqual(began, [0, 1])
      yield* end(1)
      yield* Effect.yieldNow
      assert.deepStrictEqual(began, [0, 1, 2])
      // Who comes now does not overtake who waits.
      const late = yield* Effect.forkChild(through("a")(visit(4)), { startImmediately: true })
      yield* end(0)
      yield* Effect.yieldNow
      assert.deepStrictEqual(began, [0, 1, 2, 3])
      yield* Effect.forEach([2, 3, 4], end)
      yield* Effect.forEach([...fibers, late], Fiber.join)
      assert.deepStrictEqual(began, [0, 1, 2, 3, 4])
    }))

  it.effect("§8 places come back from those who fail, are interrupted inside or go away while they wait", () =>
    Effect.gen(function* () {
      const { through } = makePoolQueue(1, Duration.seconds(5), () => refusal)
      assert.isTrue(Exit.isFailure(yield* Effect.exit(through("a")(Effect.fail("no")))))
      assert.isTrue(Exit.isFailure(yield* Effect.exit(through("a")(Effect.die("no")))))
      const inside = yield* Effect.forkChild(through("a")(Effect.never), { startImmediately: true })
      const waiting = yield* Effect.forkChild(through("a")(Effect.never), { startImmediately: true })
      yield* Fiber.interrupt(waiting)
      yield* Fiber.interrupt(inside)
      assert.strictEqual(yield* through("a")(Effect.succeed("in")), "in")
    }))

  it.live("§7.2 who waits for too long is refused, and those behind go on", () =>
    Effect.gen(function* () {
      const { through } = makePoolQueue(1, Duration.millis(50), () => refusal)
      const inside = yield* Effect.forkChild(through("a")(Effect.never), { startImmediately: true })
      assert.strictEqual(yield* Effect.flip(through("a")(Effect.void)), refusal)
      yield* Fiber.interrupt(inside)
      assert.strictEqual(yield* through("a")(Effect.succeed("in")), "in")
    }))

  it.effect("§7.2 one lane leaves a fifth of the places to the others, whoever came first", () =>
    Effect.gen(function* () {
      const { inside, through, waiting } = makePoolQueue(5, Duration.seconds(5), () => refusal)
      const busy = yield* Effect.all(
        Array.from({ length: 7 }, () => Effect.forkChild(through("a")(Effect.never), { startImmediately: true })),
      )
      assert.deepStrictEqual([inside(), waiting()], [4, 3])
      assert.strictEqual(yield* through("b")(Effect.succeed("in")), "in")
      assert.deepStrictEqual([inside(), waiting()], [4, 3])
      for (const fiber of busy) yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual([inside(), waiting()], [0, 0])
    }))

  it.effect.prop(
    "§7.2 whoever comes, leaves and gives up, and when: places are never exceeded, and all are used by who may",
    { steps: Schema.Array(Step) },
    ({ steps }) =>
      Effect.gen(function* () {
        const places = 5
        const { inside, through, waiting } = makePoolQueue(places, Duration.seconds(5), () => refusal)
        const visits: Array<{ readonly lane: string; readonly end: Deferred.Deferred<void>; began: boolean }> = []
        const fibers: Array<Fiber.Fiber<void, typeof refusal>> = []
        for (const { does, lane } of steps) {
          if (does === "come") {
            const visit = { lane, end: yield* Deferred.make<void>(), began: false }
            visits.push(visit)
            const stay = Effect.suspend(() => {
              visit.began = true
              return Deferred.await(visit.end)
            })
            fibers.push(yield* Effect.forkChild(through(visit.lane)(stay), { startImmediately: true }))
          } else {
            const at = visits.findIndex(({ began }) => began === (does === "leave"))
            const [visit] = at < 0 ? [] : visits.splice(at, 1)
            const [fiber] = at < 0 ? [] : fibers.splice(at, 1)
            if (visit === undefined || fiber === undefined) continue
            if (does === "leave") yield* Effect.andThen(Deferred.succeed(visit.end, undefined), Fiber.await(fiber))
            else yield* Fiber.interrupt(fiber)
            yield* Effect.yieldNow
          }
          const began = visits.filter((visit) => visit.began)
          assert.strictEqual(inside(), began.length)
          assert.strictEqual(waiting(), visits.length - began.length)
          assert.isAtMost(began.length, places)
          for (const lane of ["a", "b", "c"]) {
            const [has, wants] = [true, false].map((is) =>
              visits.filter((visit) => visit.lane === lane && visit.began === is).length
            )
            assert.isAtMost(has ?? 0, places - 1)
            assert.isTrue(wants === 0 || has === places - 1 || began.length === places, "nobody waits without a reason")
          }
        }
        for (const fiber of fibers) yield* Fiber.interrupt(fiber)
        assert.deepStrictEqual([inside(), waiting()], [0, 0])
      }),
  )
})

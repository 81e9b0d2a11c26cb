/** The queue for pool connections: order, timeouts, and limits for each partition (§7.2, §8). */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Duration, Effect, Exit, Fiber, Schema } from "effect"
import { TestClock } from "effect/testing"
import { makePoolQueue } from "../../../src/db/pool/PoolQueue.ts"

const timedOut = "timed out" as const

const makeQueue = (permits: number) =>
  makePoolQueue({ permits, timeout: Duration.seconds(5), onTimeout: () => timedOut })

/** Makes numbered tasks. Each records its start, and ends when `end` is called. */
const makeTasks = Effect.fnUntraced(function* (count: number) {
  const started: Array<number> = []
  const ends = yield* Effect.all(Array.from({ length: count }, () => Deferred.make<void>()))
  const task = (number: number) =>
    Effect.andThen(
      Effect.sync(() => started.push(number)),
      Effect.suspend(() => Deferred.await(ends[number] ?? Deferred.makeUnsafe<void>())),
    )
  const end = (number: number) =>
    Effect.suspend(() => Deferred.succeed(ends[number] ?? Deferred.makeUnsafe<void>(), undefined))
  return { started, end, task }
})

/** Lists "start" twice, so that more tasks start than end, and a queue forms. */
const Step = Schema.Struct({
  action: Schema.Literals(["start", "start", "end", "give up"]),
  partition: Schema.Literals(["a", "b", "c"]),
})

describe("The pool queue", () => {
  it.effect("runs as many effects at once as it has permits, and later effects in arrival order (§8)", () =>
    Effect.gen(function* () {
      const { withPermit } = yield* makeQueue(2)
      const { end, started, task } = yield* makeTasks(5)
      const fibers = yield* Effect.all(
        [0, 1, 2, 3].map((number) => Effect.forkChild(withPermit("a")(task(number)), { startImmediately: true })),
      )
      assert.deepStrictEqual(started, [0, 1])
      yield* end(1)
      yield* Effect.yieldNow
      assert.deepStrictEqual(started, [0, 1, 2])
      // A new caller does not overtake a waiter.
      const late = yield* Effect.forkChild(withPermit("a")(task(4)), { startImmediately: true })
      yield* end(0)
      yield* Effect.yieldNow
      assert.deepStrictEqual(started, [0, 1, 2, 3])
      yield* Effect.forEach([2, 3, 4], end)
      yield* Effect.forEach([...fibers, late], Fiber.join)
      assert.deepStrictEqual(started, [0, 1, 2, 3, 4])
    }))

  it.effect("returns permits after failures, defects, and interruption while running or waiting (§8)", () =>
    Effect.gen(function* () {
      const { withPermit } = yield* makeQueue(1)
      assert.isTrue(Exit.isFailure(yield* Effect.exit(withPermit("a")(Effect.fail("no")))))
      assert.isTrue(Exit.isFailure(yield* Effect.exit(withPermit("a")(Effect.die("no")))))
      const running = yield* Effect.forkChild(withPermit("a")(Effect.never), { startImmediately: true })
      const waiting = yield* Effect.forkChild(withPermit("a")(Effect.never), { startImmediately: true })
      yield* Fiber.interrupt(waiting)
      yield* Fiber.interrupt(running)
      assert.strictEqual(yield* withPermit("a")(Effect.succeed("done")), "done")
    }))

  it.effect("fails a waiter at its timeout, and serves the waiters behind it (§7.2)", () =>
    Effect.gen(function* () {
      const { waiterCount, withPermit } = yield* makeQueue(1)
      const running = yield* Effect.forkChild(withPermit("a")(Effect.never), { startImmediately: true })
      const first = yield* Effect.forkChild(Effect.flip(withPermit("a")(Effect.void)), { startImmediately: true })
      yield* TestClock.adjust("4 seconds")
      const second = yield* Effect.forkChild(withPermit("a")(Effect.succeed("done")), { startImmediately: true })
      assert.strictEqual(waiterCount(), 2)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* Fiber.join(first), timedOut)
      assert.strictEqual(waiterCount(), 1)
      yield* Fiber.interrupt(running)
      assert.strictEqual(yield* Fiber.join(second), "done")
    }))

  it.effect("fails a waiter at once if the timeout is zero (§7.2)", () =>
    Effect.gen(function* () {
      const queue = yield* makePoolQueue({ permits: 1, timeout: Duration.zero, onTimeout: () => timedOut })
      const running = yield* Effect.forkChild(queue.withPermit("a")(Effect.never), { startImmediately: true })
      for (const _ of [1, 2]) assert.strictEqual(yield* Effect.flip(queue.withPermit("a")(Effect.void)), timedOut)
      yield* Fiber.interrupt(running)
      assert.strictEqual(yield* queue.withPermit("a")(Effect.succeed("done")), "done")
    }))

  it.effect("keeps a scoped permit until the scope closes (§7.2)", () =>
    Effect.gen(function* () {
      const { acquireScoped, permitsInUse, withPermit } = yield* makeQueue(1)
      yield* Effect.scoped(Effect.gen(function* () {
        yield* acquireScoped("a")
        assert.strictEqual(permitsInUse(), 1)
        const waiter = yield* Effect.forkChild(Effect.scoped(acquireScoped("a")), { startImmediately: true })
        yield* Fiber.interrupt(waiter)
        assert.strictEqual(permitsInUse(), 1)
      }))
      assert.strictEqual(permitsInUse(), 0)
      assert.strictEqual(yield* withPermit("a")(Effect.succeed("done")), "done")
    }))

  it.effect("lets one partition take at most four fifths of the permits (§7.2)", () =>
    Effect.gen(function* () {
      const { permitsInUse, waiterCount, withPermit } = yield* makeQueue(5)
      const fibers = yield* Effect.all(
        Array.from({ length: 7 }, () => Effect.forkChild(withPermit("a")(Effect.never), { startImmediately: true })),
      )
      assert.deepStrictEqual([permitsInUse(), waiterCount()], [4, 3])
      assert.strictEqual(yield* withPermit("b")(Effect.succeed("done")), "done")
      assert.deepStrictEqual([permitsInUse(), waiterCount()], [4, 3])
      for (const fiber of fibers) yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual([permitsInUse(), waiterCount()], [0, 0])
    }))

  it.effect.prop(
    "never exceeds its permits, and lets no effect wait while a permit is free, for any order of events (§7.2)",
    { steps: Schema.Array(Step) },
    ({ steps }) =>
      Effect.gen(function* () {
        const permits = 5
        const { permitsInUse, waiterCount, withPermit } = yield* makeQueue(permits)
        const tasks: Array<{ readonly partition: string; readonly end: Deferred.Deferred<void>; isRunning: boolean }> =
          []
        const fibers: Array<Fiber.Fiber<void, typeof timedOut>> = []
        for (const { action, partition } of steps) {
          if (action === "start") {
            const task = { partition, end: yield* Deferred.make<void>(), isRunning: false }
            tasks.push(task)
            const run = Effect.suspend(() => {
              task.isRunning = true
              return Deferred.await(task.end)
            })
            fibers.push(yield* Effect.forkChild(withPermit(task.partition)(run), { startImmediately: true }))
          } else {
            const index = tasks.findIndex(({ isRunning }) => isRunning === (action === "end"))
            const [task] = index < 0 ? [] : tasks.splice(index, 1)
            const [fiber] = index < 0 ? [] : fibers.splice(index, 1)
            if (task === undefined || fiber === undefined) continue
            if (action === "end") yield* Effect.andThen(Deferred.succeed(task.end, undefined), Fiber.await(fiber))
            else yield* Fiber.interrupt(fiber)
            yield* Effect.yieldNow
          }
          const running = tasks.filter(({ isRunning }) => isRunning)
          assert.strictEqual(permitsInUse(), running.length)
          assert.strictEqual(waiterCount(), tasks.length - running.length)
          assert.isAtMost(running.length, permits)
          for (const partition of ["a", "b", "c"]) {
            const [runningHere, waitingHere] = [true, false].map((isRunning) =>
              tasks.filter((task) => task.partition === partition && task.isRunning === isRunning).length
            )
            assert.isAtMost(runningHere ?? 0, permits - 1)
            const mustWait = runningHere === permits - 1 || running.length === permits
            assert.isTrue(waitingHere === 0 || mustWait, "a task waits although a permit is free")
          }
        }
        for (const fiber of fibers) yield* Fiber.interrupt(fiber)
        assert.deepStrictEqual([permitsInUse(), waiterCount()], [0, 0])
      }),
  )
})

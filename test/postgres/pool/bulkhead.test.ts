/**
 * Tests the bulkhead that limits connections: its order, timeouts, partition shares and cost per operation (§7.2, §8).
 */
import { assert, describe, it, vi } from "@effect/vitest"
import { Deferred, Duration, Effect, Exit, Fiber, Schema } from "effect"
import { TestClock } from "effect/testing"
import { makeBulkhead, makePermits } from "../../../src/postgres/pool/Bulkhead.ts"
import { ListItem } from "../../../src/postgres/pool/LinkedList.ts"
import { interruptAfterEachOperation, operationCounts, yieldAfterEachOperation } from "../../support/Interruptions.ts"

const timedOut = "timed out" as const

/** Creates a bulkhead. The default timeout is five seconds. */
const makeQueue = (permits: number, timeout = Duration.seconds(5)) =>
  makeBulkhead({ permits: makePermits(permits), timeout, onTimeout: () => timedOut })

/** Creates numbered tasks. Each task records its start and runs until `end` is called for its number. */
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

/** A random event. "start" is twice as likely as the other events, so more tasks start than end and a queue forms. */
const Step = Schema.Struct({
  action: Schema.Literals(["start", "start", "end", "give up"]),
  partition: Schema.Literals(["a", "b", "c"]),
})

describe("The bulkhead", () => {
  it.effect("runs as many effects at once as it has permits, and later effects in arrival order (§8)", () =>
    Effect.gen(function* () {
      const { withPermit } = yield* makeBulkhead({
        permits: makePermits(2),
        maxPerPartition: 2,
        timeout: Duration.seconds(5),
        onTimeout: () => timedOut,
      })
      const { end, started, task } = yield* makeTasks(5)
      const fibers = yield* Effect.all(
        [0, 1, 2, 3].map((number) => Effect.forkChild(withPermit("a")(task(number)), { startImmediately: true })),
      )
      assert.deepStrictEqual(started, [0, 1])
      yield* end(1)
      yield* Effect.yieldNow
      assert.deepStrictEqual(started, [0, 1, 2])
      // A caller that arrives later does not overtake a waiting one.
      const late = yield* Effect.forkChild(withPermit("a")(task(4)), { startImmediately: true })
      yield* end(0)
      yield* Effect.yieldNow
      assert.deepStrictEqual(started, [0, 1, 2, 3])
      yield* Effect.forEach([2, 3, 4], end)
      yield* Effect.forEach([...fibers, late], Fiber.join)
      assert.deepStrictEqual(started, [0, 1, 2, 3, 4])
    }))

  it.effect("ends the wait of a caller in time, whatever other callers do between two of its operations (§7.2)", () =>
    Effect.gen(function* () {
      const makeFullQueue = Effect.gen(function* () {
        const queue = yield* makeQueue(1)
        // Once there are a hundred partitions, adding another makes the bulkhead remove idle ones.
        for (let number = 0; number < 98; number += 1) yield* queue.use(`idle ${number}`, () => Effect.void)
        yield* Effect.forkChild(queue.use("holder", () => Effect.never), { startImmediately: true })
        return queue
      })
      const queues = yield* Effect.all(operationCounts.map(() => makeFullQueue))
      yield* yieldAfterEachOperation(
        (operations) => queues[operations - 1]?.use("first", () => Effect.void) ?? Effect.die("No queue"),
        Effect.fnUntraced(function* (first, operations) {
          const { use, waiterCount } = queues[operations - 1] ?? (yield* makeFullQueue)
          const second = yield* Effect.forkChild(use("second", () => Effect.void), { startImmediately: true })
          yield* TestClock.adjust("1 hour")
          for (const waiter of [first, second]) {
            assert.deepStrictEqual(waiter.pollUnsafe(), Exit.fail(timedOut), `after ${operations} operations`)
          }
          assert.strictEqual(waiterCount(), 0)
        }),
      )
    }))

  it.effect("keeps no permit and no waiter of a caller that is interrupted at any operation (§7.2)", () =>
    Effect.gen(function* () {
      const { acquireScoped, permitsInUse, use, waiterCount } = yield* makeQueue(1)
      const assertEmpty = (held: number) => () =>
        Effect.sync(() => assert.deepStrictEqual([permitsInUse(), waiterCount()], [held, 0]))
      const callers = [() => use("a", () => Effect.never), () => Effect.scoped(acquireScoped("a"))]
      for (const caller of callers) yield* interruptAfterEachOperation(caller, assertEmpty(0))
      yield* Effect.forkChild(use("b", () => Effect.never), { startImmediately: true })
      for (const caller of callers) yield* interruptAfterEachOperation(caller, assertEmpty(1))
    }))

  it.effect("lets the partitions take turns, so that many waiters of one do not delay those of another (§8)", () =>
    Effect.gen(function* () {
      const { withPermit } = yield* makeQueue(1)
      const { end, started, task } = yield* makeTasks(6)
      const partitions = ["a", "a", "a", "a", "b", "b"]
      const inTurns = [0, 4, 1, 5, 2, 3]
      const fibers = yield* Effect.all(
        partitions.map((partition, number) =>
          Effect.forkChild(withPermit(partition)(task(number)), { startImmediately: true })
        ),
      )
      for (const number of inTurns) {
        yield* end(number)
        yield* Effect.yieldNow
      }
      yield* Effect.forEach(fibers, Fiber.join)
      assert.deepStrictEqual(started, inTurns)
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
      const queue = yield* makeQueue(1, Duration.zero)
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

  for (const [permits, share] of [[1, 1], [2, 1], [3, 2], [4, 3], [9, 8], [10, 8]] as const) {
    it.effect(`lets one partition take at most ${share} of ${permits} permits (§7.2)`, () =>
      Effect.gen(function* () {
        const { permitsInUse, withPermit } = yield* makeQueue(permits)
        const start = (partition: string) =>
          Effect.forkChild(withPermit(partition)(Effect.never), { startImmediately: true })
        yield* Effect.forEach(Array.from({ length: permits }), () => start("a"))
        assert.strictEqual(permitsInUse(), share)
        yield* start("b")
        assert.strictEqual(permitsInUse(), Math.min(permits, share + 1))
      }))
  }

  it.effect("waits as long as it takes in an unlimited partition, which may use all permits (§8)", () =>
    Effect.gen(function* () {
      const { makeUnlimitedPartition, permitsInUse, use } = yield* makeQueue(2)
      const partition = makeUnlimitedPartition()
      const run = (effect: Effect.Effect<string>) =>
        Effect.forkChild(use(partition, () => effect), { startImmediately: true })
      const running = [yield* run(Effect.never), yield* run(Effect.never)]
      assert.strictEqual(permitsInUse(), 2)
      const waiting = yield* run(Effect.succeed("done"))
      yield* TestClock.adjust("1 hour")
      assert.isUndefined(waiting.pollUnsafe())
      yield* Effect.forEach(running, Fiber.interrupt)
      assert.strictEqual(yield* Fiber.join(waiting), "done")
    }))

  it.effect("returns a permit with the same number of operations to 10 and to 5,000 waiters (§8)", () =>
    Effect.gen(function* () {
      let operations = 0
      /** A list item that counts how often its properties are read or set. */
      class CountedItem<Self> extends ListItem<Self> {
        constructor() {
          super()
          return new Proxy(this, {
            get: (target, name, receiver) => {
              operations += 1
              return Reflect.get(target, name, receiver)
            },
            set: (target, name, value, receiver) => {
              operations += 1
              return Reflect.set(target, name, value, receiver)
            },
          })
        }
      }
      vi.doMock(import("../../../src/postgres/pool/LinkedList.ts"), async (load) => ({
        ...await load(),
        ListItem: CountedItem,
      }))
      vi.resetModules()
      yield* Effect.addFinalizer(() => Effect.sync(() => vi.doUnmock("../../../src/postgres/pool/LinkedList.ts")))
      const counted = yield* Effect.promise(() => import("../../../src/postgres/pool/Bulkhead.ts"))

      /**
       * Counts the operations needed for five releases while `waiters` callers are waiting, spread over `partitions`
       * partitions.
       */
      const countReleases = Effect.fnUntraced(function* (waiters: number, partitions: number) {
        const { waiterCount, withPermit } = yield* counted.makeBulkhead({
          permits: counted.makePermits(2),
          timeout: Duration.seconds(5),
          onTimeout: () => timedOut,
        })
        const { end, started, task } = yield* makeTasks(waiters)
        for (let number = 0; number < waiters; number++) {
          yield* Effect.forkChild(withPermit(`${number % partitions}`)(task(number)), { startImmediately: true })
        }
        // Yields, so the fiber that times out overdue waiters can begin its sleep.
        yield* TestClock.adjust("1 millis")
        operations = 0
        for (let release = 0; release < 5; release++) {
          yield* end(started[release] ?? 0)
          yield* Effect.yieldNow
        }
        assert.isAbove(waiterCount(), 0)
        return operations
      })

      for (const isShared of [true, false]) {
        const [few, many] = [10, 5_000]
        const operationsOfFew = yield* countReleases(few, isShared ? 1 : few)
        assert.isAbove(operationsOfFew, 10)
        assert.strictEqual(yield* countReleases(many, isShared ? 1 : many), operationsOfFew)
      }
    }).pipe(Effect.scoped))

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

/** Tests background jobs: each runs in only one process at a time, and another process takes over within seconds. */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, describe, it, layer } from "@effect/vitest"
import {
  Arbitrary,
  Context,
  Data,
  Duration,
  Effect,
  Exit,
  Fiber,
  Layer,
  Logger,
  Option,
  Redacted,
  Schedule,
  Schema,
  Scope,
} from "effect"
import { TestClock } from "effect/testing"
import { SqlClient } from "effect/sql"
import { databaseClientLayer } from "../../../src/postgres/pool/PooledClient.ts"
import { HealthProbe } from "../../../src/postgres/health/HealthProbe.ts"
import type { Job, JobLease } from "../../../src/postgres/jobs/Job.ts"
import { makeJobLeaseStatements } from "../../../src/postgres/jobs/JobLease.ts"
import { jobRunnerLayer, makeJobRetrySchedule } from "../../../src/postgres/jobs/JobRunner.ts"
import { doublingSchedule, getRetryDelay } from "../../../src/postgres/jobs/RetryDelay.ts"
import { startTcpProxy } from "../../support/TcpProxy.ts"
import * as Service from "../../support/Service.ts"
import { paceWorkload } from "../../support/Pauses.ts"

// @module-tag waiting

class DatabaseUrl extends Context.Service<DatabaseUrl, string>()("test/postgres/jobs/DatabaseUrl") {}

const base = Layer.unwrap(
  Effect.map(
    Service.copyMigratedDatabase,
    (url) =>
      Layer.merge(
        databaseClientLayer({ url, applicationName: "tickerline-test" }),
        Layer.succeed(DatabaseUrl, Redacted.value(url)),
      ),
  ),
).pipe(
  Layer.provideMerge(Layer.mergeAll(NodeServices.layer, NodeCrypto.layer)),
)

class TestFailure extends Data.TaggedError("TestFailure")<{ readonly message: string }> {}

/** A single run of a job. */
interface Run {
  readonly worker: string
  readonly at: number
}

/**
 * Starts a job runner that behaves like another process: it has a separate lease holder, and a proxy that the test can
 * stall.
 */
const startWorker = Effect.fnUntraced(function* (
  name: string,
  runs: Array<Run>,
  work: (lease: JobLease) => Effect.Effect<Duration.Duration | void, TestFailure> = () => Effect.void,
  jobName = "test",
) {
  const url = new URL(yield* DatabaseUrl)
  const proxy = yield* startTcpProxy(Number(url.port))
  url.port = String(proxy.port)
  let [interrupted, lease]: [number, JobLease | undefined] = [0, undefined]
  const job: Job<never, never> = {
    name: jobName,
    every: Duration.millis(20),
    prepare: (ownLease) => {
      lease = ownLease
      const recordRun = Effect.sync(() => {
        if (ownLease.isHeld()) runs.push({ worker: name, at: performance.now() })
      })
      return Effect.succeed(
        Option.some(Effect.onInterrupt(Effect.andThen(recordRun, work(ownLease)), () =>
          Effect.sync(() => {
            interrupted += 1
          }))),
      )
    },
  }
  const scope = yield* Effect.acquireRelease(Scope.make(), (scope) => Scope.close(scope, Exit.void))
  yield* Layer.buildWithScope(
    Layer.fresh(jobRunnerLayer([job])).pipe(
      Layer.provide(Layer.fresh(HealthProbe.layer)),
      Layer.provide(databaseClientLayer({ url: Redacted.make(url.href), applicationName: name })),
      Layer.provide(Logger.layer([])),
    ),
    scope,
  )
  return {
    proxy,
    end: Scope.close(scope, Exit.void),
    isHeld: () => lease?.isHeld() === true,
    interrupted: () => interrupted,
  }
})

const waitUntil = (expectation: string, condition: () => boolean) =>
  Effect.sync(condition).pipe(
    Effect.filterOrFail((isMet) => isMet, () => `timed out waiting until ${expectation}`),
    Effect.retry({ schedule: Schedule.spaced("10 millis"), times: 2_000 }),
  )

/** Asserts that no worker runs again after another one has taken over, so each worker takes over at most once. */
const assertNoOverlap = (runs: ReadonlyArray<Run>) =>
  assert.deepStrictEqual(
    runs.filter(({ worker }, index) => index > 0 && runs[index - 1]?.worker !== worker).map(({ worker }) => worker),
    Array.from(new Set(runs.map(({ worker }) => worker))).slice(1),
  )

layer(base, { excludeTestServices: true, timeout: "90 seconds" })("A background job", (it) => {
  it.effect("runs in one of two processes, and in the other as soon as the first shuts down (operations/deployment)", () =>
    Effect.gen(function* () {
      const runs: Array<Run> = []
      const first = yield* startWorker("first", runs)
      yield* waitUntil("the first worker runs", () => runs.length > 5)
      const second = yield* startWorker("second", runs)
      yield* waitUntil("the first worker has run often", () => runs.length > 100)
      assert.deepStrictEqual(new Set(runs.map(({ worker }) => worker)), new Set(["first"]))
      assert.isFalse(second.isHeld())
      yield* first.end
      yield* waitUntil("the second worker runs", () => runs.at(-1)?.worker === "second")
      assertNoOverlap(runs)
      yield* second.end
    }).pipe(Effect.scoped))

  it.effect("stops in a disconnected process before another process takes over (operations/deployment)", () =>
    Effect.gen(function* () {
      const runs: Array<Run> = []
      const first = yield* startWorker("first", runs, () => paceWorkload("10 millis"))
      yield* waitUntil("the first worker runs", () => runs.length > 5)
      const second = yield* startWorker("second", runs)
      yield* first.proxy.stall
      yield* waitUntil("the second worker runs", () => runs.at(-1)?.worker === "second")
      assert.isFalse(first.isHeld())
      assertNoOverlap(runs)
      const [last, next] = [
        runs.findLast(({ worker }) => worker === "first"),
        runs.find(({ worker }) => worker === "second"),
      ]
      assert.isAbove((next?.at ?? 0) - (last?.at ?? 0), 500)
      yield* first.proxy.resume
      const seen = runs.length
      yield* waitUntil("the second worker has run often", () => runs.length > seen + 50)
      assert.isFalse(first.isHeld(), "the first worker does not run while the second holds the lease")
      yield* second.end
      yield* waitUntil("the first worker runs again", () => runs.at(-1)?.worker === "first")
    }).pipe(Effect.scoped))

  it.effect("interrupts a run when the lease is lost (operations/deployment)", () =>
    Effect.gen(function* () {
      const runs: Array<Run> = []
      const first = yield* startWorker("first", runs, () => Effect.never, "long")
      yield* waitUntil("the worker runs", () => runs.length === 1)
      const sql = yield* SqlClient.SqlClient
      yield* sql`update leases set holder = gen_random_uuid(), until = now() + interval '1 minute' where name = 'long'`
      yield* waitUntil("the run is interrupted", () => first.interrupted() === 1)
      assert.isFalse(first.isHeld())
    }).pipe(Effect.scoped))

  it.effect("does not start a run again while the lease cannot be renewed (operations/deployment)", () =>
    Effect.gen(function* () {
      const runs: Array<Run> = []
      const first = yield* startWorker("first", runs, () => Effect.never, "stalled")
      yield* waitUntil("the first worker runs", () => runs.length === 1)
      yield* startWorker("second", runs, () => Effect.never, "stalled")
      yield* first.proxy.stall
      yield* waitUntil("the second worker runs", () => runs.at(-1)?.worker === "second")
      assert.deepStrictEqual([first.interrupted(), runs.length], [1, 2])
    }).pipe(Effect.scoped))

  it.effect("runs in another process after its holder has released the lease (operations/deployment)", () =>
    Effect.gen(function* () {
      const runs: Array<Run> = []
      yield* startWorker("first", runs, () => Effect.succeed(Duration.minutes(1)), "left")
      yield* waitUntil("the first worker has run", () => runs.length === 1)
      yield* startWorker("second", runs, undefined, "left")
      yield* waitUntil("the second worker runs", () => runs.at(-1)?.worker === "second")
      assert.strictEqual(runs.filter(({ worker }) => worker === "first").length, 1)
    }).pipe(Effect.scoped))

  it.effect("runs again after a failure or a defect (operations/deployment)", () =>
    Effect.gen(function* () {
      const runs: Array<Run> = []
      yield* startWorker("first", runs, () =>
        runs.length === 1
          ? Effect.fail(new TestFailure({ message: "no" }))
          : runs.length === 2
          ? Effect.die(new Error("worse"))
          : Effect.void, "failing")
      yield* waitUntil("the job runs again", () =>
        runs.length > 3)
    }).pipe(Effect.scoped))

  it.effect("has one lease holder among many processes, and the holder condition is true only for that process (operations/deployment)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const competitors = Array.from({ length: 20 }, () => makeJobLeaseStatements(sql, crypto.randomUUID()))
      yield* Effect.forEach(competitors, ({ declare }) => declare(["raced"]), { concurrency: "unbounded" })
      const taken = yield* Effect.forEach(competitors, ({ take }) => take(["raced", "unknown"]), {
        concurrency: "unbounded",
      })
      assert.deepStrictEqual(taken.flat(), ["raced"])
      const held = yield* Effect.forEach(
        competitors,
        ({ holderCondition }) =>
          Effect.map(
            sql<{ readonly yes: boolean }>`select ${holderCondition("raced")} as yes`,
            ([row]) => row?.yes === true,
          ),
      )
      assert.deepStrictEqual(held, taken.map((names) => names.length === 1))
    }))

  it.effect("names PostgreSQL's reason in the log if a statement failed (operations/monitoring)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const logged: Array<string> = []
      const job: Job<never, never> = {
        name: "failing",
        every: Duration.millis(20),
        prepare: () => Effect.succeed(Option.some(Effect.asVoid(sql`select 1 / 0`))),
      }
      yield* Layer.build(
        Layer.fresh(jobRunnerLayer([job])).pipe(
          Layer.provide(Layer.fresh(HealthProbe.layer)),
          Layer.provide(databaseClientLayer({ url: Redacted.make(yield* DatabaseUrl), applicationName: "failing" })),
          Layer.provide(Logger.layer([Logger.make(({ message }) => logged.push(String(message)))])),
        ),
      )
      yield* waitUntil("the failure is logged", () => logged.some((text) => text.includes("division by zero")))
      assert.isTrue(
        logged.some((text) => /The job failing failed and will be retried in .*: division by zero/.test(text)),
      )
    }))
})

const integersUpTo = (maximum: number) => Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum })))

describe("A failed job", () => {
  it.effect.prop("is retried within a minute, and no later than its normal interval (operations/deployment)", [
    integersUpTo(1_000_000),
    integersUpTo(5_000),
  ], ([milliseconds, failures]) =>
    Effect.gen(function* () {
      const schedule = makeJobRetrySchedule(Duration.millis(milliseconds))
      const delay = Duration.toMillis((yield* getRetryDelay(schedule, failures)) ?? Duration.infinity)
      assert.isAtMost(delay, Math.min(milliseconds, 60_000))
      assert.isAtLeast(delay, Math.min(milliseconds, 5_000))
    }))
})

describe("getRetryDelay", () => {
  it.effect.prop(
    "has the delay that retry would wait after as many failures, and none after the last one (decision 0083)",
    [
      integersUpTo(20),
      integersUpTo(20),
    ],
    ([times, failures]) =>
      Effect.gen(function* () {
        const waited: Array<Duration.Duration> = []
        const schedule = Schedule.upTo(doublingSchedule("1 minute", "4 hours"), { times })
        const observed = Schedule.tap(schedule, ({ duration }) => Effect.sync(() => void waited.push(duration)))
        const retried = yield* Effect.forkChild(Effect.retry(Effect.fail("refused"), observed))
        yield* TestClock.adjust("80 hours")
        yield* Effect.flip(Fiber.join(retried))
        assert.lengthOf(waited, times)
        assert.deepStrictEqual(yield* getRetryDelay(schedule, failures), waited[failures - 1])
      }),
  )
})

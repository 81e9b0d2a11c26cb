/** README, jobs: each is done by one process at a time, and taken over within seconds. */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, describe, it, layer } from "@effect/vitest"
import {
  Arbitrary,
  Context,
  Data,
  Duration,
  Effect,
  Exit,
  Layer,
  Logger,
  Option,
  Redacted,
  Schedule,
  Schema,
  Scope,
} from "effect"
import { SqlClient } from "effect/sql"
import { databaseClientLayer } from "../../src/db/Database.ts"
import { HealthProbe } from "../../src/db/health/HealthProbe.ts"
import type { Job, JobLease } from "../../src/jobs/Job.ts"
import * as Jobs from "../../src/jobs/Jobs.ts"
import { makeLeaseStatements } from "../../src/jobs/JobLease.ts"
import { retryDelay } from "../../src/jobs/JobRunner.ts"
import { startTcpProxy } from "../support/TcpProxy.ts"
import * as Service from "../support/Service.ts"

class Url extends Context.Service<Url, string>()("test/Url") {}

const base = Layer.unwrap(
  Effect.map(
    Service.copyMigratedDatabase,
    (url) =>
      Layer.merge(
        databaseClientLayer({ url, applicationName: "tickerline-test" }),
        Layer.succeed(Url, Redacted.value(url)),
      ),
  ),
).pipe(
  Layer.provideMerge(Layer.mergeAll(NodeServices.layer, NodeCrypto.layer)),
)

class Failed extends Data.TaggedError("Failed")<{ readonly message: string }> {}

/** Who did something, and when. */
interface Done {
  readonly who: string
  readonly at: number
}

/** A process of its own as far as the database can tell: its connections go a way that a test lets break. */
const worker = Effect.fnUntraced(function* (
  who: string,
  log: Array<Done>,
  act: (lease: JobLease) => Effect.Effect<Duration.Duration | void, Failed> = () => Effect.void,
  name = "test",
) {
  const url = new URL(yield* Url)
  const way = yield* startTcpProxy(Number(url.port))
  url.port = String(way.port)
  let [interrupted, lease]: [number, JobLease | undefined] = [0, undefined]
  const job: Job<never, never> = {
    name,
    every: Duration.millis(20),
    prepare: (own) => {
      lease = own
      const note = Effect.sync(() => {
        if (own.isHeld()) log.push({ who, at: performance.now() })
      })
      return Effect.succeed(Option.some(Effect.onInterrupt(Effect.andThen(note, act(own)), () =>
        Effect.sync(() => {
          interrupted += 1
        }))))
    },
  }
  const scope = yield* Effect.acquireRelease(Scope.make(), (scope) => Scope.close(scope, Exit.void))
  yield* Layer.buildWithScope(
    Layer.fresh(Jobs.jobsLayer([job])).pipe(
      Layer.provide(Layer.fresh(HealthProbe.layer)),
      Layer.provide(databaseClientLayer({ url: Redacted.make(url.href), applicationName: who })),
      Layer.provide(Logger.layer([])),
    ),
    scope,
  )
  return {
    way,
    end: Scope.close(scope, Exit.void),
    isHeld: () => lease?.isHeld() === true,
    interrupted: () => interrupted,
  }
})

const until = (what: string, holds: () => boolean) =>
  Effect.sync(holds).pipe(
    Effect.filterOrFail((yes) => yes, () => `${what} did not come about`),
    Effect.retry({ schedule: Schedule.spaced("10 millis"), times: 2_000 }),
  )

/** Nobody acts after another began. */
const oneAfterTheOther = (log: ReadonlyArray<Done>) =>
  assert.deepStrictEqual(
    log.filter(({ who }, at) => at > 0 && log[at - 1]?.who !== who).map(({ who }) => who),
    Array.from(new Set(log.map(({ who }) => who))).slice(1),
  )

layer(base, { excludeTestServices: true, timeout: "90 seconds" })("jobs", (it) => {
  it.effect("README, jobs: of two processes one does it; at an orderly end the other one does at once", () =>
    Effect.gen(function* () {
      const log: Array<Done> = []
      const first = yield* worker("first", log)
      yield* until("that the first works", () => log.length > 5)
      const second = yield* worker("second", log)
      yield* until("that the first goes on", () => log.length > 100)
      assert.deepStrictEqual(new Set(log.map(({ who }) => who)), new Set(["first"]))
      assert.isFalse(second.isHeld())
      yield* first.end
      const ended = performance.now()
      yield* until("that the second works", () => log.at(-1)?.who === "second")
      assert.isBelow(performance.now() - ended, 3_000)
      oneAfterTheOther(log)
      yield* second.end
    }).pipe(Effect.scoped))

  it.effect("README, jobs: who is cut off stops by its own clock before another takes over, within seconds", () =>
    Effect.gen(function* () {
      const log: Array<Done> = []
      const first = yield* worker("first", log, () => Effect.sleep("10 millis"))
      yield* until("that the first works", () => log.length > 5)
      const second = yield* worker("second", log)
      yield* first.way.stall
      const stalled = performance.now()
      yield* until("that the second works", () => log.at(-1)?.who === "second")
      const took = performance.now() - stalled
      assert.isBelow(took, 9_000)
      assert.isFalse(first.isHeld())
      oneAfterTheOther(log)
      const [last, next] = [log.findLast(({ who }) => who === "first"), log.find(({ who }) => who === "second")]
      assert.isAbove((next?.at ?? 0) - (last?.at ?? 0), 500)
      yield* first.way.resume
      yield* Effect.sleep("1500 millis")
      assert.isFalse(first.isHeld(), "it does not come back while the other one has it")
      yield* second.end
      yield* until("that the first works again", () => log.at(-1)?.who === "first")
    }).pipe(Effect.scoped))

  it.effect("README, jobs: a run that goes on when the lease is lost is interrupted", () =>
    Effect.gen(function* () {
      const log: Array<Done> = []
      const first = yield* worker("first", log, () => Effect.never, "long")
      yield* until("that it works", () => log.length === 1)
      const sql = yield* SqlClient.SqlClient
      yield* sql`update leases set holder = gen_random_uuid(), until = now() + interval '1 minute' where name = 'long'`
      yield* until("that it is interrupted", () => first.interrupted() === 1)
      assert.isFalse(first.isHeld())
    }).pipe(Effect.scoped))

  it.effect("README, jobs: who cannot do it for now leaves it to another for so long", () =>
    Effect.gen(function* () {
      const log: Array<Done> = []
      yield* worker("first", log, () => Effect.succeed(Duration.minutes(1)), "left")
      yield* until("that the first tried", () => log.length === 1)
      yield* worker("second", log, undefined, "left")
      yield* until("that the second works", () => log.at(-1)?.who === "second")
      assert.strictEqual(log.filter(({ who }) => who === "first").length, 1)
    }).pipe(Effect.scoped))

  it.effect("README, jobs: a run that failed or died is repeated", () =>
    Effect.gen(function* () {
      const log: Array<Done> = []
      yield* worker("first", log, () =>
        log.length === 1
          ? Effect.fail(new Failed({ message: "no" }))
          : log.length === 2
          ? Effect.die(new Error("worse"))
          : Effect.void, "failing")
      yield* until("that it goes on", () =>
        log.length > 3)
    }).pipe(Effect.scoped))

  it.effect("README, jobs: many that ask at once get a lease once, and a statement of the holder's holds for nobody else", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const all = Array.from({ length: 20 }, () => makeLeaseStatements(sql, crypto.randomUUID()))
      yield* Effect.forEach(all, ({ declare }) => declare(["raced"]), { concurrency: "unbounded" })
      const got = yield* Effect.forEach(all, ({ take }) => take(["raced", "unknown"]), { concurrency: "unbounded" })
      assert.deepStrictEqual(got.flat(), ["raced"])
      const held = yield* Effect.forEach(
        all,
        ({ held }) =>
          Effect.map(sql<{ readonly yes: boolean }>`select ${held("raced")} as yes`, ([row]) => row?.yes === true),
      )
      assert.deepStrictEqual(held, got.map((names) => names.length === 1))
    }))
})

const wholes = (maximum: number) => Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum })))

describe("a failed job", () => {
  it.prop("README, jobs: is repeated soon, and never less often than it runs anyway", [
    wholes(1_000_000),
    wholes(5_000),
  ], ([milliseconds, failures]) => {
    const wait = Duration.toMillis(retryDelay(Duration.millis(milliseconds), failures))
    assert.isAtMost(wait, Math.min(milliseconds, 60_000))
    assert.isAtLeast(wait, Math.min(milliseconds, 5_000))
  })
})

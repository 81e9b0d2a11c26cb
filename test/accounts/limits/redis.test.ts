/** D18: how much an account may ask in a minute of several instances over one Redis, which comes and goes. */
import { assert, it } from "@effect/vitest"
import { Array, ConfigProvider, Duration, Effect, Exit, Fiber, Layer, Logger, Schedule, Scope } from "effect"
import * as Redis from "../../../src/accounts/limits/Redis.ts"
import { databaseClientLayer } from "../../../src/db/Database.ts"
import * as Instances from "../../support/ServiceInstances.ts"
import * as Ledger from "../../support/CustomerUsage.ts"
import { makeRedis, named, skipped } from "../../support/Redis.ts"
import * as Service from "../../support/Service.ts"

const { requestJson, valueAt } = Service
const { createCustomer, retryUntil } = Ledger

const free = "/v1/account"

type Answer = Effect.Success<ReturnType<typeof requestJson>>

/** Limit, remaining and reset, as the headers say them. */
const limitsIn = ({ headers }: Answer) =>
  ["limit", "remaining", "reset"].map((name) => headers[`x-ratelimit-${name}`] ?? null)

const statuses = (answers: ReadonlyArray<Answer>) => answers.map(({ status }) => status)

const shared = { RATE_LIMIT_BASIC: "6", RATE_LIMIT_PRO: "1200" }

/** One process of the service, as far as a test can tell: it has nothing in common with another but the database. */
const instance = (database: Effect.Success<typeof Service.copyMigratedDatabase>, REDIS_URL: string) =>
  Layer.build(Layer.fresh(
    Service.serviceLayerOver(databaseClientLayer({ url: database, applicationName: "tickerline-test" })).pipe(
      Layer.provide(Ledger.settingsLayer({ ...shared, REDIS_URL })),
      Layer.provide(Layer.succeed(Redis.Rest, Duration.millis(50))),
    ),
  ))

/** Two instances, and the Redis that they share. */
const pair = Effect.gen(function* () {
  const redis = yield* makeRedis
  yield* redis.start
  const database = yield* Service.copyMigratedDatabase
  const [first, second] = [yield* instance(database, redis.url), yield* instance(database, redis.url)]
  return { redis, database, first, second, both: [first, second] as const }
})

/** What `/health/ready` says of the limits. */
const limitsAt = Effect.map(requestJson("/health/ready", { key: null }), ({ body }) => valueAt(body, "parts", "limits"))

let accounts = 0
const anyone = Effect.suspend(() => createCustomer(`anyone ${++accounts}`))

/** Whether a request to the one is known to the other. */
const together = Effect.fnUntraced(function* ({ first, second }: Effect.Success<typeof pair>) {
  const { key } = yield* Effect.provideContext(anyone, first)
  const remaining = (yield* Effect.forEach(
    [first, second, first],
    (context) => Effect.provideContext(requestJson(free, { key }), context),
  )).map((answer) => limitsIn(answer)[1])
  return remaining.join() === "5,4,3"
})

it.live.skipIf(skipped)(
  named("D18 with Redis what is answered from memory counts in the same way, in whichever instance"),
  () =>
    Effect.scoped(
      Effect.gen(function* () {
        const redis = yield* makeRedis
        yield* redis.start
        const settings = { REDIS_URL: redis.url, RATE_LIMIT_BASIC: "14" }
        const ports = [yield* Instances.startInstance(settings), yield* Instances.startInstance(settings)]
        const { basic } = yield* Service.TestKeys
        // From the fourth time on each of them takes the short way.
        const answers = yield* Effect.forEach(
          Array.range(0, 15),
          (number) => Instances.requestOverWire(ports[number % 2] ?? 0, "/v1/screener", basic),
        )
        assert.deepStrictEqual(answers.map((answer) => answer.status), [...Array.replicate(200, 14), 429, 429])
        const left = answers.map(({ headers }) => Number(headers["x-ratelimit-remaining"]))
        assert.deepStrictEqual(left, [...Array.range(0, 13).toReversed(), 0, 0])
      }).pipe(Effect.provide(Instances.databaseWithKeys)),
    ),
  60_000,
)

it.live.skipIf(skipped)(
  named("D18 with Redis two instances share one count, and refuse alike"),
  () =>
    Effect.scoped(Effect.gen(function* () {
      const { both, first, redis } = yield* pair
      const { account_id, key } = yield* Effect.provideContext(createCustomer("of both"), first)
      const answers: Array<Answer> = []
      for (const context of [...both, ...both, ...both, ...both]) {
        answers.push(yield* Effect.provideContext(requestJson(free, { key }), context))
      }
      assert.deepStrictEqual(answers.map((answer) => limitsIn(answer)[1]), ["5", "4", "3", "2", "1", "0", "0", "0"])
      assert.deepStrictEqual(statuses(answers), [200, 200, 200, 200, 200, 200, 429, 429])
      answers.slice(-2).forEach(({ headers }) => assert.match(headers["retry-after"] ?? "", /^[1-9]\d?$/))
      const other = yield* Effect.provideContext(createCustomer("of one"), first)
      assert.deepStrictEqual(limitsIn(yield* Effect.provideContext(requestJson(free, { key: other.key }), first)), [
        "6",
        "5",
        "10",
      ])

      // Of many at once, to both, exactly as many pass as may.
      const crowd = yield* Effect.provideContext(createCustomer("crowd"), first)
      const many = yield* Effect.forEach(
        Array.range(1, 30),
        (number) => Effect.provideContext(requestJson(free, { key: crowd.key }), both[number % 2 === 0 ? 0 : 1]),
        { concurrency: "unbounded" },
      )
      assert.strictEqual(many.filter(({ status }) => status === 200).length, 6)
      assert.strictEqual(many.filter(({ status }) => status === 429).length, 24)

      // Redis knows numbers of accounts, for a minute at most, and nothing of keys.
      const kept = yield* redis.command("KEYS *")
      assert.include(kept, `tickerline:rate:${account_id}\r\n`)
      for (const secret of [key, other.key, crowd.key]) assert.notInclude(kept, secret.slice(8, 20))
      const time = Number(/^:(\d+)/.exec(yield* redis.command(`PTTL tickerline:rate:${account_id}`))?.[1])
      assert.isTrue(time > 0 && time <= 60_000, String(time))
    })),
)

it.live.skipIf(skipped)(
  named("D18 with Redis the count is over when its time is"),
  () =>
    Effect.scoped(Effect.gen(function* () {
      const { first, second } = yield* pair
      const { key } = yield* Effect.provideContext(createCustomer("quick", { tier: "pro" }), first)
      const remaining = (context: typeof first) =>
        Effect.map(Effect.provideContext(requestJson(free, { key }), context), (answer) => Number(limitsIn(answer)[1]))
      // Each takes a twentieth of a second of the minute; at once, so that the first is not over before the last.
      const sent = yield* Effect.forEach(Array.range(1, 8), () => remaining(first), { concurrency: "unbounded" })
      assert.isBelow(Math.min(...sent), 1199)
      const left = yield* Effect.repeat(remaining(second), {
        until: (number) => number === 1199,
        schedule: Schedule.spaced("150 millis"),
        times: 100,
      })
      assert.strictEqual(left, 1199)
    })),
)

it.live.skipIf(skipped)(
  named("D18 with Redis gone or silent: PostgreSQL counts for all, and nobody waits; it counts again once it is back"),
  () =>
    Effect.scoped(Effect.gen(function* () {
      const instances = yield* pair
      const { both, first, redis } = instances
      const faults = [{ away: redis.kill, back: redis.start }, { away: redis.pause, back: redis.resume }]
      yield* Effect.addFinalizer(() => redis.resume)
      for (const { away, back } of faults) {
        assert.isTrue(yield* together(instances))
        yield* away
        // The first request that Redis does not answer waits for it, the others do not.
        const { key } = yield* Effect.provideContext(anyone, first)
        const answers = yield* Effect.forEach(
          [...both, ...both, ...both, ...both],
          (context) => Effect.timeout(Effect.provideContext(requestJson(free, { key }), context), "3 seconds"),
        )
        assert.deepStrictEqual(answers.map((answer) => limitsIn(answer)[1]), ["5", "4", "3", "2", "1", "0", "0", "0"])
        assert.deepStrictEqual(statuses(answers).slice(-2), [429, 429])
        for (const context of both) assert.strictEqual(yield* Effect.provideContext(limitsAt, context), "alone")
        yield* back
        for (const context of both) {
          assert.strictEqual(yield* retryUntil(Effect.provideContext(limitsAt, context), (said) => said === "ok"), "ok")
        }
      }
      assert.isTrue(yield* together(instances))
      assert.match(yield* redis.command("KEYS *"), /tickerline:rate:\d/)
    })),
  60_000,
)

it.live.skipIf(skipped)(
  named("D18 with Redis away at the start: the service starts, PostgreSQL counts for all, and Redis once it is there"),
  () =>
    Effect.scoped(Effect.gen(function* () {
      const redis = yield* makeRedis
      const database = yield* Service.copyMigratedDatabase
      const [first, second] = [yield* instance(database, redis.url), yield* instance(database, redis.url)]
      const both = [first, second] as const
      const instances = { redis, database, first, second, both }
      assert.isTrue(yield* together(instances))
      assert.strictEqual(yield* Effect.provideContext(limitsAt, first), "alone")
      yield* redis.start
      for (const context of both) {
        assert.strictEqual(yield* retryUntil(Effect.provideContext(limitsAt, context), (said) => said === "ok"), "ok")
      }
      assert.isTrue(yield* together(instances))
      assert.match(yield* redis.command("KEYS *"), /tickerline:rate:\d/)
    })),
  60_000,
)

/** What the service knows of the Redis at the address. */
const known = (url: string, rest: Duration.Input = "50 millis") =>
  Redis.shared.pipe(
    Effect.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ REDIS_URL: url }))),
    Effect.provideService(Redis.Rest, Duration.fromInputUnsafe(rest)),
    Effect.provide(Logger.layer([])),
  )

const isUsed = (redis: Effect.Success<ReturnType<typeof known>>) => Effect.sync(() => redis?.store() !== undefined)

it.live.skipIf(skipped)(
  named("D18 with Redis that does not let the service count: it is away until it does"),
  () =>
    Effect.scoped(Effect.gen(function* () {
      const redis = yield* makeRedis
      yield* redis.startWith("--requirepass", "right")
      const command = (text: string) => redis.command(`AUTH right\r\n${text}`)
      yield* command("ACL SETUSER limited on >right ~* +@all -eval -evalsha")
      const address = (user: string) => `redis://${user}@127.0.0.1:${redis.port}`
      for (const user of [":wrong", "limited:right", "nobody:right"]) {
        assert.isFalse(yield* isUsed(yield* known(address(user))), user)
      }
      const used = yield* known(address(":right"))
      assert.isTrue(yield* isUsed(used))
      for (
        const [why, away, back] of [
          ["READONLY: another one was made the primary", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"],
          ["OOM: it has no memory left", "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"],
          ["NOPERM: it was forbidden", "ACL SETUSER default -eval -evalsha", "ACL SETUSER default +@all"],
        ] as const
      ) {
        yield* command(away)
        const doubted = Effect.andThen(Effect.sync(() => used?.doubt()), isUsed(used))
        assert.isFalse(yield* retryUntil(doubted, (is) => !is), why)
        yield* command(back)
        assert.isTrue(yield* retryUntil(isUsed(used), (is) => is), `not any more: ${why}`)
      }
    })),
  60_000,
)

it.live.skipIf(skipped)(
  named(
    "D18 with Redis that comes and goes: it counts again after its rest, so that no limit begins anew at each turn",
  ),
  () =>
    Effect.scoped(Effect.gen(function* () {
      const redis = yield* makeRedis
      yield* redis.start
      const used = yield* known(redis.url, "2 seconds")
      yield* redis.kill
      yield* retryUntil(Effect.andThen(Effect.sync(() => used?.doubt()), isUsed(used)), (is) => !is)
      const since = performance.now()
      yield* redis.start
      assert.isTrue(yield* retryUntil(isUsed(used), (is) => is))
      assert.isAtLeast(performance.now() - since, 1_900)
    })),
  60_000,
)

it.live.skipIf(skipped)(
  named("D18 with Redis gone or silent: a process that is told to stop does not wait for it"),
  () =>
    Effect.scoped(Effect.gen(function* () {
      const { database, first, redis } = yield* pair
      for (
        const { away, back } of [{ away: redis.kill, back: redis.start }, { away: redis.pause, back: redis.resume }]
      ) {
        const scope = yield* Scope.make()
        const third = yield* Scope.provide(instance(database, redis.url), scope)
        const { key } = yield* Effect.provideContext(anyone, first)
        const status = Effect.map(Effect.provideContext(requestJson(free, { key }), third), (answer) => answer.status)
        assert.strictEqual(yield* status, 200)
        yield* away
        // What this asks of Redis is not answered by the time of the stop either.
        assert.strictEqual(yield* status, 200)
        const stop = yield* Effect.forkChild(Scope.close(scope, Exit.void))
        const stopped = yield* Effect.exit(Effect.timeout(Fiber.await(stop), "5 seconds"))
        yield* back
        assert.isTrue(Exit.isSuccess(stopped), "it stops by itself")
        yield* Fiber.join(stop)
      }
    })),
)

/** D18: how much an account may ask of several processes that share a PostgreSQL and nothing else. */
import { assert, it, layer } from "@effect/vitest"
import { Array, Context, Effect, Layer, Logger, Redacted, Schedule, Schema } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient } from "effect/sql"
import * as Leases from "../../../src/accounts/limits/RateLimiter.ts"
import { databaseClientLayer } from "../../../src/db/Database.ts"
import * as Instances from "../../support/ServiceInstances.ts"
import { findKeyIds, retryUntil } from "../../support/CustomerUsage.ts"
import { startTcpProxy } from "../../support/TcpProxy.ts"
import * as Service from "../../support/Service.ts"

/** What a process counts by; each has a connection of its own. */
const counter = Effect.provide(Leases.make, Layer.merge(Reactivity.layer, Logger.layer([])))

type Counter = Effect.Success<typeof counter>

const over = (url: Redacted.Redacted) => databaseClientLayer({ url, applicationName: "tickerline-test" })

const database = Layer.unwrap(Effect.map(Service.copyMigratedDatabase, over))

/** How many of so many requests at once pass. */
const passed = (by: Counter, account: string, limit: number, requests: number) =>
  Effect.map(
    Effect.forEach(Array.range(1, requests), () => by.consume(account, limit), { concurrency: "unbounded" }),
    (told) => told.filter(([number]) => number <= limit).length,
  )

const left = (by: Counter, account: string, limit: number) =>
  Effect.map(by.consume(account, limit), ([number]) => limit - number)

const Step = Schema.Struct({
  at: Schema.Literals([0, 1, 2]),
  requests: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 60 })),
  /** Whether what follows waits for it. */
  first: Schema.Boolean,
})
const Steps = Schema.Array(Step).check(Schema.isMinLength(1), Schema.isMaxLength(12))
const Limit = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 400 }))

let accounts = 0
/** An account whose window is open for longer than any test takes, however slow the machine is. */
const account = Effect.gen(function* () {
  const whose = String(1_000_000 + ++accounts)
  yield* open(whose)
  return whose
})

const open = Effect.fnUntraced(function* (whose: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    insert into rate_limits (account_id, began_at, ends_at, used, given)
    values (${whose}::text::bigint, now(), now() + interval '10 minutes', 0, 0)
  `
})

const sumOf = (numbers: ReadonlyArray<number>) => numbers.reduce((sum, number) => sum + number, 0)

class Three extends Context.Service<Three, readonly [Counter, Counter, Counter]>()("test/Three") {
  static readonly layer = Layer.effect(Three, Effect.all([counter, counter, counter])).pipe(
    Layer.provideMerge(database),
  )
}

layer(Three.layer, { excludeTestServices: true, timeout: "60 seconds" })("three processes", (it) => {
  it.effect.prop(
    "D18 three processes, asked in any order, let as many requests of a minute pass as the limit says",
    [Limit, Steps],
    ([limit, steps]) =>
      Effect.gen(function* () {
        const three = yield* Three
        const whose = yield* account
        let sum = 0
        const meanwhile: Array<Effect.Effect<number, unknown>> = []
        for (const { at, first, requests } of steps) {
          const some = passed(three[at], whose, limit, requests)
          if (first) sum += yield* some
          else meanwhile.push(some)
        }
        sum += sumOf(yield* Effect.all(meanwhile, { concurrency: "unbounded" }))
        assert.isAtMost(sum, limit)
        // Who goes on asking all of them gets the rest: what lies idle at one process goes back.
        const more = Effect.forEach(three, (by) => passed(by, whose, limit, 1), { concurrency: "unbounded" })
        const all = Effect.map(more, (found) => sum += sumOf(found))
        yield* Effect.repeat(all, {
          until: (now) => now >= limit,
          schedule: Schedule.spaced("5 millis"),
          times: 2000,
        })
        assert.strictEqual(sum, limit)
        assert.strictEqual(sumOf(yield* more), 0)
      }),
    { arbitrary: { runs: 12 }, timeout: 120_000 },
  )
})

it.live("D18 who asks seldom is told exactly what is left, whichever process answers", () =>
  Effect.gen(function* () {
    const [first, second] = [yield* counter, yield* counter]
    const whose = yield* account
    for (const expected of Array.range(0, 8).toReversed()) {
      assert.strictEqual(yield* left(expected % 2 === 0 ? first : second, whose, 9), expected)
    }
    for (const by of [first, second]) assert.strictEqual(yield* left(by, whose, 9), -1)
  }).pipe(Effect.scoped, Effect.provide(database)))

it.live(
  "D18 permits at hand go back when nobody asks for them; those of a process that died are over with the minute",
  () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const whose = yield* account
      const second = yield* counter
      const used = Effect.map(
        sql<
          { readonly used: number }
        >`select used::float8 as used from rate_limits where account_id = ${whose}::text::bigint`,
        ([row]) => row?.used ?? 0,
      )
      const limit = 1600
      // Asked for again and again it has some by for later; then it dies.
      const dead = yield* Effect.scoped(Effect.gen(function* () {
        const first = yield* counter
        let sum = 0
        yield* Effect.repeat(
          Effect.map(passed(first, whose, limit, 20), (found) => sum += found),
          { until: () => Effect.map(Effect.orDie(used), (all) => all > sum + 20), times: 40 },
        )
        return sum
      }))
      const lost = (yield* used) - dead
      assert.isAbove(lost, 0)
      const sum = dead + (yield* passed(second, whose, limit, 2 * limit))
      assert.strictEqual(sum, limit - lost)
      yield* sql`update rate_limits set ends_at = now() where account_id = ${whose}::text::bigint`
      assert.strictEqual(yield* retryUntil(left(second, whose, limit), (is) => is >= 0), limit - 1)

      // One that lives gives them back.
      const another = yield* account
      const third = yield* counter
      let so = 0
      for (let times = 0; times < 6; times++) so += yield* passed(third, another, limit, 20)
      const given = Effect.map(
        sql<{ readonly used: number }>`
        select used::float8 as used from rate_limits where account_id = ${another}::text::bigint
      `,
        ([row]) => row?.used ?? 0,
      )
      assert.strictEqual(yield* retryUntil(given, (now) => now === so), so)
    }).pipe(Effect.scoped, Effect.provide(database)),
  60_000,
)

it.live("D18 a limit that changes counts at once, and keeps the count; of two limits each process heeds its own", () =>
  Effect.gen(function* () {
    const [first, second] = [yield* counter, yield* counter]
    const whose = yield* account
    assert.strictEqual(yield* passed(first, whose, 5, 9), 5)
    assert.strictEqual(yield* passed(second, whose, 5, 9), 0)
    // Another tier: seven more, at either.
    assert.strictEqual(yield* left(first, whose, 12), 6)
    assert.strictEqual(yield* left(second, whose, 12), 5)
    assert.strictEqual(yield* left(first, whose, 5), -1)
    assert.strictEqual(yield* left(second, whose, 12), 4)
    assert.strictEqual(yield* left(first, whose, 7), -1)
  }).pipe(Effect.scoped, Effect.provide(database)))

it.live(
  "D18 accounts do not share: the many that one statement looks at each have their own minute",
  () =>
    Effect.gen(function* () {
      const two = [yield* counter, yield* counter] as const
      const those = yield* Effect.replicateEffect(account, 150)
      const found = yield* Effect.forEach(
        those.toReversed().concat(those),
        (whose, index) => passed(two[index % 2] ?? two[0], whose, 3, 4),
        { concurrency: "unbounded" },
      )
      assert.strictEqual(sumOf(found), 3 * those.length)
    }).pipe(Effect.scoped, Effect.provide(database)),
  30_000,
)

it.live(
  "D18 while PostgreSQL does not answer nobody waits for it but for a moment; afterwards the count goes on",
  () =>
    Effect.gen(function* () {
      const url = new URL(Redacted.value(yield* Service.copyMigratedDatabase))
      const network = yield* startTcpProxy(Number(url.port))
      url.port = String(network.port)
      const context = yield* Layer.build(over(Redacted.make(url.href)))
      const by = yield* Effect.provideContext(counter, context)
      const whose = yield* Effect.provideContext(account, context)
      assert.strictEqual(yield* left(by, whose, 50), 49)
      yield* network.stall
      const asked = performance.now()
      const away = yield* Effect.flip(Effect.timeout(by.consume(whose, 50), "10 seconds"))
      assert.strictEqual(away._tag, "CounterAway")
      // The driver takes five seconds to give such a connection up; a request does not wait for that.
      assert.isBelow(performance.now() - asked, 3_000)
      assert.isTrue(by.isAway())
      const began = performance.now()
      for (let times = 0; times < 100; times++) yield* Effect.flip(by.consume(whose, 50))
      assert.isBelow(performance.now() - began, 5_000)
      yield* network.resume
      assert.isFalse(yield* retryUntil(Effect.sync(() => by.isAway()), (is) => !is))
      const now = yield* left(by, whose, 50)
      assert.isTrue(now <= 48 && now > 0, String(now))
      yield* network.cut
      assert.isBelow(yield* retryUntil(Effect.orElseSucceed(left(by, whose, 50), () => 50), (is) => is < 50), now)
    }).pipe(Effect.scoped),
  60_000,
)

it.live(
  "D18 over the wire: of two instances' answers as many are no 429 as one limit allows, from memory too",
  () =>
    Effect.scoped(
      Effect.gen(function* () {
        const settings = { RATE_LIMIT_BASIC: "90" }
        const ports = [yield* Instances.startInstance(settings), yield* Instances.startInstance(settings)]
        const { basic } = yield* Service.TestKeys
        yield* open(String((yield* findKeyIds(basic)).account_id))
        const answers = yield* Effect.forEach(
          Array.range(1, 140),
          (number) => Instances.requestOverWire(ports[number % 2] ?? 0, "/v1/screener", basic),
          { concurrency: 8 },
        )
        const right = answers.filter(({ status }) => status === 200)
        assert.strictEqual(right.length, 90)
        assert.strictEqual(answers.filter(({ status }) => status === 429).length, 50)
        for (const { headers } of right) {
          assert.strictEqual(headers["x-ratelimit-limit"], "90")
          assert.isBelow(Number(headers["x-ratelimit-remaining"]), 90)
        }
      }).pipe(Effect.provide(Instances.databaseWithKeys)),
    ),
  60_000,
)

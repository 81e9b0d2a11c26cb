/** D18: how much an account may ask of several processes that share a PostgreSQL and nothing else. */
import { assert, it } from "@effect/vitest"
import { Array, Effect, Layer, Logger, Redacted, Schedule } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient } from "effect/sql"
import { FastCheck } from "effect/testing"
import * as Leases from "../../src/account/Leases.ts"
import { client } from "../../src/db/Database.ts"
import * as Instances from "../support/Instances.ts"
import { until } from "../support/Ledger.ts"
import { proxy } from "../support/Proxy.ts"
import * as Service from "../support/Service.ts"

/** What a process counts by; each has a connection of its own. */
const counter = Leases.make.pipe(Effect.provide(Reactivity.layer), Effect.provide(Logger.layer([])))

type Counter = Effect.Success<typeof counter>

const over = (url: Redacted.Redacted) => client({ url, applicationName: "tickerline-test" })

const database = Layer.unwrap(Effect.map(Service.ownDatabase, over))

/** How many of so many requests at once pass. */
const passed = (by: Counter, account: string, limit: number, requests: number) =>
  Effect.map(
    Effect.forEach(Array.range(1, requests), () => by.consume(account, limit), { concurrency: "unbounded" }),
    (told) => told.filter(([number]) => number <= limit).length,
  )

const left = (by: Counter, account: string, limit: number) =>
  Effect.map(by.consume(account, limit), ([number]) => limit - number)

const step = FastCheck.record({
  at: FastCheck.integer({ min: 0, max: 2 }),
  requests: FastCheck.integer({ min: 1, max: 60 }),
  waits: FastCheck.boolean(),
})

let accounts = 0
const account = () => String(1_000_000 + ++accounts)

it.live(
  "D18 three processes, asked in any order, let as many requests of a minute pass as the limit says",
  () =>
    Effect.gen(function* () {
      const three = [yield* counter, yield* counter, yield* counter] as const
      const property = FastCheck.asyncProperty(
        FastCheck.integer({ min: 61, max: 400 }),
        FastCheck.array(step, { minLength: 1, maxLength: 12 }),
        (limit, steps) =>
          Effect.runPromise(Effect.gen(function* () {
            const whose = account()
            let sum = 0
            const at = (number: number) => three[number] ?? three[0]
            const background: Array<Effect.Effect<number>> = []
            for (const { at: number, requests, waits } of steps) {
              const some = Effect.orDie(passed(at(number), whose, limit, requests))
              if (waits) sum += yield* some
              else background.push(some)
            }
            for (const found of yield* Effect.all(background, { concurrency: "unbounded" })) sum += found
            assert.isAtMost(sum, limit)
            // Who goes on asking all of them gets the rest: what lies idle at one process goes back.
            const all = Effect.forEach(three, (by) => passed(by, whose, limit, 1), { concurrency: "unbounded" })
            sum = yield* Effect.repeat(Effect.map(all, (more) => more.reduce((so, far) => so + far, sum)), {
              until: (now) => {
                sum = now
                return now >= limit
              },
              schedule: Schedule.spaced("5 millis"),
              times: 2000,
            })
            assert.strictEqual(sum, limit)
            assert.strictEqual((yield* all).reduce((so, far) => so + far, 0), 0)
          })),
      )
      yield* Effect.promise(() => FastCheck.assert(property, { numRuns: 15 }))
    }).pipe(Effect.scoped, Effect.provide(database)),
  120_000,
)

it.live("D18 who asks seldom is told exactly what is left, whichever process answers", () =>
  Effect.gen(function* () {
    const [first, second] = [yield* counter, yield* counter]
    const whose = account()
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
      const whose = account()
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
      assert.strictEqual(yield* until(left(second, whose, limit), (is) => is >= 0), limit - 1)

      // One that lives gives them back.
      const another = account()
      const third = yield* counter
      let so = 0
      for (let times = 0; times < 6; times++) so += yield* passed(third, another, limit, 20)
      const given = Effect.map(
        sql<{ readonly used: number }>`
        select used::float8 as used from rate_limits where account_id = ${another}::text::bigint
      `,
        ([row]) => row?.used ?? 0,
      )
      assert.strictEqual(yield* until(given, (now) => now === so), so)
    }).pipe(Effect.scoped, Effect.provide(database)),
  60_000,
)

it.live("D18 a limit that changes counts at once, and keeps the count; of two limits each process heeds its own", () =>
  Effect.gen(function* () {
    const [first, second] = [yield* counter, yield* counter]
    const whose = account()
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
      const those = Array.makeBy(150, () => account())
      const found = yield* Effect.forEach(
        those.toReversed().concat(those),
        (whose, index) => passed(two[index % 2] ?? two[0], whose, 3, 4),
        { concurrency: "unbounded" },
      )
      assert.strictEqual(found.reduce((sum, number) => sum + number, 0), 3 * those.length)
    }).pipe(Effect.scoped, Effect.provide(database)),
  30_000,
)

it.live(
  "D18 while PostgreSQL does not answer nobody waits for it but for a moment; afterwards the count goes on",
  () =>
    Effect.gen(function* () {
      const url = new URL(Redacted.value(yield* Service.ownDatabase))
      const network = yield* proxy(Number(url.port))
      url.port = String(network.port)
      const by = yield* Effect.provide(counter, over(Redacted.make(url.href)))
      const whose = account()
      assert.strictEqual(yield* left(by, whose, 50), 49)
      yield* network.stall
      const away = yield* Effect.flip(Effect.timeout(by.consume(whose, 50), "10 seconds"))
      assert.strictEqual(away._tag, "CounterAway")
      assert.isTrue(by.isAway())
      const began = performance.now()
      for (let times = 0; times < 100; times++) yield* Effect.flip(by.consume(whose, 50))
      assert.isBelow(performance.now() - began, 5_000)
      yield* network.resume
      assert.isFalse(yield* until(Effect.sync(() => by.isAway()), (is) => !is))
      const now = yield* left(by, whose, 50)
      assert.isTrue(now <= 48 && now > 0, String(now))
      yield* network.cut
      assert.isBelow(yield* until(Effect.orElseSucceed(left(by, whose, 50), () => 50), (is) => is < 50), now)
    }).pipe(Effect.scoped),
  60_000,
)

it.live(
  "D18 over the wire: of two instances' answers as many are no 429 as one limit allows, from memory too",
  () =>
    Effect.scoped(
      Effect.gen(function* () {
        const settings = { RATE_LIMIT_BASIC: "90" }
        const ports = [yield* Instances.instance(settings), yield* Instances.instance(settings)]
        const { basic } = yield* Service.TestKeys
        const answers = yield* Effect.forEach(
          Array.range(1, 140),
          (number) => Instances.wire(ports[number % 2] ?? 0, "/v1/screener", basic),
          { concurrency: 8 },
        )
        const right = answers.filter(({ status }) => status === 200)
        assert.strictEqual(right.length, 90)
        assert.strictEqual(answers.filter(({ status }) => status === 429).length, 50)
        for (const { headers } of right) {
          assert.strictEqual(headers["x-ratelimit-limit"], "90")
          assert.isBelow(Number(headers["x-ratelimit-remaining"]), 90)
        }
      }).pipe(Effect.provide(Instances.database)),
    ),
  60_000,
)

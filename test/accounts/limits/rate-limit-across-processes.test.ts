/** Tests an account's token bucket when several processes share only PostgreSQL (D18, rate limits). */
import { assert, it, layer } from "@effect/vitest"
import { Array, ConfigProvider, Context, Duration, Effect, Layer, Logger, Redacted, Schedule, Schema } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { AccountRateLimiter } from "../../../src/accounts/limits/AccountRateLimiter.ts"
import { makeSharedTokenBuckets, TokenBucketStoreTimeouts } from "../../../src/accounts/limits/SharedTokenBuckets.ts"
import { databaseClientLayer } from "../../../src/postgres/pool/PooledClient.ts"
import * as ServiceInstances from "../../support/ServiceInstances.ts"
import { findAccountAndKeyIds, retryUntil } from "../../support/CustomerUsage.ts"
import { makeRandomChooser } from "../../support/RandomChoices.ts"
import { startTcpProxy } from "../../support/TcpProxy.ts"
import * as Service from "../../support/Service.ts"
import { getInputCount } from "../../support/Thoroughness.ts"

// @module-tag waiting

/** Starts rate limiting as one process would, with a separate database connection. */
const startProcess = Effect.provide(makeSharedTokenBuckets, Layer.merge(Reactivity.layer, Logger.layer([])))

type Process = Effect.Success<typeof startProcess>

const connectTo = (url: Redacted.Redacted) => databaseClientLayer({ url, applicationName: "tickerline-test" })

/** Timeouts long enough that even a busy machine does not reach them. */
const longTimeouts = Layer.succeed(TokenBucketStoreTimeouts, {
  query: Duration.minutes(1),
  request: Duration.minutes(2),
})

const database = Layer.merge(Layer.unwrap(Effect.map(Service.copyMigratedDatabase, connectTo)), longTimeouts)

/** Sends concurrent requests through one process. Returns the number of allowed requests. */
const countAllowed = (process: Process, account: number, limit: number, requests: number) =>
  Effect.map(
    Effect.forEach(Array.range(1, requests), () => process.consume(account, limit), { concurrency: "unbounded" }),
    (results) => results.filter(({ isAllowed }) => isAllowed).length,
  )

/** Sends one request. Returns the number of tokens left in the bucket, or -1 if the request was refused. */
const consumeOne = (process: Process, account: number, limit: number) =>
  Effect.map(process.consume(account, limit), ({ isAllowed, tokens }) => isAllowed ? Math.floor(tokens) : -1)

const Step = Schema.Struct({
  process: Schema.Literals([0, 1, 2]),
  requests: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 60 })),
  /** Whether the next step waits until this step is complete. */
  isAwaited: Schema.Boolean,
})
const Steps = Schema.Array(Step).check(Schema.isMinLength(1), Schema.isMaxLength(12))
const Limit = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 400 }))

/**
 * Gives the account a full bucket that is not refilled for ten minutes, so that the counts are the same on a slow
 * machine.
 */
const fillBucket = Effect.fnUntraced(function* (account_id: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    insert into rate_limit_buckets (account_id, used, refilled_at, granted)
    values (${account_id}::float8, 0, now() + interval '10 minutes', 0)
  `
})

/** The last account number used by a test. A bucket does not require an existing account. */
let accounts = 1_000_000

const makeAccount = Effect.gen(function* () {
  const account_id = ++accounts
  yield* fillBucket(account_id)
  return account_id
})

/** Reads how many tokens of an account's bucket are used, including tokens that processes have taken in advance. */
const readUsedTokens = (account_id: number) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<{ readonly used: number }>`
      select used from rate_limit_buckets where account_id = ${account_id}::float8
    `
    return row?.used ?? 0
  })

const addUp = (numbers: ReadonlyArray<number>) => numbers.reduce((sum, number) => sum + number, 0)

/** Three processes that share one database. */
class ThreeProcesses
  extends Context.Service<ThreeProcesses, readonly [Process, Process, Process]>()("test/accounts/ThreeProcesses") {
  static readonly layer = Layer.effect(ThreeProcesses, Effect.all([startProcess, startProcess, startProcess])).pipe(
    Layer.provideMerge(database),
  )
}

layer(ThreeProcesses.layer, { excludeTestServices: true, timeout: "60 seconds" })("Three processes", (it) => {
  it.effect.prop(
    "together allow exactly the limit, in whatever order they are used (D18)",
    [Limit, Steps],
    ([limit, steps]) =>
      Effect.gen(function* () {
        const processes = yield* ThreeProcesses
        const account = yield* makeAccount
        let sum = 0
        const concurrent: Array<Effect.Effect<number, unknown>> = []
        for (const { isAwaited, process, requests } of steps) {
          const allowed = countAllowed(processes[process], account, limit, requests)
          if (isAwaited) sum += yield* allowed
          else concurrent.push(allowed)
        }
        sum += addUp(yield* Effect.all(concurrent, { concurrency: "unbounded" }))
        assert.isAtMost(sum, limit)
        // Repeated requests eventually use all remaining tokens, because idle processes return unused tokens to the
        // bucket.
        const oneEach = Effect.forEach(processes, (process) => countAllowed(process, account, limit, 1), {
          concurrency: "unbounded",
        })
        yield* Effect.repeat(Effect.map(oneEach, (found) => sum += addUp(found)), {
          until: (now) => now >= limit,
          schedule: Schedule.spaced("5 millis"),
          times: 2000,
        })
        assert.strictEqual(sum, limit)
        assert.strictEqual(addUp(yield* oneEach), 0)
      }),
    { arbitrary: { runs: 12 }, timeout: 120_000 },
  )
})

it.live("a client with few requests sees the exact number of remaining requests in every process (D18)", () =>
  Effect.gen(function* () {
    const [first, second] = [yield* startProcess, yield* startProcess]
    const account = yield* makeAccount
    for (const expected of Array.range(0, 8).toReversed()) {
      assert.strictEqual(yield* consumeOne(expected % 2 === 0 ? first : second, account, 9), expected)
    }
    for (const process of [first, second]) assert.strictEqual(yield* consumeOne(process, account, 9), -1)
  }).pipe(Effect.scoped, Effect.provide(database)))

it.live("a bucket that several processes share refills evenly, up to its size (D18)", () =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const account = yield* makeAccount
    const [first, second] = [yield* startProcess, yield* startProcess]
    const passTime = (seconds: number) =>
      sql`
      update rate_limit_buckets set refilled_at = now() - make_interval(secs => ${seconds}::float8), used = round(used)
      where account_id = ${account}::float8
    `
    assert.strictEqual(yield* countAllowed(first, account, 12, 20), 12)
    // One token is refilled every five seconds. After 100 seconds the bucket is full, and the excess is discarded.
    for (const [seconds, expected] of [[26, 5], [41, 8], [100, 12]] as const) {
      yield* passTime(seconds)
      yield* retryUntil(consumeOne(second, account, 12), (left) => left >= 0)
      const allowed = 1 + (yield* countAllowed(second, account, 12, 20))
      assert.include([expected, expected + 1], allowed)
    }
  }).pipe(Effect.scoped, Effect.provide(database)), 30_000)

it.live(
  "idle processes return their tokens, and the tokens of a dead process are refilled like spent tokens (D18)",
  () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const account = yield* makeAccount
      const second = yield* startProcess
      const limit = 1600
      // When the first process dies, it still holds tokens that it took in advance.
      const spent = yield* Effect.scoped(Effect.gen(function* () {
        const first = yield* startProcess
        let sum = 0
        yield* Effect.repeat(
          Effect.map(countAllowed(first, account, limit, 20), (found) => sum += found),
          { until: () => Effect.map(Effect.orDie(readUsedTokens(account)), (used) => used > sum + 20), times: 40 },
        )
        return sum
      }))
      const discarded = (yield* readUsedTokens(account)) - spent
      assert.isAbove(discarded, 0)
      assert.strictEqual(yield* countAllowed(second, account, limit, 2 * limit), limit - spent - discarded)
      yield* sql`update rate_limit_buckets set used = 0 where account_id = ${account}::float8`
      assert.strictEqual(yield* retryUntil(consumeOne(second, account, limit), (left) => left >= 0), limit - 1)

      const other = yield* makeAccount
      const third = yield* startProcess
      let sum = 0
      for (let times = 0; times < 6; times++) sum += yield* countAllowed(third, other, limit, 20)
      assert.strictEqual(yield* retryUntil(readUsedTokens(other), (used) => used === sum), sum)
    }).pipe(Effect.scoped, Effect.provide(database)),
  60_000,
)

it.live("a new limit applies at once without resetting used tokens, even while processes apply different limits (D18)", () =>
  Effect.gen(function* () {
    const [first, second] = [yield* startProcess, yield* startProcess]
    const account = yield* makeAccount
    assert.strictEqual(yield* countAllowed(first, account, 5, 9), 5)
    assert.strictEqual(yield* countAllowed(second, account, 5, 9), 0)
    // With a limit of 12 instead of 5, the two processes together allow seven more requests.
    assert.strictEqual(yield* consumeOne(first, account, 12), 6)
    assert.strictEqual(yield* consumeOne(second, account, 12), 5)
    assert.strictEqual(yield* consumeOne(first, account, 5), -1)
    assert.strictEqual(yield* consumeOne(second, account, 12), 4)
    assert.strictEqual(yield* consumeOne(first, account, 7), -1)
  }).pipe(Effect.scoped, Effect.provide(database)))

it.live(
  "accounts do not share tokens, although one statement takes tokens for many accounts (D18)",
  () =>
    Effect.gen(function* () {
      const [first, second] = [yield* startProcess, yield* startProcess]
      const accounts = yield* Effect.replicateEffect(makeAccount, 150)
      const found = yield* Effect.forEach(
        accounts.toReversed().concat(accounts),
        (account, index) => countAllowed(index % 2 === 0 ? first : second, account, 3, 4),
        { concurrency: "unbounded" },
      )
      assert.strictEqual(addUp(found), 3 * accounts.length)
    }).pipe(Effect.scoped, Effect.provide(database)),
  30_000,
)

it.live(
  "while PostgreSQL does not respond, requests fail, all but the first without waiting, and then counting continues (D18)",
  () =>
    Effect.gen(function* () {
      const url = new URL(Redacted.value(yield* Service.copyMigratedDatabase))
      const network = yield* startTcpProxy(Number(url.port))
      url.port = String(network.port)
      const context = yield* Layer.build(connectTo(Redacted.make(url.href)))
      const process = yield* Effect.provideContext(startProcess, context)
      const account = yield* Effect.provideContext(makeAccount, context)
      assert.strictEqual(yield* consumeOne(process, account, 50), 49)
      yield* network.stall
      const [firstWait, error] = yield* Effect.timed(Effect.flip(process.consume(account, 50)))
      assert.strictEqual(error._tag, "TokenStoreUnavailable")
      assert.isTrue(process.isUnavailable())
      const failures = Effect.replicateEffect(Effect.flip(process.consume(account, 50)), 100)
      const [laterWaits] = yield* Effect.timed(failures)
      assert.isBelow(Duration.toMillis(laterWaits), 50 * Duration.toMillis(firstWait), "100 failures")
      yield* network.resume
      assert.isFalse(yield* retryUntil(Effect.sync(() => process.isUnavailable()), (isUnavailable) => !isUnavailable))
      const left = yield* consumeOne(process, account, 50)
      assert.isTrue(left <= 48 && left > 0, String(left))
      yield* network.cut
      assert.isBelow(
        yield* retryUntil(Effect.orElseSucceed(consumeOne(process, account, 50), () => 50), (now) => now < 50),
        left,
      )
    }).pipe(Effect.scoped),
  60_000,
)

it.live(
  "while PostgreSQL does not respond, each process applies the limit to its own requests (D18)",
  () =>
    Effect.gen(function* () {
      const url = new URL(Redacted.value(yield* Service.copyMigratedDatabase))
      const network = yield* startTcpProxy(Number(url.port))
      url.port = String(network.port)
      const settings = ConfigProvider.layer(ConfigProvider.fromUnknown({ RATE_LIMIT_BASIC: "3" }))
      const service = AccountRateLimiter.layer.pipe(
        Layer.provide([connectTo(Redacted.make(url.href)), settings, Logger.layer([])]),
      )
      const { countRequest: count, isCountingLocally } = yield* Effect.map(
        Layer.build(service),
        Context.get(AccountRateLimiter),
      )
      const account = {
        account_id: 1,
        key_id: 1,
        tier: "basic",
        spendable_microdollars: null,
        is_limited_by_budget: false,
        endpoints: null,
        networks: null,
      } as const
      assert.isUndefined((yield* count(account)).refusal)
      assert.isFalse(isCountingLocally())
      yield* network.stall
      const results = yield* Effect.replicateEffect(count(account), 4)
      assert.isTrue(isCountingLocally())
      assert.deepStrictEqual(results.map(({ refusal }) => refusal !== undefined), [false, false, false, true])
      assert.deepStrictEqual(results.map(({ headers }) => headers["x-ratelimit-remaining"]), ["2", "1", "0", "0"])
      assert.strictEqual(results[3]?.headers["retry-after"], "20")
      assert.match(results[3]?.headers["x-ratelimit-reset"] ?? "", /^(59|60)$/)
      yield* network.resume
      assert.isFalse(yield* retryUntil(Effect.sync(isCountingLocally), (isLocal) => !isLocal))
    }).pipe(Effect.scoped),
  60_000,
)

it.live(
  "two service instances together allow exactly the limit, including cached responses (D18)",
  () =>
    Effect.gen(function* () {
      const settings = { RATE_LIMIT_BASIC: "90" }
      const ports = [
        yield* ServiceInstances.startServiceInstance(settings),
        yield* ServiceInstances.startServiceInstance(settings),
      ]
      const { basic } = yield* Service.TestKeys
      yield* fillBucket((yield* findAccountAndKeyIds(basic)).account_id)
      const responses = yield* Effect.forEach(
        Array.range(1, 140),
        (number) => ServiceInstances.requestOverWire(ports[number % 2] ?? 0, "/v1/screener", basic),
        { concurrency: 8 },
      )
      const allowed = responses.filter(({ status }) => status === 200)
      assert.strictEqual(allowed.length, 90)
      assert.strictEqual(responses.filter(({ status }) => status === 429).length, 50)
      for (const { headers } of allowed) {
        assert.strictEqual(headers["x-ratelimit-limit"], "90")
        assert.isBelow(Number(headers["x-ratelimit-remaining"]), 90)
      }
    }).pipe(Effect.scoped, Effect.provide(Layer.merge(ServiceInstances.databaseWithKeysLayer, longTimeouts))),
  60_000,
)

/** Rate limiting with 15 requests per minute. */
const limiterLayer = Layer.fresh(AccountRateLimiter.layer).pipe(
  Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ RATE_LIMIT_BASIC: "15" }))),
  Layer.provideMerge(database),
)

// A token takes four seconds to refill, and all times are multiples of 1/64 second, so every number is exact in
// floating point.
it.effect(
  "the numbers of one process are those of a plain bucket, for random requests at random times (D18)",
  () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { countRequest } = yield* AccountRateLimiter
      for (let seed = 1; seed <= getInputCount(20); seed++) {
        const choose = makeRandomChooser(seed)
        const account_id = yield* makeAccount
        const account = { account_id, key_id: 1, tier: "basic", endpoints: null, networks: null } as const
        // Prevents refills by the database. Only the test refills the bucket.
        yield* sql`
        update rate_limit_buckets set used = 0, refilled_at = now() + interval '1 day'
        where account_id = ${account_id}::float8
      `
        let tokens = 15
        for (let step = 0; step < 60; step++) {
          const seconds = choose([0, 0, 0, 1 / 64, 1 / 64, 3 / 64, 4 - 1 / 64, 4 - 1 / 64, 4 - 3 / 64, 9])
          if (seconds > 0) {
            yield* sql`
            update rate_limit_buckets set used = greatest(0, used - ${seconds / 4}::float8)
            where account_id = ${account_id}::float8
          `
            yield* TestClock.adjust(Duration.seconds(seconds))
          }
          tokens = Math.min(15, tokens + seconds / 4)
          const { headers, refusal } = yield* countRequest({
            ...account,
            spendable_microdollars: null,
            is_limited_by_budget: false,
          })
          const isAllowed = tokens >= 1
          if (isAllowed) tokens -= 1
          assert.strictEqual(refusal === undefined, isAllowed, `seed ${seed}, step ${step}: ${tokens} tokens`)
          assert.deepStrictEqual(headers, {
            "x-ratelimit-limit": "15",
            "x-ratelimit-remaining": String(Math.floor(tokens)),
            "x-ratelimit-reset": String(Math.ceil((15 - tokens) * 4)),
            ...(isAllowed ? {} : { "retry-after": String(Math.ceil((1 - tokens) * 4)) }),
          }, `seed ${seed}, step ${step}: ${tokens} tokens`)
        }
      }
    }).pipe(Effect.scoped, Effect.provide(limiterLayer)),
  120_000,
)

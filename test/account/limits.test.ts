/** D18: how much an account may ask in a minute, through the wire: in one process, and in several with one Redis. */
import { assert, it, layer } from "@effect/vitest"
import {
  Array,
  Cause,
  ConfigProvider,
  Context,
  Data,
  Effect,
  Exit,
  Fiber,
  Layer,
  Logger,
  Schedule,
  Scope,
} from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { type ChildProcess, spawn } from "node:child_process"
import { connect, createServer } from "node:net"
import * as Accounts from "../../src/account/Accounts.ts"
import { RateLimit } from "../../src/account/RateLimit.ts"
import { endpoints } from "../../src/catalogue/Endpoints.ts"
import { document } from "../../src/catalogue/OpenApi.ts"
import { type Tier, tiers } from "../../src/policy/Access.ts"
import * as Instances from "../support/Instances.ts"
import * as Ledger from "../support/Ledger.ts"
import { isProgram, placesOf } from "../support/Processes.ts"
import * as Service from "../support/Service.ts"
import { client } from "../support/Through.ts"

const { ask, at, insert } = Service
const { customer, until } = Ledger

type Answer = Effect.Success<ReturnType<typeof ask>>

/** Limit, remaining and reset, as the headers say them. */
const limitsIn = ({ headers }: Answer) =>
  ["limit", "remaining", "reset"].map((name) => headers[`x-ratelimit-${name}`] ?? null)

const free = "/v1/account"

/** Sends one request after the other. */
const burst = (key: string, times: number, path = free) =>
  Effect.forEach(Array.range(1, times), () => ask(path, { key }))

const statuses = (answers: ReadonlyArray<Answer>) => answers.map(({ status }) => status)

const assertExceeded = (answer: Answer, limit: number) => {
  const { body, headers, status, text } = answer
  assert.strictEqual(status, 429, text)
  assert.strictEqual(at(body, "error", "code"), "rate_limit_exceeded")
  assert.include(String(at(body, "error", "message")), `${limit} requests a minute`)
  assert.deepStrictEqual(Object.keys(Object(at(body, "error"))), ["code", "message"])
  assert.strictEqual(at(body, "request_id"), headers["x-request-id"])
  assert.match(String(headers["retry-after"]), /^[1-9]\d?$/)
  assert.isAtMost(Number(headers["retry-after"]), 60)
  assert.deepStrictEqual(limitsIn(answer), [String(limit), "0", headers["retry-after"] ?? ""])
  assert.strictEqual(headers["x-cost-microdollars"], "0")
}

const noon = Date.parse("2026-07-01T16:00:00Z")

const small = { RATE_LIMIT_BASIC: "3", RATE_LIMIT_PRO: "5", RATE_LIMIT_ULTIMATE: "7" }

/** The service over a clock that only tests move. */
const atNoon = (values: Readonly<Record<string, string>>) =>
  Service.layerAt(noon).pipe(Layer.provide(Ledger.settings(values)))

layer(atNoon(small))("A limit of few requests", (it) => {
  it.effect("D18 each request says what is left, and in how many seconds all of it is there again", () =>
    Effect.gen(function* () {
      const { key } = yield* customer("counted")
      const answers = yield* burst(key, 4)
      assert.deepStrictEqual(answers.map(limitsIn), [["3", "2", "20"], ["3", "1", "40"], ["3", "0", "60"], [
        "3",
        "0",
        "60",
      ]])
      assert.deepStrictEqual(statuses(answers), [200, 200, 200, 429])
      answers.slice(0, 3).forEach(({ headers }) => assert.isUndefined(headers["retry-after"]))
    }))

  it.effect("D18 over it: 429 with Retry-After, which is X-RateLimit-Reset, until that time is over, not longer", () =>
    Effect.gen(function* () {
      const { key } = yield* customer("patient")
      yield* burst(key, 3)
      for (const [millis, wait] of [[0, "60"], [1, "60"], [29_999, "30"], [29_000, "1"], [999, "1"]] as const) {
        yield* TestClock.adjust(millis)
        const refused = yield* ask(free, { key })
        assertExceeded(refused, 3)
        assert.strictEqual(refused.headers["retry-after"], wait)
      }
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(limitsIn(yield* ask(free, { key })), ["3", "2", "20"])
    }))

  it.effect("D18 who asks no faster than the limit is never refused", () =>
    Effect.gen(function* () {
      const { key } = yield* customer("steady")
      for (let sent = 0; sent < 12; sent++) {
        assert.deepStrictEqual(limitsIn(yield* ask(free, { key })), ["3", "2", "20"])
        yield* TestClock.adjust("20 seconds")
      }
    }))

  it.effect("D18 the limit is that of the tier; another tier changes it within a second and keeps the count", () =>
    Effect.gen(function* () {
      const limits = { basic: 3, pro: 5, ultimate: 7 }
      for (const tier of tiers) {
        const { key } = yield* customer(`of ${tier}`, { tier })
        const answers = yield* burst(key, limits[tier] + 1)
        assert.deepStrictEqual(statuses(answers), [...Array.replicate(200, limits[tier]), 429])
        assertExceeded(Array.lastNonEmpty(answers), limits[tier])
      }
      const { key } = yield* customer("rising")
      yield* burst(key, 4)
      yield* Accounts.setTier("rising", "pro")
      yield* TestClock.adjust("1 second")
      const answers = yield* burst(key, 3)
      assert.deepStrictEqual(statuses(answers), [200, 200, 429])
      assert.deepStrictEqual(answers.map((answer) => limitsIn(answer)[1]), ["1", "0", "0"])
    }))

  it.effect("D18 two keys of an account share its limit, two accounts do not", () =>
    Effect.gen(function* () {
      const [first, second] = [yield* customer("shared"), yield* customer("shared")]
      const other = yield* customer("not shared")
      const answers = [
        yield* ask(free, { key: first.key }),
        yield* ask(free, { key: null, headers: { Authorization: `Bearer ${second.key}` } }),
        yield* ask(free, { key: first.key, headers: { Authorization: `Bearer ${second.key}` } }),
      ]
      assert.deepStrictEqual(answers.map((answer) => limitsIn(answer)[1]), ["2", "1", "0"])
      for (const { key } of [first, second]) assertExceeded(yield* ask(free, { key }), 3)
      assert.deepStrictEqual(limitsIn(yield* ask(free, { key: other.key })), ["3", "2", "20"])
    }))

  it.effect("D18 D27 what is free counts too: account, keys, overview, usage, estimate, each once", () =>
    Effect.gen(function* () {
      const { key } = yield* customer("freely", { tier: "ultimate" })
      const paths = [
        "/v1/account",
        "/v1/account/api-keys",
        "/v1/overview",
        "/v1/usage",
        "/v1/usage/daily",
        "/estimate?endpoint=/v1/news",
        "/estimate?endpoint=/v1/news&limit=0",
      ]
      const remaining: Array<string | null | undefined> = []
      for (const path of paths) remaining.push(limitsIn(yield* ask(path, { key }))[1])
      assert.deepStrictEqual(remaining, ["6", "5", "4", "3", "2", "1", "0"])
      for (const path of paths) assertExceeded(yield* ask(path, { key }), 7)
    }))

  it.effect("D18 429 comes after 401 and before 402, 403, 404 and 422; what is refused so does not count", () =>
    Effect.gen(function* () {
      const { key } = yield* customer("spent", { balance: 0 })
      yield* burst(key, 3)
      for (
        const path of [
          "/v1/news",
          "/v1/research-reports",
          "/v1/historical-tickers?ticker=NONE",
          "/v1/news?limit=0",
          "/v1/account?nonsense=1",
        ]
      ) {
        assertExceeded(yield* ask(path, { key }), 3)
        assert.strictEqual((yield* ask(path, { key: "nonsense" })).status, 401)
      }
      assert.strictEqual((yield* ask("/v1/nowhere", { key })).status, 404)
      yield* TestClock.adjust("60 seconds")
      assert.deepStrictEqual(limitsIn(yield* ask(free, { key })), ["3", "2", "20"])
    }))

  it.effect("D18 of many requests at once exactly as many pass as may", () =>
    Effect.gen(function* () {
      const { key } = yield* customer("at once", { tier: "ultimate" })
      const answers = yield* Effect.forEach(Array.range(1, 40), () => ask(free, { key }), { concurrency: "unbounded" })
      assert.deepStrictEqual(statuses(answers).toSorted((a, b) => a - b), [
        ...Array.replicate(200, 7),
        ...Array.replicate(429, 33),
      ])
      assert.deepStrictEqual(
        answers.filter(({ status }) => status === 200).map((answer) => limitsIn(answer)[1]).toSorted(),
        ["0", "1", "2", "3", "4", "5", "6"],
      )
    }))
})

const competing = [
  { old_ticker: "LIMA", new_ticker: "LIMB", effective_date: "2020-01-01", status: "confirmed" },
  { old_ticker: "LIMA", new_ticker: "LIMC", effective_date: "2021-01-01", status: "confirmed" },
]

layer(atNoon({ RATE_LIMIT_BASIC: "100" }))("A limit on every answer", (it) => {
  it.effect("D18 D14 every response to a key that is known carries the three headers, whatever its status", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* insert("ticker_changes", ...competing)
      yield* sql`alter table afterhours_stats rename to gone`
      const { key } = yield* customer("every status")
      const limited = yield* customer("every status", { endpoints: ["/v1/screener"] })
      const broke = yield* customer("every status, broke", { balance: 0 })
      const cases = [
        [200, "/v1/news", { key }],
        [200, "/v1/news", { key, method: "HEAD" }],
        [200, "/v1/ticker-changes?ticker=META", { key: null, headers: { Authorization: `Bearer ${key}` } }],
        [403, "/v1/research-reports", { key }],
        [403, "/v1/news", { key: limited.key }],
        [404, "/v1/historical-tickers?ticker=NONE", { key }],
        [409, "/v1/ticker-changes?ticker=LIMA", { key }],
        [422, "/v1/ticker-changes", { key }],
        [422, "/v1/news?limit=0", { key, method: "HEAD" }],
        [422, "/estimate?endpoint=/nowhere", { key }],
        [500, "/v1/afterhours-stats", { key }],
      ] as const
      for (const [index, [status, path, asked]] of cases.entries()) {
        const answer = yield* ask(path, asked)
        assert.strictEqual(answer.status, status, `${path}: ${answer.text}`)
        const [limit, remaining, reset] = limitsIn(answer)
        assert.deepStrictEqual([limit, remaining], ["100", String(99 - index)], path)
        assert.strictEqual(reset, String(Math.ceil((index + 1) * 0.6)), path)
        assert.isUndefined(answer.headers["retry-after"])
      }
      const refused = yield* ask("/v1/news", { key: broke.key })
      assert.strictEqual(refused.status, 402)
      assert.deepStrictEqual(limitsIn(refused), ["100", "99", "1"])
    }))

  it.effect("D18 where no account is known there is no limit to tell", () =>
    Effect.gen(function* () {
      const { key } = yield* customer("unknown")
      const cases = [
        ["/v1/news", { key: null }],
        ["/v1/news", { key: "nonsense" }],
        ["/v1/nowhere", { key }],
        ["/v1/news", { key, method: "POST" }],
        ["/endpoints", { key }],
        ["/v1/docs", { key }],
        ["/health/live", { key }],
      ] as const
      for (const [path, asked] of cases) assert.deepStrictEqual(limitsIn(yield* ask(path, asked)), [null, null, null])
      assert.deepStrictEqual(limitsIn(yield* ask(free, { key })), ["100", "99", "1"], "none of them counted")
    }))
})

// ---------------------------------------------------------------------------------------------------------------------
// Documentation and settings
// ---------------------------------------------------------------------------------------------------------------------

it("D13 D18 every endpoint that needs a key documents 429, and 402 where its data have a price; no other does", () => {
  assert.isAbove(endpoints.filter(({ charged }) => charged).length, 15)
  for (const { charged, row } of endpoints) {
    const responses = at(document, "paths", row.path, "get", "responses")
    if (responses === undefined) continue
    assert.strictEqual(at(responses, "429") !== undefined, row.tier !== null, row.path)
    assert.strictEqual(at(responses, "402") !== undefined, charged, row.path)
    for (const [status, code] of [["429", "rate_limit_exceeded"], ["402", "insufficient_credits"]] as const) {
      if (at(responses, status) === undefined) continue
      assert.include(JSON.stringify([at(responses, status), at(document, "components")]), code)
    }
  }
})

const built = (values: Readonly<Record<string, string>>) =>
  Layer.build(RateLimit.layer).pipe(
    Effect.map((context) => Context.get(context, RateLimit)),
    Effect.provide(Layer.merge(ConfigProvider.layer(ConfigProvider.fromUnknown(values)), Logger.layer([]))),
  )

it.effect("D18 200, 1,000 and 5,000 requests a minute, unless the settings say otherwise", () =>
  Effect.scoped(Effect.gen(function* () {
    const perTier = (values: Readonly<Record<string, string>>) =>
      Effect.map(built(values), ({ perMinute }) => tiers.map((tier: Tier) => perMinute(tier)))
    assert.deepStrictEqual(yield* perTier({}), [200, 1_000, 5_000])
    assert.deepStrictEqual(yield* perTier({ RATE_LIMIT_PRO: "1" }), [200, 1, 5_000])
    assert.deepStrictEqual(yield* perTier(small), [3, 5, 7])
    assert.deepStrictEqual(yield* perTier({ RATE_LIMIT_ULTIMATE: "1000000000" }), [200, 1_000, 1_000_000_000])
  })))

it.effect("D18 a limit that is none does not start", () =>
  Effect.scoped(Effect.gen(function* () {
    for (const name of ["RATE_LIMIT_BASIC", "RATE_LIMIT_PRO", "RATE_LIMIT_ULTIMATE"]) {
      for (const wrong of ["0", "-1", "1.5", "x", "1e10", "200 a minute", "NaN", "Infinity"]) {
        const error = yield* Effect.flip(built({ [name]: wrong }))
        assert.strictEqual(error._tag, "ConfigError", `${name}=${wrong}`)
        assert.include(error.message, name)
      }
    }
  })))

/** A port on which nobody listens. */
const freePort = Effect.callback<number>((resume) => {
  const probe = createServer()
  probe.listen(0, "127.0.0.1", () => {
    const address = probe.address()
    probe.close(() => resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0)))
  })
})

it.live("D18 a REDIS_URL that leads nowhere, or is none, stops the start with a line that says what is wrong", () =>
  Effect.scoped(Effect.gen(function* () {
    const nowhere = yield* freePort
    for (
      const [url, why] of [
        [`redis://127.0.0.1:${nowhere}`, "ECONNREFUSED"],
        [`redis://user:hidden-word@127.0.0.1:${nowhere}/3`, "ECONNREFUSED"],
        ["redis://nowhere.invalid:6379", "ENOTFOUND"],
        ["nonsense", "redis://"],
        [`http://user:hidden-word@127.0.0.1:${nowhere}`, "redis://"],
        [`redis://user:hidden-word@127.0.0.1:${nowhere}/none`, "redis://"],
        [`redis://user:hidden-word%ZZ@127.0.0.1:${nowhere}`, "redis://"],
      ] as const
    ) {
      const exit = yield* Effect.exit(built({ REDIS_URL: url }))
      const cause = Exit.isFailure(exit) ? exit.cause : Cause.empty
      // What can be mended is an error, which the command line prints in a line; a defect would be printed in full.
      assert.isTrue(Cause.hasFails(cause) && !Cause.hasDies(cause), `${url}: ${Cause.pretty(cause)}`)
      const { message } = Object(Cause.squash(cause))
      assert.include(message, "REDIS_URL", url)
      assert.include(message, why, url)
      assert.notInclude(Cause.pretty(cause), "hidden-word", "no secret of the address")
    }
  })))

// ---------------------------------------------------------------------------------------------------------------------
// Several instances over one Redis
// ---------------------------------------------------------------------------------------------------------------------

const redisServer = placesOf("redis-server").find(isProgram)

/** Without a Redis these tests are skipped, and say so; where one is required they fail. */
const skipped = redisServer === undefined && (process.env["REQUIRE_REDIS"] ?? "") === ""
const named = (name: string) => `D18 with Redis ${name}${skipped ? " (no redis-server on this machine)" : ""}`

class NoRedis extends Data.TaggedError("NoRedis")<{ readonly message: string }> {}

/** What a Redis answers to a command, as far as it comes in one piece. */
const command = (port: number, text: string) =>
  Effect.callback<string, NoRedis>((resume) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(`${text}\r\n`))
    socket.on("data", (data) => resume(Effect.succeed(data.toString("utf8"))))
    socket.on("error", ({ message }) => resume(Effect.fail(new NoRedis({ message }))))
    return Effect.sync(() => socket.destroy())
  })

/** A Redis of the test's own that keeps nothing, on one port of the loopback however often it is started. */
const makeRedis = Effect.gen(function* () {
  const port = yield* freePort
  let server: ChildProcess | undefined

  const send = (signal: "SIGKILL" | "SIGSTOP" | "SIGCONT") => Effect.sync(() => void server?.kill(signal))

  const kill = Effect.callback<void>((resume) => {
    const running = server
    server = undefined
    if (running === undefined || running.exitCode !== null) return resume(Effect.void)
    running.once("exit", () => resume(Effect.void))
    running.kill("SIGKILL")
  })

  const start = Effect.gen(function* () {
    if (redisServer === undefined) return yield* new NoRedis({ message: "REQUIRE_REDIS: no redis-server on the PATH" })
    const options = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    server = spawn(redisServer, options, { stdio: "ignore" })
    yield* command(port, "PING").pipe(Effect.retry({ schedule: Schedule.spaced("10 millis"), times: 1000 }))
  })

  yield* Effect.addFinalizer(() => kill)
  return {
    url: `redis://127.0.0.1:${port}`,
    start,
    kill,
    pause: send("SIGSTOP"),
    resume: send("SIGCONT"),
    command: (text: string) => command(port, text),
  }
})

const shared = { RATE_LIMIT_BASIC: "6", RATE_LIMIT_PRO: "1200" }

/** One process of the service, as far as a test can tell: it has nothing in common with another but the database. */
const instance = (database: Effect.Success<typeof Service.ownDatabase>, REDIS_URL: string) =>
  Layer.build(Layer.fresh(
    Service.layerOver(client({ url: database, applicationName: "tickerline-test" })).pipe(
      Layer.provide(Ledger.settings({ ...shared, REDIS_URL })),
    ),
  ))

/** Two instances, and the Redis that they share. */
const pair = Effect.gen(function* () {
  const redis = yield* makeRedis
  yield* redis.start
  const database = yield* Service.ownDatabase
  const [first, second] = [yield* instance(database, redis.url), yield* instance(database, redis.url)]
  return { redis, database, first, second, both: [first, second] as const }
})

let accounts = 0
const anyone = Effect.suspend(() => customer(`anyone ${++accounts}`))

/** Whether a request to the one is known to the other. */
const together = Effect.fnUntraced(function* ({ first, second }: Effect.Success<typeof pair>) {
  const { key } = yield* Effect.provideContext(anyone, first)
  const remaining = (yield* Effect.forEach(
    [first, second, first],
    (context) => Effect.provideContext(ask(free, { key }), context),
  )).map((answer) => limitsIn(answer)[1])
  return remaining.join() === "5,4,3"
})

/** Each lets the whole limit pass, and no more; no request takes long. */
const apart = Effect.fnUntraced(function* ({ both, first }: Effect.Success<typeof pair>) {
  const { key } = yield* Effect.provideContext(anyone, first)
  for (const context of both) {
    const answers = yield* Effect.forEach(
      Array.range(1, 7),
      () => Effect.timeout(Effect.provideContext(ask(free, { key }), context), "1 second"),
    )
    assert.deepStrictEqual(answers.map((answer) => limitsIn(answer)[1]), ["5", "4", "3", "2", "1", "0", "0"])
    assert.deepStrictEqual(statuses(answers), [200, 200, 200, 200, 200, 200, 429])
    assertExceeded(Array.lastNonEmpty(answers), 6)
  }
})

it.live.skipIf(skipped)(
  named("what is answered from memory counts in the same way, in whichever instance"),
  () =>
    Effect.scoped(
      Effect.gen(function* () {
        const redis = yield* makeRedis
        yield* redis.start
        const settings = { REDIS_URL: redis.url, RATE_LIMIT_BASIC: "14" }
        const ports = [yield* Instances.instance(settings), yield* Instances.instance(settings)]
        const { basic } = yield* Service.TestKeys
        // From the fourth time on each of them takes the short way.
        const answers = yield* Effect.forEach(
          Array.range(0, 15),
          (at) => Instances.wire(ports[at % 2] ?? 0, "/v1/screener", basic),
        )
        assert.deepStrictEqual(answers.map((answer) => answer.status), [...Array.replicate(200, 14), 429, 429])
        const left = answers.map(({ headers }) => Number(headers["x-ratelimit-remaining"]))
        assert.deepStrictEqual(left, [...Array.range(0, 13).toReversed(), 0, 0])
      }).pipe(Effect.provide(Instances.database)),
    ),
  60_000,
)

it.live.skipIf(skipped)(
  named("two instances share one count, and refuse alike"),
  () =>
    Effect.scoped(Effect.gen(function* () {
      const { both, first, redis } = yield* pair
      const { account_id, key } = yield* Effect.provideContext(customer("of both"), first)
      const answers: Array<Answer> = []
      for (const context of [...both, ...both, ...both, ...both]) {
        answers.push(yield* Effect.provideContext(ask(free, { key }), context))
      }
      assert.deepStrictEqual(answers.map((answer) => limitsIn(answer)[1]), ["5", "4", "3", "2", "1", "0", "0", "0"])
      assert.deepStrictEqual(statuses(answers), [200, 200, 200, 200, 200, 200, 429, 429])
      answers.slice(-2).forEach((answer) => assertExceeded(answer, 6))
      const other = yield* Effect.provideContext(customer("of one"), first)
      assert.deepStrictEqual(limitsIn(yield* Effect.provideContext(ask(free, { key: other.key }), first)), [
        "6",
        "5",
        "10",
      ])

      // Of many at once, to both, exactly as many pass as may.
      const crowd = yield* Effect.provideContext(customer("crowd"), first)
      const many = yield* Effect.forEach(
        Array.range(1, 30),
        (number) => Effect.provideContext(ask(free, { key: crowd.key }), both[number % 2 === 0 ? 0 : 1]),
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

it.live.skipIf(skipped)(named("the count is over when its time is"), () =>
  Effect.scoped(Effect.gen(function* () {
    const { first, second } = yield* pair
    const { key } = yield* Effect.provideContext(customer("quick", { tier: "pro" }), first)
    const remaining = (context: typeof first) =>
      Effect.map(Effect.provideContext(ask(free, { key }), context), (answer) => Number(limitsIn(answer)[1]))
    // Each takes a twentieth of a second of the minute; at once, so that the first is not over before the last.
    const sent = yield* Effect.forEach(Array.range(1, 8), () => remaining(first), { concurrency: "unbounded" })
    assert.isBelow(Math.min(...sent), 1199)
    const left = yield* Effect.repeat(remaining(second), {
      until: (number) => number === 1199,
      schedule: Schedule.spaced("150 millis"),
      times: 100,
    })
    assert.strictEqual(left, 1199)
  })))

it.live.skipIf(skipped)(
  named("gone: requests go on, each instance counts for itself; together again once it is back"),
  () =>
    Effect.scoped(Effect.gen(function* () {
      const instances = yield* pair
      const { redis } = instances
      assert.isTrue(yield* together(instances))
      for (const round of [1, 2]) {
        yield* redis.kill
        yield* apart(instances)
        yield* redis.start
        const again = yield* until(together(instances), (shared) => shared)
        assert.isTrue(again, `together again, time ${round}`)
      }
    })),
)

it.live.skipIf(skipped)(
  named("silent: it is not waited for longer than a moment; together again once it answers"),
  () =>
    Effect.scoped(Effect.gen(function* () {
      const instances = yield* pair
      const { redis } = instances
      assert.isTrue(yield* together(instances))
      yield* redis.pause
      yield* Effect.addFinalizer(() => redis.resume)
      const { key } = yield* Effect.provideContext(anyone, instances.first)
      const answers = yield* Effect.forEach(
        instances.both,
        (context) => Effect.timeout(Effect.provideContext(ask(free, { key }), context), "1 second"),
      )
      assert.deepStrictEqual(answers.map((answer) => [answer.status, limitsIn(answer)[1]]), [[200, "5"], [200, "5"]])
      yield* redis.resume
      assert.isTrue(yield* until(together(instances), (shared) => shared))
    })),
)

it.live.skipIf(skipped)(
  named("gone or silent: a process that is told to stop does not wait for it"),
  () =>
    Effect.scoped(Effect.gen(function* () {
      const { database, first, redis } = yield* pair
      for (
        const { away, back } of [{ away: redis.kill, back: redis.start }, { away: redis.pause, back: redis.resume }]
      ) {
        const scope = yield* Scope.make()
        const third = yield* Scope.provide(instance(database, redis.url), scope)
        const { key } = yield* Effect.provideContext(anyone, first)
        const status = Effect.map(Effect.provideContext(ask(free, { key }), third), (answer) => answer.status)
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

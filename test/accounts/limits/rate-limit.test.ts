/** D18: how much an account may ask in a minute, through the wire of one process. */
import { assert, it, layer } from "@effect/vitest"
import { Array, Cause, ConfigProvider, Duration, Effect, Exit, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import * as Accounts from "../../../src/accounts/Accounts.ts"
import { RateLimitsConfig } from "../../../src/accounts/limits/RateLimit.ts"
import * as Redis from "../../../src/accounts/limits/Redis.ts"
import { endpoints } from "../../../src/catalogue/Endpoints.ts"
import { openApiDocument } from "../../../src/catalogue/OpenApiDocument.ts"
import { type Tier, tiers } from "../../../src/rules/EndpointAnnotations.ts"
import * as Ledger from "../../support/CustomerUsage.ts"
import * as Service from "../../support/Service.ts"

const { requestJson, valueAt, insertRows } = Service
const { createCustomer } = Ledger

type Answer = Effect.Success<ReturnType<typeof requestJson>>

/** Limit, remaining and reset, as the headers say them. */
const limitsIn = ({ headers }: Answer) =>
  ["limit", "remaining", "reset"].map((name) => headers[`x-ratelimit-${name}`] ?? null)

const free = "/v1/account"

/** Time passes, for PostgreSQL too. */
const pass = Effect.fnUntraced(function* (seconds: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    update rate_limits set began_at = began_at - make_interval(secs => ${seconds}::float8),
      ends_at = ends_at - make_interval(secs => ${seconds}::float8)
  `
  yield* TestClock.adjust(Duration.seconds(seconds))
})

/** Sends one request after the other. */
const burst = (key: string, times: number, path = free) =>
  Effect.forEach(Array.range(1, times), () => requestJson(path, { key }))

const statuses = (answers: ReadonlyArray<Answer>) => answers.map(({ status }) => status)

/** PostgreSQL's clock goes on while a test asks. */
const assertReset = (reset: string | null | undefined, most: number) => {
  assert.match(reset ?? "", /^[1-9]\d?$/)
  assert.isAtMost(Number(reset), most)
  assert.isAtLeast(Number(reset), most - 12)
}

const assertExceeded = (answer: Answer, limit: number) => {
  const { body, headers, status, text } = answer
  assert.strictEqual(status, 429, text)
  assert.strictEqual(valueAt(body, "error", "code"), "rate_limit_exceeded")
  assert.include(String(valueAt(body, "error", "message")), `${limit} requests a minute`)
  assert.deepStrictEqual(Object.keys(Object(valueAt(body, "error"))), ["code", "message"])
  assert.strictEqual(valueAt(body, "request_id"), headers["x-request-id"])
  assert.match(String(headers["retry-after"]), /^[1-9]\d?$/)
  assert.isAtMost(Number(headers["retry-after"]), 60)
  assert.deepStrictEqual(limitsIn(answer), [String(limit), "0", headers["retry-after"] ?? ""])
  assert.strictEqual(headers["x-cost-microdollars"], "0")
}

const noon = Date.parse("2026-07-01T16:00:00Z")

const small = { RATE_LIMIT_BASIC: "3", RATE_LIMIT_PRO: "5", RATE_LIMIT_ULTIMATE: "7" }

/** The service over a clock that only tests move. */
const atNoon = (values: Readonly<Record<string, string>>) =>
  Service.layerAt(noon).pipe(Layer.provide(Ledger.settingsLayer(values)))

layer(atNoon(small))("A limit of few requests", (it) => {
  it.effect("D18 each request says what is left, and in how many seconds all of it is there again", () =>
    Effect.gen(function* () {
      const { key } = yield* createCustomer("counted")
      const answers = yield* burst(key, 4)
      assert.deepStrictEqual(answers.map((answer) => limitsIn(answer).slice(0, 2)), [
        ["3", "2"],
        ["3", "1"],
        ["3", "0"],
        ["3", "0"],
      ])
      answers.forEach((answer, index) => assertReset(limitsIn(answer)[2], [20, 40, 60, 60][index] ?? 0))
      assert.deepStrictEqual(statuses(answers), [200, 200, 200, 429])
      answers.slice(0, 3).forEach(({ headers }) => assert.isUndefined(headers["retry-after"]))
    }))

  it.effect("D18 over it: 429 with Retry-After, which is X-RateLimit-Reset, until that time is over, not longer", () =>
    Effect.gen(function* () {
      const { key } = yield* createCustomer("patient")
      yield* burst(key, 3)
      // The clock that counts is PostgreSQL's, which goes on by itself.
      for (const [seconds, wait] of [[0, 60], [30, 30], [15, 15]] as const) {
        yield* pass(seconds)
        const refused = yield* requestJson(free, { key })
        assertExceeded(refused, 3)
        assertReset(refused.headers["retry-after"], wait)
      }
      yield* pass(15)
      assert.deepStrictEqual(limitsIn(yield* requestJson(free, { key })), ["3", "2", "20"])
    }))

  it.effect("D18 who asks no faster than the limit is never refused", () =>
    Effect.gen(function* () {
      const { key } = yield* createCustomer("steady")
      for (let sent = 0; sent < 12; sent++) {
        assert.deepStrictEqual(limitsIn(yield* requestJson(free, { key })), ["3", "2", "20"])
        yield* pass(20)
      }
    }))

  it.effect("D18 the limit is that of the tier; another tier changes it within a second and keeps the count", () =>
    Effect.gen(function* () {
      const limits = { basic: 3, pro: 5, ultimate: 7 }
      for (const tier of tiers) {
        const { key } = yield* createCustomer(`of ${tier}`, { tier })
        const answers = yield* burst(key, limits[tier] + 1)
        assert.deepStrictEqual(statuses(answers), [...Array.replicate(200, limits[tier]), 429])
        assertExceeded(Array.lastNonEmpty(answers), limits[tier])
      }
      const { key } = yield* createCustomer("rising")
      yield* burst(key, 4)
      yield* Accounts.setAccountTier("rising", "pro")
      yield* TestClock.adjust("1 second")
      const answers = yield* burst(key, 3)
      assert.deepStrictEqual(statuses(answers), [200, 200, 429])
      assert.deepStrictEqual(answers.map((answer) => limitsIn(answer)[1]), ["1", "0", "0"])
    }))

  it.effect("D18 two keys of an account share its limit, two accounts do not", () =>
    Effect.gen(function* () {
      const [first, second] = [yield* createCustomer("shared"), yield* createCustomer("shared")]
      const other = yield* createCustomer("not shared")
      const answers = [
        yield* requestJson(free, { key: first.key }),
        yield* requestJson(free, { key: null, headers: { Authorization: `Bearer ${second.key}` } }),
        yield* requestJson(free, { key: first.key }),
      ]
      assert.deepStrictEqual(answers.map((answer) => limitsIn(answer)[1]), ["2", "1", "0"])
      for (const { key } of [first, second]) assertExceeded(yield* requestJson(free, { key }), 3)
      assert.deepStrictEqual(limitsIn(yield* requestJson(free, { key: other.key })), ["3", "2", "20"])
    }))

  it.effect("D18 D27 what is free counts too: account, keys, overview, usage, estimate, each once", () =>
    Effect.gen(function* () {
      const { key } = yield* createCustomer("freely", { tier: "ultimate" })
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
      for (const path of paths) remaining.push(limitsIn(yield* requestJson(path, { key }))[1])
      assert.deepStrictEqual(remaining, ["6", "5", "4", "3", "2", "1", "0"])
      for (const path of paths) assertExceeded(yield* requestJson(path, { key }), 7)
    }))

  it.effect("D18 429 comes after 401 and before 402, 403, 404 and 422; what is refused so does not count", () =>
    Effect.gen(function* () {
      const { key } = yield* createCustomer("spent", { balance: 0 })
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
        assertExceeded(yield* requestJson(path, { key }), 3)
        assert.strictEqual((yield* requestJson(path, { key: "nonsense" })).status, 401)
      }
      assert.strictEqual((yield* requestJson("/v1/nowhere", { key })).status, 404)
      yield* pass(60)
      assert.deepStrictEqual(limitsIn(yield* requestJson(free, { key })), ["3", "2", "20"])
    }))

  it.effect("D18 of many requests at once exactly as many pass as may", () =>
    Effect.gen(function* () {
      const { key } = yield* createCustomer("at once", { tier: "ultimate" })
      const answers = yield* Effect.forEach(Array.range(1, 40), () => requestJson(free, { key }), {
        concurrency: "unbounded",
      })
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
      yield* insertRows("ticker_changes", ...competing)
      yield* sql`alter table afterhours_stats rename to gone`
      const { key } = yield* createCustomer("every status")
      const limited = yield* createCustomer("every status", { endpoints: ["/v1/screener"] })
      const broke = yield* createCustomer("every status, broke", { balance: 0 })
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
        const answer = yield* requestJson(path, asked)
        assert.strictEqual(answer.status, status, `${path}: ${answer.text}`)
        const [limit, remaining, reset] = limitsIn(answer)
        assert.deepStrictEqual([limit, remaining], ["100", String(99 - index)], path)
        assertReset(reset, Math.ceil((index + 1) * 0.6))
        assert.isUndefined(answer.headers["retry-after"])
      }
      const refused = yield* requestJson("/v1/news", { key: broke.key })
      assert.strictEqual(refused.status, 402)
      assert.deepStrictEqual(limitsIn(refused), ["100", "99", "1"])
    }))

  it.effect("D18 where no account is known there is no limit to tell", () =>
    Effect.gen(function* () {
      const { key } = yield* createCustomer("unknown")
      const cases = [
        ["/v1/news", { key: null }],
        ["/v1/news", { key: "nonsense" }],
        ["/v1/nowhere", { key }],
        ["/v1/news", { key, method: "POST" }],
        ["/endpoints", { key }],
        ["/v1/docs", { key }],
        ["/health/live", { key }],
      ] as const
      for (const [path, asked] of cases) {
        assert.deepStrictEqual(limitsIn(yield* requestJson(path, asked)), [null, null, null])
      }
      assert.deepStrictEqual(limitsIn(yield* requestJson(free, { key })), ["100", "99", "1"], "none of them counted")
    }))
})

// ---------------------------------------------------------------------------------------------------------------------
// Documentation and settings
// ---------------------------------------------------------------------------------------------------------------------

it("D13 D18 every endpoint that needs a key documents 429, and 402 where its data have a price; no other does", () => {
  assert.isAbove(endpoints.filter(({ isPriced: charged }) => charged).length, 15)
  for (const { isPriced: charged, row } of endpoints) {
    const responses = valueAt(openApiDocument, "paths", row.path, "get", "responses")
    if (responses === undefined) continue
    assert.strictEqual(valueAt(responses, "429") !== undefined, row.tier !== null, row.path)
    assert.strictEqual(valueAt(responses, "402") !== undefined, charged, row.path)
    for (const [status, code] of [["429", "rate_limit_exceeded"], ["402", "insufficient_credits"]] as const) {
      if (valueAt(responses, status) === undefined) continue
      assert.include(JSON.stringify([valueAt(responses, status), valueAt(openApiDocument, "components")]), code)
    }
  }
})

const given = (values: Readonly<Record<string, string>>) => ConfigProvider.layer(ConfigProvider.fromUnknown(values))

it.effect("D18 200, 1,000 and 5,000 requests a minute, unless the settings say otherwise", () =>
  Effect.gen(function* () {
    const perTier = (values: Readonly<Record<string, string>>) =>
      Effect.map(Effect.provide(RateLimitsConfig, given(values)), (found) => tiers.map((tier: Tier) => found[tier]))
    assert.deepStrictEqual(yield* perTier({}), [200, 1_000, 5_000])
    assert.deepStrictEqual(yield* perTier({ RATE_LIMIT_PRO: "1" }), [200, 1, 5_000])
    assert.deepStrictEqual(yield* perTier(small), [3, 5, 7])
    assert.deepStrictEqual(yield* perTier({ RATE_LIMIT_ULTIMATE: "1000000000" }), [200, 1_000, 1_000_000_000])
  }))

it.effect("D18 a limit that is none does not start", () =>
  Effect.gen(function* () {
    for (const name of ["RATE_LIMIT_BASIC", "RATE_LIMIT_PRO", "RATE_LIMIT_ULTIMATE"]) {
      for (const wrong of ["0", "-1", "1.5", "x", "1e10", "200 a minute", "NaN", "Infinity"]) {
        const error = yield* Effect.flip(Effect.provide(RateLimitsConfig, given({ [name]: wrong })))
        assert.strictEqual(error._tag, "ConfigError", `${name}=${wrong}`)
        assert.include(error.message, name)
      }
    }
  }))

it.live("D18 a REDIS_URL that is none stops the start with a line that says what is wrong, and no secret", () =>
  Effect.scoped(Effect.gen(function* () {
    for (
      const url of [
        "nonsense",
        "http://user:hidden-word@127.0.0.1:1",
        "redis://user:hidden-word@127.0.0.1:1/none",
        "redis://user:hidden-word%ZZ@127.0.0.1:1",
      ]
    ) {
      const exit = yield* Effect.exit(Effect.provide(Redis.shared, given({ REDIS_URL: url })))
      const cause = Exit.isFailure(exit) ? exit.cause : Cause.empty
      // What can be mended is an error, which the command line prints in a line; a defect would be printed in full.
      assert.isTrue(Cause.hasFails(cause) && !Cause.hasDies(cause), `${url}: ${Cause.pretty(cause)}`)
      const { message } = Object(Cause.squash(cause))
      assert.include(message, "REDIS_URL", url)
      assert.include(message, "redis://", url)
      assert.notInclude(Cause.pretty(cause), "hidden-word", "no secret of the address")
    }
  })))

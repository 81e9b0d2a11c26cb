/** The client before answers that a healthy service of today does not give: what comes later, in part, or not at all. */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Clock, Effect, Fiber, Layer, Redacted, Result, Schema } from "effect"
import { HttpClient, HttpClientError, type HttpClientRequest, HttpClientResponse } from "effect/http"
import { TestClock } from "effect/testing"
import { type ClientOptions, makeClient, type ResponseMetadata } from "../../src/client/Client.ts"

type Said = { readonly status: number; readonly body: string; readonly headers?: Readonly<Record<string, string>> }
/** An answer, a connection that is lost, or one on which nothing ever comes. */
type Turn = Said | "lost" | "silent"

const refusal = (status: number, code: string, headers: Readonly<Record<string, string>> = {}, more = {}): Said => ({
  status,
  body: JSON.stringify({ error: { code, message: `It is ${code}.`, ...more }, request_id: "r-1" }),
  headers: { "content-type": "application/json", "x-request-id": "r-1", ...headers },
})

const chain = { query_ticker: "A", has_changes: false, current_ticker: null, history: [] }
const right: Said = { status: 200, body: JSON.stringify({ count: 0, results: [chain] }) }

/** Takes its turns one request after the other; the last one stands for all that follow. */
const scripted = (...turns: readonly [Turn, ...ReadonlyArray<Turn>]) => {
  const asked: Array<HttpClientRequest.HttpClientRequest> = []
  const client = HttpClient.make((request) =>
    Effect.suspend(() => {
      const turn = turns[Math.min(asked.length, turns.length - 1)] ?? "lost"
      asked.push(request)
      if (turn === "silent") return Effect.never
      if (turn === "lost") {
        const reason = new HttpClientError.TransportError({ request, cause: new Error("ECONNRESET") })
        return Effect.fail(new HttpClientError.HttpClientError({ reason }))
      }
      const { body, headers = {}, status } = turn
      return Effect.succeed(HttpClientResponse.fromWeb(request, new Response(body, { status, headers })))
    })
  )
  return { asked, layer: Layer.succeed(HttpClient.HttpClient, client) }
}

const key = "tl_live_secret"

const clientOf = (script: ReturnType<typeof scripted>, options: Partial<ClientOptions> = {}) =>
  Effect.provide(makeClient({ baseUrl: "http://x.example", apiKey: Redacted.make(key), ...options }), script.layer)

/** Asks once; the clock goes on as far as told. */
const outcome = Effect.fnUntraced(function* (
  script: ReturnType<typeof scripted>,
  elapsed: Parameters<typeof TestClock.adjust>[0],
  options: Partial<ClientOptions> = {},
) {
  const tickerline = yield* clientOf(script, options)
  const asking = yield* Effect.forkChild(Effect.result(tickerline.tickerChanges.getWithHeaders({ ticker: "A" })))
  yield* TestClock.adjust(elapsed)
  return { asking, requests: script.asked.length }
})

const limited = (after: string) => refusal(429, "rate_limit_exceeded", { "retry-after": after })

describe("docs/client.md, retries", () => {
  it.effect("D18 a 429 is sent again after Retry-After, and not a moment before", () =>
    Effect.gen(function* () {
      const script = scripted(limited("5"), right)
      const { asking, requests } = yield* outcome(script, "4999 millis")
      assert.strictEqual(requests, 1)
      yield* TestClock.adjust("501 millis")
      assert.strictEqual(script.asked.length, 2)
      const answered = yield* Effect.fromResult(yield* Fiber.join(asking))
      assert.deepStrictEqual([answered.told.attempts, answered.answer.results[0].query_ticker], [2, "A"])
    }))

  it.effect("§7.2 a Retry-After that is a date is kept to as well", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2026, 10, 21, 12, 0, 0))
      const script = scripted(
        refusal(503, "data_refreshing", { "retry-after": "Sat, 21 Nov 2026 12:00:10 GMT" }),
        right,
      )
      const { requests } = yield* outcome(script, "9999 millis")
      assert.strictEqual(requests, 1)
      yield* TestClock.adjust("1002 millis")
      assert.strictEqual(script.asked.length, 2)
    }))

  it.effect("D18 who is told to wait longer than longestWait gets the error at once", () =>
    Effect.gen(function* () {
      const script = scripted(limited("3600"), right)
      const { asking, requests } = yield* outcome(script, 0)
      assert.strictEqual(requests, 1)
      const error = yield* Effect.flip(Effect.fromResult(yield* Fiber.join(asking)))
      assert.strictEqual(error._tag, "RateLimitExceeded")
    }))

  it.effect("§7.2 a lost connection is sent again as often as said, then is a NoAnswer with the id of the last one", () =>
    Effect.gen(function* () {
      const script = scripted("lost")
      const { asking } = yield* outcome(script, "1 minute", { retries: { times: 2 } })
      const error = yield* Effect.flip(Effect.fromResult(yield* Fiber.join(asking)))
      assert.strictEqual(script.asked.length, 3)
      if (error._tag !== "NoAnswer") return assert.fail(error._tag)
      assert.deepStrictEqual([error.reason, error.attempts], ["connection", 3])
      assert.strictEqual(error.request_id, script.asked[2]?.headers["x-request-id"])
      assert.strictEqual(new Set(script.asked.map(({ headers }) => headers["x-request-id"])).size, 3)
      assert.notInclude(JSON.stringify(error) + String(error.cause), key)
    }))

  it.effect("§7.2 an attempt that takes longer than timeout is ended and sent again", () =>
    Effect.gen(function* () {
      const script = scripted("silent", right)
      const { asking, requests } = yield* outcome(script, "1999 millis", { timeout: "2 seconds" })
      assert.strictEqual(requests, 1)
      yield* TestClock.adjust("1 second")
      assert.isTrue(Result.isSuccess(yield* Fiber.join(asking)))
    }))

  const final = [400, 401, 402, 403, 404, 409, 410, 418, 422, 500, 501]
  it.effect.each(final)("§7.2 %s is never sent again", (status) =>
    Effect.gen(function* () {
      const script = scripted(refusal(status, "whatever", { "retry-after": "1" }))
      const { asking } = yield* outcome(script, "1 hour")
      yield* Fiber.join(asking)
      assert.strictEqual(script.asked.length, 1)
    }))

  it.effect("docs/client.md in an outage a client falls silent: a hundred calls send ten requests again in all", () =>
    Effect.gen(function* () {
      const script = scripted(refusal(503, "database_pool_timeout"))
      const tickerline = yield* clientOf(script)
      const asking = yield* Effect.forkChild(
        Effect.forEach(Array.from({ length: 100 }), () => Effect.result(tickerline.tickerChanges.get({ ticker: "A" }))),
      )
      yield* TestClock.adjust("1 hour")
      yield* Fiber.join(asking)
      assert.strictEqual(script.asked.length, 110)
    }))

  it.effect("docs/client.md waits grow, and clients do not come back all at the same moment", () =>
    Effect.gen(function* () {
      const times = yield* Effect.forEach(Array.from({ length: 20 }), () =>
        Effect.gen(function* () {
          const script = scripted("lost", right)
          const before = yield* Clock.currentTimeMillis
          const { asking } = yield* outcome(script, 0)
          let waited = 0
          while (script.asked.length < 2 && waited < 1000) {
            yield* TestClock.adjust("1 millis")
            waited += 1
          }
          yield* Fiber.join(asking)
          return (yield* Clock.currentTimeMillis) - before
        }))
      assert.isTrue(times.every((time) => time >= 125 && time <= 377), times.join())
      assert.isAbove(new Set(times).size, 3)
    }))
})

describe("docs/client.md, a newer service", () => {
  it.effect("§9.3 unknown fields are left out, and unknown words are handed on", () =>
    Effect.gen(function* () {
      const account = {
        account_id: 7,
        name: "acme",
        contact_email: null,
        tier: "platinum",
        created_at: "2026-06-01T08:30:00-05:00",
        moon_phase: "full",
      }
      const script = scripted({ status: 200, body: JSON.stringify({ count: 1, results: [account], mood: "good" }) })
      const answer = yield* (yield* clientOf(script)).account.get()
      assert.deepStrictEqual(Object.keys(answer), ["count", "results"])
      assert.strictEqual(answer.results[0].tier, "platinum")
      assert.notProperty(answer.results[0], "moon_phase")
    }))

  it.effect("§7.2 an unknown code is an UnknownCode with all that was said", () =>
    Effect.gen(function* () {
      const script = scripted(refusal(451, "legal_reasons", {}, { details: { court: "x" } }))
      const error = yield* Effect.flip((yield* clientOf(script)).news.get())
      if (error._tag !== "UnknownCode") return assert.fail(error._tag)
      assert.deepStrictEqual(
        [error.code, error.status, error.details, error.request_id, error.message],
        ["legal_reasons", 451, { court: "x" }, "r-1", "It is legal_reasons."],
      )
    }))

  it.effect("§4.1 a reason of an ambiguous lineage that is not known yet keeps its code and details", () =>
    Effect.gen(function* () {
      const details = { query_ticker: "A", reason: "new", reasons: ["new"], tickers: [], candidates: [] }
      const script = scripted(refusal(409, "ambiguous_ticker_lineage", {}, { details }))
      const error = yield* Effect.flip((yield* clientOf(script)).tickerChanges.get({ ticker: "A" }))
      if (error._tag !== "UnknownCode") return assert.fail(error._tag)
      assert.deepStrictEqual([error.code, error.details], ["ambiguous_ticker_lineage", details])
    }))

  it.effect("docs/client.md what is not the service's is an UnreadableAnswer: a page of a balancer, half a body, a 200", () =>
    Effect.gen(function* () {
      const bodies: ReadonlyArray<readonly [number, string]> = [
        [404, "<html>no such site</html>"],
        [200, `{"count":0,"resu`],
        [200, `{"hello":"world"}`],
        [500, ""],
        [301, `[]`],
        [403, `{"error":"no"}`],
      ]
      for (const [status, body] of bodies) {
        const script = scripted({ status, body })
        const error = yield* Effect.flip((yield* clientOf(script)).news.get())
        if (error._tag !== "UnreadableAnswer") return assert.fail(error._tag)
        assert.deepStrictEqual([error.status, error.body], [status, body])
        assert.notStrictEqual(error.request_id, "")
      }
    }))

  it.effect.prop(
    "D16 digits within text stay text, whatever stands around them",
    [Arbitrary.schema(Schema.String), Arbitrary.schema(Schema.String)],
    ([before, after]) =>
      Effect.gen(function* () {
        const name = `${before}12345678901234567890.5"\\${after}`
        const account = { account_id: 9007199254740991, name, contact_email: null, tier: "pro" }
        const created_at = "2026-06-01T08:30:00-05:00"
        const body = JSON.stringify({ count: 1, results: [{ ...account, created_at }] })
        const { results: [row] } = yield* (yield* clientOf(scripted({ status: 200, body }))).account.get()
        assert.deepStrictEqual([row.name, row.account_id], [name, 9007199254740991])
      }),
  )

  it.effect("D16 a text of many million characters, with digits and quotes, is read as it is", () =>
    Effect.gen(function* () {
      const name = `${`\\"`.repeat(1_000_000)}1234567890123456789${"7".repeat(5_000_000)}`
      const account = { account_id: 1, name, contact_email: null, tier: "pro", created_at: "2026-06-01T08:30:00-05:00" }
      const body = JSON.stringify({ count: 1, results: [account] })
      const { results: [row] } = yield* (yield* clientOf(scripted({ status: 200, body }))).account.get()
      assert.isTrue(row.name === name)
    }))

  it.effect.prop(
    "docs/client.md whatever is answered, a call ends in a value or in an error of its type, never in a defect",
    [Arbitrary.schema(Schema.Json), Arbitrary.schema(Schema.Literals([200, 204, 304, 400, 404, 409, 422, 500, 599]))],
    ([body, status]) =>
      Effect.gen(function* () {
        const empty = status === 204 || status === 304
        const script = scripted({ status, body: JSON.stringify(body) })
        const client = empty ? scripted("lost") : script
        const exit = yield* Effect.exit(Effect.result((yield* clientOf(client, { retries: { times: 0 } })).news.get()))
        assert.strictEqual(exit._tag, "Success")
      }),
  )
})

describe("docs/client.md, headers", () => {
  it.effect("§9.4 D5 D18 D27 are told of each answer, an error's too, and a deprecation once of each endpoint", () =>
    Effect.gen(function* () {
      const answers: Array<readonly [string, ResponseMetadata]> = []
      const deprecations: Array<unknown> = []
      const script = scripted({
        ...refusal(404, "not_found", {
          "deprecation": "@1793491200",
          "sunset": "Mon, 01 Nov 2027 00:00:00 GMT",
          "link": `<http://x/v1/a?b=1,2>; rel="next", <http://x/v1/c>; rel=successor-version, ` +
            `<http://x/v1/docs>; rel="deprecation"; type="text/html"`,
          "x-dropped-tickers": "%40%40,%E2%82%AC,%",
          "x-cost-microdollars": "12",
          "x-ratelimit-limit": "200",
          "x-ratelimit-remaining": "0",
          "x-ratelimit-reset": "60",
          "x-api-version": "v1",
        }),
      })
      const tickerline = yield* clientOf(script, {
        onAnswer: (path, told) => Effect.sync(() => void answers.push([path, told])),
        onDeprecated: (path, deprecated) => Effect.sync(() => void deprecations.push([path, deprecated])),
      })
      yield* Effect.flip(tickerline.historicalTickers.get({ ticker: "A" }))
      yield* Effect.flip(tickerline.historicalTickers.get({ ticker: "B" }))
      const deprecated = {
        announced: "2026-11-01",
        sunset: "2027-11-01",
        successor: "http://x/v1/c",
        documentation: "http://x/v1/docs",
      }
      assert.deepStrictEqual(deprecations, [["/v1/historical-tickers", deprecated]])
      assert.deepStrictEqual(answers[1], ["/v1/historical-tickers", {
        status: 404,
        request_id: "r-1",
        attempts: 1,
        api_version: "v1",
        cost_microdollars: 12,
        rate_limit: { limit: 200, remaining: 0, reset_seconds: 60 },
        dropped_tickers: ["@@", "€", "%"],
        deprecated,
        retry_after_seconds: null,
      }])
    }))

  it.effect("D2 D12 each request has the key, an id of its own and whose it is", () =>
    Effect.gen(function* () {
      const script = scripted(right)
      const tickerline = yield* clientOf(script, { userAgent: "desk/1", baseUrl: "http://x.example/market/" })
      yield* tickerline.tickerChanges.get({ ticker: "a b&c" })
      const [request] = script.asked
      if (request === undefined) return assert.fail("Nothing was asked")
      assert.strictEqual(request.url, "http://x.example/market/v1/ticker-changes?ticker=a+b%26c")
      assert.strictEqual(request.headers["authorization"], `Bearer ${key}`)
      assert.match(request.headers["user-agent"] ?? "", /^desk\/1 tickerline-client\/\d/)
      assert.notInclude(JSON.stringify(request), key)
    }))

  it.effect("D2 options that no request can be sent with are refused when the client is made, without the key", () =>
    Effect.gen(function* () {
      const wrong: ReadonlyArray<Partial<ClientOptions>> = [
        { baseUrl: "" },
        { baseUrl: "api.example.com" },
        { baseUrl: "ftp://x" },
        { baseUrl: "http://x?y=1" },
        { apiKey: Redacted.make("") },
        { apiKey: Redacted.make("tl_live_se cret") },
        { apiKey: Redacted.make("tl_live_secret\r\nX-A: b") },
        { userAgent: "a\nb" },
        { headers: { "X-A": "é" } },
      ]
      for (const options of wrong) {
        const error = yield* Effect.flip(clientOf(scripted(right), options))
        assert.strictEqual(error._tag, "InvalidOptions")
        assert.notInclude(error.message, "secret")
      }
    }))
})

/** Tests the client with scripted responses: errors, lost connections, delays, and responses from other services. */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Clock, Effect, Fiber, Layer, Redacted, Result, Schema } from "effect"
import { HttpClient, HttpClientError, type HttpClientRequest, HttpClientResponse } from "effect/http"
import { TestClock } from "effect/testing"
import { type ClientOptions, makeClient, type ResponseMetadata } from "../../src/client/Client.ts"

/** A scripted response, which the test returns in place of the service. */
type ScriptedResponse = {
  readonly status: number
  readonly body: string
  readonly headers?: Readonly<Record<string, string>>
}
/** The scripted outcome of one request: a response, a lost connection, or no response at all. */
type Turn = ScriptedResponse | "lost" | "silent"

/** Creates an error response in the service's format. */
const makeRefusal = (
  status: number,
  code: string,
  headers: Readonly<Record<string, string>> = {},
  more = {},
): ScriptedResponse => ({
  status,
  body: JSON.stringify({ error: { code, message: `It is ${code}.`, ...more }, request_id: "r-1" }),
  headers: { "content-type": "application/json", "x-request-id": "r-1", ...headers },
})

const chain = { query_ticker: "A", has_changes: false, current_ticker: null, history: [] }
const success: ScriptedResponse = { status: 200, body: JSON.stringify({ count: 0, results: [chain] }) }

/** Creates an HTTP client that returns one scripted outcome per request. The last outcome repeats. */
const makeScript = (...turns: readonly [Turn, ...ReadonlyArray<Turn>]) => {
  const requests: Array<HttpClientRequest.HttpClientRequest> = []
  const client = HttpClient.make((request) =>
    Effect.suspend(() => {
      const turn = turns[Math.min(requests.length, turns.length - 1)] ?? "lost"
      requests.push(request)
      if (turn === "silent") return Effect.never
      if (turn === "lost") {
        const reason = new HttpClientError.TransportError({ request, cause: new Error("ECONNRESET") })
        return Effect.fail(new HttpClientError.HttpClientError({ reason }))
      }
      const { body, headers = {}, status } = turn
      return Effect.succeed(HttpClientResponse.fromWeb(request, new Response(body, { status, headers })))
    })
  )
  return { requests, layer: Layer.succeed(HttpClient.HttpClient, client) }
}

const key = "tl_live_secret"

/** Creates a client that receives the scripted responses. */
const makeScriptedClient = (script: ReturnType<typeof makeScript>, options: Partial<ClientOptions> = {}) =>
  Effect.provide(makeClient({ baseUrl: "http://x.example", apiKey: Redacted.make(key), ...options }), script.layer)

/** Starts a call and advances the clock. */
const callFor = Effect.fnUntraced(function* (
  script: ReturnType<typeof makeScript>,
  elapsed: Parameters<typeof TestClock.adjust>[0],
  options: Partial<ClientOptions> = {},
) {
  const tickerline = yield* makeScriptedClient(script, options)
  const fiber = yield* Effect.forkChild(Effect.result(tickerline.tickerChanges.getWithMetadata({ ticker: "A" })))
  yield* TestClock.adjust(elapsed)
  return { fiber, requestCount: script.requests.length }
})

/** Creates a 429 response with the given `Retry-After`. */
const rateLimited = (after: string) => makeRefusal(429, "rate_limit_exceeded", { "retry-after": after })

describe("The client, given errors and lost connections,", () => {
  it.effect("retries a 429 after Retry-After, not earlier (D18)", () =>
    Effect.gen(function* () {
      const script = makeScript(rateLimited("5"), success)
      const { fiber, requestCount } = yield* callFor(script, "4999 millis")
      assert.strictEqual(requestCount, 1)
      yield* TestClock.adjust("501 millis")
      assert.strictEqual(script.requests.length, 2)
      const retried = yield* Effect.fromResult(yield* Fiber.join(fiber))
      assert.deepStrictEqual([retried.metadata.attempts, retried.body.results[0].query_ticker], [2, "A"])
    }))

  it.effect("accepts a date in Retry-After (§7.2)", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2026, 10, 21, 12, 0, 0))
      const script = makeScript(
        makeRefusal(503, "data_refreshing", { "retry-after": "Sat, 21 Nov 2026 12:00:10 GMT" }),
        success,
      )
      const { requestCount } = yield* callFor(script, "9999 millis")
      assert.strictEqual(requestCount, 1)
      yield* TestClock.adjust("1002 millis")
      assert.strictEqual(script.requests.length, 2)
    }))

  it.effect("fails at once if Retry-After exceeds longestWait (D18)", () =>
    Effect.gen(function* () {
      const script = makeScript(rateLimited("3600"), success)
      const { fiber, requestCount } = yield* callFor(script, 0)
      assert.strictEqual(requestCount, 1)
      const error = yield* Effect.flip(Effect.fromResult(yield* Fiber.join(fiber)))
      assert.strictEqual(error._tag, "RateLimitExceeded")
    }))

  it.effect("retries lost connections, then fails with NoAnswer and the id of the last request (§7.2)", () =>
    Effect.gen(function* () {
      const script = makeScript("lost")
      const { fiber } = yield* callFor(script, "1 minute", { retries: { times: 2 } })
      const error = yield* Effect.flip(Effect.fromResult(yield* Fiber.join(fiber)))
      assert.strictEqual(script.requests.length, 3)
      if (error._tag !== "NoAnswer") return assert.fail(error._tag)
      assert.deepStrictEqual([error.reason, error.attempts], ["connection", 3])
      assert.strictEqual(error.request_id, script.requests[2]?.headers["x-request-id"])
      assert.strictEqual(new Set(script.requests.map(({ headers }) => headers["x-request-id"])).size, 3)
      assert.notInclude(JSON.stringify(error) + String(error.cause), key)
    }))

  it.effect("interrupts and retries an attempt that exceeds the timeout (§7.2)", () =>
    Effect.gen(function* () {
      const script = makeScript("silent", success)
      const { fiber, requestCount } = yield* callFor(script, "1999 millis", { timeout: "2 seconds" })
      assert.strictEqual(requestCount, 1)
      yield* TestClock.adjust("1 second")
      assert.isTrue(Result.isSuccess(yield* Fiber.join(fiber)))
    }))

  const finalStatuses = [400, 401, 402, 403, 404, 409, 410, 418, 422, 500, 501]
  it.effect.each(finalStatuses)("never retries status %s (§7.2)", (status) =>
    Effect.gen(function* () {
      const script = makeScript(makeRefusal(status, "whatever", { "retry-after": "1" }))
      const { fiber } = yield* callFor(script, "1 hour")
      yield* Fiber.join(fiber)
      assert.strictEqual(script.requests.length, 1)
    }))

  it.effect("sends at most ten retries for a hundred calls during an outage (guides/client)", () =>
    Effect.gen(function* () {
      const [calls, maxRetries] = [100, 10]
      const script = makeScript(makeRefusal(503, "database_pool_timeout"))
      const tickerline = yield* makeScriptedClient(script)
      const fiber = yield* Effect.forkChild(
        Effect.forEach(
          Array.from({ length: calls }),
          () => Effect.result(tickerline.tickerChanges.get({ ticker: "A" })),
        ),
      )
      yield* TestClock.adjust("1 hour")
      yield* Fiber.join(fiber)
      assert.strictEqual(script.requests.length, calls + maxRetries)
    }))

  it.effect("spreads the delay before a retry at random (guides/client)", () =>
    Effect.gen(function* () {
      const times = yield* Effect.forEach(Array.from({ length: 20 }), () =>
        Effect.gen(function* () {
          const script = makeScript("lost", success)
          const before = yield* Clock.currentTimeMillis
          const { fiber } = yield* callFor(script, 0)
          let waited = 0
          while (script.requests.length < 2 && waited < 1000) {
            yield* TestClock.adjust("1 millis")
            waited += 1
          }
          yield* Fiber.join(fiber)
          return (yield* Clock.currentTimeMillis) - before
        }))
      // The first delay is 125 ms plus up to 125 ms of jitter. The clock advances in steps of one millisecond.
      assert.isTrue(times.every((time) => time >= 125 && time <= 252), times.join())
      assert.isAbove(new Set(times).size, 3)
    }))
})

describe("The client, given unknown responses,", () => {
  it.effect("drops unknown fields, and keeps unknown enum values (§9.3)", () =>
    Effect.gen(function* () {
      const account = {
        account_id: 7,
        name: "acme",
        contact_email: null,
        tier: "platinum",
        created_at: "2026-06-01T08:30:00-05:00",
        moon_phase: "full",
      }
      const script = makeScript({ status: 200, body: JSON.stringify({ count: 1, results: [account], mood: "good" }) })
      const body = yield* (yield* makeScriptedClient(script)).account.get()
      assert.deepStrictEqual(Object.keys(body), ["count", "results"])
      assert.strictEqual(body.results[0].tier, "platinum")
      assert.notProperty(body.results[0], "moon_phase")
    }))

  it.effect("fails with UnknownCode and all its details for an unknown error code (§7.2)", () =>
    Effect.gen(function* () {
      const script = makeScript(makeRefusal(451, "legal_reasons", {}, { details: { court: "x" } }))
      const error = yield* Effect.flip((yield* makeScriptedClient(script)).news.get())
      if (error._tag !== "UnknownCode") return assert.fail(error._tag)
      assert.deepStrictEqual(
        [error.code, error.status, error.details, error.request_id, error.message],
        ["legal_reasons", 451, { court: "x" }, "r-1", "It is legal_reasons."],
      )
    }))

  it.effect("keeps the code and details of an ambiguous lineage with an unknown reason (§4.1)", () =>
    Effect.gen(function* () {
      const details = { query_ticker: "A", reason: "new", reasons: ["new"], tickers: [], candidates: [] }
      const script = makeScript(makeRefusal(409, "ambiguous_ticker_lineage", {}, { details }))
      const error = yield* Effect.flip((yield* makeScriptedClient(script)).tickerChanges.get({ ticker: "A" }))
      if (error._tag !== "UnknownCode") return assert.fail(error._tag)
      assert.deepStrictEqual([error.code, error.details], ["ambiguous_ticker_lineage", details])
    }))

  it.effect("fails with UnreadableAnswer if the response does not come from the service (guides/client)", () =>
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
        const script = makeScript({ status, body })
        const error = yield* Effect.flip((yield* makeScriptedClient(script)).news.get())
        if (error._tag !== "UnreadableAnswer") return assert.fail(error._tag)
        assert.deepStrictEqual([error.status, error.body], [status, body])
        assert.notStrictEqual(error.request_id, "")
      }
    }))

  it.effect("fails with UnreadableAnswer if a time in the response is invalid (guides/client)", () =>
    Effect.gen(function* () {
      const account = { account_id: 1, name: "a", contact_email: null, tier: "pro", created_at: "2026-06-31T25:00:00" }
      const body = JSON.stringify({ count: 1, results: [account] })
      const error = yield* Effect.flip((yield* makeScriptedClient(makeScript({ status: 200, body }))).account.get())
      if (error._tag !== "UnreadableAnswer") return assert.fail(error._tag)
      assert.deepStrictEqual([error.status, error.body], [200, body])
      assert.include(error.message, "created_at")
    }))

  it.effect.prop(
    "leaves digits inside strings unchanged (D16)",
    [Arbitrary.schema(Schema.String), Arbitrary.schema(Schema.String)],
    ([before, after]) =>
      Effect.gen(function* () {
        const name = `${before}12345678901234567890.5"\\${after}`
        const account = { account_id: 9007199254740991, name, contact_email: null, tier: "pro" }
        const created_at = "2026-06-01T08:30:00-05:00"
        const body = JSON.stringify({ count: 1, results: [{ ...account, created_at }] })
        const { results: [row] } = yield* (yield* makeScriptedClient(makeScript({ status: 200, body }))).account.get()
        assert.deepStrictEqual([row.name, row.account_id], [name, 9007199254740991])
      }),
  )

  it.effect("decodes strings of many million digits and quotes (D16)", () =>
    Effect.gen(function* () {
      const name = `${`\\"`.repeat(1_000_000)}1234567890123456789${"7".repeat(5_000_000)}`
      const account = { account_id: 1, name, contact_email: null, tier: "pro", created_at: "2026-06-01T08:30:00-05:00" }
      const body = JSON.stringify({ count: 1, results: [account] })
      const { results: [row] } = yield* (yield* makeScriptedClient(makeScript({ status: 200, body }))).account.get()
      assert.isTrue(row.name === name)
    }))

  it.effect.prop(
    "succeeds or fails with a typed error for any response (guides/client)",
    [Arbitrary.schema(Schema.Json), Arbitrary.schema(Schema.Literals([200, 204, 304, 400, 404, 409, 422, 500, 599]))],
    ([body, status]) =>
      Effect.gen(function* () {
        const empty = status === 204 || status === 304
        const script = makeScript({ status, body: JSON.stringify(body) })
        const client = empty ? makeScript("lost") : script
        const exit = yield* Effect.exit(
          Effect.result((yield* makeScriptedClient(client, { retries: { times: 0 } })).news.get()),
        )
        assert.strictEqual(exit._tag, "Success")
      }),
  )
})

describe("The client, given headers and options,", () => {
  it.effect("reports the metadata of every response, and each deprecation once (§9.4, D5, D18, D27)", () =>
    Effect.gen(function* () {
      const received: Array<readonly [string, ResponseMetadata]> = []
      const deprecations: Array<unknown> = []
      const script = makeScript({
        ...makeRefusal(404, "not_found", {
          "deprecation": "@1793491200",
          "sunset": "Mon, 01 Nov 2027 00:00:00 GMT",
          "link": `<http://x/v1/a?b=1,2>; rel="next", <http://x/v1/c>; rel=successor-version, ` +
            `<http://x/v1/docs>; rel="deprecation"; type="text/html"`,
          "x-dropped-tickers": "%40%40,%E2%82%AC,%",
          "x-omitted-types": "gap,dilution",
          "x-lineage": "OSTK..2023-11-06, BYON;outside=100+, AAPL, GAP7;outside=3;more=12",
          "x-as-of": "2026-03-01T23:59:59.999999-05:00",
          "x-cost-microdollars": "12",
          "x-ratelimit-limit": "200",
          "x-ratelimit-remaining": "0",
          "x-ratelimit-reset": "60",
          "x-api-version": "v1",
        }),
      })
      const tickerline = yield* makeScriptedClient(script, {
        onResponse: (path, metadata) => Effect.sync(() => void received.push([path, metadata])),
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
      assert.deepStrictEqual(received[1], ["/v1/historical-tickers", {
        status: 404,
        request_id: "r-1",
        attempts: 1,
        api_version: "v1",
        cost_microdollars: 12,
        rate_limit: { limit: 200, remaining: 0, reset_seconds: 60 },
        as_of: "2026-03-01T23:59:59.999999-05:00",
        dropped_tickers: ["@@", "€", "%"],
        lineages: [
          { periods: [{ ticker: "OSTK", until: "2023-11-06" }, { ticker: "BYON", until: null }], omitted_rows: 100 },
          { periods: [{ ticker: "AAPL", until: null }], omitted_rows: 0 },
          { periods: [{ ticker: "GAP7", until: null }], omitted_rows: 3 },
        ],
        more_lineages: 12,
        omitted_types: ["gap", "dilution"],
        empty_reason: null,
        next_page: "http://x/v1/a?b=1,2",
        deprecated,
        retry_after_seconds: null,
      }])
    }))

  it.effect("sends the key, a request id and the user agent (D2, D12)", () =>
    Effect.gen(function* () {
      const script = makeScript(success)
      const tickerline = yield* makeScriptedClient(script, { userAgent: "desk/1", baseUrl: "http://x.example/market/" })
      yield* tickerline.tickerChanges.get({ ticker: "a b&c" })
      const [request] = script.requests
      if (request === undefined) return assert.fail("There was no request")
      assert.strictEqual(request.url, "http://x.example/market/v1/ticker-changes?ticker=a+b%26c")
      assert.strictEqual(request.headers["authorization"], `Bearer ${key}`)
      assert.match(request.headers["user-agent"] ?? "", /^desk\/1 tickerline-client\/\d/)
      assert.notInclude(JSON.stringify(request), key)
    }))

  it.effect("rejects invalid options without revealing the key (D2)", () =>
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
        const error = yield* Effect.flip(makeScriptedClient(makeScript(success), options))
        assert.strictEqual(error._tag, "InvalidOptions")
        assert.notInclude(error.message, "secret")
      }
    }))
})

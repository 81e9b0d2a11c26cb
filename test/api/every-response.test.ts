/** Tests the headers of every response, and responses that no endpoint sends (§9.1, D10 to D14), over plain sockets. */
import { NodeCrypto, NodeServices } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Arbitrary, ConfigProvider, Context, Effect, Layer, Option, Schedule, Schema, Tracer } from "effect"
import { SqlClient } from "effect/sql"
import { TestConsole } from "effect/testing"
import { type IncomingHttpHeaders, request } from "node:http"
import * as Accounts from "../../src/accounts/Accounts.ts"
import { EmbeddedHomeDirectory } from "../../src/postgres/ConnectionLayers.ts"
import { chooseFreePort } from "../../src/postgres/embedded/EmbeddedCluster.ts"
import { BaseUrl } from "../../src/api/BaseUrl.ts"
import { catalogueEndpoints } from "../../src/api/catalogue/Endpoints.ts"
import { corsAllowedHeaderNames } from "../../src/contract/rules/RequestHeaders.ts"
import { openApiResponseHeaders } from "../../src/contract/rules/ResponseHeaders.ts"
import { sampleUnlessThorough } from "../support/Thoroughness.ts"
import { serveUntilInterrupted } from "../../src/operate/cli/ServeCommand.ts"
import { exchangeText } from "../support/Processes.ts"
import * as Service from "../support/Service.ts"
import { decompressBody } from "../support/ServiceInstances.ts"

const { valueAt, insertRows, servicePort, TestKeys } = Service

interface ReceivedResponse {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  readonly body: unknown
}

interface Options {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string | ReadonlyArray<string>>>
  /** The API key to send. By default, the key of an account with the tier `basic`; `null` sends no key. */
  readonly key?: string | null
}

const parseJsonBody = (type: string | undefined, text: string): unknown =>
  type?.startsWith("application/json") === true && text !== "" ? JSON.parse(text) : undefined

/** Sends a request with exactly this target, byte for byte. Does not follow redirects. */
const send = Effect.fnUntraced(function* (path: string, { headers = {}, key, method = "GET" }: Options = {}) {
  const keys = yield* TestKeys
  const credentials = key === null ? {} : { "X-API-Key": key ?? keys.basic }
  const listening = yield* servicePort
  return yield* Effect.callback<ReceivedResponse, Error>((resume) => {
    const all = Object.entries({ ...credentials, ...headers })
    const outgoing = request({ host: "127.0.0.1", port: listening, path, method, agent: false }, (incoming) => {
      const chunks: Array<Buffer> = []
      incoming.on("data", (chunk: Buffer) => chunks.push(chunk))
      incoming.on("end", () => {
        const text = decompressBody(incoming.headers["content-encoding"], Buffer.concat(chunks)).toString("utf8")
        const body = parseJsonBody(incoming.headers["content-type"], text)
        resume(Effect.succeed({ status: incoming.statusCode ?? 0, headers: incoming.headers, text, body }))
      })
    })
    all.forEach(([name, value]) => outgoing.setHeader(name, value))
    outgoing.on("error", (error) => resume(Effect.fail(error)))
    outgoing.end()
  })
})

const parseResponse = (text: string): ReceivedResponse => {
  const end = text.indexOf("\r\n\r\n")
  const [start = "", ...lines] = text.slice(0, end).split("\r\n")
  const headers: Record<string, string> = Object.fromEntries(lines.map((line) => {
    const colon = line.indexOf(":")
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
  }))
  const body = text.slice(end + 4)
  const chunked = headers["transfer-encoding"] === "chunked"
  return {
    status: Number(start.split(" ")[1]),
    headers,
    text: body,
    body: chunked ? undefined : parseJsonBody(headers["content-type"], body),
  }
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

const assertCommonHeaders = ({ body, headers }: ReceivedResponse) => {
  assert.strictEqual(headers["x-api-version"], "v1")
  assert.strictEqual(headers["x-content-type-options"], "nosniff")
  assert.match(String(headers["x-request-id"]), /^[A-Za-z0-9._-]{1,128}$/)
  if (valueAt(body, "error") !== undefined) assert.strictEqual(valueAt(body, "request_id"), headers["x-request-id"])
}

const assertError = (response: ReceivedResponse, status: number, code: string) => {
  assert.strictEqual(response.status, status, response.text)
  assertCommonHeaders(response)
  assert.strictEqual(valueAt(response.body, "error", "code"), code)
  assert.isString(valueAt(response.body, "error", "message"))
  assert.strictEqual(valueAt(response.body, "request_id"), response.headers["x-request-id"])
}

/** Headers that differ in every response or depend on the connection. */
const headersPerResponse = new Set(["connection", "date", "keep-alive", "transfer-encoding", "x-request-id"])

const listComparableHeaders = (headers: IncomingHttpHeaders) =>
  Object.entries(headers).filter(([name]) => !headersPerResponse.has(name)).toSorted(([a], [b]) => a < b ? -1 : 1)

/** Headers for the rate limit (D18) and the cost (D27), which change with every request. */
const countingHeaders = new Set(["x-cost-microdollars", "x-ratelimit-remaining", "x-ratelimit-reset"])

const listHeaderNames = (headers: IncomingHttpHeaders) => listComparableHeaders(headers).map(([name]) => name)

const listUncountedHeaders = (headers: IncomingHttpHeaders) =>
  listComparableHeaders(headers).filter(([name]) => !countingHeaders.has(name))

const assertCounted = ({ headers }: ReceivedResponse) => {
  for (const name of [...countingHeaders, "x-ratelimit-limit"]) assert.match(String(headers[name]), /^\d+$/, name)
}

const deprecation = ["deprecation", "link"] as const

const assertDeprecated = ({ headers }: ReceivedResponse) => {
  deprecation.forEach((name) => assert.isDefined(headers[name], name))
  assert.include(String(headers["link"]), `</v1/ticker-changes>; rel="successor-version"`)
}

const competing = [
  { old_ticker: "EDGA", new_ticker: "EDGB", effective_date: "2020-01-01", status: "confirmed" },
  { old_ticker: "EDGA", new_ticker: "EDGC", effective_date: "2021-01-01", status: "confirmed" },
]

const undecodable = [
  ["percent without digits", "%ZZ"],
  ["a lone percent", "%"],
  ["one digit", "%4"],
  ["a byte that is never UTF-8", "%FF"],
  ["overlong UTF-8", "%C0%AF"],
  ["a surrogate in UTF-8", "%ED%A0%80"],
  ["UTF-8 cut short", "%E2%82"],
] as const

/** Creates the keys that the requests send. */
const requestKeys = {
  "no key": Effect.succeed(null),
  "a basic key": Effect.map(TestKeys, ({ basic }) => basic),
  "a key for /v1/news": Service.ensureAccountWithKey("edge narrow", "basic", { endpoints: ["/v1/news"] }),
  "a key without balance": Effect.andThen(
    Accounts.ensureAccount({ name: "edge prepaid", tier: "basic", email: null, prepaid: true }),
    Service.ensureAccountWithKey("edge prepaid", "basic"),
  ),
}

/** One request for each status, with the name of the key to send. */
const responses = ([
  [200, "GET", "/endpoints", "no key"],
  [200, "GET", "/v1/docs", "no key"],
  [200, "GET", "/v1/openapi.json", "no key"],
  [200, "GET", "/health/live", "no key"],
  [200, "GET", "/health/ready", "no key"],
  [200, "GET", "/v1/intraday-runners", "a basic key"],
  [200, "HEAD", "/v1/intraday-runners", "a basic key"],
  [200, "HEAD", "/endpoints", "a basic key"],
  [204, "OPTIONS", "/v1/intraday-runners", "no key"],
  [204, "OPTIONS", "/", "no key"],
  [301, "GET", "/enterprise/v1/news", "no key"],
  [301, "HEAD", "/enterprise/v1/news", "no key"],
  [400, "GET", "/v1/intraday-runners?ticker=%ZZ", "a basic key"],
  [400, "HEAD", "/v1/intraday-runners?ticker=%ZZ", "a basic key"],
  [400, "POST", "/%FF", "a basic key"],
  [400, "OPTIONS", "/%FF", "a basic key"],
  [401, "GET", "/v1/intraday-runners", "no key"],
  [401, "HEAD", "/v1/historical-tickers", "no key"],
  [200, "GET", "/v1/account", "a basic key"],
  [200, "GET", "/estimate?endpoint=/v1/news", "a basic key"],
  [402, "GET", "/v1/intraday-runners", "a key without balance"],
  [402, "HEAD", "/v1/intraday-runners", "a key without balance"],
  [403, "GET", "/v1/research-reports", "a basic key"],
  [403, "GET", "/v1/intraday-runners", "a key for /v1/news"],
  [403, "HEAD", "/v1/intraday-runners", "a key for /v1/news"],
  [404, "GET", "/nowhere", "a basic key"],
  [404, "HEAD", "/nowhere", "a basic key"],
  [404, "DELETE", "/nowhere", "a basic key"],
  [302, "GET", "/", "a basic key"],
  [404, "GET", "/v1", "a basic key"],
  [404, "GET", "/v1/", "a basic key"],
  [404, "GET", "/v1/historical-tickers?ticker=NONE", "a basic key"],
  [405, "POST", "/v1/intraday-runners", "a basic key"],
  [405, "PUT", "/health/live", "a basic key"],
  [409, "GET", "/v1/ticker-changes?ticker=EDGA", "a basic key"],
  [422, "GET", "/v1/ticker-changes", "a basic key"],
  [422, "GET", "/endpoints?x=1", "no key"],
] as const).map(([status, method, path, key]) => ({ status, method, path, key }))

const competingChanges = Layer.effectDiscard(insertRows("ticker_changes", ...competing))

layer(Layer.provideMerge(competingChanges, Service.layer), { excludeTestServices: true })("The service", (it) => {
  // -------------------------------------------------------------------------------------------------------------------
  // Every response
  // -------------------------------------------------------------------------------------------------------------------

  it.effect.each(responses)(
    "sends X-API-Version, X-Request-Id and nosniff: $status for $method $path with $key (§9.1.2, D14)",
    ({ key, method, path, status }) =>
      Effect.gen(function* () {
        const response = yield* send(path, { method, key: yield* requestKeys[key] })
        assert.strictEqual(response.status, status)
        assertCommonHeaders(response)
        assert.match(String(response.headers["x-request-id"]), uuid)
      }),
  )

  it.effect("creates a new request id for each request (D12)", () =>
    Effect.gen(function* () {
      const received = yield* Effect.forEach(Array.from({ length: 20 }), () => send("/health/live"), {
        concurrency: 10,
      })
      assert.strictEqual(new Set(received.map(({ headers }) => headers["x-request-id"])).size, received.length)
    }))

  it.effect("keeps a valid request id of the client, in the header and the body (D12)", () =>
    Effect.gen(function* () {
      for (const id of ["a", "0", ".", "_", "-", "Order.7_of-9", "x".repeat(128)]) {
        const good = yield* send("/health/live", { headers: { "X-Request-Id": id } })
        assert.strictEqual(good.headers["x-request-id"], id)
        const bad = yield* send("/nowhere", { headers: { "X-Request-Id": id } })
        assertError(bad, 404, "not_found")
        assert.strictEqual(valueAt(bad.body, "request_id"), id)
      }
    }))

  it.effect("replaces an invalid request id (D12)", () =>
    Effect.gen(function* () {
      for (const id of ["", "x".repeat(129), "a b", "a,b", "a/b", "<script>", "\u00e9", "a\tb", "%41", "a:b", "a+b"]) {
        const response = yield* send("/nowhere", { headers: { "X-Request-Id": id } })
        assertError(response, 404, "not_found")
        assert.match(String(response.headers["x-request-id"]), uuid, JSON.stringify(id))
      }
    }))

  it.effect("replaces a repeated X-Request-Id header with a new id (D12)", () =>
    Effect.gen(function* () {
      const response = yield* send("/health/live", { headers: { "X-Request-Id": ["one", "two"] } })
      assert.match(String(response.headers["x-request-id"]), uuid)
    }))

  const octet = Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 0x5e + 96 })))
  const headerText = Arbitrary.map(
    Arbitrary.array(octet, { minLength: 0, maxLength: 140 }),
    (codes) => codes.map((code) => String.fromCharCode(code <= 0x5e ? code + 0x20 : code + 0x41)).join(""),
  )
  const wordText = Arbitrary.map(
    Arbitrary.array(Arbitrary.schema(Schema.Literals([..."aZ09._-a,"])), { minLength: 1, maxLength: 135 }),
    (letters) => letters.join(""),
  )

  it.effect.prop("keeps any request id of 1 to 128 characters of [A-Za-z0-9._-] and replaces all others (D12)", {
    wild: headerText,
    word: wordText,
  }, ({ wild, word }) =>
    Effect.gen(function* () {
      for (const sent of [wild, word]) {
        const { headers } = yield* send("/health/live", { headers: { "X-Request-Id": sent } })
        const id = sent.replace(/^[ \t]+|[ \t]+$/g, "")
        if (/^[A-Za-z0-9._-]{1,128}$/.test(id)) assert.strictEqual(headers["x-request-id"], id)
        else assert.match(String(headers["x-request-id"]), uuid)
      }
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Redirects (301)
  // -------------------------------------------------------------------------------------------------------------------

  const legacy = [
    "/news",
    "/intraday-runners?ticker=ABC,DEF&page=2",
    "/intraday-runners?ticker=a%20b&x=%2F%2f&y=%E2%82%AC&&=&z",
    "/account/api-keys/",
    "/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p",
    "//evil.example/x",
    "/a//b///c",
    "/%61%2Fb/%3Fc?d=%3D",
    "/a;b=c/@!$&'()*+,=:~",
    "/../up/./here",
    "/news?next=/enterprise/v1/x",
    "/enterprise/v1/news",
    "/",
    "/?",
    "/news?",
    "/news?a=?b?c",
    "/news?+plus+",
    `/${"deep/".repeat(200)}end`,
    `/${"x".repeat(4000)}?${"y".repeat(4000)}`,
  ]

  it.effect.each(legacy)(
    "redirects a legacy path, and keeps the rest of the path and the query byte for byte: %s (§9.1.3, §4.5)",
    (rest) =>
      Effect.gen(function* () {
        for (const method of ["GET", "HEAD"]) {
          const response = yield* send(`/enterprise/v1${rest}`, { method, key: null })
          assert.strictEqual(response.status, 301)
          assert.strictEqual(response.headers.location, `/v1${rest}`)
          assertCommonHeaders(response)
        }
      }),
  )

  it.effect("redirects a legacy path without a key and with an invalid key (§9.1.3, D2)", () =>
    Effect.gen(function* () {
      for (const key of [null, "nonsense"]) {
        const { status } = yield* send("/enterprise/v1/intraday-runners?nonsense=1", { key })
        assert.strictEqual(status, 301)
      }
    }))

  it.effect("never redirects to a legacy path, no matter how the request encodes it (§9.1.3)", () =>
    Effect.gen(function* () {
      for (
        const path of [
          "/%65nterprise/v1/news",
          "/enterprise/%761/news",
          "//enterprise//v1//news",
          "/enterprise%2Fv1/news",
        ]
      ) {
        const { headers, status } = yield* send(path, { key: null })
        if (status === 301) assert.match(String(headers.location), /^\/v1\//, `${path} → ${headers.location}`)
        else assert.strictEqual(status, 404, path)
      }
    }))

  it.effect("redirects a legacy path to its endpoint (§9.1.3)", () =>
    Effect.gen(function* () {
      const first = yield* send("/enterprise/v1/ticker-changes?ticker=EDGZ")
      const second = yield* send(String(first.headers.location))
      assert.strictEqual(second.status, 200)
      assert.strictEqual(valueAt(second.body, "results", 0, "query_ticker"), "EDGZ")
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Unknown paths (404) and methods (405)
  // -------------------------------------------------------------------------------------------------------------------

  const unknownPaths = [
    "/v1",
    "/v1/",
    "/v2/intraday-runners",
    "/v1/intraday_runners",
    "/v1/Intraday-Runners",
    "/V1/intraday-runners",
    "/v1/intraday-runners/1",
    "/v1/intraday-runners.json",
    "/v1/intraday-runners;page=2",
    "/intraday-runners",
    "/enterprise",
    "/enterprise/v2/news",
    "/v1/%00",
    "/v1/%2e%2e/endpoints",
    "/%E2%82%AC",
    "/.env",
    "/*",
    `/${"x".repeat(8000)}`,
    `/v1/${"a/".repeat(3000)}`,
    `/v1/intraday-runners/${"x".repeat(5000)}`,
  ]

  it.effect.each(unknownPaths)(
    "responds to an unknown path with 404, with and without a key: %s (D10)",
    (path) =>
      Effect.gen(function* () {
        for (const key of [undefined, null]) {
          const response = yield* send(path, key === null ? { key } : {})
          assertError(response, 404, "not_found")
          assert.isBelow(response.text.length, 1000)
        }
        const head = yield* send(path, { method: "HEAD" })
        assert.strictEqual(head.status, 404)
        const post = yield* send(path, { method: "POST" })
        assertError(post, 404, "not_found")
      }),
  )

  it.effect.each(["POST", "PUT", "PATCH", "DELETE", "PROPFIND", "TRACE", "PURGE", "QUERY", "M-SEARCH"])(
    "answers %s on an endpoint with 405 and Allow, with and without a key (D10)",
    (method) =>
      Effect.gen(function* () {
        for (
          const path of ["/v1/intraday-runners?x=1", "/v1/ticker-changes", "/endpoints", "/v1/docs", "/health/live"]
        ) {
          for (const options of [{ method }, { method, key: null }]) {
            const response = yield* send(path, options)
            assertError(response, 405, "method_not_allowed")
            assert.strictEqual(response.headers.allow, "GET, HEAD")
            assert.isUndefined(response.headers["deprecation"])
          }
        }
        const unknown = yield* send("/nowhere", { method })
        assertError(unknown, 404, "not_found")
        assert.isUndefined(unknown.headers.allow)
      }),
  )

  it.effect.each(["POST", "PUT", "DELETE", "TRACE", "PROPFIND"])(
    "answers %s on a legacy path with 405 and Allow, with and without a key (D10)",
    (method) =>
      Effect.gen(function* () {
        for (
          const path of ["/enterprise/v1/news", "/enterprise/v1/nowhere?a=b", "/enterprise/v1/", "/enterprise/v1/a;b"]
        ) {
          for (const options of [{ method }, { method, key: null }]) {
            const response = yield* send(path, options)
            assertError(response, 405, "method_not_allowed")
            assert.strictEqual(response.headers.allow, "GET, HEAD")
          }
        }
        for (const path of ["/enterprise", "/enterprise/v2/news", "/%65nterprise/v1/news"]) {
          assertError(yield* send(path, { method }), 404, "not_found")
        }
      }),
  )

  it.effect.each(
    ([
      ["/v1/nwes", "/v1/news"],
      ["/v1/News", "/v1/news"],
      ["/v2/news", "/v1/news"],
      ["/news", "/v1/news"],
      ["/api/v1/news", "/v1/news"],
      ["/v1/news/AAPL", "/v1/news"],
      ["/v1/intraday_runners", "/v1/intraday-runners"],
      ["/v1/intraday-runners.json", "/v1/intraday-runners"],
      ["/v1/float", "/v1/float-outstanding"],
      ["/v1/endpoints", "/endpoints"],
      ["/v1/account/api_keys", "/v1/account/api-keys"],
      ["/openapi.json", "/v1/openapi.json"],
      ["/helth/live", "/health/live"],
    ] as const).flatMap(([path, endpoint]) => ["GET", "POST"].map((method) => ({ method, path, endpoint }))),
  )("suggests $endpoint for $method $path (D10)", ({ endpoint, method, path }) =>
    Effect.gen(function* () {
      const response = yield* send(path, { method, key: null })
      assertError(response, 404, "not_found")
      const message = valueAt(response.body, "error", "message")
      assert.strictEqual(
        message,
        `There is no endpoint at ${path}. Did you mean ${endpoint}? GET /endpoints lists them all.`,
      )
    }))

  it.effect("suggests nothing for a path that is not similar to any endpoint (D10)", () =>
    Effect.gen(function* () {
      const far = [
        "/v1",
        "/v1/",
        "/v1/x",
        "/.env",
        "/wp-admin",
        "/v1/price-history",
        "/enterprise",
        `/v1/${"news".repeat(2000)}`,
      ]
      for (const path of far) {
        const response = yield* send(path, { key: null })
        assertError(response, 404, "not_found")
        assert.notInclude(response.text, "Did you mean", path)
      }
    }))

  it.effect("refuses a parameter without a name and suggests no other name (D4)", () =>
    Effect.gen(function* () {
      for (const path of ["/v1/news?=5", "/v1/news?=5&=6", "/v1/screener?ticker=A&=", "/endpoints?=x"]) {
        const response = yield* send(path)
        assertError(response, 422, "validation_error")
        assert.deepStrictEqual(valueAt(response.body, "error", "details", "fields"), [
          { field: "query", reason: "The query string contains a parameter without a name; remove it." },
        ], path)
      }
    }))

  it.effect("adds the deprecation headers to a 405, no matter how the path is written (§9.4, D14)", () =>
    Effect.gen(function* () {
      for (
        const path of [
          "/v1/historical-tickers",
          "/v1/historical-tickers?ticker=A",
          "/v1/historical-tickers/",
          "//v1//historical-tickers",
          "/v1/%68istorical-tickers",
          "/v1/Historical-Tickers",
        ]
      ) {
        // The GET shows whether the path matches an endpoint. If it does, the POST gets a 405, otherwise a 404.
        const got = yield* send(path, { key: null })
        const response = yield* send(path, { method: "POST" })
        if (got.status === 404) assertError(response, 404, "not_found")
        else {
          assertDeprecated(got)
          assertError(response, 405, "method_not_allowed")
          assertDeprecated(response)
        }
      }
    }))

  it.effect.each(["GET", "HEAD", "POST", "OPTIONS"])(
    "adds the deprecation headers to the 400 for %s with an undecodable query (§9.4, D14)",
    (method) =>
      Effect.gen(function* () {
        const response = yield* send("/v1/historical-tickers?ticker=%ZZ", { method })
        assert.strictEqual(response.status, 400)
        assertDeprecated(response)
      }),
  )

  it.effect("adds the deprecation headers to the response to OPTIONS (§9.4, D14)", () =>
    Effect.gen(function* () {
      const response = yield* send("/v1/historical-tickers", { method: "OPTIONS", key: null })
      assert.strictEqual(response.status, 204)
      assertDeprecated(response)
    }))

  it.effect("responds to OPTIONS with 204, and allows no origin by default (D10)", () =>
    Effect.gen(function* () {
      for (const path of ["/v1/intraday-runners", "/endpoints", "/v1/docs"]) {
        const response = yield* send(path, {
          method: "OPTIONS",
          key: null,
          headers: { Origin: "https://app.example", "Access-Control-Request-Method": "GET" },
        })
        assert.strictEqual(response.status, 204)
        assert.strictEqual(response.text, "")
        assert.strictEqual(response.headers.allow, "GET, HEAD")
        assertCommonHeaders(response)
        assert.deepStrictEqual(Object.keys(response.headers).filter((name) => name.startsWith("access-control")), [])
      }
      const got = yield* send("/endpoints", { headers: { Origin: "https://app.example" } })
      assert.isUndefined(got.headers["access-control-allow-origin"])
    }))

  it.effect.each([
    "/endpoints",
    "/v1/docs",
    "/v1/openapi.json",
    "/health/live",
    "/health/ready",
    "/v1/intraday-runners?ticker=EDGE,@@",
    "/v1/ticker-changes?ticker=EDGZ",
    "/v1/ticker-changes?ticker=EDGA",
    "/v1/historical-tickers?ticker=NONE",
    "/v1/intraday-runners?page=0",
    "/v1/research-reports",
    "/v1/account",
    "/v1/usage?requested_at_to=2020-01-01",
    "/estimate?endpoint=/v1/ticker-changes&ticker=EDGZ",
    "/estimate?endpoint=/v1/ticker-changes&ticker=EDGA",
    "/estimate?endpoint=/v1/intraday-runners&page=0",
    "/estimate?endpoint=/v1/research-reports",
    "/estimate",
    "/enterprise/v1/news?a=b",
    "/nowhere",
    "/%FF",
  ])(
    "gives HEAD the status and headers of GET without the body: %s (D10, D18, D27)",
    (path) =>
      Effect.gen(function* () {
        for (const options of [{}, { key: null }]) {
          const get = yield* send(path, options)
          const head = yield* send(path, { ...options, method: "HEAD" })
          assert.strictEqual(head.status, get.status)
          assert.strictEqual(head.text, "")
          assert.deepStrictEqual(listHeaderNames(head.headers), listHeaderNames(get.headers))
          assert.deepStrictEqual(listUncountedHeaders(head.headers), listUncountedHeaders(get.headers))
          if (head.headers["x-cost-microdollars"] !== undefined) {
            assertCounted(get)
            assertCounted(head)
            assert.strictEqual(head.headers["x-cost-microdollars"], "0")
          }
        }
      }),
  )

  it.effect("gives HEAD the headers of GET for every endpoint, in every format and encoding (D10, D17, guides/caching)", () =>
    Effect.gen(function* () {
      const queries = ["", "?ticker=EDGA", "?limit=5&format=csv", "?limit=5&format=ndjson", "?limit=5&format=parquet"]
      const exports = ["?limit=all&format=csv", "?limit=all&format=ndjson", "?limit=all&format=parquet"]
      const pages = [
        "/v1/docs",
        "/v1/docs/errors",
        "/v1/docs/nowhere",
        "/mcp",
        "/",
        "/enterprise/v1/news",
        "/v1/changes/x",
      ]
      const endpoints = catalogueEndpoints.filter(({ isEndless, row }) =>
        !isEndless && !row.path.startsWith("/v1/usage")
      )
      const all = endpoints.flatMap(({ row }) => [...queries, ...exports].map((query) => row.path + query))
      // Usage endpoints are left out, because they list the requests of this test.
      const sent = [...sampleUnlessThorough(all, 7, 0), ...pages]
      const headers = [{}, { "Accept-Encoding": "gzip" }, { "If-None-Match": "*" }]
      for (const [index, path] of sent.entries()) {
        const options = { headers: headers[index % headers.length] ?? {} }
        const get = yield* send(path, options)
        const head = yield* send(path, { ...options, method: "HEAD" })
        assert.deepStrictEqual([head.status, head.text], [get.status, ""], path)
        const own = new Set(["connection", "date", "keep-alive", "x-request-id", ...countingHeaders])
        const compared = (response: ReceivedResponse) =>
          Object.entries(response.headers).filter(([name]) => !own.has(name)).toSorted()
        assert.deepStrictEqual(compared(head), compared(get), path)
      }
    }))

  it.effect("responds to every path with a slash at its end like the path without it (D10)", () =>
    Effect.gen(function* () {
      const paths = [
        ...catalogueEndpoints.filter(({ isEndless }) => !isEndless).map(({ row }) => row.path),
        "/v1/docs",
        "/mcp",
      ]
      for (const path of [...paths, "/v1/docs/errors", "/enterprise/v1/news"]) {
        for (const method of ["GET", "HEAD", "POST", "PUT", "OPTIONS"]) {
          const [plain, slashed] = [yield* send(path, { method }), yield* send(`${path}/`, { method })]
          assert.strictEqual(slashed.status, plain.status, `${method} ${path}/`)
          assert.deepStrictEqual(slashed.headers.allow, plain.headers.allow, `${method} ${path}/`)
        }
      }
    }))

  it.effect("ignores the parameters of health checks, so that no probe takes the service out (D4)", () =>
    Effect.gen(function* () {
      for (const path of ["/health/live", "/health/ready", "/health/ready/"]) {
        for (const query of ["?_=1", "?_=1&_=2", "?", "?a[]=b&=c"]) {
          assert.strictEqual((yield* send(path + query, { key: null })).status, 200, path + query)
        }
      }
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Undecodable URLs (400), and information that errors must not reveal
  // -------------------------------------------------------------------------------------------------------------------

  it.effect.each(undecodable)(
    "responds to an undecodable URL with 400: %s (D13)",
    ([, bytes]) =>
      Effect.gen(function* () {
        const paths = [
          `/v1/intraday-runners?ticker=${bytes}`,
          `/v1/intraday-runners?${bytes}=1`,
          `/v1/${bytes}`,
          `/${bytes}/x`,
          `/enterprise/v1/${bytes}`,
          `/enterprise/v1/news?a=${bytes}`,
          `/endpoints?${bytes}`,
        ]
        for (const path of paths) {
          for (const method of ["GET", "POST"]) assertError(yield* send(path, { method }), 400, "bad_request")
        }
      }),
  )

  it.effect("accepts reserved, non-ASCII and control characters that are encoded correctly (D13)", () =>
    Effect.gen(function* () {
      for (const bytes of ["%25", "%2B", "%F0%9F%98%80", "%00", "%0D%0A", "%7F", "+", "%2525ZZ"]) {
        const response = yield* send(`/v1/ticker-changes?ticker=${bytes}`)
        assertError(response, 422, "validation_error")
      }
    }))

  it.effect("reveals no SQL, stack trace or key in any error (D11)", () =>
    Effect.gen(function* () {
      const { basic } = yield* TestKeys
      yield* insertRows(
        "ticker_changes",
        ...competing.map((row) => ({ ...row, old_ticker: "EDGK", cik: "0000000001" })),
      )
      const mistyped = `${basic.slice(0, -1)}${basic.endsWith("a") ? "b" : "a"}`
      const paths = [
        `/v1/intraday-runners?ticker=@${basic}`,
        `/v1/intraday-runners?api_key=x`,
        `/v1/intraday-runners?page=select`,
        `/v1/intraday-runners?ticker=%00`,
        `/v1/intraday-runners?ticker=';drop table api_keys;--`.replaceAll(" ", "%20"),
        "/v1/ticker-changes?ticker=EDGK",
        "/v1/ticker-changes?ticker='",
        "/v1/historical-tickers?ticker=NONE",
        "/nowhere",
        "/%ZZ",
      ]
      for (const path of paths) {
        for (const key of [basic, mistyped]) {
          for (
            const headers of [{ "X-API-Key": key }, { Authorization: `Bearer ${key}` }, {
              Authorization: `Basic ${key}`,
            }]
          ) {
            for (const method of ["GET", "POST"]) {
              const response = yield* send(path, { headers, key: null, method })
              assert.isAtLeast(response.status, 400, path)
              assert.isBelow(response.status, 500, `${path} ${response.text}`)
              const shown = JSON.stringify([response.headers, response.text])
              // An error may repeat text from the query, but never a key that was sent in a header.
              if (!path.includes(basic)) assert.notInclude(shown, key.slice(8))
              assert.notMatch(
                response.text,
                /\bat \S+ \(|node_modules|\.ts:\d|select |from api_keys|SqlError|postgres/i,
              )
            }
          }
        }
      }
    }))

  it.effect("does not accept a key in the query string (D2, D11)", () =>
    Effect.gen(function* () {
      const { basic } = yield* TestKeys
      for (const name of ["api_key", "X-API-Key", "key", "access_token"]) {
        assertError(yield* send(`/v1/intraday-runners?${name}=${basic}`, { key: null }), 401, "missing_api_key")
      }
    }))

  it.effect("responds to hundreds of unknown parameters with a short error (D4, D11)", () =>
    Effect.gen(function* () {
      const flood = Array.from({ length: 1800 }, (_, number) => `p${number}=1`).join("&")
      const response = yield* send(`/v1/intraday-runners?${flood}`)
      assertError(response, 422, "validation_error")
      assert.isBelow(response.text.length, 10_000)
      const long = yield* send(`/v1/intraday-runners?${"n".repeat(12_000)}=1`)
      assertError(long, 422, "validation_error")
      assert.isBelow(long.text.length, 1000)
    }))

  const unusualHeaders: ReadonlyArray<{ readonly name: string; readonly headers: Record<string, string> }> = [
    { name: "no acceptable encoding except br", headers: { "Accept-Encoding": "br, gzip;q=0, *;q=0" } },
    { name: "no acceptable encoding", headers: { "Accept-Encoding": "identity;q=0" } },
    { name: "Accept of a browser", headers: { Accept: "text/html" } },
    { name: "an invalid Accept", headers: { Accept: "nonsense" } },
    { name: "an empty JSON body", headers: { "Content-Type": "application/json", "Content-Length": "0" } },
    { name: "a range", headers: { Range: "bytes=0-1" } },
    { name: "an invalid date", headers: { "If-Modified-Since": "nonsense" } },
    { name: "an odd cookie", headers: { Cookie: "a=b; =; ;;" } },
    { name: "an invalid traceparent", headers: { traceparent: "nonsense" } },
    {
      name: "a valid traceparent",
      headers: { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", tracestate: "a=b" },
    },
    { name: "SQL in X-Forwarded-For", headers: { "X-Forwarded-For": "'; drop table" } },
    { name: "a method override", headers: { "X-HTTP-Method-Override": "DELETE" } },
    { name: "a URL override", headers: { "X-Original-URL": "/nowhere" } },
    { name: "names of properties of every object", headers: { __proto__x: "1", constructor: "2" } },
    { name: "the origin null", headers: { Origin: "null" } },
    { name: "another host", headers: { Host: "evil.example" } },
    { name: "a header of 8,000 characters", headers: { "X-Long": "y".repeat(8000) } },
    { name: "Expect: 100-continue", headers: { Expect: "100-continue" } },
  ]

  it.effect.each(unusualHeaders)(
    "responds normally to a request with unusual headers: $name (D14)",
    ({ headers }) =>
      Effect.gen(function* () {
        for (const path of ["/endpoints", "/v1/intraday-runners?ticker=EDGE"]) {
          const response = yield* send(path, { headers })
          assert.strictEqual(response.status, 200, path)
          assertCommonHeaders(response)
          assert.match(String(response.headers["content-type"]), /^application\/json/)
          assert.strictEqual(valueAt(response.body, "error"), undefined)
        }
      }),
  )

  const preferences: ReadonlyArray<readonly [accepted: string, large: string | undefined, small?: string]> = [
    ["gzip, br, zstd", "zstd"],
    ["zstd;q=0.1, br;q=0.2, gzip;q=0.3", "gzip"],
    ["gzip;q=0.5, br;q=1.0", "br"],
    ["zstd;q=0, *", "br"],
    ["*", "zstd"],
    ["*;q=0.5, gzip", "gzip"],
    ["identity, gzip;q=0.5", undefined],
    ["gzip, identity;q=0.5", "gzip"],
    ["gzip;q=0, *;q=0", undefined],
    ["deflate, compress", undefined],
    ["GZIP;Q=1", "gzip"],
    ["", undefined],
    ["identity;q=0, gzip", "gzip", "gzip"],
    ["*;q=0, br", "br", "br"],
    ["identity;q=0", undefined],
  ]
  it.effect.each(preferences)(
    "compresses as the client prefers: Accept-Encoding: %s (RFC 9110, 12.5.3)",
    ([accepted, large, small]) =>
      Effect.gen(function* () {
        const headers = { "Accept-Encoding": accepted }
        const targets = [["/endpoints", large], ["/v1/docs", large], ["/health/live", small]] as const
        for (const [path, encoding] of targets) {
          const response = yield* send(path, { headers })
          assert.strictEqual(response.headers["content-encoding"], encoding, path)
          assert.match(response.headers["vary"] ?? "", /Accept-Encoding/, path)
        }
      }),
  )

  it.effect("accepts a GET with a body, HTTP/1.0, and an absolute-form target (D10)", () =>
    Effect.gen(function* () {
      const listening = yield* servicePort
      const requests = [
        "GET /endpoints HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
        "GET /endpoints HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" +
        "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        "GET /endpoints HTTP/1.0\r\n\r\n",
        "GET http://x/endpoints HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "\r\nGET /endpoints HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
      ]
      for (const bytes of requests) {
        const response = parseResponse(yield* exchangeText(listening, bytes))
        assert.strictEqual(response.status, 200, bytes)
        assertCommonHeaders(response)
      }
    }))

  it.effect("sends the common headers in responses to unusual targets and upgrades (D14)", () =>
    Effect.gen(function* () {
      const listening = yield* servicePort
      const requests: ReadonlyArray<readonly [number, string]> = [
        [204, "OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"],
        [200, "GET /endpoints HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n"],
        [
          200,
          "GET /endpoints HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n" +
          "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        ],
      ]
      for (const [status, bytes] of requests) {
        const response = parseResponse(yield* exchangeText(listening, bytes))
        assert.strictEqual(response.status, status, bytes)
        assertCommonHeaders(response)
      }
    }))
})

// ---------------------------------------------------------------------------------------------------------------------
// BASE_URL with a path
// ---------------------------------------------------------------------------------------------------------------------

const baseUrlWithPath = Layer.succeed(BaseUrl, "https://api.example.com:8443/market/data")

layer(Service.layer.pipe(Layer.provide(baseUrlWithPath)), { excludeTestServices: true })(
  "The service with a path in BASE_URL",
  (it) => {
    it.effect("keeps the path of BASE_URL in redirects, for GET and HEAD (§9.1.3, D10)", () =>
      Effect.gen(function* () {
        for (const method of ["GET", "HEAD"]) {
          for (const rest of ["/news?ticker=A%2CB&x=/enterprise/v1/y", "//a/../b", "/"]) {
            const response = yield* send(`/enterprise/v1${rest}`, { method, key: null })
            assert.strictEqual(response.status, 301)
            assert.strictEqual(response.headers.location, `/market/data/v1${rest}`)
            assertCommonHeaders(response)
          }
        }
      }))
  },
)

// ---------------------------------------------------------------------------------------------------------------------
// Unexpected failures and traces
// ---------------------------------------------------------------------------------------------------------------------

const spans: Array<Tracer.Span> = []

const recorder = Layer.succeed(
  Tracer.Tracer,
  Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      spans.push(span)
      return span
    },
  }),
)

layer(Service.layer.pipe(Layer.provide(recorder)), { excludeTestServices: true })(
  "The service with a broken table",
  (it) => {
    it.effect("responds to an unexpected failure with 500 and does not reveal the cause (§7.2, D11)", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`alter table intraday_runners rename column gap_percentage to gone`
        const response = yield* send("/v1/intraday-runners", { headers: { "X-Request-Id": "my-id" } })
        assertError(response, 500, "internal_error")
        assert.strictEqual(response.headers["x-request-id"], "my-id")
        assert.deepStrictEqual(Object.keys(Object(valueAt(response.body, "error"))), ["code", "message"])
        assert.notMatch(response.text, /gap_percentage|gone|column|select|sql|\.ts|Error:|\bat /i)
        assert.isUndefined(response.headers["retry-after"])
        const head = yield* send("/v1/intraday-runners", { method: "HEAD" })
        assert.strictEqual(head.status, 500)
        assertCommonHeaders(head)
        for (const each of [response, head]) {
          assertCounted(each)
          assert.strictEqual(each.headers["x-cost-microdollars"], "0")
        }
        // An estimate fails in the same way as the request that it estimates.
        const estimate = yield* send("/estimate?endpoint=/v1/intraday-runners", {
          headers: { "X-Request-Id": "my-id" },
        })
        assertError(estimate, 500, "internal_error")
        assert.deepStrictEqual(estimate.body, response.body)
        assertCounted(estimate)
      }))

    it.effect("continues a valid W3C traceparent and ignores an invalid one (D12)", () =>
      Effect.gen(function* () {
        const [trace, parent] = ["0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"]
        spans.length = 0
        yield* send("/health/live", { headers: { traceparent: `00-${trace}-${parent}-01` } })
        const continued = spans.find((span) => span.kind === "server")
        assert.strictEqual(continued?.traceId, trace)
        assert.strictEqual(continued === undefined ? "" : Option.getOrUndefined(continued.parent)?.spanId, parent)
        spans.length = 0
        yield* send("/health/live", { headers: { traceparent: "00-zz-zz-01" } })
        const own = spans.find((span) => span.kind === "server")
        assert.match(own?.traceId ?? "", /^[0-9a-f]{32}$/)
        assert.notStrictEqual(own?.traceId, trace)
      }))
  },
)

// ---------------------------------------------------------------------------------------------------------------------
// CORS
// ---------------------------------------------------------------------------------------------------------------------

const origins = ConfigProvider.layer(
  ConfigProvider.fromUnknown({ CORS_ORIGINS: "https://app.example, https://other.example:8443 ,," }),
)

layer(Service.layer.pipe(Layer.provide(origins)), { excludeTestServices: true })(
  "The service with CORS_ORIGINS",
  (it) => {
    it.effect.each(["https://app.example", "https://other.example:8443"])(
      "allows the preflight of a configured origin: %s (D10)",
      (origin) =>
        Effect.gen(function* () {
          const response = yield* send("/v1/intraday-runners", {
            method: "OPTIONS",
            key: null,
            headers: {
              Origin: origin,
              "Access-Control-Request-Method": "GET",
              "Access-Control-Request-Headers": "x-api-key",
            },
          })
          assert.strictEqual(response.status, 204)
          assert.strictEqual(response.headers["access-control-allow-origin"], origin)
          assert.strictEqual(response.headers["access-control-allow-methods"], "GET, HEAD")
          const allowed = String(response.headers["access-control-allow-headers"]).toLowerCase().split(", ")
          assert.includeMembers(allowed, ["authorization", "x-api-key", "x-request-id"])
          assert.match(String(response.headers.vary), /Origin/)
          assert.isUndefined(response.headers["access-control-allow-credentials"])
          assertCommonHeaders(response)
        }),
    )

    it.effect("allows each header that the service reads, and exposes each that it documents (D10)", () =>
      Effect.gen(function* () {
        for (const path of ["/v1/news", "/mcp", "/v1/changes/stream"]) {
          const response = yield* send(path, {
            method: "OPTIONS",
            key: null,
            headers: { Origin: "https://app.example", "Access-Control-Request-Method": "GET" },
          })
          const listed = (name: string) => String(response.headers[name]).split(", ")
          // Every header that the request types declare must be on this list.
          assert.deepStrictEqual(listed("access-control-allow-headers"), corsAllowedHeaderNames)
          assert.includeMembers(listed("access-control-allow-headers"), [
            "Authorization",
            "X-API-Key",
            "X-Request-Id",
            "Traceparent",
            "Tracestate",
            "If-None-Match",
            "Last-Event-ID",
            "MCP-Protocol-Version",
            "Mcp-Session-Id",
            "Content-Type",
          ])
          assert.deepStrictEqual(
            listed("access-control-expose-headers"),
            Object.keys(openApiResponseHeaders).toSorted(),
          )
        }
      }))

    it.effect("lets a configured origin read the status and headers of every response, including errors (D10, D14)", () =>
      Effect.gen(function* () {
        const paths = [
          "/endpoints",
          "/v1/intraday-runners",
          "/v1/ticker-changes",
          "/nowhere",
          "/%ZZ",
          "/enterprise/v1/x",
          "/v1/docs",
        ]
        for (const path of paths) {
          for (const method of ["GET", "HEAD", "POST"]) {
            const response = yield* send(path, { method, key: null, headers: { Origin: "https://app.example" } })
            assert.strictEqual(response.headers["access-control-allow-origin"], "https://app.example", path)
            assert.match(String(response.headers.vary), /Origin/)
            const exposed = String(response.headers["access-control-expose-headers"]).split(", ")
            assert.includeMembers(exposed, [
              "X-Request-Id",
              "X-API-Version",
              "Deprecation",
              "Sunset",
              "Link",
              "Retry-After",
              "X-Dropped-Tickers",
              "X-Cost-Microdollars",
              "X-RateLimit-Limit",
              "X-RateLimit-Remaining",
              "X-RateLimit-Reset",
            ])
          }
        }
      }))

    it.effect.each([
      "https://evil.example",
      "http://app.example",
      "https://app.example.evil.example",
      "https://app.example:443",
      "https://APP.example",
      "null",
      "*",
      "",
    ])("sends no CORS headers to another origin: %s (D10)", (origin) =>
      Effect.gen(function* () {
        for (const method of ["OPTIONS", "GET"]) {
          const response = yield* send("/endpoints", { method, key: null, headers: { Origin: origin } })
          assert.deepStrictEqual(Object.keys(response.headers).filter((name) => name.startsWith("access-control")), [])
          assert.match(String(response.headers.vary), /Origin/)
          assertCommonHeaders(response)
        }
      }))

    it.effect("sends Vary: Origin but no CORS header to a request without Origin (D10)", () =>
      Effect.gen(function* () {
        const { headers } = yield* send("/endpoints", { key: null })
        assert.isUndefined(headers["access-control-allow-origin"])
        assert.match(String(headers.vary), /Origin/)
      }))
  },
)

// ---------------------------------------------------------------------------------------------------------------------
// The socket of the serve command
// ---------------------------------------------------------------------------------------------------------------------

/** The port of a service started by the `serve` command, with a separate database. */
class ServePort extends Context.Service<ServePort, number>()("test/api/ServePort") {}

const serveLayer = Layer.effect(
  ServePort,
  Effect.gen(function* () {
    const listening = yield* chooseFreePort
    yield* Effect.forkScoped(Effect.provide(
      serveUntilInterrupted,
      ConfigProvider.layer(
        ConfigProvider.fromUnknown({ PORT: String(listening), BASE_URL: "https://api.tickerline.example/" }),
      ),
    ))
    yield* exchangeText(listening, "GET /health/ready HTTP/1.0\r\n\r\n").pipe(
      Effect.filterOrFail((text) => text.startsWith("HTTP/1.1 200")),
      Effect.retry({ schedule: Schedule.spaced("50 millis"), times: 1_000 }),
    )
    return listening
  }),
).pipe(
  Layer.provide(Service.migratedDatabaseLayer),
  Layer.provide(Layer.succeed(EmbeddedHomeDirectory, { folder: Option.none() })),
  Layer.provide(TestConsole.layer),
  Layer.provide(Layer.merge(NodeServices.layer, NodeCrypto.layer)),
)

layer(serveLayer, { excludeTestServices: true })("The service on a socket", (it) => {
  const malformed = [
    ["text that is not HTTP", "hello\r\n\r\n"],
    ["a TLS greeting", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"],
    ["HTTP/2 without negotiation", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    ["a space in the target", "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n"],
    ["a wrong version", "GET / HTTP/9.9\r\nHost: x\r\n\r\n"],
    ["a header without a name", "GET /endpoints HTTP/1.1\r\n: x\r\n\r\n"],
    ["a space before the colon", "GET /endpoints HTTP/1.1\r\nHost : x\r\n\r\n"],
    ["a NUL in a header", "GET /endpoints HTTP/1.1\r\nHost: x\r\nA: \0\r\n\r\n"],
    ["a length that is no number", "GET /endpoints HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n"],
    ["two lengths", "GET /endpoints HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"],
    [
      "length and chunks",
      "GET /endpoints HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
    ["a target without a slash", "GET ?a=b HTTP/1.1\r\nHost: x\r\n\r\n"],
    ["no Host", "GET /endpoints HTTP/1.1\r\nConnection: close\r\n\r\n"],
    ["two Hosts", "GET /endpoints HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n"],
  ] as const

  it.effect.each(malformed)(
    "answers malformed HTTP with the common headers and an error body: %s (D14)",
    ([what, bytes]) =>
      Effect.gen(function* () {
        const response = parseResponse(yield* exchangeText(yield* ServePort, bytes))
        // Some runtimes join the two `Host` headers into one, which makes the request valid.
        if (what === "two Hosts" && response.status === 200) return assertCommonHeaders(response)
        assertError(response, 400, "bad_request")
        assert.match(String(response.headers["x-request-id"]), uuid)
        assert.notMatch(response.text, /HPE_|Parse Error|node:/)
      }),
  )

  it.effect("responds to oversized headers with the common headers and an error body (D14)", () =>
    Effect.gen(function* () {
      const response = parseResponse(
        yield* exchangeText(
          yield* ServePort,
          `GET /endpoints HTTP/1.1\r\nHost: x\r\nA: ${"y".repeat(100_000)}\r\n\r\n`,
        ),
      )
      assert.strictEqual(response.status, 431)
      assertCommonHeaders(response)
      assert.strictEqual(valueAt(response.body, "request_id"), response.headers["x-request-id"])
    }))

  it.effect("responds to an unsupported Expect header with the common headers (D14)", () =>
    Effect.gen(function* () {
      const bytes = "GET /endpoints HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: the-moon\r\n\r\n"
      assertCommonHeaders(parseResponse(yield* exchangeText(yield* ServePort, bytes)))
    }))

  it.effect("reads an absolute-form target without a path as the root (RFC 9112, 3.2.2)", () =>
    Effect.gen(function* () {
      const bytes = "GET http://x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
      const response = parseResponse(yield* exchangeText(yield* ServePort, bytes))
      assert.strictEqual(response.status, 302)
      assertCommonHeaders(response)
    }))

  it.effect("responds to a valid and then a malformed request on one connection (D14)", () =>
    Effect.gen(function* () {
      const text = yield* exchangeText(yield* ServePort, "GET /health/live HTTP/1.1\r\nHost: x\r\n\r\nBREW\r\n\r\n")
      const second = text.lastIndexOf("HTTP/1.1 ")
      assert.isAbove(second, 0)
      assert.strictEqual(parseResponse(text.slice(0, second)).status, 200)
      assertCommonHeaders(parseResponse(text.slice(0, second)))
      assertError(parseResponse(text.slice(second)), 400, "bad_request")
    }))

  it.effect("names BASE_URL as the server in the OpenAPI document (§4.5)", () =>
    Effect.gen(function* () {
      const response = parseResponse(yield* exchangeText(yield* ServePort, "GET /v1/openapi.json HTTP/1.0\r\n\r\n"))
      const document = response.body
      assert.strictEqual(valueAt(document, "servers", 0, "url"), "https://api.tickerline.example")
      assert.strictEqual(valueAt(document, "info", "contact", "url"), "https://api.tickerline.example/v1/docs")
    }))

  it.effect("begins the URLs in Link with BASE_URL (§9.4, D8)", () =>
    Effect.gen(function* () {
      const response = parseResponse(
        yield* exchangeText(yield* ServePort, "GET /v1/historical-tickers HTTP/1.0\r\n\r\n"),
      )
      assert.strictEqual(response.status, 401)
      assert.strictEqual(
        response.headers["link"],
        `<https://api.tickerline.example/v1/ticker-changes>; rel="successor-version", ` +
          `<https://api.tickerline.example/v1/docs>; rel="deprecation"; type="text/html"`,
      )
    }))
})

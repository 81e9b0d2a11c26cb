/** Sends invalid input over a socket. The service must refuse it with an error or close the connection. */
import { assert, layer } from "@effect/vitest"
import { Array, Effect } from "effect"
import { type OutgoingHttpHeaders, ServerResponse } from "node:http"
import * as RawSockets from "../support/RawSockets.ts"
import { TestKeys } from "../support/Service.ts"

const { assertServiceResponds, formatGetRequest, livenessRequestHead, ServicePort } = RawSockets

/**
 * Asserts that the bytes get exactly one response, which has the given status and error code, and that the service
 * still responds to other requests.
 */
const assertRefused = (bytes: string, status: number, code?: string) =>
  Effect.gen(function* () {
    RawSockets.assertSingleError(yield* RawSockets.exchangeBytes(yield* ServicePort, bytes), status, code)
    yield* assertServiceResponds
  })

const assertErrorFor = (target: string, status: number, code?: string) =>
  Effect.gen(function* () {
    const { pro } = yield* TestKeys
    yield* assertRefused(formatGetRequest(pro, target), status, code)
  })

const names = (count: number) => Array.makeBy(count, (at) => at.toString(36))

/** Makes Node throw an error when it starts to send the response to a request with the `X-Fault` header. */
const failingResponses = Effect.acquireRelease(
  Effect.sync(() => {
    const { writeHead } = ServerResponse.prototype
    Object.assign(ServerResponse.prototype, {
      writeHead(this: ServerResponse, status: number, headers?: OutgoingHttpHeaders) {
        if (this.req.headers["x-fault"] !== undefined) throw new Error("fault")
        return writeHead.call(this, status, headers)
      },
    })
    return writeHead
  }),
  (writeHead) =>
    Effect.sync(() => {
      ServerResponse.prototype.writeHead = writeHead
    }),
)

layer(RawSockets.socketServiceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("The service", (it) => {
  it.effect.each([
    "/nothing",
    "/health/live",
    "/v1/news?limit=1",
    "/v1/news?limit=0",
    "/v1/ticker-changes?ticker=BYON",
  ])(
    "loses one connection, and not the process, if a response cannot be written: %s (RELIABILITY.md)",
    (target) =>
      Effect.gen(function* () {
        const port = yield* ServicePort
        const { pro } = yield* TestKeys
        yield* failingResponses
        // The response cache serves a page after the third request for it.
        for (let repetition = 0; repetition < 4; repetition++) {
          const request = formatGetRequest(pro, target)
          const fault = request.replace("\r\n", "\r\nX-Fault: yes\r\n")
          assert.lengthOf(yield* RawSockets.exchangeBytes(port, fault), 0)
          assert.lengthOf(yield* RawSockets.exchangeBytes(port, request), 1)
        }
      }).pipe(Effect.scoped),
  )

  // -------------------------------------------------------------------------------------------------------------------
  // Size limits
  // -------------------------------------------------------------------------------------------------------------------

  it.effect.each(
    [
      ["a URL of 100 KB", `/v1/screener?ticker=${"A".repeat(100_000)}`, 431, "bad_request"],
      ["a path of 100 KB", `/${"a/".repeat(50_000)}`, 431, "bad_request"],
      ["10,000 parameters", `/v1/screener?${names(10_000).map((name) => `${name}=1`).join("&")}`, 431, "bad_request"],
      ["100,000 symbols", `/v1/screener?ticker=${names(100_000).join(",")}`, 431, "bad_request"],
      ["as many parameters as fit", `/v1/screener?${names(3000).join("&")}`, 422, "validation_error"],
      ["one parameter thousands of times", `/v1/screener?${"ticker=A&".repeat(1600)}`, 422, "validation_error"],
      ["as many symbols as fit", `/v1/screener?ticker=${names(3500).join(",")}`, 422, "validation_error"],
      ["as many invalid symbols as fit", `/v1/screener?ticker=${"@,".repeat(7500)}`, 422, "validation_error"],
      ["a name as long as fits", `/v1/screener?${"n".repeat(15_000)}=1`, 422, "validation_error"],
      ["brackets as deep as fit", `/v1/screener?a${"[b]".repeat(5000)}=1`, 422, "validation_error"],
      ["a number as long as fits", `/v1/screener?min_price=${"9".repeat(15_000)}`, 422, "validation_error"],
      ["a path as long as fits", `/${"a/".repeat(7500)}`, 404, "not_found"],
    ] as const,
  )(
    "responds to an oversized request with the documented error: %s (operations/request-limits)",
    ([, target, status, code]) => assertErrorFor(target, status, code),
  )

  it.effect.each(
    [
      ["10,000 headers", "a: b\r\n".repeat(10_000)],
      ["a header of 1 MB", `a: ${"b".repeat(1_000_000)}\r\n`],
      ["1,001 empty headers", "a:\r\n".repeat(1000)],
      ["ten thousand Host headers", "Host: x\r\n".repeat(10_000)],
    ] as const,
  )(
    "refuses too many or too long headers: %s (SECURITY.md)",
    ([, headers]) => assertRefused(`${livenessRequestHead}${headers}\r\n`, 431),
  )

  it.effect.each(
    [
      ["if Content-Length announces it", "Content-Length: 65537\r\n\r\n"],
      ["if the client waits for 100 Continue", "Content-Length: 65537\r\nExpect: 100-continue\r\n\r\n"],
      ["if Content-Length announces terabytes", "Content-Length: 9999999999999\r\n\r\nhello"],
      ["if it arrives in chunks", `Transfer-Encoding: chunked\r\n\r\n${`1000\r\n${"a".repeat(4096)}\r\n`.repeat(20)}`],
    ] as const,
  )(
    "refuses a body longer than 64 KiB %s (SECURITY.md)",
    ([, rest]) => assertRefused(`${livenessRequestHead}${rest}`, 413),
  )

  it.effect("responds to a request with a thousand redundant headers or separators (SECURITY.md)", () =>
    Effect.gen(function* () {
      const { pro } = yield* TestKeys
      // The request has 1,000 headers. The last one contains the API key.
      const many = `${livenessRequestHead.replace("/health/live", "/v1/screener")}Connection: close\r\n${
        "a:\r\n".repeat(997)
      }X-API-Key: ${pro}`
      assert.deepStrictEqual(
        (yield* RawSockets.exchangeBytes(yield* ServicePort, `${many}\r\n\r\n`)).map(({ status }) => status),
        [200],
      )
      for (const query of [`limit=1${"&".repeat(15_000)}`, `ticker=${"A,".repeat(7500)}`]) {
        const responses = yield* RawSockets.exchangeBytes(
          yield* ServicePort,
          formatGetRequest(pro, `/v1/screener?${query}`),
        )
        assert.deepStrictEqual(responses.map(({ status }) => status), [200])
        responses.forEach(RawSockets.assertResponseFormat)
      }
      yield* assertServiceResponds
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Characters
  // -------------------------------------------------------------------------------------------------------------------

  it.effect.each(
    [
      ["a NUL in the target", "/v1/news?query=a\0b"],
      ["a NUL in a header", "/v1/news", "A: b\0c\r\n"],
      ["a tab in the target", "/v1/news?query=a\tb"],
      ["UTF-8 that is not encoded", "/v1/news?query=\xc3\xa9"],
      ["a byte that is not UTF-8", "/v1/news?query=\xff"],
      ["an encoded byte that is not UTF-8", "/v1/news?query=%FF"],
      ["UTF-8 cut short", "/v1/news?query=%E2%82"],
      ["overlong UTF-8", "/v1/news?query=%C0%AF"],
      ["half of a surrogate pair", "/v1/news?query=%ED%A0%80"],
      ["a code point beyond Unicode", "/v1/news?query=%F4%90%80%80"],
      ["a percent alone", "/v1/news?query=%"],
      ["a percent before letters", "/v1/news?query=%u0041"],
      ["an invalid host", "http://[::1/v1/news"],
      ["an absolute target without a host", "http:///v1/news"],
      ["an absolute target with a user", "http://me@x/v1/news"],
      ["an unsupported scheme", "ftp://x/v1/news"],
      ["an authority", "x:80"],
      ["an asterisk without OPTIONS", "*"],
    ] as const,
  )("responds with 400: %s (D13)", ([, target, more]) =>
    Effect.gen(function* () {
      const { pro } = yield* TestKeys
      yield* assertRefused(formatGetRequest(pro, target, more), 400)
    }))

  it.effect.each(
    [
      ["/v1/%00", 404, "not_found"],
      ["/v1/news%00", 404, "not_found"],
      ["/v1/news?query=%00", 422, "validation_error"],
      ["/v1/news?tag=a%00b", 422, "validation_error"],
      ["/v1/news?%00=1", 422, "validation_error"],
      ["/v1/screener?ticker=A%00", 422, "validation_error"],
      ["/v1/screener?exchange=%00", 422, "validation_error"],
      ["/v1/usage?endpoint=%00", 422, "validation_error"],
    ] as const,
  )(
    "refuses an encoded NUL: %s (D11)",
    ([target, status, code]) => assertErrorFor(target, status, code),
  )

  const lookAlikes = [
    ["Cyrillic М", "%D0%9CETA"],
    ["Greek Ε", "M%CE%95TA"],
    ["full-width letters", "%EF%BC%AD%EF%BC%A5%EF%BC%B4%EF%BC%A1"],
    ["mathematical letters", "%F0%9D%90%8CETA"],
    ["Kelvin, whose small letter is k", "%E2%84%AA"],
    ["a long s, whose capital is S", "%C5%BF"],
    ["a dotless i, whose capital is I", "%C4%B1"],
    ["a letter with a combining accent", "MET%41%CC%81"],
    ["a zero-width joiner", "ME%E2%80%8DTA"],
    ["a right-to-left override", "%E2%80%AEMETA"],
    ["full-width digits", "A%EF%BC%91"],
  ] as const

  it.effect.each(lookAlikes)(
    "refuses a character that looks like a letter of a ticker: %s (D5, D6)",
    ([, symbol]) =>
      Effect.gen(function* () {
        yield* assertErrorFor(`/v1/ticker-changes?ticker=${symbol}`, 422, "validation_error")
        yield* assertErrorFor(`/v1/screener?ticker=${symbol}`, 422, "validation_error")
        const { pro } = yield* TestKeys
        const [response] = yield* RawSockets.exchangeBytes(
          yield* ServicePort,
          formatGetRequest(pro, `/v1/screener?ticker=ZZ9,${symbol}`),
        )
        assert.strictEqual(response?.status, 200)
        assert.match(String(response?.headers["x-dropped-tickers"]), /^[%0-9A-Za-z]+$/)
      }),
  )

  it.effect.each([
    "/v1/../../../etc/passwd",
    "/../v1/news",
    "/v1/..",
    "/v1/./news",
    "/v1/%2e%2e/%2e%2e/etc/passwd",
    "/v1/..%2f..%2fetc%2fpasswd",
    "/v1/..%5c..%5cwindows",
    "/v1\\..\\..\\etc",
    "/v1/....//....//etc/passwd",
    "/v1/%252e%252e/endpoints",
    "http://x/v1/../../etc/passwd",
    "/v1/docs/../../package.json",
  ])("responds to a path with `..` with 404: %s (D10)", (target) => assertErrorFor(target, 404, "not_found"))

  // -------------------------------------------------------------------------------------------------------------------
  // Absolute-form targets
  // -------------------------------------------------------------------------------------------------------------------

  /** Sends a GET request on a new connection. Returns the response, which must be the only one. */
  const sendGet = Effect.fnUntraced(function* (key: string, target: string, more = "") {
    const responses = yield* RawSockets.exchangeBytes(yield* ServicePort, formatGetRequest(key, target, more))
    assert.strictEqual(responses.length, 1)
    const [response = { status: 0, headers: {}, text: "" }] = responses
    return response
  })

  const headersPerResponse = /^(x-request-id|date|x-ratelimit-.*)$/

  /** Returns the parts of a response that must be the same when a request is repeated. */
  const getComparableParts = ({ headers, status, text }: RawSockets.ParsedResponse) => ({
    status,
    headers: Object.fromEntries(Object.entries(headers).filter(([name]) => !headersPerResponse.test(name))),
    text: text.replace(/"request_id":"[^"]*"/, ""),
  })

  it.effect.each([
    "/v1/screener",
    "/v1/screener?limit=1&page=2",
    "/v1/historical-tickers?ticker=NONE",
    "/v1/docs",
    "/v1/openapi.json",
    "/estimate?endpoint=/v1/screener&limit=3",
    "/enterprise/v1/news?a=%2F&b=/../c",
    "/enterprise/v1/../up",
    "/v1/screenre",
    "/v1/news?query=%FF",
    "/v1/screener?limit=x",
  ])(
    "responds to an absolute-form target like the same origin-form target, cached or not: %s (RFC 9112, 3.2.2)",
    (target) =>
      Effect.gen(function* () {
        const { pro } = yield* TestKeys
        // These requests fill the response cache, from which later requests with either form of the target are served.
        for (let i = 0; i < 5; i++) yield* sendGet(pro, target)
        const expected = getComparableParts(yield* sendGet(pro, target))
        for (const prefix of ["http://x", "HTTP://api.example.com:8080", "https://[::1]:80"]) {
          for (let i = 0; i < 2; i++) {
            assert.deepStrictEqual(getComparableParts(yield* sendGet(pro, prefix + target)), expected)
          }
        }
      }),
  )

  it.effect("accepts an absolute-form target without a path (RFC 9112, 3.2.2)", () =>
    Effect.gen(function* () {
      const { pro } = yield* TestKeys
      for (const target of ["http://x", "http://x?a=b"]) {
        assert.deepStrictEqual(
          getComparableParts(yield* sendGet(pro, target)),
          getComparableParts(yield* sendGet(pro, target.replace("http://x", "/"))),
        )
      }
    }))

  it.effect("refuses an absolute-form target without Host, and CONNECT, but accepts OPTIONS * (RFC 9112, 3.2)", () =>
    Effect.gen(function* () {
      yield* assertRefused("GET http://x/endpoints HTTP/1.1\r\nConnection: close\r\n\r\n", 400)
      yield* assertRefused("CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n", 400)
      const responses = yield* RawSockets.exchangeBytes(
        yield* ServicePort,
        "OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
      )
      assert.deepStrictEqual(responses.map(({ status }) => status), [204])
    }))
})

/**
 * Tests HTTP/1.1 on a single connection: request boundaries, the order of responses, and when the connection closes.
 */
import { assert, layer } from "@effect/vitest"
import { Array, Effect } from "effect"
import * as ServiceInstances from "../support/ServiceInstances.ts"
import * as RawSockets from "../support/RawSockets.ts"
import { TestKeys } from "../support/Service.ts"

const { assertServiceResponds, formatGetRequest, livenessRequestHead, ServicePort } = RawSockets

/** Formats a request with an id that the response repeats in `X-Request-Id`. */
const formatIdentifiedRequest = (target: string, key: string, id: string, rest = "\r\n") =>
  `GET ${target} HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\nX-Request-Id: ${id}\r\n${rest}`

const lastRequest = `${livenessRequestHead}Connection: close\r\nX-Request-Id: last\r\n\r\n`

/** Returns the status and request id of each response. */
const summarize = (responses: ReadonlyArray<RawSockets.ParsedResponse>) => {
  responses.forEach(RawSockets.assertResponseFormat)
  return responses.map(({ headers, status }) => [status, headers["x-request-id"]])
}

const assertDeprecated = ([response]: ReadonlyArray<RawSockets.ParsedResponse>) => {
  const { deprecation, link, sunset } = response?.headers ?? {}
  assert.deepStrictEqual([deprecation, sunset], ["@1793491200", undefined], response?.text)
  assert.strictEqual(
    link,
    `</v1/ticker-changes>; rel="successor-version", </v1/docs>; rel="deprecation"; type="text/html"`,
  )
}

layer(RawSockets.socketServiceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("The service", (it) => {
  // -------------------------------------------------------------------------------------------------------------------
  // Request boundaries
  // -------------------------------------------------------------------------------------------------------------------

  const withContentLength = (value: string) => `${livenessRequestHead}Content-Length: ${value}\r\n\r\nhello`
  const withTransferCoding = (value: string) => `${livenessRequestHead}Transfer-Encoding: ${value}\r\n\r\n0\r\n\r\n`
  const withChunks = (body: string) => `${livenessRequestHead}Transfer-Encoding: chunked\r\n\r\n${body}`

  it.effect.each(
    [
      [
        "a length and chunks",
        `${livenessRequestHead}Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nX`,
      ],
      [
        "chunks and a length",
        `${livenessRequestHead}Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\nX`,
      ],
      ["two different content lengths", `${livenessRequestHead}Content-Length: 0\r\nContent-Length: 5\r\n\r\n`],
      ["the same content length twice", `${livenessRequestHead}Content-Length: 0\r\nContent-Length: 0\r\n\r\n`],
      ["two content lengths in one line", withContentLength("5, 5")],
      ["a content length with a sign", withContentLength("+5")],
      ["a negative content length", withContentLength("-1")],
      ["a hexadecimal content length", withContentLength("0x5")],
      ["an empty content length", withContentLength("")],
      ["a content length beyond 64 bits", withContentLength("18446744073709551621")],
      ["an unknown transfer coding", withTransferCoding("xchunked")],
      ["the coding identity", withTransferCoding("identity")],
      ["chunked, but not as the last coding", withTransferCoding("chunked, identity")],
      [
        "two codings in separate lines",
        `${livenessRequestHead}Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n`,
      ],
      ["a coding after a control character", withTransferCoding("\x0bchunked")],
      ["a transfer coding in HTTP/1.0", "GET /health/live HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
      ["a space before the colon", `${livenessRequestHead}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n`],
      ["a folded header", `${livenessRequestHead}A: b\r\n c\r\n\r\n`],
      ["a folded transfer coding", `${livenessRequestHead}Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n`],
      ["a folded first header", "GET /health/live HTTP/1.1\r\n Host: x\r\n\r\n"],
      ["lines that end with LF", livenessRequestHead.replaceAll("\r\n", "\n")],
      ["one line that ends with LF", `${livenessRequestHead}A: b\nContent-Length: 0\r\n\r\n`],
      ["headers that end with LF", `${livenessRequestHead}\n`],
      ["a lone CR in a header", `${livenessRequestHead}A: b\rContent-Length: 5\r\n\r\n`],
      ["two hosts", `${livenessRequestHead}Host: y\r\n\r\n`],
      ["no host", "GET /health/live HTTP/1.1\r\nConnection: close\r\n\r\n"],
      ["a host with a space", "GET /health/live HTTP/1.1\r\nHost: a b\r\n\r\n"],
      ["a host with a slash", "GET /health/live HTTP/1.1\r\nHost: a/b\r\n\r\n"],
      ["a missing chunk size", withChunks("\r\n\r\n")],
      ["an invalid chunk size", withChunks("zz\r\n")],
      ["a negative chunk size", withChunks("-1\r\n")],
      ["a chunk size with 0x", withChunks("0x5\r\nhello\r\n0\r\n\r\n")],
      ["a chunk size beyond 64 bits", withChunks("fffffffffffffffff\r\n")],
      ["a chunk longer than its size", withChunks("2\r\nabcd\r\n0\r\n\r\n")],
      ["chunk sizes that end with LF", withChunks("1\na\n0\n\n")],
      ["a chunk extension of 20 KB", withChunks(`1;${"a".repeat(20_000)}\r\na\r\n0\r\n\r\n`)],
    ] as const,
  )("responds with 400 and reads nothing more if the end of a request is ambiguous: %s (§7.1, D14)", ([
    ,
    bytes,
  ]) =>
    Effect.gen(function* () {
      RawSockets.assertSingleError(yield* RawSockets.exchangeBytes(yield* ServicePort, `${bytes}${lastRequest}`), 400)
      yield* assertServiceResponds
    }))

  it.effect.each(
    [
      ["with a content length", "Content-Length: 5\r\n\r\nhello"],
      ["with content length 0", "Content-Length: 0\r\n\r\n"],
      ["that looks like a request", `Content-Length: ${lastRequest.length}\r\n\r\n${lastRequest}`],
      ["in chunks", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"],
      ["in chunks with trailers", "Transfer-Encoding: chunked\r\n\r\n1;a=b\r\nx\r\n0\r\nX-API-Key: x\r\n\r\n"],
      ["in chunks with another coding", "Transfer-Encoding: gzip, chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"],
      ["of 64 KiB", `Content-Length: 65536\r\n\r\n${"a".repeat(65_536)}`],
      ["that waits for 100 Continue", "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello"],
    ] as const,
  )(
    "ignores a request body %s, and then reads the next request (D10)",
    ([, rest]) =>
      Effect.gen(function* () {
        const { pro } = yield* TestKeys
        const first = formatIdentifiedRequest("/v1/screener", pro, "first", rest)
        assert.deepStrictEqual(
          summarize(yield* RawSockets.exchangeBytes(yield* ServicePort, `${first}${lastRequest}`)),
          [[
            200,
            "first",
          ], [
            200,
            "last",
          ]],
        )
        const post = `POST /v1/screener HTTP/1.1\r\nHost: x\r\nX-Request-Id: first\r\n${rest}`
        assert.deepStrictEqual(
          summarize(yield* RawSockets.exchangeBytes(yield* ServicePort, `${post}${lastRequest}`)),
          [[
            405,
            "first",
          ], [
            200,
            "last",
          ]],
        )
      }),
  )

  it.effect.each(
    [
      ["to HTTP/2, with chunks", "GET", "Upgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200],
      ["to HTTP/2, with a body", "POST", "Upgrade: h2c\r\nContent-Length: 5\r\n\r\nhello", 405],
      ["to an empty protocol", "GET", "Upgrade: \r\n\r\n", 200],
      ["to a WebSocket", "GET", "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n", 200],
    ] as const,
  )(
    "responds to a request to upgrade %s over HTTP/1.1, and closes the connection (D14)",
    ([, method, rest, status]) =>
      Effect.gen(function* () {
        const start = `${method} /health/live HTTP/1.1\r\nHost: x\r\nX-Request-Id: first\r\nConnection: upgrade\r\n`
        const responses = yield* RawSockets.exchangeBytes(yield* ServicePort, `${start}${rest}${lastRequest}`)
        assert.deepStrictEqual(summarize(responses), [[status, "first"]])
        assert.strictEqual(responses[0]?.headers["connection"], "close")
        yield* assertServiceResponds
      }),
  )

  const allowedMethods = {
    "/v1/news": "GET, HEAD",
    "/health/live": "GET, HEAD",
    "/v1/docs": "GET, HEAD",
    "/mcp": "POST",
  }

  it.effect.each(
    [
      "FOO",
      "get",
      "Post",
      "GETX",
      "GE",
      "1",
      "PRI",
      "SETUP",
      "TEARDOWN",
      "CONNECT",
      "QUERY",
      "PROPFIND",
      "TRACE",
      "SOURCE",
    ],
  )(
    "responds with 405 and Allow to the method %s on every path, and 404 on an unknown one (D10, D14)",
    (method) =>
      Effect.gen(function* () {
        const port = yield* ServicePort
        const ask = (target: string, more = "") =>
          RawSockets.exchangeBytes(
            port,
            `${method} ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Request-Id: mine\r\n${more}\r\n`,
          )
        for (const [path, allow] of Object.entries(allowedMethods)) {
          const responses = yield* ask(`${path}?x=1`)
          RawSockets.assertSingleError(responses, 405, "method_not_allowed")
          assert.deepStrictEqual([responses[0]?.headers["allow"], responses[0]?.headers["x-request-id"]], [
            allow,
            "mine",
          ])
          assert.include(responses[0]?.text, `${path} supports ${allow}, not ${method}.`)
        }
        const deprecated = yield* ask("/v1/historical-tickers?ticker=FB", "Accept: text/csv\r\n")
        RawSockets.assertSingleError(deprecated, 405, "method_not_allowed")
        assertDeprecated(deprecated)
        const [legacy] = yield* ask("/enterprise/v1/news")
        assert.deepStrictEqual([legacy?.status, legacy?.headers["allow"]], [405, "GET, HEAD"])
        const unknown = yield* ask("/nowhere")
        RawSockets.assertSingleError(unknown, 404, "not_found")
        assert.isUndefined(unknown[0]?.headers["allow"])
        yield* assertServiceResponds
      }),
  )

  it.effect("responds to earlier requests of the connection before a method that Node does not know (D14)", () =>
    Effect.gen(function* () {
      const { pro } = yield* TestKeys
      const first = formatIdentifiedRequest("/v1/screener", pro, "first")
      const bytes = `${first}FOO /v1/news HTTP/1.1\r\nHost: x\r\nX-Request-Id: second\r\n\r\n${lastRequest}`
      const responses = summarize(yield* RawSockets.exchangeBytes(yield* ServicePort, bytes))
      assert.deepStrictEqual(responses, [[200, "first"], [405, "second"]])
    }))

  it.effect.each(
    [
      ["without a path", "FOO\r\n\r\n"],
      ["that is not complete", "FOO /v1/ne"],
      ["with a path that cannot be decoded", "FOO /v1/%ff HTTP/1.1\r\nHost: x\r\n\r\n"],
      ["with another protocol", "FOO /v1/news RTSP/1.0\r\n\r\n"],
      ["with a character that no method has", "F(O /v1/news HTTP/1.1\r\nHost: x\r\n\r\n"],
    ] as const,
  )("responds with 400 to an unknown method %s (D13, D14)", ([, bytes]) =>
    Effect.gen(function* () {
      RawSockets.assertSingleError(yield* RawSockets.exchangeBytes(yield* ServicePort, bytes), 400)
    }))

  it.effect("sends the headers of a deprecated endpoint with 400, 405, 413 and 431, if it knows the path (§9.4, D14)", () =>
    Effect.gen(function* () {
      const { pro } = yield* TestKeys
      const port = yield* ServicePort
      const target = "/v1/historical-tickers?ticker=FB"
      const line = `GET ${target} HTTP/1.1\r\nHost: x\r\n`
      const requests = [
        [413, formatGetRequest(pro, target, "Content-Length: 70000\r\n")],
        [413, `${formatGetRequest(pro, target, "Transfer-Encoding: chunked\r\n")}11800\r\n${"x".repeat(71_680)}`],
        [431, formatGetRequest(pro, target, `X-Long: ${"x".repeat(17_000)}\r\n`)],
        [431, formatGetRequest(pro, target, "A: b\r\n".repeat(1_001))],
        [400, `${line}A b: c\r\n\r\n`],
        [400, `${line}Host: y\r\n\r\n`],
        [400, formatGetRequest(pro, target, "Transfer-Encoding: chunked\r\n").concat("zz\r\n")],
        ...["HTTP/0.9", "HTTP/1.2", "HTTP/2.0", "HTTP/3", "HTTP/x", "HTTPS/1.1", "x"].map((version) =>
          [400, `GET ${target} ${version}\r\nHost: x\r\n\r\n`] as const
        ),
        [400, `GET ${target}, META HTTP/1.1\r\nHost: x\r\n\r\n`],
        [405, `FIND ${target} HTTP/1.1\r\nHost: x\r\n\r\n`],
        [431, `GET ${target}${"x".repeat(17_000)}`],
      ] as const
      for (const [status, request] of requests) {
        const responses = yield* RawSockets.exchangeBytes(port, request)
        RawSockets.assertSingleError(responses, status, status === 405 ? "method_not_allowed" : "bad_request")
        assertDeprecated(responses)
      }
      for (const path of ["/v1/news", "/nowhere"]) {
        const responses = yield* RawSockets.exchangeBytes(
          port,
          formatGetRequest(pro, path, "Content-Length: 70000\r\n"),
        )
        assert.isUndefined(responses[0]?.headers["deprecation"])
      }
    }))

  it.effect("knows the path of a refused request whose head arrives in many packets, but not of an earlier one (§9.4, D14)", () =>
    Effect.gen(function* () {
      const { pro } = yield* TestKeys
      const port = yield* ServicePort
      const exchangePackets = (packets: ReadonlyArray<string>) =>
        Effect.scoped(Effect.gen(function* () {
          const { ended, received, socket } = yield* RawSockets.openConnection(port)
          socket.setNoDelay(true)
          for (const packet of packets) {
            socket.write(packet)
            // If the service responds to a later request, it has already read this packet.
            yield* assertServiceResponds
          }
          yield* ended
          return RawSockets.parseResponses(received())
        }))
      const line = "GET /v1/historical-tickers?ticker=FB HTTP/1.1\r\nHost: x\r\nX-Request-Id: parts\r\n"
      const parts = yield* exchangePackets([...(line.match(/.{1,20}/gs) ?? []), "A b: c\r\n\r\n"])
      RawSockets.assertSingleError(parts, 400)
      assertDeprecated(parts)
      assert.strictEqual(parts[0]?.headers["x-request-id"], "parts")
      const earlier = `GET /v1/historical-tickers?ticker=FB HTTP/1.1\r\nHost: x\r\nX-API-Key: ${pro}\r\n\r\n`
      const [, second] = yield* exchangePackets([earlier, "GET /v1/news HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n"])
      assert.deepStrictEqual([second?.status, second?.headers["deprecation"]], [400, undefined])
    }))

  it.effect("responds with 400 to CONNECT to another host, and reads nothing more (§7.1, D14)", () =>
    Effect.gen(function* () {
      const bytes = `CONNECT internal.example:443 HTTP/1.1\r\nHost: x\r\n\r\n${lastRequest}`
      RawSockets.assertSingleError(yield* RawSockets.exchangeBytes(yield* ServicePort, bytes), 400)
      yield* assertServiceResponds
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Response order
  // -------------------------------------------------------------------------------------------------------------------

  it.effect("responds to any number of pipelined requests in order (D14)", () =>
    Effect.gen(function* () {
      const { pro } = yield* TestKeys
      // There are more requests than the service buffers. Slow requests precede fast ones, and some have a body.
      const targets = ["/v1/screener", "/health/live", "/nowhere", "/v1/news?limit=0", "/enterprise/v1/news"]
      const statuses = [200, 200, 404, 422, 301]
      const body = (at: number) => at % 7 === 0 ? "Content-Length: 2\r\n\r\nab" : "\r\n"
      const requests = Array.makeBy(
        300,
        (at) => formatIdentifiedRequest(targets[at % 5] ?? "/", pro, `r${at}`, body(at)),
      )
      const responses = summarize(
        yield* RawSockets.exchangeBytes(yield* ServicePort, `${requests.join("")}${lastRequest}`),
      )
      const expected = requests.map((_, at) => [statuses[at % 5], `r${at}`])
      assert.deepStrictEqual(responses, [...expected, [200, "last"]])
    }))

  it.effect.each(
    [
      ["an invalid request line", "BREW\r\n\r\n", 400],
      ["too many headers", `${livenessRequestHead}${"a: b\r\n".repeat(10_000)}\r\n`, 431],
      ["a bad chunk", `${livenessRequestHead}Transfer-Encoding: chunked\r\n\r\nzz\r\n`, 400],
      ["a body that is too long", `${livenessRequestHead}Content-Length: 70000\r\n\r\n`, 413],
      ["two hosts", `${livenessRequestHead}Host: y\r\n\r\n`, 400],
    ] as const,
  )(
    "rejects invalid input only after the responses to earlier requests: %s (D14)",
    ([, bytes, status]) =>
      Effect.gen(function* () {
        const { pro } = yield* TestKeys
        const before = ["a", "b", "c"].map((id) => formatIdentifiedRequest("/v1/screener", pro, id)).join("")
        const responses = yield* RawSockets.exchangeBytes(yield* ServicePort, `${before}${bytes}${lastRequest}`)
        assert.deepStrictEqual(summarize(responses).slice(0, 3), [[200, "a"], [200, "b"], [200, "c"]])
        RawSockets.assertSingleError(responses.slice(3), status)
      }),
  )

  it.effect("never writes an error into the response to an earlier request (D14)", () =>
    Effect.gen(function* () {
      // The service compresses the OpenAPI document while sending it, so the invalid request arrives before the
      // response ends.
      const page = formatIdentifiedRequest("/v1/openapi.json", "", "page", "Accept-Encoding: gzip\r\n\r\n")
      const responses = yield* RawSockets.exchangeBytes(yield* ServicePort, `${page}BREW\r\n\r\n`)
      assert.deepStrictEqual(responses.map(({ status }) => status), [200, 400])
    }))

  // -------------------------------------------------------------------------------------------------------------------
  // Closing
  // -------------------------------------------------------------------------------------------------------------------

  it.effect.each(
    [
      ["a request", `${livenessRequestHead}\r\n`, [200]],
      ["nothing", "", []],
      ["a partial request", livenessRequestHead, [400]],
      ["a partial body", `${livenessRequestHead}Content-Length: 5\r\n\r\nhe`, [400]],
      ["a request that needs the database", "", undefined],
    ] as const,
  )(
    "sends all responses and closes the connection if the client half-closes it after %s (D14)",
    ([, bytes, statuses]) =>
      Effect.gen(function* () {
        const { pro } = yield* TestKeys
        const { ended, received, socket } = yield* RawSockets.openConnection(yield* ServicePort)
        socket.end(statuses === undefined ? formatGetRequest(pro, "/v1/screener") : bytes)
        yield* ended
        assert.isNull(socket.errored)
        const responses = RawSockets.parseResponses(received())
        responses.forEach(RawSockets.assertResponseFormat)
        if (statuses !== undefined) assert.deepStrictEqual(responses.map(({ status }) => status), [...statuses])
        const port = yield* ServicePort
        yield* RawSockets.waitUntil(() => !RawSockets.isServerSocketOpen(port, socket))
        yield* assertServiceResponds
      }),
  )

  it.effect.each(
    [
      ["an invalid request line", "BREW\r\n\r\n"],
      ["a header that is too long", `${livenessRequestHead}a: ${"b".repeat(100_000)}`],
      ["a body that is too long", `${livenessRequestHead}Content-Length: 70000\r\n\r\n`],
      ["two hosts", `${livenessRequestHead}Host: y\r\n\r\n`],
    ] as const,
  )("closes the connection after rejecting %s, even if the client keeps its side open (D14)", ([
    ,
    bytes,
  ]) =>
    Effect.gen(function* () {
      const port = yield* ServicePort
      const { received, socket } = yield* RawSockets.openConnection(port)
      socket.write(bytes)
      yield* RawSockets.waitUntil(() => RawSockets.parseResponses(received()).length === 1)
      yield* RawSockets.waitUntil(() => !RawSockets.isServerSocketOpen(port, socket))
      assert.isTrue(socket.writable)
    }))

  it.effect("survives a hundred clients that disconnect during a request or response (D14)", () =>
    Effect.gen(function* () {
      const { pro } = yield* TestKeys
      const port = yield* ServicePort
      const leave = (bytes: string) =>
        Effect.gen(function* () {
          const { socket } = yield* RawSockets.openConnection(port)
          yield* Effect.callback<void>((resume) => {
            socket.write(bytes, () => resume(Effect.void))
          })
          socket.resetAndDestroy()
        }).pipe(Effect.scoped)
      const bytes = [
        livenessRequestHead,
        formatGetRequest(pro, "/v1/news?limit=100"),
        `${livenessRequestHead}Content-Length: 5\r\n\r\nhe`,
        `${livenessRequestHead}\r\n`.repeat(50),
      ]
      yield* Effect.forEach(Array.makeBy(100, (at) => bytes[at % 4] ?? ""), leave, { concurrency: 20 })
      yield* Effect.all(Array.makeBy(20, () => ServiceInstances.requestOverWire(port, "/v1/screener", pro)), {
        concurrency: 20,
      })
      yield* assertServiceResponds
    }))
})

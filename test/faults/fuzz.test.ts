/** Sends random bytes and requests. The service must send a documented response to each, or close the connection. */
import { assert, layer } from "@effect/vitest"
import { Arbitrary, Duration, Effect, Layer, Schema } from "effect"
import { catalogueEndpoints as all } from "../../src/api/catalogue/Endpoints.ts"
import { documentedEndpoints as documented } from "../support/DocumentedEndpoints.ts"
import * as GeneratedRows from "../support/GeneratedRows.ts"
import * as RawSockets from "../support/RawSockets.ts"
import { TestKeys } from "../support/Service.ts"

// @module-tag slow

const { assertServiceResponds, ServicePort } = RawSockets

/**
 * The timeouts are short, because for many incomplete inputs the service waits for the rest of the request until a
 * timeout.
 */
const timeouts = {
  headers: Duration.millis(200),
  request: Duration.millis(400),
  response: Duration.seconds(20),
  shutdown: Duration.seconds(1),
}

const running = Layer.effectDiscard(GeneratedRows.fillAllTables(100)).pipe(
  Layer.provideMerge(RawSockets.socketServiceLayer(timeouts)),
)

/** All documented statuses except 500 and, because the database is available, 503. */
const allowedStatuses = new Set([200, 301, 304, 400, 401, 402, 403, 404, 405, 408, 409, 410, 413, 422, 429, 431])

/** Returns whether the response is the redirect from `/` or `/docs` to the documentation's start page. */
const isRedirectToDocumentation = ({ headers, status }: RawSockets.ParsedResponse) =>
  status === 302 && headers["location"] === "/v1/docs"

const values = [
  "",
  "%00",
  "a%00b",
  "%FF",
  "%C0%AF",
  "%ED%A0%80",
  "%F4%90%80%80",
  "%EF%BF%BF",
  "%F0%9F%98%80",
  "%E2%80%AE",
  "%D0%9CETA",
  "%",
  "%u0041",
  "%25",
  "+",
  "';%20drop%20table%20news;--",
  "%27%20or%201=1--",
  "%22%5C",
  "100%25_",
  "$1",
  "{{7*7}}",
  "$%7Bjndi:ldap://x%7D",
  "%3Cscript%3E",
  "%0d%0aSet-Cookie:%20a=b",
  "..%2f..%2fetc%2fpasswd",
  "__proto__",
  "constructor",
  "null",
  "undefined",
  "NaN",
  "-Infinity",
  "1e400",
  "1e-400",
  "0e999",
  "-0",
  "+1",
  "-1",
  "0",
  "1",
  "2147483647",
  "2147483648",
  "9223372036854775808",
  "99999999999999999999999999999999",
  "0.1e-99",
  ".5",
  "0x10",
  "true",
  "2024-02-30",
  "2020-02-29",
  "0000-01-01",
  "9999-12-31",
  "2025-01-01T00:00:00Z",
  "-2025-01-01",
  "A,B,,@@",
  "META",
  "T7",
  ",",
  "A".repeat(4000),
  "9".repeat(400),
  "a,".repeat(500),
  "[".repeat(200),
  "news",
  "ticker",
  "-price",
  "/v1/news",
  "/v1/estimate",
]

const strangeNames = [
  "",
  "__proto__",
  "constructor",
  "toString",
  "a[b][c][d]",
  "ticker[]",
  "%00",
  "%5B%5D",
  "&&",
  "limit",
]

/**
 * Creates functions that take their choices from a list of numbers. When the list is exhausted, they choose the first
 * option.
 */
const makeChooser = (choices: ReadonlyArray<number>) => {
  let position = 0
  const chooseNumber = (below: number) => (choices[position++] ?? 0) % below
  const pick = <A>(options: readonly [A, ...ReadonlyArray<A>] | ReadonlyArray<A>, fallback: A): A =>
    options[chooseNumber(options.length)] ?? fallback
  return { chooseNumber, pick }
}

type Chooser = ReturnType<typeof makeChooser>

const paths = all.filter(({ isEndless }) => !isEndless).map(({ row }) => row.path)

/** Returns an endpoint path with random parameters: known and unknown names, hostile values and repetitions. */
const makeTarget = ({ chooseNumber, pick }: Chooser) => {
  const path = pick(paths, "/")
  const known = documented.find((endpoint) => endpoint.path === path)?.parameters.map(({ name }) => name) ?? []
  const pairs = Array.from({ length: chooseNumber(4) }, () => {
    const name = chooseNumber(5) === 0 ? pick(strangeNames, "") : pick(known, "ticker")
    const pair = `${name}=${pick(values, "")}`
    return chooseNumber(8) === 0 ? `${pair}&${name}=${pick(values, "")}` : pair
  })
  return pairs.length === 0 ? path : `${path}?${pairs.join("&")}`
}

const headers = [
  "Accept-Encoding: gzip",
  "Accept-Encoding: ,;q=,zstd;q=9,br;q=-1",
  'If-None-Match: "a", W/"b", *',
  'If-None-Match: "',
  "Content-Length: 3\r\nX: y",
  "Transfer-Encoding: chunked",
  "Expect: 100-continue",
  "Upgrade: h2c",
  "Authorization: Bearer x",
  "Authorization: Basic :::",
  "X-Forwarded-For: %00, ::1, 1.2.3.4.5",
  "X-Request-Id: ../../x",
  "traceparent: 00-zz-zz-zz",
  "Origin: null",
  "Range: bytes=0-0,-1",
  "Cookie: =;;a=\x80",
  "Host: y",
]

/** Formats a request that is well-formed HTTP. Its target and headers may be hostile. */
const formatRequest = (choose: Chooser, key: string) => {
  const more = Array.from({ length: choose.chooseNumber(3) }, () => `${choose.pick(headers, "A: b")}\r\n`).join("")
  return `GET ${makeTarget(choose)} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-API-Key: ${key}\r\n${more}\r\n`
}

/** Returns a copy of a valid request with some bytes changed, added, removed or repeated. */
const mutate = ({ chooseNumber }: Chooser, valid: Buffer) => {
  let bytes = valid
  for (let left = 1 + chooseNumber(4); left > 0; left--) {
    const [at, to] = [chooseNumber(bytes.length + 1), chooseNumber(256)]
    const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)]
    const cut = after.subarray(1 + chooseNumber(4))
    const edits = [
      () => [before, Buffer.from([to]), after.subarray(1)],
      () => [before, Buffer.from([to]), after],
      () => [before, cut],
      () => [before, after.subarray(0, to), after],
      () => [before, Buffer.from("\r\n"), after],
    ]
    bytes = Buffer.concat(edits[chooseNumber(edits.length)]?.() ?? [bytes])
  }
  return bytes
}

/** Returns a client's input: random bytes, a damaged request, or a well-formed request with hostile values. */
const makeInput = (choices: ReadonlyArray<number>, key: string) => {
  const choose = makeChooser(choices)
  const kind = choose.chooseNumber(5)
  if (kind === 0) return Buffer.from(choices.map((number) => number % 256))
  const valid = Buffer.from(formatRequest(choose, key), "latin1")
  return kind < 3 ? valid : mutate(choose, valid)
}

const arbitraryChoices = Arbitrary.array(
  Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2 ** 24 }))),
  {
    minLength: 1,
    maxLength: 40,
  },
)

/**
 * Sends bytes on a new connection. The client half-closes the connection after the first response. Returns all
 * responses.
 */
const sendBytes = Effect.fnUntraced(function* (bytes: Buffer) {
  const { ended, received, socket } = yield* RawSockets.openConnection(yield* ServicePort)
  socket.on("data", () => {
    if (RawSockets.parseResponses(received()).length > 0) socket.end()
  })
  socket.write(bytes)
  yield* ended
  return RawSockets.parseResponses(received())
})

/** The number of responses by status, across all runs of the first test. */
const statusCounts = new Map<number, number>()

layer(running, { excludeTestServices: true, timeout: "60 seconds" })("Random input", (it) => {
  it.effect.prop(
    "gets a documented response, or the connection is closed (§7.2)",
    [arbitraryChoices],
    ([choices]) =>
      Effect.gen(function* () {
        const { ultimate } = yield* TestKeys
        const bytes = makeInput(choices, ultimate)
        const excerpt = bytes.toString("latin1").slice(0, 2000)
        for (const response of yield* sendBytes(bytes)) {
          statusCounts.set(response.status, (statusCounts.get(response.status) ?? 0) + 1)
          assert.isTrue(
            allowedStatuses.has(response.status) || isRedirectToDocumentation(response),
            `${response.status} ${response.text.slice(0, 500)} to ${excerpt}`,
          )
          RawSockets.assertResponseFormat(response)
        }
      }).pipe(Effect.scoped),
    { arbitrary: { runs: 1200, size: 40, concurrency: 24 } },
  )

  it.effect("gets responses with 200, 400, 408 and 422, and the service still responds afterwards (SECURITY.md)", () =>
    Effect.gen(function* () {
      for (const status of [200, 400, 408, 422]) assert.isAbove(statusCounts.get(status) ?? 0, 10, `${status}`)
      yield* assertServiceResponds
    }))
})
